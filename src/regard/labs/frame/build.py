"""The small models that labs measure, put together from the toolkit's own parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.architecture import Description, Model
from regard.layers.attention import Attends, Attention, ScaledDot
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense
from regard.layers.heads import NextToken
from regard.layers.masks import Causal, Everything, Mask
from regard.layers.positions import NoPositions, Positions
from regard.layers.recurrent import Cell, Recurrent
from regard.layers.recurrent_decoder import RecurrentDecoder
from regard.layers.scores import Score
from regard.layers.stack import Stack, Turning

D_MODEL, NUM_HEADS, VOCAB = 64, 4, 100


def stack(
    mask: Mask | None = None,
    position: Positions | None = None,
    turning: Turning | None = None,
    *,
    d_model: int = D_MODEL,
    num_layers: int = 2,
    vocab_size: int = VOCAB,
    cross: bool = False,
    attend: Attends | None = None,
    num_heads: int = NUM_HEADS,
) -> Stack:
    """Post-norm blocks. position: in the embeddings, none by default; turning: within attention."""
    mask = Everything() if mask is None else mask
    heads = Attention(num_heads, mask=mask, attend=attend or ScaledDot())
    across = Attention(num_heads, cross=True) if cross else None
    block = Block(heads, Dense(2 * d_model), across)
    return Stack(d_model, Tokens(vocab_size, position or NoPositions()), (block,) * num_layers, position=turning)


def recurrent(cell: Cell = "rnn", d_model: int = D_MODEL, vocab_size: int = VOCAB) -> Recurrent:
    """One layer that reads from left to right."""
    return Recurrent(d_model, Tokens(vocab_size), cell, both_ways=False)


def writer(
    d_model: int, vocab_size: int, score: Score | None = None, context: Literal["start", "every_step"] = "start"
) -> Description:
    """A GRU that reads from left to right and one that writes, with attention by `score`, or with one fixed vector alone."""
    decoder = RecurrentDecoder(d_model, Tokens(vocab_size), attention=score, context=context, bridge=False)
    return Description(NextToken(vocab_size), recurrent("gru", d_model, vocab_size), decoder)


def fitted(make: Callable[[int], Description], weights: int) -> Description:
    """Of make(1), make(2), … the description whose number of weights lies nearest."""
    low, high = 1, 1024
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if weights_of(make(middle)) > weights else (middle, high)
    return min(make(low), make(high), key=lambda its: abs(weights_of(its) - weights))


def weights_of(description: Description) -> int:
    """How many weights a model of that description has."""
    return number_of_weights(description.on_meta())


def language_model(turning: Turning | None = None, position: Positions | None = None, num_layers: int = 2) -> Description:
    """A decoder alone, causal, that predicts the next token."""
    return Description(NextToken(VOCAB), decoder=stack(Causal(), position, turning, num_layers=num_layers))


def built(description: Any, dtype: torch.dtype = torch.float64, seed: int = 0) -> Any:
    """The model of a description, its weights drawn from `seed` and so the same in every type and arm of equal parts."""
    torch.manual_seed(seed)
    make = getattr(description, "build_encoder", None) or description.build
    model: nn.Module = make()
    return model.to(dtype).eval()


def from_vectors(model: Any, vectors: Tensor) -> Any:
    """Make an encoder or decoder read these vectors [B T D] in place of its embeddings; gives the hook's handle."""
    return model.embed.register_forward_hook(lambda *_: vectors)


def shifted_embeddings(model: Any, step: float) -> Any:
    """Sabotage: add position × step to every embedding, which nobody asked for; gives the hook's handle."""

    def leak(_: Any, given: tuple[Any, ...], x: Tensor) -> Tensor:
        return x + step * given[1].position[..., None].to(x.dtype)

    return model.embed.register_forward_hook(leak)


def dependency(read: Any, x: Tensor) -> Tensor:
    """Float[T S], the norm of the derivative of output t by input s: read(Float[B S D]) -> Float[B T E] is given one copy of
    x [S D] for each number of the output, and each copy's own number is derived in a single backward pass."""
    with torch.no_grad():
        tokens, width = read(x[None]).shape[1:]
    copies = x.expand(tokens * width, *x.shape).clone().requires_grad_()
    out = read(copies).flatten(1)
    (slope,) = torch.autograd.grad(out.diagonal().sum(), copies)
    return slope.unflatten(0, (tokens, width)).square().sum((1, 3)).sqrt()


def number_of_weights(model: Model) -> int:
    """How many weights a model has, shared ones counted once."""
    return sum(p.numel() for p in model.parameters())

"""The small models that labs measure, put together from the toolkit's own parts."""

from __future__ import annotations

from typing import Any

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
) -> Stack:
    """Post-norm blocks of 4 heads. position: in the embeddings, none by default; turning: within attention."""
    mask = Everything() if mask is None else mask
    heads = Attention(NUM_HEADS, mask=mask, attend=attend or ScaledDot())
    across = Attention(NUM_HEADS, cross=True) if cross else None
    block = Block(heads, Dense(2 * d_model), across)
    return Stack(d_model, Tokens(vocab_size, position or NoPositions()), (block,) * num_layers, position=turning)


def recurrent(cell: Cell = "rnn", d_model: int = D_MODEL, vocab_size: int = VOCAB) -> Recurrent:
    """One layer that reads from left to right."""
    return Recurrent(d_model, Tokens(vocab_size), cell, both_ways=False)


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

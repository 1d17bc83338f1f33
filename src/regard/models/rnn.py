"""Recurrent encoder-decoders: with one fixed context vector (Sutskever et al. 2014, Cho et al. 2014) or with attention
(Bahdanau et al. 2015, Luong et al. 2015)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import nn

from regard.architecture import Description
from regard.layers.embeddings import Tokens
from regard.layers.heads import NextToken
from regard.layers.initial import glorot_
from regard.layers.recurrent import Cell, Recurrent
from regard.layers.recurrent_decoder import RecurrentDecoder
from regard.layers.scores import Additive, Concat, Dot, General, Location, Score

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"num_layers": 1, "d_model": 128, "dropout": 0.2},
    "small": {"num_layers": 1, "d_model": 256, "dropout": 0.2},
    "base": {"num_layers": 2, "d_model": 512, "dropout": 0.2},
    "big": {"num_layers": 4, "d_model": 1024, "dropout": 0.2},
}

Attention = Literal["none", "additive", "dot", "general", "concat", "scaled_dot", "location"]


def _score(attention: str, max_length: int) -> Score | None:
    scores: dict[str, Score | None] = {
        "none": None,
        "additive": Additive(),
        "dot": Dot(),
        "general": General(),
        "concat": Concat(),
        "scaled_dot": Dot(scaled=True),
        "location": Location(max_length),
    }
    if attention not in scores:
        raise ValueError(f"attention must be one of {', '.join(scores)}, not {attention!r}")
    return scores[attention]


def describe(
    *,
    vocab_size: int,
    target_vocab_size: int | None = None,
    cell: Cell = "gru",
    num_layers: int = 1,
    d_model: int = 256,
    d_embed: int | None = None,
    both_ways: bool = True,
    attention: Attention = "none",
    query: Literal["previous", "current"] | None = None,
    input_feeding: bool = False,
    context: Literal["start", "every_step"] = "start",
    dropout: float = 0.2,
    tied: Literal["no", "head", "all"] | None = None,
    max_length: int = 100,
    pad: int | None = 0,
) -> Description:
    """A recurrent encoder, of two directions that have half of d_model each or of one, and a recurrent decoder.

    attention: "none" for the fixed context vector alone, given as the decoder's first state or, with context="every_step",
    at every step. query: whether attention asks before a token is read or after; None for what is published: "previous"
    with additive and location, "current" with the others, where alone input_feeding is possible. max_length: tokens of a
    source sentence that attention by location can score. d_embed: width of embeddings, None for d_model. The decoder's
    first state is the encoder's last as it is where both go one way (Sutskever), else through a layer with tanh (Cho,
    Bahdanau). target_vocab_size and tied as in the Transformer; the papers tie nothing (`tied`="no").
    """
    score = _score(attention, max_length)
    limit = max_length if attention == "location" else None
    query = query or ("previous" if attention in ("additive", "location") else "current")
    target = vocab_size if target_vocab_size is None else target_vocab_size
    encoder = Recurrent(d_model, Tokens(vocab_size, dropout=dropout), cell, num_layers, both_ways, dropout, d_embed, limit)
    decoder = RecurrentDecoder(
        d_model,
        Tokens(target, dropout=dropout),
        cell,
        num_layers,
        score,
        query,
        input_feeding,
        context,
        bridge=both_ways or context == "every_step",
        d_embed=d_embed,
        dropout=dropout,
    )
    return Description(NextToken(target), encoder, decoder, tied or ("all" if target_vocab_size is None else "head"), pad)


@torch.no_grad()
def initialise(model: nn.Module) -> None:
    """Recurrent matrices orthogonal, one for each gate (Saxe et al. 2014; Bahdanau), so that a state neither dies nor
    explodes over a sentence; all others uniform after Glorot & Bengio 2010 rather than the papers' one width for every
    size (0.01, 0.08 or 0.1), which fits only theirs; biases zero, but one at an LSTM's forget gate (Gers et al. 2000), so
    that it begins by remembering."""
    glorot_(model)
    for module in model.modules():
        if not isinstance(module, nn.RNNBase):
            continue
        for name, weight in module.named_parameters(recurse=False):
            gates = weight.chunk(weight.shape[0] // module.hidden_size)
            if name.startswith("bias"):
                weight.zero_()
                if module.mode == "LSTM" and name.startswith("bias_ih"):
                    gates[1].fill_(1.0)
            for gate in gates if name.startswith("weight") else ():
                (nn.init.orthogonal_ if "_hh_" in name else nn.init.xavier_uniform_)(gate)

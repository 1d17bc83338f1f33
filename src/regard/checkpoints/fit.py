"""Whether a model and its tokenizers fit each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.architecture import Description, Model
from regard.errors import UserError


def ids_of(tokenizers: Any) -> dict[str, int | None]:
    """pad, bos, eos of a `Tokenizers`: the ids that the decoder starts and ends with, None where there is no such symbol;
    {} for None."""
    if tokenizers is None:
        return {}
    return {name: getattr(tokenizers.target, name) for name in ("pad", "bos", "eos")}


def check_fit(description: Description, ids: Mapping[str, int | None], tokenizers: Any, where: str | Path) -> None:
    """UserError if tokenizers have more entries than the model has embeddings, or other ids than the model goes by."""
    if tokenizers is None:
        return
    for side, half in (("source", description.encoder), ("target", description.decoder)):
        size = None if half is None else getattr(half.embed, "vocab_size", None)
        if size is None:
            continue
        tokenizer = getattr(tokenizers, side)
        if tokenizer.vocab_size > size:
            extra = [tokenizer.piece(i) for i in range(size, tokenizer.vocab_size)]
            shown = ", ".join(map(repr, extra[:10])) + (" …" if len(extra) > 10 else "")
            raise UserError(
                f"{where}: the model has {size} {side} entries, the tokenizer {tokenizer.vocab_size}; the model lacks"
                f" {shown} (load with extend=True to add them, untrained)"
            )
    told = {"pad": description.pad, "eos": ids.get("eos"), "bos": ids.get("mark", ids.get("bos"))}
    differ = [
        f"{name} is {told[name]} in the model and {value} in the tokenizer"
        for name, value in ids_of(tokenizers).items()
        if None not in (told.get(name), value) and told.get(name) != value
    ]
    if differ:
        raise UserError(f"{where}: the ids of model and tokenizer disagree: {'; '.join(differ)}")


def extended(model: Model, source: int, target: int) -> Model:
    """The model with at least so many source and target entries. New ones are the mean of the old, so that they begin
    as no word in particular; the model itself if it has enough."""
    its = model.description
    encoder, decoder = (
        None if half is None else replace(half, embed=replace(half.embed, vocab_size=max(size, half.embed.vocab_size)))
        for half, size in ((its.encoder, source), (its.decoder, target))
    )
    head, size = its.head, source if decoder is None else target
    if hasattr(head, "vocab_size"):  # a head of classes or vectors has no word to add
        head = replace(head, vocab_size=max(size, head.vocab_size))
    wider = replace(its, encoder=encoder, decoder=decoder, head=head)
    if wider == its:
        return model
    new = wider.build().to(model.device, next(model.parameters()).dtype).train(model.training)
    old = model.state_dict()
    with torch.no_grad():
        for name, tensor in new.state_dict().items():
            rows = len(old[name]) if tensor.dim() else 0
            if tensor.shape != old[name].shape:
                tensor[rows:] = old[name].mean(0)
            tensor[:rows].copy_(old[name]) if tensor.dim() else tensor.copy_(old[name])
    return new

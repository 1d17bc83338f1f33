"""New words, or a new language's mark, for a trained model: what it knew stays as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.architecture import Model
from regard.checkpoints.fit import extended
from regard.checkpoints.folders import load_model, locate, save_model
from regard.errors import UserError
from regard.text.added import with_entries
from regard.text.tokenizer import Tokenizer, Tokenizers

Rows = Mapping[int, Sequence[int]]
"""New ids, and the old ids whose rows each begins as the mean of."""


@dataclass(frozen=True)
class Added:
    """A new entry. like: the text whose pieces its embedding is the mean of. number: its id. pieces: those pieces."""

    name: str
    like: str
    number: int
    pieces: list[str]


def extend(folder: str | Path, output: str | Path, entries: Sequence[tuple[str, str]]) -> list[Added]:
    """Write the model of a folder with further entries in its vocabulary (of both sides where there are two) elsewhere.

    entries: names, and the text that each is like ("" for the name itself): its embedding, and its row in the head, become
    the mean of those of the pieces that this text has had so far (of all where it has none). All other weights stay, so all
    other logits do. UserError: `output` holds something, the model reads no text, or a name cannot be added.
    """
    folder, output = locate(folder), Path(output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UserError(f"{output}: is not empty; the wider model goes into a new folder")
    model, description, meta = load_model(folder)
    half: Any = description.decoder if description.encoder is None else description.encoder
    if not hasattr(half.embed, "vocab_size"):
        raise UserError(f"{folder}: this model reads no text, so it has no words to add to")
    old = Tokenizers.open(folder)
    names = [name for name, _ in entries]
    if not names:
        raise UserError("nothing to add: name at least one token")
    source = with_entries(old.source, names)
    target = source if old.shared else with_entries(old.target, names)
    both = [_rows(its, entries) for its in (old.source, old.target)]
    wider = filled(extended(model, source.vocab_size, target.vocab_size), *both)
    save_model(output, wider, Tokenizers(source, target, old.shared), meta | {"scores": {}})
    pieces = both[1] if description.encoder is not None and description.decoder is not None else both[0]
    tokenizer = old.target if pieces is both[1] else old.source
    return [
        Added(name, like or name, number, [tokenizer.piece(one) for one in pieces[number]])
        for (name, like), number in zip(entries, pieces)
    ]


def _rows(tokenizer: Tokenizer, entries: Sequence[tuple[str, str]]) -> dict[int, list[int]]:
    first = tokenizer.vocab_size
    return {first + n: tokenizer.encode(like or name) for n, (name, like) in enumerate(entries)}


@torch.no_grad()
def filled(model: Model, source: Rows, target: Rows) -> Model:
    """The model with these rows of its embeddings and head as means of others; it is changed in place."""
    given = source if model.decoder is None else target
    tables = [(half.embed.tokens.weight, rows) for half, rows in ((model.encoder, source), (model.decoder, target)) if half]
    if hasattr(model.description.head, "vocab_size"):
        tables += [(tensor, given) for tensor in (model.head.project.weight, model.head.project.bias) if tensor is not None]
    seen: set[int] = set()
    for tensor, rows in tables:
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        first = min(rows, default=len(tensor))
        for number, pieces in rows.items():
            tensor[number] = tensor[list(pieces)].mean(0) if pieces else tensor[:first].mean(0)
    return model

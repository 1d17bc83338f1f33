"""The one data set of the benchmarks, as each program wants it: token ids, lines of pieces, vocabularies."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

VOCABULARY, BUDGET = 8000, 4096
MARKS = ("<pad>", "<unk>", "<s>", "</s>")


def prepared(cache: Path, given: list[str]) -> Any:
    """Multi30k English to French as regard reads it, one joint vocabulary. given: further settings of the recipe."""
    from regard.training.prepare import prepare
    from regard.training.recipe import load_recipe

    sizes = [f"tokenizer.vocab_size={VOCABULARY}", f"training.batch_tokens={BUDGET}"]
    return prepare(load_recipe("multi30k-en-fr", [*sizes, *given]), cache)


def spelt(piece: str) -> str:
    """A piece as a word of a line: programs that split lines at spaces would lose those within it."""
    return "".join("▁" if c == " " else f"<{ord(c):04X}>" if c.isspace() else c for c in piece)


def export(cache: Path, given: list[str]) -> Path:
    """The folder with the same data for all: ids.json ({"train.en": [[…]]}, no marks), vocabulary.json (the tokens in the
    order of their ids, those of pad, unk, bos and eos), train.pieces.en …, vocabulary.counts and vocabulary.plain."""
    its = prepared(cache, given)
    tokenizer = its.tokenizers.source
    folder = cache / f"pieces-{tokenizer.hash[:12]}-{len(its.train.plain)}"
    if (folder / "complete").is_file():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    pairs = {"val": its.valid_pairs, "test": its.test_pairs}
    ids = {
        f"{split}.{side}": tokenizer.encode_batch([getattr(pair, field) for pair in rows])
        for split, rows in pairs.items()
        for side, field in (("en", "source"), ("fr", "target"))
    }
    for side, flat, offsets in (
        ("en", its.train.plain.source, its.train.plain.source_offsets),
        ("fr", its.train.plain.target, its.train.plain.target_offsets),
    ):
        ids[f"train.{side}"] = [part.tolist() for part in np.split(flat, offsets[1:-1])]
    pieces = [spelt(tokenizer.piece(number)) for number in range(tokenizer.vocab_size)]
    counts: Counter[int] = Counter()
    for name, rows in ids.items():
        split, side = name.split(".")
        lines = [" ".join(pieces[number] for number in row) for row in rows]
        (folder / f"{split}.pieces.{side}").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        if split == "train":
            counts.update(number for row in rows for number in row)
    marks = [tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.eos]
    plainly = [(piece, counts[n]) for n, piece in enumerate(pieces) if n not in marks]
    (folder / "vocabulary.counts").write_text("".join(f"{p}\t{c}\n" for p, c in plainly), encoding="utf-8")
    (folder / "vocabulary.plain").write_text("".join(f"{p}\n" for p in (*MARKS, *(p for p, _ in plainly))), encoding="utf-8")
    about = {"pieces": pieces, **dict(zip(("pad", "unk", "bos", "eos"), marks))}
    (folder / "vocabulary.json").write_text(json.dumps(about, ensure_ascii=False), encoding="utf-8")
    (folder / "ids.json").write_text(json.dumps(ids), encoding="utf-8")
    (folder / "complete").touch()
    return folder

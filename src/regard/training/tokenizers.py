"""Tokenizers of a recipe: learned from its training text and kept by what they were made from, or taken from a folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, processors

from regard.text.corpus import Pair
from regard.text.tokenizer import Plan, Tokenizer, Tokenizers, train_tokenizer
from regard.training.recipe import Recipe

TEMPLATES = {
    "none": ("$A", "$A $B:1"),
    "begin": ("<s> $A", "<s> $A $B:1"),
    "both": ("<s> $A </s>", "<s> $A </s> $B:1 </s>:1"),
    "last": ("$A </s> <s>:2", "$A </s> $B:1 </s>:1 <s>:2"),
}
"""What stands around one text and two texts, by tokenizer.marks; "end" is what every tokenizer of regard's has."""
USUAL = {"masked": "both", "classification": "both", "tagging": "both", "permutation": "last"}
MASK = "<mask>"
SENTINELS = tuple(f"<extra_id_{number}>" for number in range(100))
SYMBOLS = {"masked": (MASK,), "denoising": (MASK,), "spans": SENTINELS}
"""Special symbols that a task needs beside a tokenizer's own, by its kind."""


def tokenizers_of_pairs(recipe: Recipe, pairs: Sequence[Pair], cache: Path) -> Tokenizers:
    """The tokenizers made from the same pairs by the same plan before, or new ones, which are kept in `cache`."""
    plans, its = _plans(recipe), recipe.tokenizer
    folder = (
        cache / "tokenizers" / _key(plans, its.shared, its.extra, chain.from_iterable((p.source, p.target) for p in pairs))
    )
    if not folder.is_dir():
        _keep(_learned(pairs, plans, its.shared, its.extra), folder)
    return _open(folder, plans)


def tokenizers_of_sample(
    recipe: Recipe, said: str, tags: Sequence[str], sample: Callable[[], Sequence[Pair]], cache: Path
) -> Path:
    """The folder of the tokenizers made before for what `said` names (a corpus too large to be read for that), or of new
    ones, learned from `sample()`. tags: symbols that are always one token."""
    plans, its = _plans(recipe), recipe.tokenizer
    extra, pairs = [*its.extra, *tags], recipe.task.kind == "translation"
    folder = cache / "tokenizers" / _key(plans, its.shared, [*extra, *([] if pairs else _said(recipe))], [said])
    if not folder.is_dir():
        found = sample()
        texts = [one.source for one in found]
        made = _learned(found, plans, its.shared, extra) if pairs else _learned_of_texts(recipe, texts, extra)
        _keep(made, folder)
    return folder


def _learned(pairs: Sequence[Pair], plans: tuple[Plan, Plan], shared: bool, extra: Sequence[str]) -> Tokenizers:
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if shared:
        both = train_tokenizer(chain.from_iterable(zip(sources, targets, strict=True)), plans[0], extra)
        return Tokenizers(both, both, True)
    left, right = (train_tokenizer(texts, plan, extra) for texts, plan in zip((sources, targets), plans, strict=True))
    return Tokenizers(left, right, False)


def tokenizer_of_texts(recipe: Recipe, texts: Sequence[str], cache: Path) -> Tokenizers:
    """One tokenizer of single texts, kept like those of pairs, with the marks and symbols that the recipe's task needs."""
    plan = _plans(recipe)[0]
    folder = cache / "tokenizers" / _key((plan, plan), True, _said(recipe), texts)
    if not folder.is_dir():
        _keep(_learned_of_texts(recipe, texts, recipe.tokenizer.extra), folder)
    return _open(folder, (plan, plan))


def _said(recipe: Recipe) -> list[str]:
    return [*recipe.tokenizer.extra, f"marks {marks_of(recipe)}", *SYMBOLS.get(recipe.task.kind, ())]


def _learned_of_texts(recipe: Recipe, texts: Sequence[str], extra: Sequence[str]) -> Tokenizers:
    lines = chain.from_iterable(text.splitlines(keepends=True) for text in texts) if _running(texts) else texts
    made = train_tokenizer(lines, _plans(recipe)[0], extra)
    made = marked(made, marks_of(recipe), SYMBOLS.get(recipe.task.kind, ()))
    return Tokenizers(made, made, True)


def marks_of(recipe: Recipe) -> str:
    """Where marks stand around a text: as the recipe says, or as is usual for its task."""
    told, task = recipe.tokenizer.marks, recipe.task
    if told != "auto":
        return told
    if task.kind == "language" and task.reading == "documents":
        return "both"
    return USUAL.get(task.kind, "end")


def marked(tokenizer: Tokenizer, marks: str, symbols: Sequence[str] = ()) -> Tokenizer:
    """A tokenizer of regard's with other marks around texts, and further special symbols as its last ids."""
    backend = tokenizer.backend
    if symbols:
        backend.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in symbols])
    if marks in TEMPLATES:
        single, pair = TEMPLATES[marks]
        known = [("<s>", tokenizer.bos), ("</s>", tokenizer.eos)]
        backend.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=known)
    return Tokenizer(backend, tokenizer.dropout)


def _running(texts: Sequence[str]) -> bool:
    """Whether texts are long ones with line breaks, which a vocabulary is learned from line by line."""
    return any(len(text) > 10_000 and "\n" in text for text in texts)


def _plans(recipe: Recipe) -> tuple[Plan, Plan]:
    its = recipe.tokenizer
    common: dict[str, Any] = {"lowercase": its.lowercase, "normalization": its.normalization}
    kinds = its.kind, its.target_kind or its.kind
    sizes = its.vocab_size, its.target_vocab_size or its.vocab_size
    source, target = (
        Plan(kind=kind, vocab_size=size, dropout=its.dropout if kind == "bpe" else 0.0, **common)
        for kind, size in zip(kinds, sizes, strict=True)
    )
    return source, target


def _open(folder: Path, plans: tuple[Plan, Plan]) -> Tokenizers:
    """What was kept, with the dropout that files do not hold."""
    tokenizers = Tokenizers.open(folder)
    tokenizers.source.dropout = plans[0].dropout
    if not tokenizers.shared:
        tokenizers.target.dropout = plans[1].dropout
    return tokenizers


def _key(plans: tuple[Plan, Plan], shared: bool, extra: Sequence[str], texts: Iterable[str]) -> str:
    said = [vars(plan) for plan in plans], shared, list(extra)
    found = hashlib.sha256(json.dumps(("regard-tokenizers-1", said), sort_keys=True).encode())
    for text in texts:
        raw = text.encode()
        found.update(b"%d\n%b" % (len(raw), raw))
    return found.hexdigest()


def _keep(made: Tokenizers, folder: Path) -> None:
    """Write the tokenizers aside and rename, so that the folder is whole or absent."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name[:16]}-", dir=folder.parent))
    try:
        made.save(aside)
        os.replace(aside, folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)

"""Single texts predicted from themselves: how they are laid out, and what is measured."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regard.errors import UserError
from regard.training.prepare import prepare
from regard.training.recipe import Recipe
from regard.training.run import Run
from regard.training.tasks import language


def test_documents_have_their_marks_and_share_rows(made: Callable[..., Recipe]) -> None:
    prepared = prepare(made("language", data={"max_length": 40}))
    rows = prepared.train.plain
    assert prepared.packed
    assert len(rows) < 60  # of 60 texts, two or three share a row
    ids, lengths = rows.pair(0)
    at = 0
    for length in lengths.tolist():
        assert ids[at] == 2  # <s> text </s>
        assert ids[at + length - 1] == 3
        at += length
    assert at == len(ids) <= 40 + len(lengths)
    alone = prepare(made("language", task={"pack": False}, data={"max_length": 40}))
    assert not alone.packed
    assert len(alone.train) == 60
    assert int(alone.train.plain.source_lengths.sum()) == len(rows.source)


def test_long_texts_are_cut_and_none_is_lost(made: Callable[..., Recipe]) -> None:
    whole, cut = (prepare(made("masked", data={"max_length": length})) for length in (40, 9))
    real = [prepared.train.plain.source > 3 for prepared in (whole, cut)]
    assert real[0].sum() == real[1].sum()
    assert cut.objective.widths(cut.train.plain.source_lengths, cut.train.plain.target_lengths)[0].max() <= 9
    with pytest.raises(UserError, match=r"data\.max_length: 2 leaves no room"):
        prepare(made("masked", data={"max_length": 2}))


def test_blocks_read_all_text_end_to_end(made: Callable[..., Recipe]) -> None:
    prepared = prepare(made("blocks", data={"unit": "file", "max_length": 30}))
    block = prepared.train.plain.pair(1)[0]
    assert len(block) == 31
    text = prepared.tokenizers.source.decode(block.tolist())
    assert len(text) == 31  # characters, no mark among them
    joined = prepare(made("blocks", data={"unit": "line", "max_length": 30}))
    assert 3 in joined.train.plain.source  # texts end with a mark
    with pytest.raises(UserError, match=r"fewer than a block of 90000 .* lower data\.max_length"):
        prepare(made("blocks", data={"max_length": 90_000}))


def test_loss_perplexity_and_bits_a_character(made: Callable[..., Recipe], tmp_path: Path) -> None:
    recipe = made("blocks", data={"unit": "file"})
    run = Run(recipe, prepare(recipe), tmp_path / "x")
    with run.in_use() as model:
        seen = language.look(model, recipe, run.prepared)
    vocabulary = run.prepared.tokenizers.source.vocab_size
    assert seen.loss == pytest.approx(math.log(vocabulary), abs=0.1)  # it knows nothing yet
    assert seen.figures["perplexity"] == pytest.approx(math.exp(seen.loss))
    assert seen.figures["bits_per_character"] == pytest.approx(seen.loss / math.log(2))
    assert "perplexity" in seen.line(0)
    assert seen.entry(0)["valid_bits_per_character"] == seen.figures["bits_per_character"]


def test_the_same_texts_are_hidden_at_every_look(made: Callable[..., Recipe], tmp_path: Path) -> None:
    recipe = made("masked")
    run = Run(recipe, prepare(recipe), tmp_path / "x")
    with run.in_use() as model:
        first, second = (language.look(model, recipe, run.prepared) for _ in range(2))
    assert first == second
    one, two = next(run.stream), next(run.stream)
    assert not torch.equal(one.inputs, two.inputs)


def test_what_a_tokenizer_tells(made: Callable[..., Recipe]) -> None:
    tokenizer = prepare(made("masked")).tokenizers.source
    special = language.specials(tokenizer)
    assert special[[0, 1, 2, 3, tokenizer.mask]].all()
    assert special.sum() == 5
    begins = language.beginnings(tokenizer)
    assert begins[tokenizer.encode("the bird")].all()
    assert language.marks_around(tokenizer) == ([2], [3])


def test_a_tokenizer_without_a_mask_cannot_hide(made: Callable[..., Recipe], tmp_path: Path) -> None:
    tokenizer = prepare(made("language")).tokenizers.source
    with pytest.raises(UserError, match="needs a symbol that hides tokens"):
        language.objective(made("masked"), tokenizer)


def test_validation_texts_are_needed(made: Callable[..., Recipe]) -> None:
    for kind in ("language", "spans", "classification", "tagging"):
        with pytest.raises(UserError, match=r"data\.valid: no validation"):
            prepare(made(kind, data={"valid": None, "train": f"{kind}.train.{'tsv' if kind[-1] in 'ng' else 'txt'}"}))

"""From a recipe to token ids: cleaning, tokenizers, the cache, and the named data sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regard.errors import UserError
from regard.training.prepare import Prepared, cache_folder, limits, prepare, read_split
from regard.training.recipe import Recipe, load_recipe, read_recipe
from regard.training.recipe_files import names

COLOURS = ["red", "green", "blue", "black", "white"]
THINGS = ["house", "car", "tree", "bird", "river", "door", "coat", "book"]


def write(path: Path, rows: list[tuple[str, str]]) -> str:
    path.write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8", newline="\n")
    return str(path)


def rows() -> list[tuple[str, str]]:
    return [(f"the {c} {t}", f"le {t} {c}") for c in COLOURS for t in THINGS]


def recipe(tmp_path: Path, more: str = "", tokenizer: str = "kind: bytes", data: str = "") -> Recipe:
    train = write(tmp_path / "train.tsv", rows())
    held = write(tmp_path / "held.tsv", [("the red bird", "le bird red"), ("a green door", "un door green")])
    return read_recipe(
        f"data: {{train: {train}, valid: {held}, test: {held}, {data}}}\ntokenizer: {{{tokenizer}}}\n"
        f"model: {{architecture: transformer}}\ntraining: {{max_steps: 5, {more}}}\n"
    )


def ids(prepared: Prepared) -> list[list[int]]:
    plain = prepared.train.plain
    return [side.tolist() for number in range(len(plain)) for side in plain.pair(number)]


def test_what_training_reads(tmp_path: Path) -> None:
    prepared = prepare(recipe(tmp_path), tmp_path / "cache")
    assert len(prepared.train) == 40
    assert len(prepared.valid) == len(prepared.valid_pairs) == len(prepared.test_pairs) == 2
    assert prepared.valid_pairs[0].source == "the red bird"
    assert prepared.tokenizers.shared
    source, target = prepared.train.plain.pair(0)
    assert prepared.tokenizers.source.decode(source.tolist()) == "the red house"
    assert prepared.tokenizers.target.decode(target.tolist()) == "le house red"
    assert "40 training, 2 validation, 2 test pairs" in prepared.summary()


def test_the_cache_gives_the_same_and_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    its = recipe(tmp_path, tokenizer="kind: words, shared: false")
    first = prepare(its, tmp_path / "cache")

    def never(*args: object) -> None:
        raise AssertionError("a tokenizer was trained again")

    monkeypatch.setattr("regard.training.tokenizers.train_tokenizer", never)
    again = prepare(its, tmp_path / "cache")
    assert ids(again) == ids(first)
    assert again.tokenizers.target.hash == first.tokenizers.target.hash
    write(tmp_path / "train.tsv", rows()[1:])
    with pytest.raises(AssertionError, match="trained again"):
        prepare(read_recipe(its.to_yaml()), tmp_path / "cache")


def test_the_cache_lies_where_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "env"))
    assert cache_folder() == tmp_path / "env"
    assert cache_folder(tmp_path / "told") == tmp_path / "told"
    monkeypatch.delenv("REGARD_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache/regard"


def test_separate_vocabularies_of_different_kinds(tmp_path: Path) -> None:
    its = recipe(tmp_path, tokenizer="kind: characters, shared: false, target_kind: words, target_vocab_size: 20")
    prepared = prepare(its, tmp_path / "cache")
    source, target = prepared.train.plain.pair(0)
    assert len(source) == len("the red house")
    assert len(target) == 3
    assert prepared.tokenizers.target.vocab_size <= 20


def test_only_training_pairs_are_cleaned_and_what_goes_is_told(tmp_path: Path) -> None:
    data = write(tmp_path / "dirty.tsv", [*rows(), ("", "vide"), rows()[0], ("same", "same")])
    its = recipe(tmp_path).model_dump()
    text = recipe(tmp_path, data="clean: {drop_duplicates: true, drop_copies: true}").to_yaml()
    text = text.replace(its["data"]["train"], data).replace(its["data"]["valid"], data)
    prepared = prepare(read_recipe(text), tmp_path / "cache")
    assert len(prepared.train) == 40
    assert len(prepared.valid_pairs) == 42  # but an empty side cannot be scored
    assert len(prepared.notes) > 0
    assert all(line in prepared.summary() for line in prepared.notes)


def test_bpe_dropout_draws_anew_each_epoch_and_never_for_validation(tmp_path: Path) -> None:
    its = recipe(tmp_path, tokenizer="kind: bpe, vocab_size: 400, dropout: 0.5")
    prepared = prepare(its, tmp_path / "cache")
    drawn = [np.concatenate([prepared.train.at(epoch).pair(n)[0] for n in range(40)]) for epoch in (0, 1, 0)]
    assert drawn[0].tolist() == drawn[2].tolist()
    assert drawn[0].tolist() != drawn[1].tolist()
    again = prepare(its, tmp_path / "cache")
    assert again.valid.pair(0)[0].tolist() == prepared.valid.pair(0)[0].tolist()
    assert again.tokenizers.source.dropout == 0.5


def test_fewer_pairs_when_asked(tmp_path: Path) -> None:
    assert len(prepare(recipe(tmp_path, data="max_pairs: 7"), tmp_path / "cache").train) == 7


def test_lengths_are_limited_as_the_recipe_says(tmp_path: Path) -> None:
    found = limits(recipe(tmp_path, more="on_long: cut", data="max_length: 33"))
    assert (found.source, found.target, found.action) == (33, 33, "cut")


def test_no_validation_pairs_and_nothing_left_are_refused(tmp_path: Path) -> None:
    its = recipe(tmp_path)
    without = read_recipe(its.to_yaml().replace(f"valid: {its.data.valid}", "valid: null"))
    with pytest.raises(UserError, match=r"data.valid: no validation pairs"):
        prepare(without, tmp_path / "cache")
    with pytest.raises(UserError, match=r"data.train: no pair is left of 40"):
        prepare(recipe(tmp_path, data="clean: {max_words: 1}"), tmp_path / "cache")


def test_s_cli_07_a_missing_file_is_named(tmp_path: Path) -> None:
    its = recipe(tmp_path)
    Path(str(its.data.train)).unlink()
    with pytest.raises(UserError, match=r"train.tsv: no such file"):
        prepare(its, tmp_path / "cache")


def test_s_cli_07_an_unknown_language_or_data_set_is_named() -> None:
    with pytest.raises(UserError, match=r"multi30k has no 'xx'; source and target are among en, fr, de, cs"):
        read_split(load_recipe("multi30k-en-fr", ["data.target=xx"]), "train")
    with pytest.raises(UserError, match=r"'multi31k' is not a named data set; known: multi30k"):
        read_split(load_recipe("multi30k-en-fr", ["data.name=multi31k"]), "train")
    with pytest.raises(UserError, match=r"no grammar for 'grammar-en-xx'"):
        read_split(load_recipe("multi30k-en-fr", ["data.name=grammar-en-xx"]), "train")


@pytest.mark.parametrize("pair", ["en-fr", "en-zh"])
def test_the_built_in_grammar_is_a_data_set(pair: str) -> None:
    its = read_recipe(
        f"data: {{name: grammar-{pair}, max_pairs: 50}}\nmodel: {{architecture: transformer}}\ntraining: {{max_steps: 1}}\n"
    )
    train, valid = read_split(its, "train"), read_split(its, "valid")
    assert len(train) == 50
    assert {row.source for row in train}.isdisjoint({row.source for row in valid})


def of_pairs(name: str) -> bool:
    """Whether a recipe reads pairs as they lie there; those of other tasks are run in test_recipes_run.py, and so are
    docstrings, which take a minute to gather."""
    return load_recipe(name).task.kind == "translation" and not name.startswith("docstrings")


@pytest.mark.parametrize("name", [name for name in names() if of_pairs(name) and "-rnn" not in name and "-lc" not in name])
def test_every_recipes_data_opens(name: str, data_root: Path) -> None:
    its = load_recipe(name, ["data.max_pairs=20"])
    for split in ("train", "valid", "test"):
        found = read_split(its, split)
        assert found[0].source.strip()
        assert found[0].target.strip()


def test_cmudict_is_letters_to_phonemes_without_stress(data_root: Path, tmp_path: Path) -> None:
    prepared = prepare(load_recipe("cmudict", ["data.max_pairs=2000"]), tmp_path)
    source, target = prepared.train.plain.pair(5)
    text = prepared.tokenizers.target.decode(target.tolist())
    assert len(source) == len(prepared.tokenizers.source.decode(source.tolist()))
    assert len(target) == len(text.split())
    assert not any(letter.isdigit() for letter in text)
    assert prepared.tokenizers.target.vocab_size <= 4 + 39 + 1  # specials, phonemes, the blank


def test_multi30k_on_the_published_scale_has_12103_german_tokens(data_root: Path) -> None:
    pytest.importorskip("sacremoses")
    test = read_split(load_recipe("multi30k-en-de-lc"), "test")
    assert len(test) == 1000
    assert sum(len(row.target.split()) for row in test) == 12103


def test_words_that_the_vocabulary_lacks_are_counted(toy_recipe: Recipe) -> None:
    """Of six letters three are known. A whole vocabulary says nothing."""
    assert "unknown" not in prepare(toy_recipe).summary()
    small = toy_recipe.model_copy(update={"tokenizer": toy_recipe.tokenizer.model_copy(update={"vocab_size": 8})})
    prepared = prepare(small)
    unk = prepared.tokenizers.source.unk
    count = int((prepared.train.plain.source == unk).sum() + (prepared.train.plain.target == unk).sum())
    total = len(prepared.train.plain.source) + len(prepared.train.plain.target)
    assert 0 < count < total
    assert f"unknown to the vocabulary: {count:,} of {total:,} training tokens, " in prepared.summary()


def test_sentences_of_a_document_stand_before_each(tmp_path: Path) -> None:
    """An empty line, or one that is left out, ends a document; validation has all that stand before."""
    document = [("a dog", "un chien"), ("it runs", "il court"), ("it eats", "il mange"), ("", ""), ("a cow", "une vache")]
    data = write(tmp_path / "document.tsv", document)
    text = recipe(tmp_path, data="context: 2", tokenizer="kind: words").to_yaml()
    its = read_recipe(text.replace(str(tmp_path / "held.tsv"), data))
    prepared = prepare(its, tmp_path / "cache")
    assert prepared.facts == {"context": {"sentences": 2, "tokens": 256}}
    tokenizer = prepared.tokenizers.target
    targets = [prepared.valid.pair(n)[1].tolist() for n in range(4)]
    said = [tokenizer.encode(target) for _, target in document if target]
    assert targets[0] == said[0]
    assert targets[1] == [*said[0], tokenizer.bos, *said[1]]
    assert targets[2] == [*said[0], tokenizer.bos, *said[1], tokenizer.bos, *said[2]]
    assert targets[3] == said[3]
    marks = [int((prepared.train.plain.pair(n)[0] == tokenizer.bos).sum()) for n in range(40)]
    assert set(marks) == {0, 1, 2}
    assert prepare(its, tmp_path / "cache").train.key == prepared.train.key
    plain = prepare(recipe(tmp_path, tokenizer="kind: words"), tmp_path / "cache")
    assert plain.facts == {}
    assert plain.train.key != prepared.train.key
    with pytest.raises(UserError, match=r"tokenizer\.dropout: splits each sentence anew, data\.context learns from several"):
        prepare(
            recipe(tmp_path, data="context: 1", tokenizer="kind: bpe, vocab_size: 400, dropout: 0.5"), tmp_path / "cache"
        )


def test_an_estimate_of_quality_needs_validation_pairs(tmp_path: Path) -> None:
    its = read_recipe(recipe(tmp_path).to_yaml().replace("calibrate: false", "calibrate: true"))
    with pytest.raises(UserError, match=r"evaluation\.calibrate: needs 50 validation pairs or more, these are 2"):
        prepare(its, tmp_path / "cache")

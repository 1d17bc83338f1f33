"""The recipe that `regard init` writes: splits without leaks, settings by size, nothing overwritten."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.text.corpus import Pair, open_corpus
from regard.training.initial_recipe import BASE, Measured, Wish, choose, measure, split_off, write_initial_recipe
from regard.training.recipe import load_recipe
from regard.training.recipe_files import gather

COLOURS = ["red", "green", "blue", "black", "white", "old", "new"]
THINGS = ["house", "car", "tree", "bird", "river", "door", "coat", "book", "lamp", "road"]


def pairs(count: int = 140) -> list[Pair]:
    both = [(f"the {c} {t} {n}", f"le {t} {c} {n}") for n in range(9) for c in COLOURS for t in THINGS]
    return [Pair(source, target, line) for line, (source, target) in enumerate(both[:count], 1)]


def tsv(path: Path, rows: list[Pair]) -> Path:
    path.write_text("".join(f"{row.source}\t{row.target}\n" for row in rows), encoding="utf-8", newline="\n")
    return path


def test_no_source_sentence_is_in_two_splits_and_none_is_lost() -> None:
    rows = pairs() + [Pair(f"The {row.source[4:].upper()}!", row.target + " encore", 1000 + row.line) for row in pairs(60)]
    splits = split_off(rows)
    assert sorted((p for part in splits.values() for p in part), key=lambda p: p.line) == rows
    keys = {name: {"".join(filter(str.isalnum, p.source.casefold())) for p in part} for name, part in splits.items()}
    assert keys["train"].isdisjoint(keys["valid"] | keys["test"])
    assert keys["valid"].isdisjoint(keys["test"])
    assert 10 <= len(splits["valid"]) <= 12
    assert 10 <= len(splits["test"]) <= 12


def test_splits_depend_on_the_text_alone() -> None:
    rows = pairs()
    shuffled = random.Random(3).sample(rows, len(rows))
    for name, part in split_off(rows).items():
        assert {p.source for p in split_off(shuffled)[name]} == {p.source for p in part}


def test_too_few_different_sentences_are_refused() -> None:
    with pytest.raises(UserError, match="only 2 different source sentences"):
        split_off([Pair("a", "b", n) for n in range(30)] + [Pair("c", "d", 99)])


def of(count: int, alike: float = 0.9) -> Measured:
    return Measured(count, 12.0, 60.0, 200, alike)


def test_little_data_gets_a_small_model_strong_dropout_and_few_subwords() -> None:
    counts = [500, 10_000, 29_000, 150_000, 1_000_000, 50_000_000]
    chosen = [choose(of(count)) for count in counts]
    vocabularies = [one["tokenizer"]["vocab_size"] for one in chosen]
    dropouts = [one["model"]["dropout"] for one in chosen]
    minutes = [one["training"]["max_minutes"] for one in chosen]
    assert vocabularies == sorted(vocabularies)
    assert minutes == sorted(minutes)
    assert dropouts == sorted(dropouts, reverse=True)
    assert dropouts[0] > dropouts[-1]
    assert (chosen[2]["model"]["size"], vocabularies[2], dropouts[2]) == ("tiny", 4000, 0.1)
    assert [one["model"]["size"] for one in chosen[-2:]] == ["small", "base"]


def test_captions_get_what_was_measured_best_on_captions() -> None:
    chosen, recipe = choose(of(29_000)), gather(BASE).values
    for section in ("model", "training"):
        same = {
            key: recipe[section][key] for key in chosen[section] if key not in ("evaluate_every", "save_every", "monitor")
        }
        assert {key: chosen[section][key] for key in same} == same


def test_batches_of_a_small_corpus_are_small() -> None:
    assert choose(of(100))["training"]["batch_tokens"] < choose(of(29_000))["training"]["batch_tokens"] == 1500
    assert choose(of(100))["training"]["batch_tokens"] >= 200


def test_two_scripts_get_two_vocabularies() -> None:
    chinese = measure([Pair("how are you", "你好吗", 1), Pair("fine", "很好", 2)])
    assert chinese.alike == 0.0
    assert choose(chinese)["tokenizer"]["shared"] is False
    french = measure([Pair("a small house", "une petite maison", 1), Pair("in the river", "dans la rivière", 2)])
    assert french.alike > 0.6
    assert choose(french)["tokenizer"]["shared"] is True


def test_the_written_recipe_loads_and_names_the_split_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tsv(tmp_path / "my.tsv", pairs())
    wish = Wish(str(data), "en", "fr", tmp_path / "own.yaml")
    written = write_initial_recipe(wish)
    assert [path.name for path in written.files] == ["own.yaml", "own.train.jsonl", "own.valid.jsonl", "own.test.jsonl"]
    monkeypatch.chdir("/")
    recipe = load_recipe(tmp_path / "own.yaml")
    counts = {name: len(open_corpus(getattr(recipe.data, name), "en", "fr")) for name in ("train", "valid", "test")}
    assert counts == written.counts == {"train": 126, "valid": 7, "test": 7}
    assert (recipe.name, recipe.data.source, recipe.data.target) == ("own", "en", "fr")
    assert recipe.training.batch_tokens == written.recipe.training.batch_tokens


def test_every_key_is_commented(tmp_path: Path) -> None:
    write_initial_recipe(Wish(str(tsv(tmp_path / "my.tsv", pairs())), "en", "fr", tmp_path / "own.yaml"))
    text = (tmp_path / "own.yaml").read_text(encoding="utf-8")
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if ":" in line and not line.lstrip().startswith("#"):
            assert lines[number - 1].lstrip().startswith("#"), line
    assert "regard train" in text


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    data = str(tsv(tmp_path / "my.tsv", pairs()))
    for name in ("own.yaml", "own.test.jsonl"):
        (tmp_path / name).write_text("mine", encoding="utf-8")
        with pytest.raises(UserError, match=f"{name} exists and is not overwritten"):
            write_initial_recipe(Wish(data, "en", "fr", tmp_path / "own.yaml"))
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["my.tsv", name])
        assert (tmp_path / name).read_text(encoding="utf-8") == "mine"
        (tmp_path / name).unlink()


def test_given_validation_sentences_leave_the_training_pairs(tmp_path: Path) -> None:
    rows = pairs()
    held = tsv(tmp_path / "held.tsv", rows[:5])
    written = write_initial_recipe(Wish(str(tsv(tmp_path / "my.tsv", rows)), "en", "fr", tmp_path / "own.yaml", str(held)))
    assert written.counts["valid"] == 5
    assert sum(written.counts.values()) == 140
    train = open_corpus(str(tmp_path / "own.train.jsonl"), "en", "fr")
    assert {row.source for row in train}.isdisjoint({row.source for row in rows[:5]})


def test_with_both_given_no_split_is_written(tmp_path: Path) -> None:
    rows = pairs()
    parts = [
        str(tsv(tmp_path / name, part)) for name, part in (("v.tsv", rows[:5]), ("t.tsv", rows[5:9]), ("my.tsv", rows[9:]))
    ]
    written = write_initial_recipe(Wish(parts[2], "en", "fr", tmp_path / "own.yaml", parts[0], parts[1]))
    assert [path.name for path in written.files] == ["own.yaml"]
    recipe = load_recipe(tmp_path / "own.yaml")
    assert [recipe.data.train, recipe.data.valid, recipe.data.test] == [parts[2], parts[0], parts[1]]


def test_line_files_and_odd_text_survive_the_split(tmp_path: Path) -> None:
    rows = [Pair(f"word\t{n}\u2028x", f'mot "{n}" \\ é', n) for n in range(1, 41)]
    for side in ("source", "target"):
        text = "".join(getattr(row, side) + "\n" for row in rows)
        (tmp_path / f"a.{side}").write_text(text, encoding="utf-8", newline="\n")
    write_initial_recipe(Wish(f"{tmp_path / 'a.source'},{tmp_path / 'a.target'}", "en", "en", tmp_path / "own.yaml"))
    kept = [
        row for part in ("train", "valid", "test") for row in open_corpus(str(tmp_path / f"own.{part}.jsonl"), "en", "en")
    ]
    assert {(row.source, row.target) for row in kept} == {(row.source, row.target) for row in rows}
    first = (tmp_path / "own.train.jsonl").read_text(encoding="utf-8").split("\n")[0]
    assert set(json.loads(first)) == {"src", "tgt"}


def test_too_little_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="19 pairs are left; at least 20 are needed"):
        write_initial_recipe(Wish(str(tsv(tmp_path / "my.tsv", pairs(19))), "en", "fr", tmp_path / "own.yaml"))
    assert [path.name for path in tmp_path.iterdir()] == ["my.tsv"]

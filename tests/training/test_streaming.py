"""Recipes whose corpora are streamed: prepared once, the same pairs as in memory, mixed and tagged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from regard.batches.shards import Shards
from regard.errors import UserError
from regard.training import streaming
from regard.training.loop import train
from regard.training.prepare import prepare
from regard.training.recipe import load_recipe, read_recipe


def texts(data: Any, tokenizers: Any) -> list[tuple[str, str]]:
    pairs = [data.pair(number) for number in range(len(data))]
    return sorted((tokenizers.source.decode(a.tolist()), tokenizers.target.decode(b.tolist())) for a, b in pairs)


def test_streamed_pairs_are_those_in_memory(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "SHARD", 7)
    lines = (toy.parent / "train.tsv").read_text(encoding="utf-8").splitlines()
    (toy.parent / "train.tsv").write_text("".join(f"{line}\n" for line in [*lines, lines[3], "\tx"]), encoding="utf-8")
    whole = prepare(load_recipe(toy))
    recipe = load_recipe(toy, ["data.stream=true", "data.workers=1", "data.buffer=20"])
    found = prepare(recipe)
    assert isinstance(found.train, Shards)
    assert len(found.train.corpora[0].counts) == 6
    assert found.train.corpora[0].size == len(whole.train)
    assert found.train.tokens == whole.train.plain.tokens
    assert (found.report.total, found.report.kept) == (42, len(whole.train))
    assert found.report.rules["duplicate"].lines[-1] == 41
    made = [texts(found.train.window(0, n), found.tokenizers) for n in range(found.train.windows(0))]
    assert sorted(pair for window in made for pair in window) == texts(whole.train.plain, whole.tokenizers)
    assert f"{len(whole.train)} training" in found.summary()


def test_what_was_prepared_is_not_read_again(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe(toy, ["data.stream=true", "data.workers=1"])
    first = prepare(recipe)
    with monkeypatch.context() as patch:
        patch.setattr(streaming, "_pairs", lambda *_: pytest.fail("the corpus was read again"))
        again = prepare(recipe)
    assert again.train.key == first.train.key  # type: ignore[union-attr]
    (toy.parent / "train.tsv").write_text("a b\tb a\n", encoding="utf-8")
    assert prepare(recipe).train.key != first.train.key  # type: ignore[union-attr]


def test_a_broken_off_preparation_leaves_nothing(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe(toy, ["data.stream=true", "data.workers=1"])

    def broken(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(streaming, "write_shard", broken)
        with pytest.raises(KeyboardInterrupt):
            prepare(recipe)
    assert list((toy.parent / "cache" / "shards").iterdir()) == []
    assert len(prepare(recipe).train) == len(prepare(load_recipe(toy)).train)


def test_a_training_on_a_stream_resumes_exactly(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "SHARD", 8)
    settings = ["data.stream=true", "data.workers=1", "data.buffer=16", "training.schedule=constant"]
    train(load_recipe(toy, settings), tmp_path / "whole")
    train(load_recipe(toy, [*settings, "training.max_steps=7"]), tmp_path / "broken")
    train(load_recipe(toy, settings), tmp_path / "broken", resumed=True)
    ours, theirs = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "broken"))
    assert ours == theirs


def mixed(toy: Path, **data: Any) -> Path:
    recipe = yaml.safe_load(toy.read_text(encoding="utf-8"))
    del recipe["data"]["train"]
    (toy.parent / "few.jsonl").write_text("".join(f'{{"xx": "e {c}", "zz": "{c} e"}}\n' for c in "abcd"), encoding="utf-8")
    parts = [{"train": "train.tsv", "tag": "<2yy>"}, {"train": "few*.jsonl", "target": "zz", "tag": "<2zz>"}]
    recipe["data"] |= {"mix": parts, "workers": 1} | data
    path = toy.parent / "mixed.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return path


def test_several_corpora_with_tags_and_a_temperature(toy: Path) -> None:
    recipe = load_recipe(mixed(toy, temperature=2.0))
    assert read_recipe(recipe.to_yaml()) == recipe
    found = prepare(recipe)
    assert isinstance(found.train, Shards)
    tokenizer = found.tokenizers.source
    tags = [tokenizer.backend.token_to_id(tag) for tag in ("<2yy>", "<2zz>")]
    assert None not in tags
    window = found.train.window(0, 0)
    firsts = [int(window.pair(number)[0][0]) for number in range(len(window))]
    assert set(firsts) == set(tags)
    assert firsts.count(tags[1]) / len(firsts) == pytest.approx(2 / (2 + 37**0.5), abs=0.02)  # 4 beside 37
    assert found.notes[-1].endswith("24.7% of what is read")


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (["tokenizer.kind=bpe", "tokenizer.dropout=0.1"], "tokenizer.dropout: splits all texts anew"),
        (["data.train=no-*.tsv"], "no such file"),
    ],
)
def test_what_a_stream_cannot_do_is_told(toy: Path, settings: list[str], match: str) -> None:
    with pytest.raises(UserError, match=match):
        prepare(load_recipe(toy, ["data.stream=true", *settings]))


def test_weights_of_some_are_refused(toy: Path) -> None:
    recipe = yaml.safe_load(mixed(toy).read_text(encoding="utf-8"))
    recipe["data"]["mix"][0]["weight"] = 2.0
    (toy.parent / "bad.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    with pytest.raises(UserError, match="either all corpora have a weight or none has"):
        load_recipe(toy.parent / "bad.yaml")


def test_a_manifest_keeps_the_report(toy: Path) -> None:
    recipe = load_recipe(toy, ["data.stream=true", "data.workers=1", "data.clean.max_words=3"])
    found = prepare(recipe)
    [folder] = (toy.parent / "cache" / "shards").iterdir()
    told = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert told["report"]["rules"]["max_words"]["count"] == found.report.rules["max_words"].count > 0


LANGUAGE: dict[str, Any] = {
    "task": {"kind": "language"},
    "data": {"source": "text", "train": "part-*.txt", "valid": "valid.txt", "max_length": 12, "workers": 1},
    "tokenizer": {"kind": "words", "vocab_size": 40},
    "model": {"architecture": "gpt2", "num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2},
    "training": {"max_steps": 3, "batch_tokens": 48, "threads": 1},
}


@pytest.fixture
def running(toy: Path) -> Path:
    """A recipe of single texts in two files."""
    lines = [line.split("\t")[0] for line in (toy.parent / "train.tsv").read_text(encoding="utf-8").splitlines()]
    for name, some in (("part-1", lines[:20]), ("part-2", lines[20:]), ("all", lines), ("valid", lines[:4])):
        (toy.parent / f"{name}.txt").write_text("".join(f"{line}\n" for line in some), encoding="utf-8")
    path = toy.parent / "language.yaml"
    path.write_text(yaml.safe_dump(LANGUAGE), encoding="utf-8")
    return path


def test_single_texts_are_streamed_and_packed(running: Path, tmp_path: Path) -> None:
    whole = prepare(load_recipe(running, ["data.train=" + str(running.parent / "all.txt")]))
    recipe = load_recipe(running, ["data.stream=true"])
    found = prepare(recipe)
    assert isinstance(found.train, Shards)
    assert found.packed
    assert found.train.tokens == whole.train.plain.tokens
    window = found.train.window(0, 0)
    rows = [window.pair(number) for number in range(len(window))]
    assert all(len(ids) == sum(lengths) for ids, lengths in rows)
    assert any(len(lengths) > 1 for _, lengths in rows)
    result = train(recipe, tmp_path / "out")
    assert result.steps == 3


@pytest.mark.parametrize(
    ("settings", "match"),
    [(["task.reading=blocks"], "set task.reading: documents"), (["task.kind=spans"], "data.stream: is for tasks of kind")],
)
def test_texts_that_cannot_be_streamed_are_told(running: Path, settings: list[str], match: str) -> None:
    with pytest.raises(UserError, match=match):
        prepare(load_recipe(running, ["data.stream=true", *settings]))


def test_repeats_are_those_after_the_first() -> None:
    assert streaming.repeats(np.array([5, 3, 5, 5, 3, 1])).tolist() == [False, False, True, True, True, False]


def test_sentences_before_each_in_a_stream(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same examples as in memory, but that shards are documents of their own."""
    monkeypatch.setattr(streaming, "SHARD", 1000)
    settings = ["data.context=2", "data.workers=1"]
    whole, found = (prepare(load_recipe(toy, [*settings, *more])) for more in ([], ["data.stream=true"]))
    assert found.facts == whole.facts == {"context": {"sentences": 2, "tokens": 256}}
    assert texts(found.train.window(0, 0), found.tokenizers) == texts(whole.train.plain, whole.tokenizers)
    assert found.train.tokens == whole.train.plain.tokens > prepare(load_recipe(toy)).train.plain.tokens
    assert prepare(load_recipe(toy, ["data.stream=true", "data.workers=1"])).train.key != found.train.key

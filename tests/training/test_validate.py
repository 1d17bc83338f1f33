"""Looks at a model while it trains."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regard.layers import kernels
from regard.text.corpus import Pair
from regard.training.loop import steps
from regard.training.prepare import prepare
from regard.training.recipe import Recipe, load_recipe
from regard.training.run import Run
from regard.training.validate import Look, judge, look, spread, translator_of


def test_a_look_judges_the_original_lines(toy_recipe: Recipe, tmp_path: Path) -> None:
    """S-LOSS-05: what is scored are the lines of the file, never ids with an ignored value among them."""
    prepared = prepare(toy_recipe)
    run = Run(toy_recipe, prepared, tmp_path)
    with run.in_use() as model:
        seen = look(model, toy_recipe, prepared)
        texts, scores = judge(model, toy_recipe, prepared, prepared.valid_pairs)
    assert len(texts) == len(prepared.valid_pairs) == 6
    assert seen.loss > 0
    assert 0 <= seen.token_accuracy <= 1
    source, _, reference = seen.samples[0]
    assert reference == " ".join(reversed(source.split()))
    assert scores["chrf"].value >= 0


def test_a_look_leaves_no_trace(toy_recipe: Recipe, tmp_path: Path) -> None:
    prepared = prepare(toy_recipe)
    run = Run(toy_recipe, prepared, tmp_path)
    random = torch.get_rng_state()
    with run.in_use() as model:
        look(model, toy_recipe, prepared)
        torch.rand(3)
    assert torch.equal(random, torch.get_rng_state())
    assert run.plain.training


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
def test_a_look_sees_the_weights_of_its_update(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str
) -> None:
    """What is kept of an output weight from one look is not used in the next: fused optimisers do not count updates."""
    recipe = load_recipe(toy, [f"training.optimizer={optimizer}", "training.learning_rate=0.1"])
    prepared = prepare(recipe)
    run = Run(recipe, prepared, tmp_path)
    monkeypatch.setattr(kernels, "OUTPUTS", 1)
    with run.in_use() as model:
        first = judge(model, recipe, prepared, prepared.valid_pairs)[0]
    for _ in zip(range(3), steps(run)):
        pass
    with run.in_use() as model:
        found = judge(model, recipe, prepared, prepared.valid_pairs)[0]
        monkeypatch.setattr(kernels, "OUTPUTS", 10**9)
        assert found == judge(model, recipe, prepared, prepared.valid_pairs)[0]
    assert found != first


def test_perfect_output_scores_hundred(toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S-LOSS-06: scores are of text, put together from tokens."""
    from regard.translator import Translator

    def oracle(self: Translator, texts: list[str], **options: object) -> list[str]:
        return [" ".join(reversed(text.split())) for text in texts]

    monkeypatch.setattr(Translator, "translate", oracle)
    prepared = prepare(toy_recipe)
    run = Run(toy_recipe, prepared, tmp_path)
    _, scores = judge(run.plain, toy_recipe, prepared, prepared.test_pairs)
    assert scores["chrf"].value == 100.0


def test_sentences_are_taken_evenly() -> None:
    pairs = [Pair(f"{number}", "x", number) for number in range(10)]
    assert [pair.source for pair in spread(pairs, 5)] == ["0", "2", "4", "6", "8"]
    assert spread(pairs, 100) == pairs
    twice = [Pair("a", "x", 1), Pair("a", "y", 2), Pair("b", "z", 3)]
    assert len(spread(twice, 1)) == 2


def test_the_monitored_value_is_better_when_larger() -> None:
    assert Look(2.0, 0.5).value("loss") > Look(3.0, 0.5).value("loss")
    assert Look(2.0, 0.5).entry(7) == {"step": 7, "valid_loss": 2.0, "valid_token_accuracy": 0.5}


def test_the_end_is_judged_with_sentences_before_each(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.training.recipe import load_recipe
    from regard.translator import Translator

    asked: list[object] = []

    def told(self: Translator, texts: list[str], **options: object) -> list[str]:
        asked.append(options["context"])
        return [f"{text} {number}" for number, text in enumerate(texts)]

    recipe = load_recipe(toy, ["data.context=1", "search.replace_unknown=true"])
    prepared = prepare(recipe)
    run = Run(recipe, prepared, tmp_path)
    assert run.meta()["context"] == {"sentences": 1, "tokens": 256}
    assert translator_of(run.plain, recipe, prepared).replaces_unknown
    monkeypatch.setattr(Translator, "translate", told)
    twice = [Pair("a", "x", 1), Pair("a", "y", 2)]
    texts, _ = judge(run.plain, recipe, prepared, twice, greedy=False)
    assert (texts, asked) == (["a 0", "a 1"], [1])
    judge(run.plain, recipe, prepared, twice)
    assert asked[-1] == 0

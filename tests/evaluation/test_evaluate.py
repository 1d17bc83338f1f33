"""A whole evaluation with a translator that knows its answers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sacrebleu.metrics.bleu import BLEU

from regard.errors import UserError
from regard.evaluation.evaluate import Evaluating, evaluate, evaluate_lines
from regard.evaluation.scores import Scoring
from regard.evaluation.task import Task


class Letters:
    """A tokenizer of small letters."""

    pad, unk, bos, eos = 0, 1, 2, 3

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [[4 + "abcdefgh".index(letter) for letter in text] for text in texts]


class Fixed(torch.nn.Module):
    """A model that believes in "a" always, with probability nearly one."""

    device = torch.device("cpu")
    decoder = SimpleNamespace(limit=4)

    def forward(self, inputs: torch.Tensor, outputs: torch.Tensor, **layouts: Any) -> Any:
        logits = torch.zeros(*outputs.shape, 12)
        logits[..., 4] = 20.0
        return SimpleNamespace(logits=logits)


class Told:
    """A translator that says what it was told, and remembers how it was asked."""

    model, tokenizers = Fixed(), SimpleNamespace(source=Letters(), target=Letters())

    def __init__(self, answers: list[str]) -> None:
        self.answers, self.asked = answers, []

    def fits(self, text: str) -> bool:
        """Whether it has five letters at most."""
        return len(text) <= 5

    def translate(self, texts: list[str], **search: Any) -> list[str]:
        self.asked.append((texts, search))
        return self.answers[: len(texts)]


TASK = Task([["The boats are in the harbour.", "A dog runs."]], ["s one", "s two"], "xx", "en")


def test_translations_are_written_before_they_are_scored(tmp_path: Path) -> None:
    translator = Told(["The boats are in the harbour.", "A dog\nran."])
    options = Evaluating(("bleu", "exact_match"), search={"num_beams": 4}, output=tmp_path / "out", batch_tokens=99)
    found = evaluate(translator, TASK, options)
    assert translator.asked == [(["s one", "s two"], {"num_beams": 4, "batch_tokens": 99})]
    assert (tmp_path / "out").read_text(encoding="utf-8") == "The boats are in the harbour.\nA dog ran.\n"
    assert found.translations == ["The boats are in the harbour.", "A dog ran."]
    assert found.scores["bleu"].value == BLEU().corpus_score(found.translations, TASK.references).score
    assert found.scores["exact_match"].value == 50
    assert any(found.scores["bleu"].signature in line for line in found.lines())
    assert json.loads(json.dumps(found.json()))["scores"]["exact_match"]["value"] == 50


def test_s_loss_07_a_failing_score_leaves_the_translations_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S-LOSS-07: whatever goes wrong while scoring, what was translated is there."""
    calls = []

    def breaks(*arguments: Any, **more: Any) -> Any:
        calls.append(arguments)
        if len(calls) > 1:
            raise RuntimeError("scoring broke")
        return {}

    monkeypatch.setattr("regard.evaluation.evaluate.score", breaks)
    with pytest.raises(RuntimeError, match="scoring broke"):
        evaluate(Told(["a", "b"]), TASK, Evaluating(output=tmp_path / "out"))
    assert (tmp_path / "out").read_text(encoding="utf-8") == "a\nb\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Evaluating(("rouge",)), "unknown metric"),
        (Evaluating(scoring=Scoring(tokenize="moses")), "unknown tokenizer"),
        (Evaluating(output="missing/folder/out"), "no folder"),
    ],
)
def test_mistakes_are_found_before_translating(options: Evaluating, message: str) -> None:
    translator = Told(["a", "b"])
    with pytest.raises(UserError, match=message):
        evaluate(translator, TASK, options)
    assert not translator.asked


def test_pairs_that_the_model_cannot_read_whole_are_left_out_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    task = Task([["aa", "bb", "aaaa"]], ["ab", "abcdefgh", "ab"])
    found = evaluate(Told(["aa", "bb", "cc"]), task, Evaluating(("loss",)))
    assert found.scores["loss"].extra["tokens"] == 3
    assert caplog.messages == ["2 of 3 pairs are longer than the model reads; perplexity, loss and accuracy leave them out"]
    with pytest.raises(UserError, match="no pair is short enough"):
        evaluate(Told(["aa"]), Task([["aaaa"]], ["ab"]), Evaluating(("loss",)))


def test_the_model_itself_is_asked_for_perplexity_and_accuracy() -> None:
    task = Task([["aa", "ab"]], ["a", "b"])
    found = evaluate(Told(["aa", "bb"]), task, Evaluating(("perplexity", "token_accuracy", "exact_match", "loss")))
    assert list(found.scores) == ["perplexity", "token_accuracy", "exact_match", "loss"]
    assert found.scores["token_accuracy"].value == pytest.approx(50)
    assert found.scores["loss"].value == pytest.approx(10, abs=1e-3)
    assert found.scores["loss"].extra == {"tokens": 6}


def test_chinese_targets_are_scored_by_character() -> None:
    task = Task([["我们去公园散步。"]], ["x"], None, "zh")
    assert "tok:zh" in evaluate(Told(["我们去公园。"]), task).scores["bleu"].signature


def test_lines_of_another_system_are_scored_alike() -> None:
    texts = ["The boats are here.", "A dog runs."]
    assert evaluate_lines(texts, TASK).scores == evaluate(Told(texts), TASK).scores
    lower = evaluate_lines(texts, TASK, Evaluating(("exact_match",), finish=str.upper))
    assert lower.scores["exact_match"].value == 0
    assert lower.translations[1] == "A DOG RUNS."
    with pytest.raises(UserError, match="needs a model"):
        evaluate_lines(texts, TASK, Evaluating(("perplexity",)))
    with pytest.raises(UserError, match=r"1 sentences .* 2 lines"):
        evaluate_lines(["a"], TASK)


def test_without_sources_there_is_nothing_to_translate() -> None:
    with pytest.raises(UserError, match="nothing to translate"):
        evaluate(Told([]), Task([["a"]]))

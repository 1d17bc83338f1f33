"""The log of a run and its picture."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

import pytest

from regard.training.journal import Journal, draw, read_log


def entry(step: int) -> dict[str, float]:
    return {"step": step, "loss": 5.0 / step, "learning_rate": 1e-3, "source_per_second": 1.0, "target_per_second": 2.0}


def test_a_log_goes_back_to_where_a_run_goes_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 0, bar=False, tensorboard=False)
    for step in (10, 20, 30):
        journal.write(entry(step))
    journal.close()
    again = Journal(tmp_path, 20, bar=False, tensorboard=False)
    again.write(entry(30) | {"loss": 1.0})
    again.close()
    assert [(e["step"], e["loss"]) for e in read_log(tmp_path)] == [(10, 0.5), (20, 0.25), (30, 1.0)]


def test_every_line_of_the_log_is_json(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 0, bar=False, tensorboard=False)
    journal.write(entry(10) | {"note": "żółć"})
    journal.close()
    lines = (tmp_path / "log.jsonl").read_text(encoding="utf-8").split("\n")
    assert json.loads(lines[0])["note"] == "żółć"
    assert lines[1:] == [""]


def test_the_curve_is_drawn(tmp_path: Path) -> None:
    assert draw(tmp_path) is None
    journal = Journal(tmp_path, 0, bar=False, tensorboard=False)
    for step in (10, 20):
        journal.write(entry(step))
    journal.write({"step": 20, "valid_loss": 0.4, "valid_bleu": 12.0})
    journal.close()
    picture = draw(tmp_path)
    assert picture is not None
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_tensorboard_has_the_same_figures(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    journal = Journal(tmp_path, 0, bar=False, tensorboard=True)
    journal.write(entry(10))
    journal.write({"step": 10, "valid_bleu": 12.0})
    journal.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.value for event in events.Scalars("loss")] == [0.5]
    assert [event.value for event in events.Scalars("valid/bleu")] == [12.0]


def test_a_line_that_was_cut_off_is_no_entry(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 0, bar=False, tensorboard=False)
    journal.write(entry(10))
    journal.close()
    with (tmp_path / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 20, "lo')
    assert [e["step"] for e in read_log(tmp_path)] == [10]
    again = Journal(tmp_path, 20, bar=False, tensorboard=False)
    again.write(entry(20))
    again.close()
    assert [e["step"] for e in read_log(tmp_path)] == [10, 20]


def test_an_evaluation_that_the_checkpoint_does_not_know_goes(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 0, bar=False, tensorboard=False)
    for step in (10, 20):
        journal.write(entry(step))
        journal.write({"step": step, "valid_loss": 1.0})
    journal.close()
    Journal(tmp_path, 20, bar=False, tensorboard=False, seen=10).close()
    assert [(e["step"], "loss" in e) for e in read_log(tmp_path)] == [(10, True), (10, False), (20, True)]


def test_readers_may_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What watches a training may end before it: that is not the training's end."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as closed:
        monkeypatch.setattr(sys, "stderr", closed)
        journal = Journal(tmp_path, 0, bar=False, tensorboard=False)
        journal.say("nobody reads this")
        journal.write(entry(10))
        journal.show(0.5, entry(10))
        journal.close()
        monkeypatch.undo()
        with contextlib.suppress(BrokenPipeError):
            closed.close()
    assert [e["step"] for e in read_log(tmp_path)] == [10]

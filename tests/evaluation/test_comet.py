"""COMET where it is there, and one clear word where it is not."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from regard.errors import UserError
from regard.evaluation.comet import Comet
from regard.evaluation.compare import Comparing, compare

REFERENCES = [f"a b c {n}" for n in range(30)]
BAD, GOOD = [f"a x {n}" for n in range(30)], [f"a b c {n % 29}" for n in range(30)]


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A package `comet` whose model counts shared words, and what it was asked."""
    asked: list[Any] = []

    class Judge:
        def predict(self, data: list[dict[str, str]], **how: Any) -> Any:
            asked.append((data, how))
            return SimpleNamespace(scores=[len({*row["mt"].split()} & {*row["ref"].split()}) / 4 for row in data])

    made: Any = ModuleType("comet")
    made.__spec__ = ModuleSpec("comet", None)
    made.load_from_checkpoint = lambda path: asked.append(path) or Judge()
    monkeypatch.setitem(sys.modules, "comet", made)
    return asked


def test_without_the_package_or_the_checkpoint_one_line_says_so(tmp_path: Path, package: Any, monkeypatch: Any) -> None:
    with pytest.raises(UserError, match="there is no COMET checkpoint here"):
        Comet(str(tmp_path))
    monkeypatch.delitem(sys.modules, "comet")
    with pytest.raises(UserError, match="pip install unbabel-comet"):
        Comet(str(tmp_path))


def test_judgements_are_tested_like_the_other_metrics(tmp_path: Path, package: list[Any]) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "model.ckpt").write_bytes(b"x")
    options = Comparing(("comet",), samples=200, seed=3, comet=Comet(str(tmp_path)))
    (test,) = compare([REFERENCES], BAD, GOOD, [f"s {n}" for n in range(30)], options=options).tests
    one, two = (np.array([len({*a.split()} & {*b.split()}) / 4 for a, b in zip(texts, REFERENCES)]) for texts in (BAD, GOOD))
    assert test.first.score == pytest.approx(100 * one.mean())
    assert test.difference == pytest.approx(100 * (two.mean() - one.mean()))
    assert test.low < test.difference < test.high
    assert max(test.p_value, test.p_randomised) < 0.01
    assert package[0] == str(tmp_path / "checkpoints" / "model.ckpt")
    assert package[1][0][4] == {"src": "s 4", "mt": BAD[4], "ref": REFERENCES[4]}
    (same,) = compare([REFERENCES], BAD, BAD, REFERENCES, options=options).tests
    assert (same.difference, same.p_randomised > 0.5) == (0, True)
    with pytest.raises(UserError, match="COMET reads the sources too"):
        compare([REFERENCES], BAD, GOOD, options=options)

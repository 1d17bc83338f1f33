"""regard plan, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard import cli
from regard.training import plan


class Told:
    def lines(self) -> list[str]:
        return ["parameters  1,234"]

    def json(self) -> dict[str, Any]:
        return {"parameters": 1234}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, int]]:
    calls: list[tuple[Any, int]] = []
    monkeypatch.setattr(plan, "plan", lambda recipe, count: calls.append((recipe, count)) or Told())
    return calls


def test_the_recipe_and_its_settings_reach_the_plan(
    asked: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plan.json"
    settings = ["output=ignored", "training.batch_tokens=777", "--steps", "2", "--json", str(out)]
    assert cli.main(["plan", "multi30k-en-fr", *settings]) == 0
    assert capsys.readouterr().out == "parameters  1,234\n"
    assert json.loads(out.read_text(encoding="utf-8")) == {"parameters": 1234}
    assert (asked[0][0].training.batch_tokens, asked[0][1]) == (777, 2)


def test_json_on_stdout_stands_alone(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "multi30k-en-fr", "--json", "-"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {"parameters": 1234}
    assert "1,234" in said.err


def test_an_unknown_recipe_is_one_line(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "no-such-recipe"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not asked

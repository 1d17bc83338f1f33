"""The one error for a user's mistake."""

from __future__ import annotations

import pytest

from regard import cli
from regard.errors import UserError


def test_a_users_mistake_is_one_line_and_exit_code_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def mistaken(verb: str, rest: list[str]) -> int:
        raise UserError("data.tsv:3: no tab; a line is SOURCE, a tab, TARGET")

    monkeypatch.setattr(cli, "_run", mistaken)
    assert cli.main(["info", "somewhere"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "regard: error: data.tsv:3: no tab; a line is SOURCE, a tab, TARGET\n"


def test_what_a_stranger_wrote_stays_one_line() -> None:
    """Names in files are told in messages: no line end, and nothing that a terminal would obey, gets through."""
    shown = str(UserError("config.json: model_type is a\nb\x1b[31m \u2028 żółć 你好 ' \ud800"))
    assert shown == "config.json: model_type is a\\nb\\x1b[31m \\u2028 żółć 你好 ' \\ud800"

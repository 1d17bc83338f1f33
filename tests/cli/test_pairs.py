"""regard pairs: text in one language becomes pairs to learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from regard import cli, translator
from regard.text.corpus import open_corpus
from regard.translator import Translation

LINES = ["un chien", "", "silence", "cut\u2028here", "tab\there", "deux"]


class Upper:
    """Translates into capitals; some words go wrong."""

    meta: ClassVar[dict[str, Any]] = {"source": "fr", "target": "en"}
    asked: Any = None

    def stream(self, texts: list[str], **options: Any) -> Any:
        type(self).asked = options
        for text in texts:
            flags = ["repetition"] if "deux" in text else []
            yield Translation(text, "" if text == "silence" else text.upper(), 0.0, 0.0, flags=flags)


@pytest.fixture
def mono(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(translator, "load", lambda *given: Upper())
    (tmp_path / "mono").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8", newline="\n")
    return str(tmp_path / "mono")


def test_back_translation_with_a_tag(mono: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["pairs", "folder", "-i", mono, "-o", str(tmp_path / "bt.tsv"), "--back", "--tag", "<BT>"]
    assert cli.main([*arguments, "--sample", "--top-k", "10", "--seed", "3"]) == 0
    assert Upper.asked == {"details": True, "workers": 1, "sample": True, "top_k": 10, "seed": 3}
    assert (tmp_path / "bt.tsv").read_text(encoding="utf-8").split("\n") == [
        "<BT> UN CHIEN\tun chien",
        "<BT> CUT\u2028HERE\tcut\u2028here",
        "<BT> TAB HERE\ttab here",
        "",
    ]
    assert "3 pairs of 6 lines" in (said := capsys.readouterr().err)
    assert "left out: 1 blank, 1 empty, 1 repetition" in said
    assert open_corpus(str(tmp_path / "bt.tsv"), "en", "fr")[0].target == "un chien"


def test_distillation_into_two_files(mono: str, tmp_path: Path) -> None:
    assert cli.main(["pairs", "folder", "-i", mono, "-o", str(tmp_path / "d"), "--keep-all", "--mbr", "chrf"]) == 0
    assert Upper.asked == {"details": True, "workers": 1, "mbr": "chrf"}
    assert (tmp_path / "d.fr").read_text(encoding="utf-8").split("\n")[-2] == "deux"
    assert (tmp_path / "d.en").read_text(encoding="utf-8").split("\n")[-2] == "DEUX"


def test_mistakes(mono: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more, message in (
        (["-o", str(tmp_path / "x.tsv"), "--tag", "a b"], "--tag is one symbol without spaces"),
        (["-o", str(tmp_path / "x.csv")], "is written as .tsv"),
    ):
        assert cli.main(["pairs", "folder", "-i", mono, *more]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "x.tsv").exists()

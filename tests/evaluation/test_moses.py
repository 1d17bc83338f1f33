"""The published scale of Multi30k: word counts as published with the data set."""

from __future__ import annotations

import builtins
import gzip
from pathlib import Path
from typing import Any

import pytest

from regard.errors import UserError
from regard.evaluation.moses import Moses

PUBLISHED = {
    ("test_2016_flickr", "de"): (12103, 70777),
    ("test_2016_flickr", "fr"): (13988, 75145),
    ("test_2016_flickr", "en"): (12968, 63307),
    ("test_2016_flickr", "cs"): (10497, 56324),
    ("val", "de"): (12828, None),
    ("val", "fr"): (14381, None),
    ("val", "en"): (13308, None),
}
"""Words (the data set's README) and characters of the published lc.norm.tok files."""


@pytest.mark.parametrize(("split", "language"), PUBLISHED)
def test_the_published_files_are_made_from_raw(data_root: Path, split: str, language: str) -> None:
    with gzip.open(data_root / "multi30k" / f"{split}.{language}.gz", "rt", encoding="utf-8", newline="\n") as file:
        made = Moses(language).lines(line.rstrip("\n") for line in file)
    words, characters = PUBLISHED[split, language]
    assert sum(len(str(line).split()) for line in made) == words
    assert characters in (None, sum(len(str(line)) + 1 for line in made))


@pytest.mark.parametrize(
    ("language", "raw", "published"),
    [
        ("fr", "Un Boston Terrier court sur l'herbe verdoyante.", "un boston terrier court sur l&apos; herbe verdoyante ."),
        ("en", "A man's dog.", "a man &apos;s dog ."),
        ("de", 'Ein Boot namens "El Corazon".', "ein boot namens &quot; el corazon &quot; ."),
        ("fr", "l’homme", "l&apos; homme"),
        ("en", "“Hi” …", "&quot; hi &quot; ..."),
    ],
)
def test_the_scale_of_a_line(language: str, raw: str, published: str) -> None:
    assert Moses(language)(raw) == published


def test_the_scale_keeps_missing_references_and_one_line_a_line() -> None:
    assert Moses("en").lines(["A\u2028B.", None]) == ["a b .", None]


def test_without_sacremoses_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("sacremoses"):
            raise ImportError(name)
        return genuine(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(UserError, match=r"pip install 'regard\[moses\]'"):
        Moses("de")

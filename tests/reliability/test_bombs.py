"""Small documents that cost hours: answered within the same few seconds as any other of their size."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # benchmarks are no installed package

from benchmarks.fuzz import Reader, fed

from regard.documents import LOOKS, DocumentJob
from regard.text.formats.document import MARK
from regard.text.kept import KINDS, find, pattern, put_back, take_out

SIZE = 80_000
"""Characters; what looks at each of them for each of them takes minutes."""


def times(text: str, size: int = SIZE) -> str:
    """The text over and over."""
    return text * (size // len(text))


CUE = "1\n00:00:01,000 --> 00:00:02,000\n{}\n"
HEAD = 'msgid ""\nmsgstr "Plural-Forms: nplurals={};"\n\n'
DOCUMENTS = {
    "openings, and closings of others": ("html", times("<b>") + "a" + times("</i>")),
    "a mark for each letter": ("html", "<p>" + times("a<br>")),
    "marks before a letter": ("html", "<p>" + times("<br>") + "a"),
    "marks behind a letter": ("html", "<p>a" + times("<br> ")),
    "nested tags": ("html", times("<b>", 60_000) + "a" + times("</b>", 80_000)),
    "comments without end": ("html", times("<!-- > ")),
    "comments before a letter": ("html", "<p>" + times("<!-- x --> ") + "a"),
    "closings without end": ("html", times("</a")),
    "openings without end": ("html", times("<a ")),
    "sections that are none": ("html", times("<![x[ ") + ">"),
    "references without number": ("html", times("&#") + "; a"),
    "a reference of many digits": ("html", "&#" + times("9") + "; a"),
    "a tag that says it is a description": ("html", "<meta " + times("name=description ") + ">"),
    "a tag without end": ("srt", CUE.format("<" + times("a"))),
    "a cue of many lines": ("srt", CUE.format(times("<i>wo rd</i>\n"))),
    "a cue of many speakers": ("srt", CUE.format(times("- a word\n"))),
    "a name of a tag": ("markdown", "a <" + times("a") + ' b=">">x'),
    "footnotes without end": ("markdown", times("[^", 30_000)),
    "brackets": ("markdown", times("[", 20_000)),
    "links that are none": ("markdown", times("[a](b ", 60_000)),
    "stars": ("markdown", times("*a ", 30_000)),
    "line ends": ("po", HEAD.format(2) + 'msgid "a' + times("\\n") + 'b"\nmsgstr ""\n'),
    "a text of many strings": ("po", HEAD.format(2) + 'msgid ""\n' + times('"ab"\n') + 'msgstr ""\n'),
    "many plural forms": ("po", HEAD.format(times("9")) + 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\n'),
    "roles without end": ("po", HEAD.format(2) + 'msgid "' + times(":a") + '"\nmsgstr ""\n'),
    "an address without end": ("text", times("a")),
    "a variable without end": ("text", "a %" + times("0")),
    "many addresses": ("text", times("a@b.c ")),
}


def upper(job: DocumentJob) -> Any:
    """Answers that have lost their marks."""
    asked = job.job.sources
    shown = {"flags": (), "truncated": False, "unknown": 0, "finished": True, "unkept": ()}
    return job.finish([SimpleNamespace(text=MARK.sub("", text).upper(), **shown) for text in asked])


def told(work: Callable[[], Any]) -> tuple[str, str]:
    """What the fuzzer says of a call."""
    return fed(Reader(lambda folder: None, [], lambda folder: work()), Path())


@pytest.mark.parametrize("name", list(DOCUMENTS))
def test_documents(name: str) -> None:
    format, text = DOCUMENTS[name]
    assert told(lambda: upper(DocumentJob.of(text, format, "no", True)))[0] != "crash"


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("letter", ["a", "0", ".", "<", "{", "%", "%(", "`", "http://", "@", "a@", "a.", "<a", "${", "\\"])
def test_what_is_kept_is_found_at_once(kind: str, letter: str) -> None:
    text = "%" + times(letter)
    assert told(lambda: find(text, pattern([kind])))[0] == "read"


def test_tags_are_put_back_whatever_their_number() -> None:
    """Nested deeper than Python calls, and more than there are words."""
    source = times("<b>", 30_000) + "one two" + times("</b>", 40_000) + times(" word<br>", 60_000)
    plain, outs = take_out(source, find(source, pattern(["tags"])))
    made: list[str] = []
    assert told(lambda: made.append(put_back(plain, outs, plain.upper(), [])))[0] == "read"
    assert made[0].count("<b>") == made[0].count("</b>") == 10_000


def test_documents_that_every_translation_would_change() -> None:
    """The source stays and that is said; the document is not read again for each of thousands of passages."""

    asked: list[str] = []

    def changed(text: str) -> bool:
        asked.append(text)
        return True

    job = DocumentJob.of("".join(f"line {number} has words\n" for number in range(3000)), "text", "no")
    job.document.changed = changed  # type: ignore[method-assign]
    found = upper(job)
    assert found.text == job.document.source
    assert all("layout" in passage.flags for passage in found.passages)
    assert len(asked) <= LOOKS

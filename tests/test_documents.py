"""Whole documents through a translator of sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from regard.documents import DocumentJob, Job, translate_document, translate_long
from regard.errors import UserError
from regard.text.kept import find, pattern, put_back, take_out
from regard.translator import Translation


class Echo:
    """Translates a sentence into itself, or by `say`; marks and what is kept are taken out and put back, as a model does."""

    def __init__(self, say: Any = lambda text: text, limit: int = 200) -> None:
        self.say, self.limit = say, limit
        self.meta = {"source": "en"}
        self.asked: list[str] = []
        self.options: dict[str, Any] = {}

    def fits(self, text: str) -> bool:
        return len(text) <= self.limit

    def translate(
        self, texts: Sequence[str], *, details: bool, keep: Sequence[str] = (), **options: Any
    ) -> list[Translation]:
        self.asked += texts
        self.options = options
        return [self._one(text, keep) for text in texts]

    def _one(self, text: str, keep: Sequence[str]) -> Translation:
        plain, outs = take_out(text, find(text, pattern(keep))) if keep else (text, [])
        said = self.say(plain.strip())
        count = min(len(plain.split()), len(said.split()))
        made = put_back(plain, outs, said, [(n, n) for n in range(count)])
        return Translation(text, made, -0.5, -1.0, flags=["repetition"] if "loop" in text else [])


PAGES = {
    "text": "Title\n\n  Mr. Smith came.  He left. \n",
    "markdown": "# A *title*\n\n- One [link](u). Two `code`.\n\n| a | b |\n|---|---|\n| c | **d** |\n",
    "html": "<h1>A <b>title</b></h1><p><b>One. Two <i>three</i>.</b> Four&nbsp;!</p><ul><li>你好。<li>x</ul>",
    "srt": "1\n00:00:01,000 --> 00:00:02,000\nA man who\n\n2\n00:00:03,000 --> 00:00:04,000\nis <i>old</i>. He left.\n",
    "vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\n<v A>Hello. You.</v>\n",
}


@pytest.mark.parametrize("split", ["sentences", "no"])
@pytest.mark.parametrize("name", PAGES)
def test_the_same_in_other_words_gives_the_same_document(name: str, split: Any) -> None:
    for lead in ("", "\ufeff"):
        text = lead + PAGES[name]
        found = translate_document(Echo(), text, name, split=split)
        assert found.text == text
        assert all(not passage.flags for passage in found.passages)


def test_sentences_are_asked_one_by_one_and_each_once() -> None:
    echo = Echo(str.upper)
    found = translate_document(echo, "One dog. Two dogs.\n\nOne dog.\n12\n", "text")
    assert echo.asked == ["One dog.", "Two dogs."]
    assert found.text == "ONE DOG. TWO DOGS.\n\nONE DOG.\n12\n"
    assert [passage.text for passage in found.passages] == ["ONE DOG. TWO DOGS.", "ONE DOG."]
    echo = Echo(str.upper)
    translate_document(echo, "One dog. Two dogs.", "text", split="no")
    assert echo.asked == ["One dog. Two dogs."]


def test_marks_around_sentences_are_not_shown_to_the_model() -> None:
    job = DocumentJob.of("<p><b>One dog. Two <i>big</i> dogs.</b> <img src=x></p>", "html")
    assert job.job.sources == ["One dog.", "Two <g2>big</g2> dogs."]
    [row] = job.job.units
    assert [(unit.before, unit.after) for unit in row] == [("<g1>", " "), ("", "</g1> <x3/>")]


def test_tags_follow_their_words() -> None:
    def turned(text: str) -> str:
        return " ".join(reversed(text.rstrip(".").split())) + "."

    echo = Echo(turned)
    echo._one = lambda text, keep: Translation(text, "dogs <g1>big</g1> Two.", 0.0, 0.0)  # type: ignore[method-assign]
    assert translate_document(echo, "<p>Two <b>big</b> dogs.</p>", "html").text == "<p>dogs <b>big</b> Two.</p>"


def test_what_loses_marks_gets_them_back_and_is_flagged() -> None:
    echo = Echo()
    echo._one = lambda text, keep: Translation(text, "Deux chiens.", 0.0, 0.0)  # type: ignore[method-assign]
    found = translate_document(echo, "<p>Two <b>big</b> dogs.</p>", "html")
    assert found.passages[0].flags == ["kept-guessed"]
    assert sorted(found.text) == sorted("<p>Deux <b></b>chiens.</p>")


def test_a_translation_that_would_break_the_document_is_left_out() -> None:
    """Of many passages one would begin a new cue."""
    page = "".join(f"{n}\n00:00:0{n},000 --> 00:00:0{n},500\nText {'bad' if n == 3 else 'good'}.\n\n" for n in range(1, 8))
    breaking = "00:00:09,000 --> 00:00:09,500 Ha"
    echo = Echo(lambda text: breaking if "bad" in text else text.upper())
    found = translate_document(echo, page, "srt", split="no")
    assert found.text == page.replace("Text good", "TEXT GOOD")
    assert [n for n, one in enumerate(found.passages) if "layout" in one.flags] == [2]
    assert found.passages[2].text == "Text bad."


def test_an_empty_translation_leaves_the_source() -> None:
    found = translate_document(Echo(lambda text: ""), "<p>Two <b>dogs</b>.</p>", "html")
    assert found.text == "<p>Two <b>dogs</b>.</p>"


def test_doubtful_entries_of_a_catalogue_are_fuzzy() -> None:
    pytest.importorskip("polib")
    page = 'msgid "a loop"\nmsgstr ""\n\nmsgid "a dog %s"\nmsgstr ""\n'
    echo = Echo(str.upper)
    found = translate_document(echo, page, "po")
    assert found.text == '#, fuzzy\nmsgid "a loop"\nmsgstr "A LOOP"\n\nmsgid "a dog %s"\nmsgstr "A DOG %s"\n'
    assert echo.options == {"confidence": True}


def test_long_texts_keep_their_blank_lines_s_data_02() -> None:
    echo = Echo(str.upper)
    texts = ["  One dog. Two dogs.\n\nThree. ", "", " ", "12 34", "One dog."]
    found = translate_long(echo, texts)
    assert [one.text for one in found] == ["  ONE DOG. TWO DOGS.\n\nTHREE. ", "", " ", "12 34", "ONE DOG."]
    assert echo.asked == ["One dog.", "Two dogs.", "Three."]
    assert [len(one.sentences) for one in found] == [3, 0, 0, 0, 1]
    assert found[0].json()["sentences"][0]["text"] == "ONE DOG."
    assert found[0].finished
    assert not found[0].truncated
    assert found[0].unkept == []
    assert found[0].unknown == 0


def test_what_the_model_cannot_read_at_once_is_cut() -> None:
    echo = Echo(limit=12)
    assert translate_long(echo, ["one two three four five six"])[0].text == "one two three four five six"
    assert max(map(len, echo.asked)) <= 12


def test_mistakes() -> None:
    with pytest.raises(UserError, match="split is 'words', should be sentences or no"):
        Job.of(["x"], "words")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="there is no format 'doc'"):
        translate_document(Echo(), "x", "doc")


def test_with_sentences_before_each_is_asked_for_in_order() -> None:
    """Repeated sentences are asked for again, for what stands before them differs; blank lines end a document."""
    echo = Echo(str.upper)
    found = translate_document(echo, "One dog. Two dogs.\n\nOne dog.\n12\n", "text", context=2)
    assert echo.asked == ["One dog.", "Two dogs.", "One dog."]
    assert echo.options["context"] == 2
    assert found.text == "ONE DOG. TWO DOGS.\n\nONE DOG.\n12\n"
    echo = Echo(str.upper)
    passages = translate_long(echo, ["One dog. Two.", "", "One dog.", " "], context=1)
    assert echo.asked == ["One dog.", "Two.", "", "One dog.", ""]
    assert [passage.text for passage in passages] == ["ONE DOG. TWO.", "", "ONE DOG.", " "]
    turns = iter(range(9))
    numbered = Echo(lambda text: f"{text} {next(turns)}")
    assert translate_document(numbered, "<p>One dog. One dog.</p>", "html", context=1).text == "<p>One dog. 0 One dog. 1</p>"

"""Subtitles."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.formats.subtitles import LONGEST, read_srt, read_vtt

SRT = """1
00:00:01,000 --> 00:00:02,500
{\\an8}<i>Two dogs</i> are running.

2
00:00:03,000 --> 00:00:04,000
- Who is that?
- A man & a dog.

3
00:00:05,000 --> 00:00:06,000
I would like to go

4
00:00:06,500 --> 00:00:08,000 X1:10 X2:20
to the park with
<b>my dog</b>.

5
00:00:09,000 --> 00:00:10,000

6
00:00:11,000 --> 00:00:12,000
♪ 123 ♪

7
00:00:13,000 --> 00:00:14,000
你好，世界。
再见
"""
VTT = """WEBVTT - A title

NOTE this is
a note

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v Anna>Hello &amp; good day</v>

00:03.000 --> 00:04.000
A <00:03.500>word &lt;here&gt;
"""


def test_cues_are_segments() -> None:
    assert [one.text for one in read_srt(SRT).segments] == [
        "<x1/><g2>Two dogs</g2> are running.",
        "Who is that?",
        "A man & a dog.",
        "I would like to go <x1/>to the park with <g2>my dog</g2>.",
        "你好，世界。 再见",
    ]
    assert [one.text for one in read_vtt(VTT).segments] == ["<g1>Hello & good day</g1>", "A <x1/>word <here>"]


@pytest.mark.parametrize(("text", "read"), [(SRT, read_srt), (VTT, read_vtt)])
def test_a_file_comes_back_byte_for_byte(text, read) -> None:
    for file in (text, text.replace("\n", "\r\n"), text.rstrip("\n")):
        document = read(file)
        assert document.write([None] * len(document.segments)) == file
        assert document.write([one.text for one in document.segments]) == file


def test_a_sentence_over_two_cues() -> None:
    document = read_srt(SRT)
    texts = [None, None, None, "J'aimerais aller <x1/>au parc avec <g2>mon chien</g2>, tout de suite si possible.", None]
    made = document.write(texts)
    assert (
        "J'aimerais aller\n\n4\n00:00:06,500 --> 00:00:08,000 X1:10 X2:20\nau parc avec <b>mon chien</b>,\ntout de" in made
    )
    assert not document.changed(made)


def test_no_cue_is_left_without_text() -> None:
    document = read_srt(SRT)
    made = document.write([None, None, None, "J'aimerais aller au parc avec <g2>mon chien</g2>.<x1/>", None])
    assert not document.changed(made)
    assert "aller au parc\n\n4\n" in made
    made = document.write([None, None, None, "<x1/><g2>我的狗</g2>和我去公园", None])
    assert not document.changed(made)


def test_entities_are_written_where_the_format_has_them() -> None:
    assert "<v Anna>1 &lt; 2 &amp; 3</v>" in read_vtt(VTT).write(["<g1>1 < 2 & 3</g1>", None])
    assert "Un & deux" in read_srt(SRT).write([None, "Un & deux", None, None, None])


def test_long_lines_are_broken_as_often_as_they_were() -> None:
    source = "1\n00:00:01,000 --> 00:00:02,000\n{}\n\n"
    long = "word " * 12 + "end"
    assert read_srt(source.format("one\ntwo")).write([long]).split("\n")[2:5] == [
        ("word " * 6).strip(),
        "word " * 6 + "end",
        "",
    ]
    assert read_srt(source.format("one")).write([long]) == source.format(long)
    assert read_srt(source.format("one\ntwo")).write(["word " * 3 + "end"]) == source.format("word " * 3 + "end")
    broken = read_srt(source.format("一\n二")).write(["字" * 2 * LONGEST]).split("\n")[2:4]
    assert [len(line) for line in broken] == [LONGEST, LONGEST]


def test_times_in_a_translation_are_seen() -> None:
    document = read_srt(SRT)
    time = "00:00:01,000 --> 00:00:02,000"
    assert document.changed(document.write([f"<x1/><g2></g2>{time}\nx", *[None] * 4])) is False
    assert document.changed(document.write([None, None, None, None, f"{time} x"]))


TIME = "00:00:01,000 --> 00:00:02,000\n"
BITS = ["1\n", TIME, "\n", "dog ", "cat.\n", "- ", "<i>", "</i>", "{\\an8}", "Big ", "\r\n", "你好", "&amp;"]


@given(st.lists(st.sampled_from(BITS), max_size=24), st.booleans())
@settings(max_examples=300, deadline=None)
def test_structure_is_kept_whatever_the_file_is(bits: list[str], vtt: bool) -> None:
    file, read = "".join(bits), read_vtt if vtt else read_srt
    document = read(file)
    assert document.write([one.text for one in document.segments]) == file
    made = document.write([one.text.replace("dog", "un & chien") for one in document.segments])
    assert not document.changed(made), made

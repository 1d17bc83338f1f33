"""A page on its own: nothing from a network, nothing of a text as HTML, tables without scripts."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
import torch

from regard.inspection import inspect
from regard.inspection.blocks import Blocks
from regard.inspection.page import ROWS, bundle, fallback, frame, html
from regard.inspection.trace import Trace

NASTY = '</script><img src=x onerror=1> <!-- \u202e "quoted" & \u2028 龘'


class Parsed(HTMLParser):
    """Tags, texts and the trace of a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def trace(made: Any) -> Trace:
    return inspect(made("translate"), NASTY, "Un chien </script>")


def test_texts_never_become_html(trace: Trace) -> None:
    parsed = Parsed(html(trace))
    assert parsed.tags.count("script") == 3  # words, trace, program
    assert "img" not in parsed.tags
    assert any(NASTY in text for text in parsed.texts)
    assert not any(name.startswith("on") for name, _ in parsed.attributes)


def test_the_trace_comes_back_out_of_the_page(trace: Trace) -> None:
    found = re.search(r'<script type="application/json" id="trace">(.*?)</script>', html(trace), re.DOTALL)
    assert found
    assert "<" not in found[1]
    assert Trace.of(json.loads(found[1])) == trace


def test_nothing_is_fetched(trace: Trace) -> None:
    page = html(trace)
    assert "default-src 'none'" in page
    assert not [value for name, value in Parsed(page).attributes if name in ("src", "href")]
    assert not re.search(r"(?:src|href)\s*=\s*['\"]?https?:|@import|url\(\s*['\"]?https?:", page)
    if bundle("inspector.js"):
        assert "<script>" + bundle("inspector.js")[:40] in page


def test_readers_without_scripts_have_a_table(trace: Trace) -> None:
    parsed = Parsed(fallback(trace))
    count = len(trace.sides["target"].tokens), len(trace.sides["source"].tokens)
    assert parsed.tags.count("caption") == 2
    assert parsed.tags.count("td") == count[0] * count[1] + 1 + count[0]
    assert trace.alignment is not None
    cells = trace.array(trace.alignment.matrix)
    assert f"{cells[0, 0]:.2f}" in parsed.texts


def test_what_the_table_leaves_out_is_said(made: Any) -> None:
    long = inspect(made("translate"), "near the sea " * 60, "Un chien", methods=())
    assert len(long.sides["source"].tokens) > ROWS
    assert f"the first {ROWS} of" in fallback(long)


@pytest.mark.parametrize("kind", ["classify", "no-attention", "fill", "embed"])
def test_every_kind_has_a_page(made: Any, kind: str) -> None:
    its = inspect(made(kind), "A dog")
    page = fallback(its)
    assert "A dog" in page or "A" in page
    assert ("no attention in this model" in page) == (kind == "no-attention")
    assert ("<caption>Classes" in page) == (kind == "classify")
    assert frame(its).startswith("<iframe")


def test_a_translation_of_twenty_tokens_is_small(made: Any) -> None:
    """6 layers of 8 heads, three kinds: below 400 KB with the page's program."""
    its = inspect(made("translate"), "A dog runs in the park , and two men look on", "Un chien court dans le parc .")
    rows, columns = len(its.sides["target"].tokens), len(its.sides["source"].tokens)
    blocks = Blocks()  # of a larger model the weights alone, random
    for layer in range(6):
        for size in ((20, 20), (20, 20), (20, 20)):
            for head in range(8):
                blocks.add(f"{layer}.{size}.{head}", torch.rand(size))
    weights = sum(len(one.data or "") for one in blocks.made.values())
    other = len(html(its)) - sum(len(one.data or "") for name, one in its.blocks.items() if ".attend." in name)
    assert rows * columns > 100
    assert weights + other < 400_000

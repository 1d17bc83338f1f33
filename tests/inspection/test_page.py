"""A page on its own: nothing from a network, nothing of a text as HTML, tables without scripts."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.decoding.options import Search
from regard.errors import UserError
from regard.inspection import inspect
from regard.inspection import page as page_module
from regard.inspection.page import ROWS, bundle, fallback, frame, html, packed, unpacked
from regard.inspection.trace import Trace
from regard.models import transformer
from regard.translator import Translator

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


def test_the_trace_comes_back_out_of_the_page(trace: Trace, tmp_path: Path) -> None:
    page = html(trace)
    assert Trace.of(json.loads(unpacked(page))) == trace
    trace.write(tmp_path / "a.html")
    assert Trace.read(tmp_path / "a.html") == trace


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda page: page.replace('id="trace"', 'id="x"'), "the page holds none"),
        (lambda page: page.replace('id="trace">', 'id="trace">AAAA'), "is damaged"),
        (lambda page: re.sub('(id="trace">.{400})[^<]*', r"\1", page), "cut short"),
        (lambda page: re.sub('(id="trace">)[^<]*', r"\1é", page), "is not a trace"),
    ],
)
def test_damaged_pages_are_refused(trace: Trace, tmp_path: Path, damage: Any, message: str) -> None:
    path = tmp_path / "a.html"
    path.write_text(damage(html(trace)), encoding="utf-8")
    with pytest.raises(UserError, match=message) as caught:
        Trace.read(path)
    assert "\n" not in str(caught.value)


def test_a_page_that_would_fill_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "MOST", 10_000)
    huge = f'<script type="application/octet-stream" id="trace">{packed(" " * 10_000_000)}</script>'
    with pytest.raises(ValueError, match="too long"):
        unpacked(huge)


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
    """6 layers of 8 heads, three kinds, with random weights, which pack worst: below 400 KB, the program included."""
    its = made("translate")
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"num_layers": 6, "num_heads": 8, "d_model": 64, "d_ff": 128}
    model = transformer.describe(vocab_size=its.tokenizer.vocab_size, **sizes).build().eval()
    for name, tensor in model.named_parameters():
        if not name.endswith("norm.weight"):
            tensor.data.normal_(0.0, 0.3)
    large = Translator(model, its.tokenizers, Search(num_beams=5, max_length=20))
    text = "A dog runs in the park , the red house is near the sea , and two men play football"
    while len(its.tokenizer.encode(text)) > 20:
        text = text.rpartition(" ")[0]
    found = inspect(large, text, max_length=20)
    assert len(found.attentions) == 18
    assert all(len(one.weights) == 8 for one in found.attentions)
    assert [18 <= len(found.sides[side].tokens) <= 21 for side in ("source", "target")] == [True, True]
    page = html(found)
    assert bundle("inspector.js") in page
    assert len(page.encode("utf-8")) < 400_000

"""The report."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from regard.labs.frame.page import both, page
from regard.labs.frame.values import text

VOID = {"meta", "br", "img", "input"}


class Balance(HTMLParser):
    """Which elements are open."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_report_is_one_whole_file_that_asks_for_nothing(measured):
    told = page([measured("anatomy"), measured("masks", True)])
    parser = Balance()
    parser.feed(told)
    assert parser.open == []
    assert not re.search(r"(src|href)=\"(?!data:|#)", told)
    assert "http" not in re.sub(r'"data:[^"]*"|http-equiv', "", told)
    assert "<script" not in told
    assert "default-src 'none'" in told
    assert all(its.get("alt") for tag, its in parser.seen if tag == "img")
    assert told.count("<section>") == 2


def test_both_languages_are_there(measured):
    result = measured("anatomy")
    told = page([result])
    for its in (result.title, result.finding, *result.limits, result.design.control):
        assert both(its) in told
    for quote in result.quotes:
        assert quote.zh in told


def test_text_is_not_markup():
    assert both(text("a < b", "甲 < 乙")) == (
        '<span class="en" lang="en">a &lt; b</span><span class="zh" lang="zh">甲 &lt; 乙</span>'
    )

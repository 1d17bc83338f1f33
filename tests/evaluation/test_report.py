"""The page with two systems side by side."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from regard.evaluation.compare import Comparing, compare
from regard.evaluation.report import RIGHT, SAME, WRONG, marked, page, template

EVIL = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)> \u2028 &amp;", "他说“好”。"]
REFERENCES = ["un chien court", "deux hommes", "他说好。"]
FAST = Comparing(samples=3, worst=0)


def made(first: list[str], second: list[str], sources: list[str] | None) -> str:
    return page(compare([REFERENCES], first, second, sources, options=FAST), [REFERENCES], first, second, sources, FAST)


def data_of(html: str) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_words_that_differ_are_marked_by_the_reference() -> None:
    first, second = marked("un  chat court vite .", "un chien court .", ["un chien court , vite ."])
    assert first == [("un  ", SAME), ("chat", WRONG), (" court ", SAME), ("vite", RIGHT), (" .", SAME)]
    assert second == [("un ", SAME), ("chien", RIGHT), (" court .", SAME)]
    first, second = marked("a a a", "b", ["a a"])
    assert [mark for piece, mark in first if piece.strip()] == [RIGHT, RIGHT, WRONG]
    assert marked("", "", ["x"]) == ([], [])
    assert marked("他走", "他跑", ["他跑"])[1] == [("他", SAME), ("跑", RIGHT)]


@pytest.mark.parametrize("text", [*EVIL, "", "  spaces  here "])
def test_pieces_joined_are_the_text(text: str) -> None:
    for one in (marked(text, "x y", ["x"])[0], marked("x y", text, [text])[1]):
        assert "".join(piece for piece, _ in one) == text


def test_no_text_is_ever_read_as_html() -> None:
    html = made(EVIL, REFERENCES, EVIL)
    found = data_of(html)
    assert [row["source"] for row in found["rows"]] == EVIL
    assert ["".join(piece for piece, _ in row["pieces"][0]) for row in found["rows"]] == EVIL
    for text in EVIL[:2]:
        assert text not in html
    assert html.count("<script") == template().count("<script") == 2
    script = template().split("<script>")[1]
    for unsafe in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "http:", "https:"):
        assert unsafe not in script


def test_the_page_needs_nothing_else_and_both_languages_say_the_same_things() -> None:
    html = template()
    assert not re.search(r"(src|href)=", html)
    assert "default-src 'none'" in html
    assert "prefers-color-scheme: dark" in html
    parts = re.split(r"\n  (?:en|zh): \{", html.split("const words = {")[1].split("\n};")[0])[1:]
    english, chinese = (set(re.findall(r"(?:^|, |\n    ) ?(\w+):", re.sub(r'"[^"]*"', '""', part))) for part in parts)
    assert english == chinese
    assert len(english) > 25


def test_facts_scores_and_equal_sentences() -> None:
    first, second = ["un chat court", "deux hommes", "他"], ["un chien court", "deux hommes", "他说"]
    found = data_of(made(first, second, None))
    assert "source" not in found["rows"][0]
    assert [row["chrf"] is None for row in found["rows"]] == [False, True, False]
    assert found["rows"][0]["chrf"][1] == pytest.approx(100)
    assert len(found["verdicts"]) == len(found["tests"]) == 2
    assert found["words"][0]["frequency"] == "1"


DRIVE = """
const nodes = {}, listeners = {};
class Node {
  constructor(tag) { Object.assign(this, { tag, children: [], dataset: {}, own: "", attributes: {}, value: "" }); }
  set textContent(text) { this.own = String(text); this.children = []; }
  get textContent() { return this.own + this.children.map((c) => (typeof c === "string" ? c : c.textContent)).join(""); }
  get firstChild() { return this.children[0]; }
  append(...more) { this.children.push(...more); }
  replaceChildren(...more) {
    this.own = ""; this.children = more;
    if (this.tag === "order") this.value = this.value || more[0].value;
  }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(kind, act) { listeners[this.tag + ":" + kind] = act; }
}
globalThis.Option = class extends Node {
  constructor(text, value) { super("option"); this.own = text; this.value = value; }
};
Object.defineProperty(globalThis, "navigator", { value: { language: LANGUAGE } });
globalThis.matchMedia = () => ({ matches: false });
globalThis.document = { documentElement: new Node("html"), title: "", createElement: (tag) => new Node(tag),
  getElementById: (id) => (nodes[id] = nodes[id] || new Node(id)),
  querySelector: () => (nodes.h1 = nodes.h1 || new Node("h1")) };
document.getElementById("data").own = DATA;
"""
ASK = """
const order = () => nodes.sentences.children.map((one) => parseInt(one.children[0].textContent));
const seen = { title: nodes.h1.textContent, first: order() };
nodes.order.value = "second"; listeners["order:change"](); seen.second = order();
nodes.order.value = "line"; nodes.find.value = "DEUX"; listeners["find:input"](); seen.found = order();
nodes.find.value = ""; listeners["language:click"](); seen.other = nodes.h1.textContent; seen.line = order();
listeners["theme:click"](); seen.theme = document.documentElement.dataset.theme;
seen.marks = [];
(function walk(n) { for (const c of n.children || []) {
  if (c.className === "right" || c.className === "wrong") seen.marks.push([c.textContent, c.className]);
  walk(c);
} })(nodes.sentences);
seen.tables = nodes.tables.textContent.length;
console.log(JSON.stringify(seen));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_script_sorts_finds_and_changes_language(language: str, tmp_path: Path) -> None:
    """The page's own script, run on a document of a few lines."""
    html = made(["un chat court", "deux hommes", "他"], ["un chien court", "deux hommes", "他说"], None)
    data = re.search(r'application/json">(.*?)</script>', html, re.DOTALL)
    assert data is not None
    script = html.split("<script>")[1].split("</script>")[0].replace('"use strict";', "")
    drive = DRIVE.replace("LANGUAGE", json.dumps(language)).replace("DATA", json.dumps(data[1]))
    (tmp_path / "page.js").write_text(drive + script + ASK, encoding="utf-8")
    seen = json.loads(subprocess.run(["node", str(tmp_path / "page.js")], capture_output=True, check=True).stdout)
    titles = ["Two systems side by side", "两个系统并排对照"]
    assert [seen["title"], seen["other"]] == (titles if language == "en" else titles[::-1])
    assert sorted(seen["first"]) == [1, 2, 3]
    assert seen["first"][-1] == 2  # the same in both
    assert sorted(seen["second"]) == [1, 3]
    assert (seen["found"], seen["line"], seen["theme"]) == ([2], [1, 2, 3], "dark")
    assert ["chat", "wrong"] in seen["marks"]
    assert ["chien", "right"] in seen["marks"]
    assert seen["tables"] > 100

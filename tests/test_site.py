"""The documentation as a site: both languages without a warning, nothing asked of another machine, Chinese found."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")


@pytest.fixture(scope="module", params=["en", "zh"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    language = request.param
    output = tmp_path_factory.mktemp(language) / language
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "-c", str(DOCS), "-D", f"language={language}"]
    done = subprocess.run([*build, str(DOCS / language), str(output)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return language, output


def test_every_page_is_there_and_asks_no_other_machine(site: tuple[str, Path]) -> None:
    language, output = site
    made = {path.relative_to(output).with_suffix("") for path in output.rglob("*.html")}
    assert {path.relative_to(DOCS / language).with_suffix("") for path in (DOCS / language).rglob("*.md")} <= made
    for path in output.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        asked = re.findall(r'<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]*)"|<link\b[^>]*\bhref="([^"]*)"', text)
        assert not [one for one in asked if re.match("(?:https?:)?//", "".join(one))], path
    for path in output.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", path.read_text(encoding="utf-8")), path


def test_every_page_leads_to_its_twin(site: tuple[str, Path]) -> None:
    language, output = site
    other = {"en": "zh", "zh": "en"}[language]
    for page in (DOCS / language).glob("*.md"):
        text = (output / f"{page.stem}.html").read_text(encoding="utf-8")
        assert re.search(rf'href="[./#]*/\.\./{other}/{page.stem}\.html"', text), page.name


def test_what_can_be_looked_into_is_there(site: tuple[str, Path]) -> None:
    language, output = site
    text = "".join((output / f"{name}.html").read_text(encoding="utf-8") for name in ("notes", "explanations", "labs"))
    asked = set(re.findall(r'(?:href|src)="(see/[^"#]*)[^"]*"', text))
    assert {f"see/{path.stem}.html" for path in (DOCS / "see").glob("*.json")} <= asked
    assert [name for name in asked if not (output / name).is_file()] == []
    assert f"#view=hand&amp;lang={language}" in text


def index(output: Path) -> dict[str, Any]:
    text = (output / "searchindex.js").read_text(encoding="utf-8")
    return json.loads(text[text.index("(") + 1 : text.rindex(")")])


def pages_with(found: dict[str, Any], term: str) -> set[str]:
    """Pages that have a term in their text or their headings."""
    places = [found[kind].get(term, []) for kind in ("terms", "titleterms")]
    return {found["docnames"][at] for one in places for at in (one if isinstance(one, list) else [one])}


def test_chinese_is_found(site: tuple[str, Path]) -> None:
    language, output = site
    terms = index(output)["terms"]
    if language == "en":
        assert "attent" in terms
        return
    wanted = ["注意", "意力", "力机", "机制"]
    assert [pair for pair in wanted if pair not in terms] == []
    assert {"notes", "labs"} <= set.intersection(*(pages_with(index(output), pair) for pair in wanted))
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the browser's half of the search is not run")
    code = "const window = {};\n" + (output / "_static" / "language_data.js").read_text(encoding="utf-8")
    code += '\nconsole.log(JSON.stringify(splitQuery("注意力机制, softmax 与 KV")))'
    said = subprocess.run([node, "-e", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == [*wanted, "softmax", "与", "KV"]


def test_a_formula_is_drawn_by_the_browser(site: tuple[str, Path]) -> None:
    text = (site[1] / "attention.html").read_text(encoding="utf-8")
    assert "<msqrt>" in text
    assert "\\sqrt" not in text
    assert "MathJax" not in text

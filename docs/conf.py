"""The documentation as two sites of one look: `make docs` builds docs/en and docs/zh with this file, `language` given.

Beside the pages it writes what can be looked into: each trace of docs/see as a page of its own, and the plots of the labs'
stored results. A page that leads to `../see/NAME.json#view=…` leads to that page on the site.

Formulas become MathML, which browsers draw themselves, so that no page asks another machine for anything. Chinese text is
indexed by pairs of characters: no list of words is needed, and a question of any length is found.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.search import SearchLanguage

project = "regard"
author = "the developers of regard"
extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

html_theme = "furo"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_title = "regard"
html_show_sourcelink = False
html_show_sphinx = False
html_copy_source = False
html_math_renderer = "mathml"
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "language.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
templates_path = ["site"]

DOCS = Path(__file__).resolve().parent
HAN = "\u3400-\u9fff"


class Pairs(SearchLanguage):
    """Words of letters as they are, Chinese characters in pairs."""

    lang = "zh"
    language_name = "Chinese"
    js_splitter_code = """
function splitQuery(query) {
  const found = [];
  for (const word of query.match(/[\\u3400-\\u9fff]+|[^\\s\\u3400-\\u9fff\\p{P}]+/gu) ?? []) {
    if (!/[\\u3400-\\u9fff]/.test(word) || word.length === 1) found.push(word);
    else for (let i = 0; i + 1 < word.length; i++) found.push(word.slice(i, i + 2));
  }
  return found;
}
"""

    def init(self, options: dict[str, str]) -> None:
        self.stopwords = set()

    def split(self, text: str) -> list[str]:
        found = []
        for word in re.findall(f"[{HAN}]+|[^\\W{HAN}]+", text):
            chinese = re.match(f"[{HAN}]", word)
            found += [*word, *(word[i : i + 2] for i in range(len(word) - 1))] if chinese else [word]
        return found

    def stem(self, word: str) -> str:
        return word.lower()

    def word_filter(self, word: str) -> bool:
        return True


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _display(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def _contents(app: Sphinx, page: str, source: list[str]) -> None:
    """The front page's lists of links are the table of contents too: written once, they read well as plain Markdown.
    Files of the repository beside these pages are not part of the site: their names stay, without a link."""
    source[0] = re.sub(r"\[([^\]]*)\]\(\.\./\.\./[^)]*\)", r"\1", source[0])
    seen = rf'<a href="see/\2.html#\3&amp;lang={app.config.language}">\1</a>'
    source[0] = re.sub(r"\[([^\]]*)\]\(\.\./see/([\w-]+)\.json#([^)]*)\)", seen, source[0])
    if page == "labs":
        source[0] = _plotted(source[0])
    if page == "index":
        for section in re.split("^## ", source[0], flags=re.MULTILINE)[1:]:
            title, _, links = section.partition("\n")
            names = "\n".join(re.findall(r"\]\(([\w-]+)\.md\)", links))
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{names}\n```\n"


def _results() -> dict[str, Any]:
    """The stored results of labs that have something to draw."""
    if str(DOCS) not in sys.path:
        sys.path.insert(0, str(DOCS))
    from making.labs import measured

    return {name: result for name, result in measured()[0].items() if result.plots}


def _plotted(text: str) -> str:
    """The page of labs, each with its plot at its end."""
    for name, result in _results().items():
        image = f'<img class="plot" src="see/{name}.svg" alt="L{result.number} {name}" loading="lazy">'
        text = re.sub(rf"(?ms)^(### L\d+ {name}[:：].*?)(?=^### |^<!-- end)", lambda one, i=image: f"{one[1]}{i}\n\n", text)
    return text


def _looks(app: Sphinx, error: Exception | None) -> None:
    """Write the pages of the traces, and the plots."""
    if error is not None or app.builder.format != "html":
        return
    from regard.inspection import Trace
    from regard.labs.frame.picture import pictures

    folder = Path(app.outdir) / "see"
    folder.mkdir(exist_ok=True)
    for path in sorted((DOCS / "see").glob("*.json")):
        Trace.read(path).write(folder / f"{path.stem}.html")
    for name, result in _results().items():
        (folder / f"{name}.svg").write_bytes(pictures(result)[0])


def setup(app: Sphinx) -> None:
    app.connect("source-read", _contents)
    app.connect("build-finished", _looks)
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.add_search_language(Pairs)

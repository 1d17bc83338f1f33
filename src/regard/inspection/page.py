"""A trace as one page that opens from a disk: the page's program, the trace, and tables for readers without scripts."""

from __future__ import annotations

import re
import zlib
from base64 import b64decode, b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files

from regard.inspection.picture import Map, matrix
from regard.inspection.sides import shown
from regard.inspection.trace import Trace

POLICY = "default-src 'none'; script-src '{}'; style-src '{}'; img-src data: blob:; base-uri 'none'; form-action 'none'"
"""Nothing is fetched and no other script or style is run, whatever a trace holds; filled with the hashes of the two."""
ROWS = 128
"""Most rows and columns of the table for readers without scripts."""
MOST = 1 << 30
"""Most bytes of JSON that are read out of a page."""

FRAME = (
    '<iframe srcdoc="{page}" sandbox="allow-scripts" title="regard: what a model looked at" loading="lazy" '
    'style="width:100%;height:640px;border:1px solid #888"></iframe>\n'
    "<details><summary>Picture without scripts</summary>{svg}</details>"
)


def bundle(name: str) -> str:
    """A built file of the page ("inspector.js", "inspector.css", "words.json"); nothing where it has not been built."""
    path = files("regard") / "page" / name
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def html(trace: Trace) -> str:
    """The whole page. What texts hold reaches it as text: packed in the trace, and nowhere else unescaped."""
    title = escape(f"regard: {next(iter(trace.sides.values())).text[:60]}")
    script, style, words = bundle("inspector.js"), bundle("inspector.css"), bundle("words.json")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY.format(_hash(script), _hash(style))}">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<div id="app"></div>\n<section id="fallback">\n{fallback(trace)}</section>\n'
        f'<script type="application/json" id="words">{words}</script>\n'
        f'<script type="application/octet-stream" id="trace">{packed(trace.to_json())}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def packed(text: str) -> str:
    """A text deflated (RFC 1950) and in base64: a third of its length or so, and nothing in it has to be escaped."""
    return b64encode(zlib.compress(text.encode("utf-8"))).decode("ascii")


def unpacked(page: str) -> str:
    """The JSON of the trace in a page. ValueError: there is none, or it is damaged or longer than MOST bytes."""
    found = re.search(r'<script type="application/octet-stream" id="trace">([^<]*)</script>', page)
    if found is None:
        raise ValueError("the page holds none")
    inflate = zlib.decompressobj()
    try:
        data = inflate.decompress(b64decode(found[1], validate=True), MOST)
    except zlib.error:
        raise ValueError("what is packed in the page is damaged") from None
    if not inflate.eof:
        raise ValueError("what is packed in the page is cut short or too long")
    return data.decode("utf-8")


def _hash(text: str) -> str:
    """As a content security policy names the text of a script or style."""
    return "sha256-" + b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")


def frame(trace: Trace) -> str:
    """The page in a frame that may run scripts and nothing else, with a picture below it for viewers that run none."""
    svg = "" if matrix(trace) is None else trace.to_svg().partition("<svg")[2]
    return FRAME.format(page=escape(html(trace), quote=True), svg=f"<svg{svg}" if svg else "")


def fallback(trace: Trace) -> str:
    """The texts, the tokens and one matrix, in plain HTML."""
    parts = ["<h1>What the model looked at</h1>\n"]
    for name, side in trace.sides.items():
        if name != "read":
            parts.append(f"<p><b>{escape(name)}</b> <bdi>{escape(side.text)}</bdi></p>\n")
    parts += [f"<p>{escape(note)}</p>\n" for note in trace.checks.notes]
    its = matrix(trace)
    if its is not None:
        parts.append(weights_table(its))
    if trace.classes:
        rows = "".join(f"<tr><th>{escape(one.label)}</th><td>{one.p:.4f}</td></tr>" for one in trace.classes)
        parts.append(f"<table><caption>Classes</caption>{rows}</table>\n")
    if trace.predictions is not None and trace.predictions.rows in trace.sides:
        parts.append(_predictions(trace))
    return "".join(parts)


def weights_table(its: Map) -> str:
    """A matrix as a table, a row a token, with what it leaves out said."""
    columns = its.columns[:ROWS]
    head = "".join(f'<th scope="col"><bdi>{escape(name)}</bdi></th>' for name in columns)
    body = "".join(
        f'<tr><th scope="row"><bdi>{escape(name)}</bdi></th>'
        + "".join(f"<td>{cell:.2f}</td>" for cell in row[:ROWS])
        + "</tr>\n"
        for name, row in zip(its.rows[:ROWS], its.cells[:ROWS].tolist())
    )
    left = max(len(its.rows), len(its.columns)) > ROWS
    size = f" (the first {ROWS} of {len(its.rows)} rows and {len(its.columns)} columns)" if left else ""
    return f"<table><caption>{escape(its.title)}{size}</caption><tr><td></td>{head}</tr>\n{body}</table>\n"


def _predictions(trace: Trace) -> str:
    its = trace.predictions
    assert its is not None
    names = shown(trace.sides[its.rows])
    rows = []
    for name, chances in list(zip(names, its.top))[:ROWS]:
        told = ", ".join(f"{_entry(trace, one.id)} {one.p:.2f}" for one in chances[:3])
        rows.append(f'<tr><th scope="row"><bdi>{escape(name)}</bdi></th><td><bdi>{escape(told)}</bdi></td></tr>\n')
    return f"<table><caption>What else it could have said</caption>\n{''.join(rows)}</table>\n"


def _entry(trace: Trace, number: int) -> str:
    entry = trace.vocabulary[str(number)]
    return entry.text.strip() or entry.piece

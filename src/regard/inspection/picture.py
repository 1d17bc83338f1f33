"""Pictures of a trace: SVG and PNG through matplotlib, and a table for terminals. Nothing here needs a browser."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from regard.errors import UserError
from regard.inspection.sides import shown
from regard.inspection.trace import Trace
from regard.inspection.values import Attention
from regard.inspection.views import alignment_text

log = logging.getLogger("regard.inspection")

VIEWS = ("align", "heads", "grid")
CJK = ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "SimHei", "Microsoft YaHei")
CJK += ("PingFang SC", "Source Han Sans SC", "Droid Sans Fallback")
MOST = 64
"""So many tokens of a side have their names beside a picture."""


@dataclass(frozen=True, eq=False)
class Map:
    """A matrix of weights with the names of its rows and columns."""

    title: str
    rows: list[str]
    columns: list[str]
    cells: np.ndarray


def matrix(trace: Trace) -> Map | None:
    """What is shown where only one matrix can be: the alignment, or the mean of the heads of the last attention whose
    weights were kept; None: there is none."""
    its = trace.alignment
    if its is not None:
        named = trace.attention(its.attention)
        head = "mean of the heads" if its.head is None else f"head {its.head}"
        return _map(trace, f"{its.attention}, {head}", named, trace.array(its.matrix))
    kept = [one for one in trace.attentions if one.kept]
    if not kept:
        return None
    return _map(trace, f"{kept[-1].name}, mean of the heads", kept[-1], trace.weights(kept[-1].name))


def _map(trace: Trace, title: str, its: Attention, cells: np.ndarray) -> Map:
    return Map(title, shown(trace.sides[its.rows]), shown(trace.sides[its.columns]), cells)


def table(trace: Trace, width: int = 80, shades: bool | None = None) -> str:
    """The matrix as text, see `alignment_text`; a line of words where the model has none."""
    its = matrix(trace)
    if its is None:
        return "; ".join(trace.checks.notes) or "no attention was looked at"
    return f"{its.title}\n\n" + alignment_text(its.columns, its.rows, its.cells, width, shades)


def picture(trace: Trace, view: str = "align", kind: Literal["svg", "png"] = "svg") -> bytes:
    """A picture of a trace. view: align (one matrix), heads (each head of that layer), grid (all layers and heads, small).
    Equal traces give equal SVGs, whose text stays text. UserError: no such view, or no attention to show."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    if view not in VIEWS:
        raise UserError(f"no view is called {view!r}; there are {', '.join(VIEWS)}")
    fonts = ["DejaVu Sans", *_chinese()]
    settings: Any = {"svg.hashsalt": "regard", "svg.fonttype": "none", "font.family": fonts}
    file = io.BytesIO()
    with rc_context(settings), _quiet(kind):
        figure = {"align": _align, "heads": _heads, "grid": _grid}[view](trace)
        if kind == "svg":
            FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": "regard"})
        else:
            figure.set_dpi(200)
            FigureCanvasAgg(figure).print_png(file)
    return file.getvalue()


@cache
def _chinese() -> list[str]:
    """The fonts with Chinese characters that this machine has."""
    from matplotlib import font_manager

    there = {font.name for font in font_manager.fontManager.ttflist}
    return [name for name in CJK if name in there]


@contextmanager
def _quiet(kind: str) -> Iterator[None]:
    """Glyphs that matplotlib lacks come from the viewer's fonts in an SVG; of a PNG one line says which font would help."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield
    missing = [one for one in heard if "missing from font" in str(one.message)]
    if missing and kind == "png" and not _chinese():
        log.warning("no font with these characters is installed: add Noto Sans CJK (Debian: apt install fonts-noto-cjk)")


def _draw(axes: Any, its: Map, names: bool = True) -> Any:
    from matplotlib.colors import Normalize

    image = axes.imshow(its.cells, cmap="cividis", norm=Normalize(0.0, 1.0), aspect="auto", interpolation="nearest")
    rows, columns = its.rows, its.columns
    if names and len(columns) <= MOST:
        axes.set_xticks(range(len(columns)), [_plain(name) for name in columns], rotation=90, fontsize="small")
    if names and len(rows) <= MOST:
        axes.set_yticks(range(len(rows)), [_plain(name) for name in rows], fontsize="small")
    return image


def _plain(name: str) -> str:
    """A name without what matplotlib takes for mathematics, or what turns the direction of writing."""
    kept = "".join(c if c.isprintable() else "·" for c in name)
    return kept.replace("$", r"\$")


def _need(trace: Trace) -> Map:
    its = matrix(trace)
    if its is None:
        raise UserError("; ".join(trace.checks.notes) or "no attention was looked at: there is nothing to draw")
    return its


def _align(trace: Trace) -> Any:
    from matplotlib.figure import Figure

    its = _need(trace)
    size = (min(14, 2.5 + 0.32 * len(its.columns)), min(14, 1.8 + 0.26 * len(its.rows)))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    figure.colorbar(_draw(axes, its), ax=axes, label="weight")
    axes.set_title(_plain(its.title), fontsize="small")
    return figure


def _heads(trace: Trace) -> Any:
    from matplotlib.figure import Figure

    _need(trace)
    name = trace.alignment.attention if trace.alignment else [one for one in trace.attentions if one.kept][-1].name
    its = trace.attention(name)
    columns = min(4, len(its.kept))
    rows = -(-len(its.kept) // columns)
    figure = Figure(figsize=(3.2 * columns, 3.0 * rows), layout="constrained")
    for axes, head in zip(figure.subplots(rows, columns, squeeze=False).flat, its.kept):
        _draw(axes, _map(trace, "", its, trace.weights(name, int(head))))
        axes.set_title(f"head {head}", fontsize="small")
    _blank(figure)
    figure.suptitle(_plain(name), fontsize="medium")
    return figure


def _grid(trace: Trace) -> Any:
    from matplotlib.figure import Figure

    _need(trace)
    most = max(one.heads for one in trace.attentions)
    figure = Figure(figsize=(1.0 * most + 1.6, 1.0 * len(trace.attentions) + 0.6), layout="constrained")
    every = figure.subplots(len(trace.attentions), most, squeeze=False)
    for line, its in zip(every, trace.attentions):
        for head, axes in enumerate(line[: its.heads]):
            axes.imshow(_small(trace, its, head), cmap="cividis", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_title(str(head), fontsize="xx-small", pad=1)
        line[0].set_ylabel(its.name.removesuffix(".attend").replace(".blocks.", "."), rotation=0, ha="right", fontsize=5)
    _blank(figure)
    return figure


def _small(trace: Trace, its: Attention, head: int) -> np.ndarray:
    if its.overview is not None:
        return trace.array(its.overview.max)[head]
    return trace.weights(its.name, head)


def _blank(figure: Any) -> None:
    for axes in figure.axes:
        if not axes.has_data():
            axes.set_axis_off()

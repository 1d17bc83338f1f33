"""A result's plots as one picture, in SVG and PNG, through matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.files import write_bytes
from regard.labs.frame.values import Plot, Result


def draw(plots: Sequence[Plot], title: str) -> Any:
    """A matplotlib figure, the plots side by side, at most three in a row; labels in English, which every font has."""
    from matplotlib.figure import Figure

    columns = min(3, max(1, len(plots)))
    rows = -(-len(plots) // columns) or 1
    figure = Figure(figsize=(4.6 * columns, 3.6 * rows), layout="constrained")
    figure.suptitle(title)
    for axes, plot in zip(figure.subplots(rows, columns, squeeze=False).flat, plots):
        (_map if plot.cells is not None else _lines)(axes, plot)
        axes.set(title=plot.title.en, xlabel=plot.x.en, ylabel=plot.y.en)
    for axes in figure.axes[len(plots) :]:
        if not axes.has_data():
            axes.set_axis_off()
    return figure


def _lines(axes: Any, plot: Plot) -> None:
    for line in plot.lines:
        style = {"linestyle": "--", "color": "0.5"} if line.dashed else {"marker": ".", "markersize": 4}
        axes.plot(line.x, line.y, label=line.label.en, **style)
    if plot.log_x:
        axes.set_xscale("log", base=2)
    if plot.log_y:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    if len(plot.lines) > 1:
        axes.legend(fontsize="x-small")


def _map(axes: Any, plot: Plot) -> None:
    from matplotlib.colors import PowerNorm

    axes.imshow(plot.cells, cmap="Blues", norm=PowerNorm(0.4, vmin=0.0))  # small values beside large ones, zero stays white


def pictures(result: Result) -> tuple[bytes, bytes]:
    """The result's picture as SVG and as PNG; equal results give equal SVGs."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    svg, png = io.BytesIO(), io.BytesIO()
    with rc_context({"svg.hashsalt": result.lab, "svg.fonttype": "path", "font.family": "DejaVu Sans"}):
        figure = draw(result.plots, f"L{result.number} {result.lab}: {result.title.en}")
        FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None, "Creator": "regard"})
        FigureCanvasAgg(figure).print_png(png)
    return svg.getvalue(), png.getvalue()


def write_pictures(result: Result, folder: Path) -> None:
    """NAME.svg and NAME.png into a folder."""
    svg, png = pictures(result)
    write_bytes(folder / f"{result.lab}.svg", svg)
    write_bytes(folder / f"{result.lab}.png", png)

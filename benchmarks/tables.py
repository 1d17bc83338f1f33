"""Figures from JSON into the pages: `python -m benchmarks tables benchmarks/results/*.json`.

A page keeps a table between `<!-- figures: NAME -->` and `<!-- end -->`; NAME is the file's without its ending. Both
languages are written, and for training and decoding a plot that both show, docs/pictures/NAME.svg. A benchmark that has a
`table` of its own, and a `plot`, is shown by these.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT
from benchmarks.promises import markdown

Table = Callable[[dict[str, Any], str], str]
Plot = Callable[[dict[str, Any], Path], None]
WORDS = {
    "system": "系统",
    "target tokens/s": "目标词元/秒",
    "tokens/s": "词元/秒",
    "sentences/s": "句/秒",
    "of the ceiling": "占上限",
    "peak memory": "内存峰值",
    "regard over it": "regard 与它之比",
    "seconds": "秒",
}
COLUMNS = (
    ("target", "target tokens/s", "{:,.0f}"),
    ("sentences", "sentences/s", "{:,.1f}"),
    ("per_second", "tokens/s", "{:,.1f}"),
    ("seconds", "seconds", "{:.2f}"),
    ("of_ceiling", "of the ceiling", "{:.0%}"),
    ("peak_mib", "peak memory", "{:,.0f} MiB"),
)


def table(report: dict[str, Any], language: str) -> str:
    """The systems of a report as a table in Markdown: the median, and least to most."""
    systems, their = report["systems"], _ratios(report)
    shown = [column for column in COLUMNS if any(column[0] in its for its in systems.values())]
    head = ["system", *(name for _, name, _ in shown), *(["regard over it"] if their else [])]
    lines: list[list[str]] = []
    for name, its in systems.items():
        cells = [name]
        for key, _, form in shown:
            found = its.get(key)
            spread = "" if found is None or found["min"] == found["max"] else f" ({_ends(found, form)})"
            cells.append("" if found is None else form.format(found["median"]) + spread)
        if their:
            ratio = their.get(name)
            cells.append("" if ratio is None else f"{ratio['median']:.2f} ({ratio['min']:.2f}–{ratio['max']:.2f})")
        lines.append(cells)
    return markdown([name if language == "en" else WORDS[name] for name in head], lines)


def _ends(found: dict[str, float], form: str) -> str:
    unit = " MiB" if form.endswith("MiB") else ""
    return "–".join(form.removesuffix(unit).format(found[end]) for end in ("min", "max"))


def _ratios(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Those of regard; of several variants those of the first."""
    found = report.get("ratios") or {}
    if found and "median" not in next(iter(found.values())):
        return next(iter(found.values()))
    return found


def _about(report: dict[str, Any], language: str) -> str:
    its = report["machine"]
    comma, cores, semicolon, stop = (", ", "cores", "; ", ".") if language == "en" else ("，", "核", "；", "。")
    versions = comma.join(f"{name} {number}" for name, number in (report.get("versions") or {}).items())
    told = comma.join([its["cpu"], f"{its['cores']} {cores}", f"torch {its['torch']}"])
    return f"\n{told}" + (semicolon + versions if versions else "") + f"{stop}\n"


def shown(report: dict[str, Any]) -> tuple[Table, Plot | None]:
    """How a report becomes a table, and a picture if it has one: as its benchmark does it, or as systems side by side."""
    own = importlib.import_module(f"benchmarks.{report['benchmark']}") if "benchmark" in report else None
    if hasattr(own, "table"):
        return own.table, getattr(own, "plot", None)
    return table, plot if report.get("benchmark") in ("train", "decode") else None


def reports(name: str, document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The reports with systems that a document holds, by the name of their place in a page."""
    if "systems" in document or shown(document)[0] is not table:
        return {name: document}
    return {f"{name}-{task}": document | its for task, its in document.get("tasks", {}).items()}


def write(page: Path, name: str, text: str) -> bool:
    """Put a text in its place; whether the page has one."""
    old = page.read_text(encoding="utf-8")
    place = re.compile(rf"(<!-- figures: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    new, count = place.subn(lambda match: match[1] + text + match[2], old)
    if new != old:
        page.write_text(new, encoding="utf-8")
    return count > 0


def plot(report: dict[str, Any], path: Path) -> None:
    """Bars of the first figure of each system, least to most as a line."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    key, label, _ = next(column for column in COLUMNS if column[0] in next(iter(report["systems"].values())))
    names = list(report["systems"])
    values = [report["systems"][name][key] for name in names]
    figure, axes = pyplot.subplots(figsize=(7, 0.6 + 0.35 * len(names)), layout="constrained")
    middle = [value["median"] for value in values]
    spread = [[m - value["min"] for m, value in zip(middle, values)], [value["max"] - m for m, value in zip(middle, values)]]
    axes.barh(names, middle, xerr=spread, color=["#3465a4" if name.startswith("regard") else "#b8bcc2" for name in names])
    axes.invert_yaxis()
    axes.set_xlabel(label)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main(arguments: list[str]) -> int:
    """Command line of the generator."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks tables", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    options = parser.parse_args(arguments)
    for path in options.files:
        document = json.loads(path.read_text(encoding="utf-8"))
        for name, report in reports(path.stem, document).items():
            tell, draw = shown(report)
            picture = f"\n![{name}](../pictures/{name}.svg)\n" if draw else ""
            pages = [page for language in ("en", "zh") for page in sorted((options.docs / language).glob("*.md"))]
            placed = [
                write(page, name, tell(report, page.parent.name) + _about(report, page.parent.name) + picture)
                for page in pages
            ]
            if not any(placed):
                print(f"{name}: no page has a place for it")
                continue
            if draw:
                (options.docs / "pictures").mkdir(exist_ok=True)
                draw(report, options.docs / "pictures" / f"{name}.svg")
    return 0

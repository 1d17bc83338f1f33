"""How fast the page is on long texts, in a real browser: `python -m benchmarks page`.

A text of 512 tokens through a model of 12 layers of 12 heads becomes a file; Chromium opens it. Measured are the time from
the parsed file to the drawn grid of all heads, the unpacking of the trace in it; the time from a moving pointer to the next
frame over a heat map of 512 rows and columns; and the page's memory. Then the same grid of a text of 2,048 tokens
through 4 layers of 8 heads, and the size of the file of a translation of 20 tokens by 6 layers of 8 heads. Needs playwright
and Chromium.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import promises
from benchmarks.measure import machine

BOUNDS = {"grid_ms": 1000.0, "pointer_p95_ms": 50.0, "heap_mib": 300.0, "translation_kb": 400.0}
"""What is promised."""
SHOWN: dict[str, tuple[tuple[str, str], str]] = {
    "grid_ms": (("512 tokens, 12 × 12 heads: grid drawn after", "512 个词元，12 × 12 个头：画出网格用时"), "ms"),
    "opened_ms": (("the same from the file's last byte on", "同上，从文件的最后一个字节算起"), "ms"),
    "pointer_p50_ms": (("pointer to paint, half of all", "指针到画面，半数不过"), "ms"),
    "pointer_p95_ms": (("pointer to paint, 95 %", "指针到画面，95 % 不过"), "ms"),
    "heap_mib": (("memory of its script", "脚本内存"), "MiB"),
    "long_kb": (("its file", "它的文件"), "KB"),
    "far_grid_ms": (("2,048 tokens, 4 × 8 heads: grid drawn after", "2048 个词元，4 × 8 个头：画出网格用时"), "ms"),
    "far_kb": (("its file", "它的文件"), "KB"),
    "translation_kb": (("file of a translation, 6 × 8 × 3 heads", "一次翻译的文件，6 × 8 × 3 个头"), "KB"),
    "translation_tokens": (("tokens of its source and target", "它的原文和译文的词元"), ""),
}
"""What figures are called, and their units."""
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]

DRAWN = """() => new Promise(done => {
  const since = name => performance.now() - performance.getEntriesByType('navigation')[0][name];
  const look = () => {
    const all = [...document.querySelectorAll('.thumb canvas')];
    if (all.length && all.every(canvas => canvas.width > 1)) {
      requestAnimationFrame(() => setTimeout(() => done([since('domInteractive'), since('responseEnd'), all.length])));
    } else setTimeout(look, 5);
  };
  look();
})"""
WATCH = """() => {
  window.waits = [];
  document.querySelector('.heat-frame').addEventListener('mousemove', event => {
    requestAnimationFrame(() => setTimeout(() => window.waits.push(performance.now() - event.timeStamp)));
  });
}"""


def models(seed: int = 1) -> tuple[Any, Any, Any]:
    """Classifiers of 12 layers of 12 heads and of 4 of 8, and a translator of 6 of 8, with random weights."""
    import torch

    from regard.classifier import Classifier
    from regard.decoding.options import Search
    from regard.models import bert, transformer
    from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
    from regard.translator import Translator

    lines = ["The dog runs in the park, and a man looks on.", "Un chien court dans le parc, et un homme regarde."] * 5
    tokenizer = train_tokenizer(lines, Plan("bpe", vocab_size=300))
    tokenizers, sizes = Tokenizers(tokenizer, tokenizer, True), {"vocab_size": tokenizer.vocab_size}
    torch.manual_seed(seed)
    reader = bert.describe(
        **sizes, num_layers=12, num_heads=12, d_model=96, d_ff=192, max_positions=512, head="class", classes=3
    )
    far = bert.describe(
        **sizes, num_layers=4, num_heads=8, d_model=256, d_ff=512, max_positions=2048, head="class", classes=3
    )
    writer = transformer.describe(**sizes, num_layers=6, num_heads=8, d_model=512, d_ff=512)
    readers = (Classifier(one.build().eval(), tokenizers) for one in (reader, far))
    return *readers, Translator(writer.build().eval(), tokenizers, Search(max_length=20))


def written(folder: Path) -> tuple[list[Path], int]:
    """The three files, long, far and short, and how many tokens the translation has."""
    from regard.inspection import inspect

    reader, far, writer = models()
    text = "The dog runs in the park. "
    short = inspect(writer, "The dog runs in the park, and a man looks on.")
    traces = inspect(reader, text * 90), inspect(far, text * 400, methods=()), short
    files = [folder / f"{name}.html" for name in ("long", "far", "short")]
    for path, trace in zip(files, traces):
        path.write_text(trace.to_html(), encoding="utf-8")
    return files, sum(len(short.sides[name].tokens) for name in ("source", "target"))


def measured(long: Path, far: Path, moves: int) -> dict[str, float]:
    """What the browser does with the long files."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        raise SystemExit("no Chromium is installed here (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(long.as_uri() + "#view=grid", wait_until="commit")
        grid, opened, thumbs = page.evaluate(DRAWN)
        page.evaluate("location.hash = '#view=align'")
        page.wait_for_selector(".heat-frame")
        box = page.query_selector(".heat-frame").bounding_box()  # type: ignore[union-attr]
        page.evaluate(WATCH)
        for n in range(moves):
            x = box["x"] + 120 + (n * 37) % (box["width"] - 140)  # type: ignore[index]
            page.mouse.move(x, box["y"] + 60 + (n * 23) % (min(box["height"], 700) - 80))  # type: ignore[index]
        page.wait_for_timeout(200)
        waits = sorted(page.evaluate("window.waits"))
        tools = page.context.new_cdp_session(page)
        tools.send("Performance.enable")
        heap = {one["name"]: one["value"] for one in tools.send("Performance.getMetrics")["metrics"]}["JSHeapUsedSize"]
        page.goto("about:blank")
        page.goto(far.as_uri() + "#view=grid", wait_until="commit")
        far_grid, _, _ = page.evaluate(DRAWN)
        browser.close()
    p95 = waits[int(0.95 * (len(waits) - 1))]
    return {
        "thumbs": thumbs,
        "grid_ms": grid,
        "opened_ms": opened,
        "pointer_p50_ms": statistics.median(waits),
        "pointer_p95_ms": p95,
        "moves": len(waits),
        "heap_mib": heap / 2**20,
        "far_grid_ms": far_grid,
    }


def table(report: dict[str, Any], language: str) -> str:
    """The figures as a table of a page."""
    found, rows = report["page"], []
    for key, (names, unit) in SHOWN.items():
        bound = report["bounds"].get(key)
        rows.append((names, f"{found[key]:,.0f} {unit}".strip(), "" if bound is None else f"≤ {bound:,.0f} {unit}"))
    return promises.table(rows, language)


def main(arguments: list[str]) -> int:
    """Measure, print, and say whether the promises hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks page", description=__doc__)
    parser.add_argument("--moves", type=int, default=300, help="movements of the pointer")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        files, tokens = written(Path(folder))
        figures = measured(*files[:2], given.moves) | {"translation_tokens": tokens}
        figures |= {f"{name}_kb": path.stat().st_size / 1000 for name, path in zip(("long", "far", "translation"), files)}
    for name, value in figures.items():
        bound = f"   at most {BOUNDS[name]:g}" if name in BOUNDS else ""
        print(f"{name:16} {value:10.1f}{bound}")
    if given.json is not None:
        report = {"benchmark": "page", "machine": machine(), "page": figures, "bounds": BOUNDS}
        given.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return int(any(figures[name] > most for name, most in BOUNDS.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

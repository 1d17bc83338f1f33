"""How fast the page is on long texts, in a real browser: `python -m benchmarks page`.

A text of 512 tokens through a model of 12 layers of 12 heads becomes a file; Chromium opens it. Measured are the time from
the parsed file to the drawn grid of all heads, the time from a moving pointer to the next frame over a heat map of 512 rows
and columns, and the page's memory; and the size of the file of a translation of 20 tokens. Needs playwright and Chromium.
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

from benchmarks.measure import machine

BOUNDS = {"grid_ms": 1000.0, "pointer_p95_ms": 50.0, "heap_mib": 300.0, "translation_kb": 400.0}
"""What is promised."""
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]

DRAWN = """() => new Promise(done => {
  const began = performance.timing ? performance.getEntriesByType('navigation')[0].domInteractive : 0;
  const look = () => {
    const all = [...document.querySelectorAll('.thumb canvas')];
    if (all.length && all.every(canvas => canvas.width > 1)) {
      requestAnimationFrame(() => setTimeout(() => done([performance.now() - began, all.length])));
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


def models(seed: int = 1) -> tuple[Any, Any]:
    """A classifier of 12 layers of 12 heads, and a translator of 6 layers of 8 heads, with random weights."""
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
    writer = transformer.describe(**sizes, num_layers=6, num_heads=8, d_model=64, d_ff=128)
    return Classifier(reader.build().eval(), tokenizers), Translator(
        writer.build().eval(), tokenizers, Search(max_length=20)
    )


def written(folder: Path) -> tuple[Path, Path]:
    """The two files."""
    from regard.inspection import inspect

    reader, writer = models()
    text = "The dog runs in the park. " * 90
    long, short = folder / "long.html", folder / "short.html"
    long.write_text(inspect(reader, text, layers=None).to_html(), encoding="utf-8")
    short.write_text(inspect(writer, "The dog runs in the park, and a man looks on.").to_html(), encoding="utf-8")
    return long, short


def measured(long: Path, moves: int) -> dict[str, float]:
    """What the browser does with the long file."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        raise SystemExit("no Chromium is installed here (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(long.as_uri() + "#view=grid", wait_until="commit")
        grid, thumbs = page.evaluate(DRAWN)
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
        browser.close()
    p95 = waits[int(0.95 * (len(waits) - 1))]
    return {
        "thumbs": thumbs,
        "grid_ms": grid,
        "pointer_p50_ms": statistics.median(waits),
        "pointer_p95_ms": p95,
        "moves": len(waits),
        "heap_mib": heap / 2**20,
    }


def main(arguments: list[str]) -> int:
    """Measure, print, and say whether the promises hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks page", description=__doc__)
    parser.add_argument("--moves", type=int, default=300, help="movements of the pointer")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        long, short = written(Path(folder))
        figures = measured(long, given.moves)
        figures |= {"long_kb": long.stat().st_size / 1000, "translation_kb": short.stat().st_size / 1000}
    for name, value in figures.items():
        bound = f"   at most {BOUNDS[name]:g}" if name in BOUNDS else ""
        print(f"{name:16} {value:10.1f}{bound}")
    if given.json is not None:
        given.json.write_text(
            json.dumps({"machine": machine(), "page": figures, "bounds": BOUNDS}, indent=2) + "\n", "utf-8"
        )
    return int(any(figures[name] > most for name, most in BOUNDS.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

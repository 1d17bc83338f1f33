"""Screenshots of the page for the documentation: `python page/pictures.py EN_FR_FOLDER EN_ZH_FOLDER`.

Needs playwright, Chromium, Pillow, and a font with Chinese characters. Writes docs/pictures/*.png, small ones.
"""

from __future__ import annotations

import io
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

from regard.serving.engine import Engine
from regard.serving.served import open_models
from regard.serving.server import configured, listen
from regard.serving.service import Service

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
TEXT = "A man in a red hat is riding a horse on the beach. Two dogs are playing in the snow."
SHORT = "A man in a red hat is riding a horse."
EASY = "We do not buy these small shirts today. Will the knife be big?"

SHOTS: dict[str, tuple[str, str, tuple[str, ...], int]] = {
    "translate-en": (
        f"page=translate&model=en-fr&text={TEXT}",
        "[data-word='1.0']",
        ("click:[data-word='0.6']", ".menu button"),
        560,
    ),
    "translate-zh": (
        f"page=translate&model=en-zh&text={EASY}&lang=zh&theme=dark",
        "[data-word='1.0']",
        ("click:[data-word='0.3']", ".menu button"),
        560,
    ),
    "grid-en": (f"page=inspect&model=en-fr&text={SHORT}&view=grid&layer=1&head=1&q=4&k=5", ".heat canvas", (), 1080),
    "grid-zh": (
        f"page=inspect&model=en-zh&text={EASY[:39]}&view=grid&layer=1&head=1&q=3&k=3&lang=zh&theme=dark",
        ".heat canvas",
        (),
        1080,
    ),
    "next-en": (f"page=inspect&model=en-fr&text={SHORT}&view=next&q=6&lang=en", ".lens td", (), 1120),
    "next-zh": (
        f"page=inspect&model=en-zh&text={EASY[:39]}&view=next&q=3&lang=zh&theme=dark",
        ".lens td",
        (),
        1120,
    ),
}
"""Of each picture the state of the page, what to wait for, what to do there, and its height."""


def small(picture: bytes) -> bytes:
    """The picture in at most 160 colours, a third of its size."""
    with Image.open(io.BytesIO(picture)) as opened, io.BytesIO() as out:
        opened.convert("RGB").quantize(160, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        return out.getvalue()


def take(page: Any, base: str, name: str) -> None:
    """Take one picture."""
    state, wait, acts, height = SHOTS[name]
    page.set_viewport_size({"width": 1060, "height": height})
    page.goto("about:blank")
    page.goto(f"{base}#{state}")
    page.wait_for_selector(wait)
    for act in acts:
        if act.startswith("click:"):
            page.click(act.removeprefix("click:"))
        else:
            page.wait_for_selector(act)
    page.wait_for_timeout(600)
    content = small(page.screenshot())
    (FOLDER / f"{name}.png").write_bytes(content)
    print(f"{name}.png  {len(content) / 1000:.0f} kB")


def main(folders: list[str]) -> None:
    """Serve the two models and take all pictures."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    served = open_models([f"{name}={folder}" for name, folder in zip(("en-fr", "en-zh"), folders, strict=True)])
    with Engine(served) as engine, listen("127.0.0.1", 0) as listening:
        server = uvicorn.Server(configured(Service(engine)))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
            page = browser.new_page()
            page.set_default_timeout(120_000)
            for name in SHOTS:
                take(page, f"http://127.0.0.1:{listening.getsockname()[1]}/", name)
            browser.close()
        server.should_exit = True
        thread.join(20)


if __name__ == "__main__":
    main(sys.argv[1:])

"""The page in a real browser: every view, both languages, both themes, the keyboard alone, nothing from elsewhere."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn

from regard.inspection import inspect
from regard.serving.engine import Engine
from regard.serving.server import application, listen
from regard.serving.service import Service

TEXT = "The red dog runs ."
NASTY = '<s> </script> "><img src=x onerror=alert(1)> \u202e 👨‍👩‍👧 龘 </s>'

HEAD = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>n</title><link rel="icon" href="data:,"></head>'
VIEWS = {
    "align": ".pair .word",
    "tokens": ".chip",
    "grid": ".thumb canvas",
    "heads": "svg.web path",
    "hand": ".recipe .strip",
    "next": ".lens td",
    "why": ".shaded span",
    "off": ".heads-table .gate",
    "beam": "svg.tree .leaf",
    "positions": ".heat canvas",
    "compare": ".two .wide .heat canvas",
    "anatomy": ".anatomy .part",
}
"""Every view of a translation, and what it draws."""

INK = """selector => {
  const canvas = document.querySelector(selector);
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  for (let i = 0; i < data.length; i += 4) colours.add(data[i] + ' ' + data[i + 1] + ' ' + data[i + 2]);
  return colours.size;
}"""
"""How many colours a canvas shows."""


def inspected(view: str, **more: Any) -> str:
    fields = {"page": "inspect", "model": "en-fr", "text": TEXT, "view": view} | more
    return "&".join(f"{name}={value}" for name, value in fields.items())


def serious(page: Any, axe: str) -> list[str]:
    """What axe-core finds to be serious or worse."""
    page.evaluate(f"{axe}; 0")
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(found => found.violations)")
    return [
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def test_every_view_in_both_languages_and_themes(base: str, tab_of: Callable[..., Any], axe: str) -> None:
    tab = tab_of()
    tab.page.goto(base + "#" + inspected("align"))
    words = {"en": "Look inside", "zh": "看内部"}
    for number, (view, drawn) in enumerate(VIEWS.items()):
        lang, theme = ("en", "zh")[number % 2], ("light", "dark")[number // 2 % 2]
        tab.show(inspected(view, lang=lang, theme=theme), drawn)
        tab.page.wait_for_selector(f"html[data-theme={theme}][lang^={lang}]")
        assert tab.page.inner_text(".pages a[aria-current]") == words[lang]
        assert "undefined" not in tab.page.inner_text("main")
        for canvas in tab.page.query_selector_all(".heat-frame canvas")[:1]:
            assert canvas.is_visible()
            assert tab.page.evaluate(INK, ".heat-frame canvas") > 3, view
        assert serious(tab.page, axe) == [], (view, lang, theme)
    assert tab.errors == []
    assert tab.away(base) == []


SMALL = """() => [...document.querySelectorAll('button, select, summary, a, textarea, input:not([type=checkbox])')]
  .filter(one => one.checkVisibility() && !one.closest('.out, .skip, .patches'))
  .map(one => [one.getBoundingClientRect(), one.outerHTML.slice(0, 120)])
  .filter(([box]) => box.width < 24 || box.height < 24)
  .map(([box, html]) => `${Math.round(box.width)} × ${Math.round(box.height)} ${html}`)"""
"""What a finger would miss: targets of less than 24 × 24 pixels, words in a sentence excepted (WCAG 2.2, 2.5.8)."""


def test_a_narrow_screen_shows_everything(base: str, tab_of: Callable[..., Any]) -> None:
    """320 pixels, what 400 % of enlargement leaves of 1,280: nothing runs out sideways, and targets can be hit."""
    tab = tab_of()
    tab.page.set_viewport_size({"width": 320, "height": 640})
    tab.page.goto(base + f"#text={TEXT}")
    tab.page.wait_for_selector("[data-word='0.3']")
    for view in ("", *VIEWS):
        if view:
            tab.show(inspected(view), VIEWS[view])
        over = tab.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert over <= 1, (view, over)
        assert tab.page.evaluate(SMALL) == [], view
    assert tab.errors == []


def test_the_address_keeps_what_is_looked_at(base: str, tab_of: Callable[..., Any]) -> None:
    tab = tab_of()
    tab.page.goto(base + "#" + inspected("grid"))
    tab.page.wait_for_selector(".thumb canvas")
    tab.page.click(".thumb >> nth=6")
    tab.page.wait_for_selector(".thumb[aria-pressed=true]")
    tab.page.wait_for_function("location.hash.includes('layer=1&head=2')")
    tab.page.reload()
    tab.page.wait_for_selector(".thumb[aria-pressed=true]")
    assert tab.page.inner_text(".thumb[aria-pressed=true]").startswith("1.2")
    tab.page.click(".views button >> text=Tokens")
    tab.page.wait_for_selector(".chip")
    tab.page.go_back()
    tab.page.wait_for_selector(".thumb[aria-pressed=true]")


def test_a_translation_is_made_looked_at_and_changed(base: str, tab_of: Callable[..., Any], translator: Any) -> None:
    tab = tab_of()
    tab.page.goto(base)
    tab.page.fill("textarea", "The red dog runs . The small cat sleeps .")
    tab.page.wait_for_selector("[data-word='1.0']")
    out = "The red dog runs . The small cat sleeps ."
    wanted = translator.translate([part.strip() + " ." for part in out.split(".")[:2]])
    assert tab.page.inner_text(".pane .out") == " ".join(wanted)
    tab.page.hover("[data-word='0.1']")  # chien
    tab.page.wait_for_selector(".behind mark")
    shares = tab.page.eval_on_selector_all(
        ".behind mark", "all => all.map(one => [one.textContent, Number(one.style.getPropertyValue('--share'))])"
    )
    assert max(shares, key=lambda pair: pair[1])[0] in TEXT.split()
    tab.page.click("[data-word='0.1']")
    tab.page.wait_for_selector(".menu button")
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    other = next(text for text in tab.page.eval_on_selector_all(".menu bdi", "all => all.map(one => one.textContent)")[1:])
    tab.page.click(f".menu button:has-text('{other}') >> nth=0")
    tab.page.wait_for_selector(".said.forced")
    tab.page.wait_for_selector("[data-word='0.2']")
    changed = tab.page.inner_text(".pane .out")
    assert changed != " ".join(wanted)
    assert changed.startswith("Le")
    assert other in changed
    assert changed.endswith(wanted[1])  # the other sentence is as it was
    tab.page.click("text=Undo")
    assert tab.page.inner_text(".pane .out") == " ".join(wanted)
    tab.page.click(".best button >> nth=0")  # an alternative translation
    tab.page.wait_for_selector(".said.forced")
    tab.page.click("text=Look inside →")
    tab.page.wait_for_selector(".pair .word")
    tab.page.wait_for_function("location.hash.includes('view=align')")
    assert tab.errors == []
    assert tab.away(base) == []


def test_the_keyboard_alone(base: str, tab_of: Callable[..., Any]) -> None:
    tab = tab_of()
    press = tab.page.keyboard.press
    tab.page.goto(base)
    tab.page.wait_for_selector("textarea")
    for _ in range(30):
        press("Tab")
        if tab.page.evaluate("document.activeElement.tagName") == "TEXTAREA":
            break
    tab.page.keyboard.type(TEXT)
    tab.page.wait_for_selector("[data-word='0.3']")
    for _ in range(10):
        press("Tab")
        if tab.page.evaluate("document.activeElement.dataset.word") == "0.0":
            break
    press("ArrowRight")
    assert tab.page.evaluate("document.activeElement.dataset.word") == "0.1"
    press("Enter")
    tab.page.wait_for_selector(".menu button")
    tab.page.wait_for_function("document.activeElement.closest('.menu') !== null")
    press("ArrowDown")
    press("Escape")
    assert tab.page.evaluate("document.activeElement.dataset.word") == "0.1"
    tab.show(inspected("align"), ".heat canvas")
    tab.page.focus(".heat-frame")
    press("ArrowRight")
    press("ArrowDown")
    press("Enter")
    tab.page.wait_for_function("location.hash.includes('q=1&k=0')")
    assert "looks at" in tab.page.inner_text(".heat-foot .readout")
    press("Escape")
    tab.page.wait_for_function("!location.hash.includes('q=1')")
    press("[")
    tab.page.wait_for_function("location.hash.includes('layer=0')")
    press("t")
    assert tab.page.wait_for_selector(".sheet table caption").is_visible()
    press("w")
    tab.page.wait_for_function("location.hash.includes('unit=word')")
    tab.show(inspected("heads"), "svg.web path")
    tab.page.focus(".web-word")
    press("ArrowDown")
    assert "→" in tab.page.inner_text(".web-frame ~ .readout")
    press("Enter")
    tab.page.wait_for_function("location.hash.includes('q=1')")
    tab.show(inspected("beam"), "svg.tree .leaf")
    tab.page.focus(".leaf")
    press("ArrowRight")
    press("Enter")
    tab.page.wait_for_selector(".leaf.held")
    assert "log p" in tab.page.inner_text(".tree-frame ~ .readout")
    tab.show(inspected("align"), ".heat canvas")
    press("n")
    tab.page.wait_for_selector(".chip")
    press("?")
    assert tab.page.wait_for_selector("dialog[open] kbd").is_visible()
    press("Escape")
    tab.page.wait_for_selector("dialog[open]", state="detached")
    tab.show(inspected("tokens", keys="off"), ".chip")
    press("n")
    tab.page.wait_for_function("location.hash.includes('view=tokens')")
    assert tab.errors == []


def test_pages_of_other_models(base: str, tab_of: Callable[..., Any], axe: str) -> None:
    tab = tab_of()
    tab.page.goto(base + "#page=classify&text=A dog")
    tab.page.wait_for_selector(".bars .bar >> nth=2")
    assert set(tab.page.eval_on_selector_all(".bar-label", "all => all.map(one => one.textContent)")) == {
        "bad",
        "fair",
        "good",
    }
    assert serious(tab.page, axe) == []
    tab.page.click(".inside")
    tab.page.wait_for_selector(".shaded span")
    tab.show("page=generate&prompt=The red&tokens=8&lang=zh&theme=dark", "textarea")
    tab.page.click("button.main")
    tab.page.wait_for_selector("[data-word]")
    assert serious(tab.page, axe) == []
    before = tab.page.inner_text(".written")
    tab.page.click("[data-word] >> nth=2")
    tab.page.click(".menu button:not(.now):not(:disabled) >> nth=1")
    tab.page.wait_for_selector(".said.forced")
    tab.page.wait_for_selector("[data-word]")
    assert tab.page.inner_text(".written") != before
    tab.show("page=inspect&model=tales&text=The red dog&view=experts&lang=en", ".heat canvas")
    assert tab.page.evaluate(INK, ".heat-frame canvas") > 3
    assert len(tab.page.query_selector_all(".bars .bar")) == 3
    assert tab.errors == []
    assert tab.away(base) == []


def test_a_head_is_switched_off(base: str, tab_of: Callable[..., Any]) -> None:
    tab = tab_of()
    tab.page.goto(base + "#" + inspected("off"))
    tab.page.wait_for_selector(".gate")
    tab.page.select_option(".tools select >> nth=1", "mean")
    tab.page.wait_for_function("location.hash.includes('off=mean')")
    tab.page.click(".gate >> nth=0")
    tab.page.click(".view button.main")
    tab.page.wait_for_selector(".changes li >> text=(mean)")
    tab.page.select_option(".tools select >> nth=1", "")
    for gate in tab.page.query_selector_all(".gate")[1:]:
        gate.click()
    tab.page.click(".view button.main")
    tab.page.wait_for_selector(".changes li >> nth=1")
    found = tab.page.wait_for_selector(".changes li .wrong, .changes li .faint")
    assert "Δ log p −" in found.inner_text()  # without any look at the source the answer is less likely
    assert tab.errors == []


def test_a_file_opens_from_a_disk(translator: Any, tab_of: Callable[..., Any], tmp_path: Path, axe: str) -> None:
    path = tmp_path / "a page.html"
    path.write_text(inspect(translator, NASTY, methods=("occlusion",)).to_html(), encoding="utf-8")
    tab = tab_of()
    tab.page.on("dialog", lambda dialog: tab.errors.append(f"a script of the text ran: {dialog.message}"))
    tab.page.goto(path.as_uri())
    tab.page.wait_for_selector(".heat canvas")
    assert tab.page.is_hidden("#fallback")
    assert NASTY.replace("\u202e", "") in tab.page.inner_text(".subject").replace("\u202e", "")
    assert tab.page.query_selector("#app img") is None
    for view in ("tokens", "grid", "heads", "hand", "next", "why", "off", "beam", "positions", "compare", "anatomy"):
        tab.show(f"view={view}", VIEWS.get(view, "h2") if view not in ("off", "beam") else ".view h2")
        assert "\ufffd" not in tab.page.inner_text("main"), view
    assert serious(tab.page, axe) == []
    assert tab.errors == []
    assert [url for url in tab.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert {url.partition("#")[0] for url in tab.requests if url.startswith("file:")} == {path.as_uri()}


def test_a_file_without_scripts_still_has_its_tables(translator: Any, tab_of: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(inspect(translator, TEXT).to_html(), encoding="utf-8")
    tab = tab_of(java_script_enabled=False)
    tab.page.goto(path.as_uri())
    assert tab.page.is_visible("#fallback table")


def test_a_notebook_shows_the_page_in_a_frame(translator: Any, tab_of: Callable[..., Any], tmp_path: Path) -> None:
    """From another origin, sandboxed: no storage, no address, no requests."""
    path = tmp_path / "notebook.html"
    path.write_text(HEAD + inspect(translator, TEXT)._repr_html_(), encoding="utf-8")
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        tab = tab_of()
        address = f"http://127.0.0.1:{server.server_port}/"
        tab.page.goto(address + "notebook.html")
        frame = tab.page.wait_for_selector("iframe").content_frame()
        frame.wait_for_selector(".heat canvas")
        frame.click(".views button >> text=One layer")
        frame.wait_for_selector("svg.web path")
        assert tab.errors == []
        assert [
            url for url in tab.requests if url != address + "notebook.html" and not url.startswith(("about:", "data:"))
        ] == []
    finally:
        server.shutdown()
        server.server_close()


def test_an_image_and_its_patches(seer: Any, tab_of: Callable[..., Any], tmp_path: Path, axe: str) -> None:
    image = (np.arange(256).reshape(16, 16) % 251).astype(np.uint8)
    path = tmp_path / "image.html"
    path.write_text(inspect(seer, image).to_html(), encoding="utf-8")
    tab = tab_of()
    tab.page.goto(path.as_uri() + "#view=patches")
    tab.page.wait_for_selector(".patch")
    assert len(tab.page.query_selector_all(".patch")) == 16
    tab.page.click(".patch >> nth=5")
    tab.page.wait_for_selector(".patch.held")
    tab.page.wait_for_function("location.hash.includes('q=6')")
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_function("location.hash.includes('q=10')")
    assert serious(tab.page, axe) == []
    assert tab.errors == []


def test_long_texts_do_not_freeze_the_page_s_insp_02(base: str, tab_of: Callable[..., Any]) -> None:
    """512 tokens: the page answers, layers and heads can be chosen, and it says what it leaves out."""
    tab = tab_of()
    text = " ".join(f"dog {n % 10}" for n in range(180))
    tab.page.goto(base + f"#page=inspect&model=marks&view=grid&text={text}")
    tab.page.wait_for_selector(".thumb canvas")
    count = int(tab.page.evaluate("document.querySelectorAll('.thumb').length"))
    assert count == 4
    tab.page.click(".thumb >> nth=2")
    tab.page.wait_for_selector(".thumb[aria-pressed=true]")
    tab.show(f"page=inspect&model=marks&view=align&text={text}", ".view .heat canvas, .view .note")
    tab.page.select_option(".tools select >> nth=1", "0")
    tab.page.wait_for_function("location.hash.includes('layer=0')")
    assert tab.errors == []


def test_texts_past_512_tokens_are_shown_by_parts_s_insp_02(
    translator: Any, tab_of: Callable[..., Any], tmp_path: Path
) -> None:
    """The whole in small, and of any part the exact weights; what is shown is always said."""
    text = "The red dog runs . The small cat sleeps . " * 70
    trace = inspect(translator, text, "Le chien rouge court .", methods=(), full=1 << 30)
    name, count = "encoder.blocks.1.attention.attend", len(trace.sides["source"].tokens)
    assert len(trace.attention(name).products) == 4
    path = tmp_path / "long.html"
    path.write_text(trace.to_html(), encoding="utf-8")
    tab = tab_of()
    tab.page.goto(path.as_uri() + "#view=align&kind=encoder self&layer=1&head=2&table=1")
    tab.page.wait_for_selector(".heat-frame >> nth=1")
    assert f"Rows 0–255 of {count:,}" in tab.page.inner_text("main")
    tab.page.click("[aria-label='Rows +256']")
    tab.page.wait_for_function("() => location.hash.includes('r=256')")
    tab.page.wait_for_selector(f"text=Rows 256–511 of {count:,}")
    strongest = np.sort(trace.weights(name, 2)[256, :256])[::-1]
    shown = tab.page.inner_text(".sheet tbody td >> nth=0").split()[-1]
    assert float(shown.replace("−", "-")) == pytest.approx(strongest[0], abs=6e-4)
    box = tab.page.query_selector(".heat-frame >> nth=0").bounding_box()
    tab.page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.5)
    tab.page.wait_for_function(f"() => Number(new URLSearchParams(location.hash.slice(1)).get('c')) > {count // 2}")
    tab.page.wait_for_selector(f"text=Columns {count - 256:,}–{count - 1:,} of {count:,}")
    tab.show("view=heads&kind=encoder self&layer=1&r=96", "svg.web path")
    assert f"Rows 96–143 of {count:,}" in tab.page.inner_text("main")
    assert len(tab.page.query_selector_all(".web-word")) < 200
    tab.page.hover(".web-word >> nth=3")
    tab.page.wait_for_selector("text=other keys")
    tab.show("view=tokens", ".chip")
    assert f"Source 0–399 of {count:,}" in tab.page.inner_text("main")
    tab.show("view=compare&a=1&b=1&bh=1", ".two .wide .heat canvas")
    tab.show("view=hand", ".recipe .strip")
    tab.show("view=grid&kind=encoder self", ".thumb canvas")
    assert tab.errors == []


def test_what_is_drawn_can_be_turned(translator: Any, tab_of: Callable[..., Any], tmp_path: Path) -> None:
    """Rows by what was read, hidden shares scaled up, a range enlarged, rollout, the key to the buttons that save."""
    path = tmp_path / "page.html"
    path.write_text(inspect(translator, TEXT).to_html(), encoding="utf-8")
    tab = tab_of()
    tab.page.goto(path.as_uri() + "#view=align")
    first = ".pair .line >> nth=1 >> .word >> nth=0"
    tab.page.wait_for_selector(first)
    written = tab.page.inner_text(first)
    tab.show("view=align&rows=read", ".pair .word")
    tab.page.wait_for_selector(".pair .line >> nth=1 >> .word.special >> nth=0")
    assert tab.page.inner_text(first) != written
    tab.show("view=align&spec=0&norm=1", ".pair .word")
    tab.page.wait_for_selector(".legend >> text=Scaled up to 1")
    tab.page.focus(".heat-frame")
    tab.page.keyboard.press("ArrowRight")
    assert "(hidden " in tab.page.inner_text(".heat-foot .readout")
    tab.show("view=align", ".heat canvas")
    width = "document.querySelector('.heat-whole').offsetWidth"
    before = tab.page.evaluate(width)
    frame = tab.page.query_selector(".heat-frame")
    frame.scroll_into_view_if_needed()
    box = frame.bounding_box()
    left, bottom = box["x"], box["y"] + box["height"]
    tab.page.mouse.move(left + 130, bottom - 30)
    tab.page.mouse.down()
    tab.page.mouse.move(left + 210, bottom - 100, steps=4)
    tab.page.mouse.up()
    tab.page.wait_for_function(f"() => {width} > {before}")
    tab.page.mouse.dblclick(left + 200, bottom - 40)
    tab.page.wait_for_function(f"() => {width} === {before}")
    tab.page.keyboard.press("e")
    assert tab.page.evaluate("document.activeElement.textContent") == "SVG"
    tab.show("view=why", ".shaded span")
    assert any("Rollout" in text for text in tab.page.inner_text(".tools select").split("\n"))
    assert tab.errors == []


def test_a_browser_that_cannot_unpack_shows_the_tables(translator: Any, tab_of: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(inspect(translator, TEXT).to_html(), encoding="utf-8")
    tab = tab_of()
    tab.page.add_init_script("delete window.DecompressionStream")
    tab.page.goto(path.as_uri())
    assert "DecompressionStream" in tab.page.wait_for_selector(".note.wrong").inner_text()
    assert tab.page.is_visible("#fallback table")


def test_wrong_files_are_refused_in_words(translator: Any, tab_of: Callable[..., Any], tmp_path: Path) -> None:
    good, bad = tmp_path / "page.html", tmp_path / "bad.json"
    trace = inspect(translator, TEXT)
    good.write_text(trace.to_html(), encoding="utf-8")
    tab = tab_of()
    tab.page.goto(good.as_uri() + "#view=compare")
    tab.page.wait_for_selector("input[type=file]")
    for content, says in (("{", "holds no trace"), (json.dumps({"schema": "regard.trace/0"}), "regard.trace/0")):
        bad.write_text(content, encoding="utf-8")
        tab.page.set_input_files("input[type=file]", bad)
        tab.page.wait_for_function("says => document.querySelector('.note.wrong')?.textContent.includes(says)", arg=says)
    bad.write_text(trace.to_json(), encoding="utf-8")
    tab.page.set_input_files("input[type=file]", bad)
    tab.page.wait_for_selector(".note.wrong", state="detached")
    assert tab.page.wait_for_selector(".two .wide .heat canvas")
    assert tab.errors == []


@contextmanager
def running(app: Any) -> Iterator[str]:
    """The address at which an ASGI application is served meanwhile."""
    listening = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()


def test_behind_a_proxy_under_another_path_s_serve_10(served: Any, tab_of: Callable[..., Any]) -> None:
    with Engine(served[2:]) as engine:
        app = application(Service(engine))

        async def proxy(scope: Any, receive: Any, send: Any) -> None:
            assert scope["path"].startswith("/tr/"), scope["path"]
            await app({**scope, "root_path": "/tr"}, receive, send)

        with running(proxy) as address:
            tab = tab_of()
            tab.page.goto(address + "tr/#page=classify&text=dog")
            tab.page.wait_for_selector(".bars .bar")
            tab.page.click(".inside")
            tab.page.wait_for_selector(".shaded span")
            assert tab.errors == []
            assert tab.away(address + "tr/") == []


def test_a_key_is_asked_for(served: Any, tab_of: Callable[..., Any]) -> None:
    with Engine(served[2:]) as engine, running(application(Service(engine, ("k",)))) as address:
        tab = tab_of()
        tab.page.goto(address + "#page=classify&text=dog")
        tab.page.fill("input[type=password]", "wrong")
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_selector(".note.wrong")
        tab.page.fill("input[type=password]", "k")
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_selector(".bars .bar")
        assert "key" not in tab.page.url

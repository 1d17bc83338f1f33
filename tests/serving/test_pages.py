"""The page as the server gives it, and as the wheel holds it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from regard.serving.pages import PATHS, POLICY

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_and_its_parts(client: Any) -> None:
    kinds = {"/": "text/html", "/page/inspector.js": "text/javascript", "/page/inspector.css": "text/css"}
    for path in PATHS:
        found = client.get(path)
        assert found.status_code == 200
        assert found.headers["content-type"] == f"{kinds[path]}; charset=utf-8"
        assert found.headers["content-security-policy"] == POLICY
        again = client.get(path, headers={"if-none-match": found.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    assert client("HEAD", "/").status_code == 200
    assert client.get("/page/words.txt").status_code == 404
    assert client.get("/page/../page/inspector.js/..").status_code == 404


def test_scripts_are_files_and_nothing_else_may_run() -> None:
    assert "unsafe" not in POLICY
    page = (files("regard") / "page" / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"\son\w+=|style=", page)
    inline = re.findall(r"<script([^>]*)>", page)
    assert inline == [' type="application/json" id="words"', ' src="page/inspector.js" defer']


def test_all_addresses_are_relative_s_serve_10() -> None:
    """Behind https://host.example/tr/ the page asks that place alone."""
    for name in ("index.html", "inspector.js", "inspector.css"):
        text = (files("regard") / "page" / name).read_text(encoding="utf-8")
        found = set(re.findall(r"https?://[^\s\"'`)<]+", text))
        assert found <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml", "http://www.w3.org/1998/Math/MathML"}
        assert not re.search(r"""(?:href|src|fetch)\s*[=(]\s*["'`]/""", text)


def test_the_page_needs_no_key_and_shows_nothing_without_one_s_serve_05(client_of: Callable[..., Any]) -> None:
    client = client_of(keys=("k",))
    for path in PATHS:
        found = client.get(path)
        assert found.status_code == 200
        assert "en-fr" not in found.text
    for method, path in (("GET", "/api/models"), ("POST", "/api/traces"), ("GET", "/api/traces/x/export.html")):
        assert client(method, path).status_code == 401


def test_the_script_is_small() -> None:
    assert len((files("regard") / "page" / "inspector.js").read_bytes()) <= 100_000


def test_both_languages_say_the_same_things() -> None:
    import json

    texts = json.loads((files("regard") / "page" / "words.json").read_text(encoding="utf-8"))
    assert set(texts) == {"en", "zh"}
    assert set(texts["en"]) == set(texts["zh"])
    for key, text in texts["en"].items():
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", texts["zh"][key])), key
        assert text
        assert texts["zh"][key]


def test_the_bundle_is_what_its_source_makes(tmp_path: Path) -> None:
    """Byte for byte, where node and the pinned packages (make page) are there."""
    import shutil

    if shutil.which("node") is None:
        pytest.skip("node is not installed, so the page cannot be built again")
    if not (ROOT / "page" / "node_modules" / "esbuild").is_dir():
        pytest.skip("page/node_modules is not there (make page), so the page cannot be built again")
    subprocess.run(["node", str(ROOT / "page" / "build.mjs"), str(tmp_path)], check=True, capture_output=True)
    for made in tmp_path.iterdir():
        own = ROOT / "src" / "regard" / "page" / made.name
        assert made.read_bytes() == own.read_bytes(), f"{own} is stale: make page"
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in (ROOT / "src" / "regard" / "page").iterdir()}


def test_the_wheel_holds_the_page(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    code = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True, capture_output=True, text=True)
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        names = set(wheel.namelist())
        for name in ("index.html", "inspector.js", "inspector.css", "words.json"):
            assert wheel.read(f"regard/page/{name}") == (ROOT / "src" / "regard" / "page" / name).read_bytes()
    assert not [name for name in names if "node_modules" in name or name.endswith(".tsx")]


@pytest.mark.slow
def test_the_wheel_in_an_environment_of_its_own_serves_the_page(translator: Any, tmp_path: Path) -> None:
    """An empty environment with the wheel alone; what regard depends on is borrowed from the one that runs the tests."""
    pytest.importorskip("hatchling")
    code = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True, capture_output=True, text=True)
    wheel, home = tmp_path / done.stdout.split()[-1], tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = str(home / "bin" / "python")
    site = next(home.glob("lib/python*/site-packages"))
    (site / "borrowed.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")), encoding="utf-8")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, cwd=tmp_path)
    translator.save(tmp_path / "en-fr")
    serve = [python, "-m", "regard", "serve", "en-fr", "--port", "0", "--device", "cpu"]
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    server = subprocess.Popen(serve, cwd=tmp_path, env=plain, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        line = ""
        while not line.startswith("serving"):
            line = server.stderr.readline()
            assert line, "the server did not start"
        address = line.split()[-1]
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{address}/page/inspector.js") as answer:
            assert answer.read() == (ROOT / "src" / "regard" / "page" / "inspector.js").read_bytes()
    finally:
        server.terminate()
        server.wait(60)
        server.stderr.close()
    where = [python, "-c", "import regard; print(regard.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=plain, check=True, capture_output=True, text=True).stdout
    assert str(site) in found

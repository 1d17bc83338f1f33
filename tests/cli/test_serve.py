"""regard serve, from start to stop."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import cli
from regard.cli.serve import _is_local
from regard.decoding.options import Search
from regard.models import transformer
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.translator import Translator


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = train_tokenizer(["the cat sees a dog", "a dog"], Plan(kind="words", vocab_size=30))
    torch.manual_seed(0)
    model = transformer.describe(vocab_size=tokenizer.vocab_size, num_layers=1, d_model=16, d_ff=32, num_heads=2).build()
    path = tmp_path_factory.mktemp("models") / "en-fr"
    Translator(model.eval(), Tokenizers(tokenizer, tokenizer, True), Search(num_beams=2, max_length=6)).save(path)
    return path


SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores it
from regard import cli
sys.exit(cli.main(["serve", *sys.argv[1:]]))
"""


def ask(address: str, path: str, body: Any = None) -> Any:
    heads = {"Content-Type": "application/json", "Authorization": "Bearer k"}
    request = urllib.request.Request(address + path, None if body is None else json.dumps(body).encode(), heads)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
        return json.load(answer)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_from_start_to_stop(folder: Path, number: int) -> None:
    command = [sys.executable, "-c", SCRIPT, str(folder), "--port", "0", "--device", "cpu"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"REGARD_API_KEY": "k"})
    assert process.stderr is not None
    try:
        lines = [process.stderr.readline()]
        while lines[-1] and not lines[-1].startswith("serving"):
            lines.append(process.stderr.readline())
        found = re.match(r"serving en-fr at (http://127\.0\.0\.1:\d+)\n", lines[-1])
        assert found, lines
        assert ask(found[1], "/healthz") == {"status": "ok"}
        assert ask(found[1], "/api/translate", {"text": "the cat sees a dog"})["model"] == "en-fr"
        process.send_signal(number)
        rest = process.stderr.read()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    assert rest.endswith("stopped\n")
    assert "POST /api/translate 200" in rest
    assert "Traceback" not in rest
    assert "cat" not in rest
    assert "".join(lines).count("loaded ") == 1


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(["serve", *arguments]) == 2
    said = capsys.readouterr().err
    assert len(said.strip().split("\n")) == 1
    return said


def test_mistakes(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "there is no such folder" in refusal(capsys, str(tmp_path / "none"), "--port", "0")
    assert "two models are called en-fr" in refusal(capsys, str(folder), str(folder), "--port", "0", "--device", "cpu")
    assert "the limit texts must be at least 1" in refusal(capsys, str(folder), "--max-texts", "0")
    assert "cannot listen at 203.0.113.1" in refusal(capsys, str(folder), "--host", "203.0.113.1")
    assert "max-beams" in refusal(capsys, str(folder), "--max-beams", "x")
    archive = tmp_path / "model.zip"
    archive.write_bytes(b"PK")
    assert "is a file; a model is a folder" in refusal(capsys, str(archive), "--port", "0")


def test_what_is_lacking_is_named_with_the_command_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "fastapi" else real(name, *more))
    said = refusal(capsys, "anything")
    assert "serving needs fastapi, not installed here: pip install 'regard[serve]'" in said


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("", False),
        ("x", False),
    ],
)
def test_what_only_this_machine_reaches(host: str, local: bool) -> None:
    assert _is_local(host) is local


def test_settings_reach_the_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from regard.serving import server

    seen: dict[str, Any] = {}

    def serve(service: Any, listening: Any, path: str, proxies: str) -> None:
        seen.update(service=service, path=path, proxies=proxies)
        service.engine.close()

    monkeypatch.setattr(server, "serve", serve)
    monkeypatch.delenv("REGARD_API_KEY", raising=False)
    options = [
        "--port",
        "0",
        "--api-key",
        "a",
        "--api-key",
        "b",
        "--allow-host",
        "Good.example",
        "--cors-origin",
        "https://x",
    ]
    limits = ["--max-seconds", "7", "--max-beams", "3", "--batch-tokens", "99", "--root-path", "/tr", "--proxy", "10.0.0.1"]
    assert cli.main(["serve", f"other={folder}", "--device", "cpu", *options, *limits]) == 0
    service = seen["service"]
    assert (service.keys, service.hosts, service.origins) == (("a", "b"), ("good.example",), ("https://x",))
    assert (service.engine.limits.seconds, service.engine.limits.beams, service.engine.limits.batch_tokens) == (7, 3, 99)
    assert (list(service.engine.models), seen["path"], seen["proxies"]) == (["other"], "/tr", "10.0.0.1")
    assert re.search(r"serving other at http://127\.0\.0\.1:\d+/tr\n", capsys.readouterr().err)
    assert service.engine.models["other"].loaded.model.compiled is None
    options = ["--engine", "compiled"] if importlib.util.find_spec("numba") else []
    assert cli.main(["serve", str(folder), "--device", "cpu", "--port", "0", "--host", "0.0.0.0", *options]) == 0
    assert (seen["service"].engine.models[folder.name].loaded.model.compiled is None) == ("compiled" not in options)
    assert seen["service"].hosts is None
    assert "anybody who reaches this address may use it" in capsys.readouterr().err

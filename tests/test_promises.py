"""What is promised of the page, the server and the recorder is measured by one command each, and told by a table."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """bench(name): a module of the benchmarks."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


def measured(path: Path, *arguments: str) -> dict[str, Any]:
    """What a benchmark writes; whether its promises hold at this size is not asked."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks", *arguments, "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert path.is_file(), done.stderr[-3000:]
    return json.loads(path.read_text(encoding="utf-8"))


def test_promises_stand_beside_what_was_measured(bench: Any) -> None:
    page = dict.fromkeys(bench("page").SHOWN, 12.3)
    told = bench("page").table({"page": page, "bounds": {"grid_ms": 1000.0}}, "en")
    assert "| 512 tokens, 12 × 12 heads: grid drawn after | 12 ms | ≤ 1,000 ms |" in told
    load = {"clients": 64, "per_second": 200.0, "p50_ms": 300, "p95_ms": 400, "errors": 0, "cpu_ms_a_request": 4.5}
    report = {"one": load, "many": load | {"memory_mb": [500, 510]}, "gain": 5.3, "seconds": 60}
    told = bench("serve").table(report, "zh")
    assert "| 合批的收益 | 5.3 × | ≥ 4 × |" in told
    assert "| 64 个客户端，60 秒：错误 | 0 | 0 |" in told
    record = bench("record")
    numbers = {"median": 2.0, "min": 1.0, "max": 3.0}
    arms: dict[str, Any] = {
        "milliseconds": dict.fromkeys(record.ARMS, numbers),
        "times plain": dict.fromkeys(record.ARMS, 1.5),
    }
    arms |= {"tape MiB": dict.fromkeys(record.ARMS, 4.0), "equal bit for bit": dict.fromkeys(record.ARMS, True)}
    assert "| recording one layer | 2.0 ms (1.0–3.0), 1.50 ×, 4.0 MiB |  |" in record.table(arms, "en")


def test_every_promise_has_a_place_in_both_languages() -> None:
    for language in ("en", "zh"):
        for page, name in (("inspection", "page"), ("inspection", "record"), ("serve", "serve")):
            text = (ROOT / "docs" / language / f"{page}.md").read_text(encoding="utf-8")
            assert f"<!-- figures: {name} -->\n" in text


@pytest.mark.slow
def test_the_cost_of_recording_is_measured(bench: Any, tmp_path: Path) -> None:
    small = ["--rounds", "1", "--num-layers", "2", "--d-model", "16", "--length", "8", "--rows", "2"]
    found = measured(tmp_path / "record.json", "record", *small)
    assert all(found["equal bit for bit"].values())
    assert bench("record").table(found, "zh").count("\n") == 7


@pytest.mark.slow
def test_a_server_is_put_under_load(bench: Any, model_for: Any, shared: Any, tmp_path: Path) -> None:
    from regard.translator import Translator

    Translator(model_for(shared), shared).save(tmp_path / "model")
    arguments = ["serve", f"en-fr={tmp_path / 'model'}", "--clients", "4", "--seconds", "3"]
    found = measured(tmp_path / "serve.json", *arguments)
    assert found["many"]["errors"] == found["one"]["errors"] == 0
    assert found["many"]["requests"] > 0
    assert bench("serve").table(found, "en").count("\n") == 10


@pytest.mark.slow
def test_the_page_is_measured_in_a_browser(bench: Any, tmp_path: Path) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed, so no browser can be driven")
    found = measured(tmp_path / "page.json", "page", "--moves", "20")
    assert found["page"]["thumbs"] == 144
    assert found["page"]["translation_kb"] < 400
    assert bench("page").table(found, "en").count("\n") == 12

"""Figures."""

from __future__ import annotations

from typing import Any

from regard.serving.engine import Engine
from regard.serving.metrics import Metrics
from regard.serving.served import Source


def test_figures_tell_what_the_engine_did(engine: Engine, texts: list[str]) -> None:
    metrics = Metrics(engine)
    wish = engine.model("en-fr").wish("translate", engine.limits)
    engine.submit("en-fr", wish, [Source(text) for text in texts]).result()
    engine.close()
    found = metrics.text().decode()
    assert 'regard_model_units_total{model="en-fr"} 4.0' in found
    assert 'regard_model_requests_total{model="en-fr"} 1.0' in found
    assert 'regard_model_waiting{model="tales"} 0.0' in found
    assert 'regard_model_batch_size_total{model="en-fr",up_to="4"} 1.0' in found
    assert "process_resident_memory_bytes" in found


def test_requests_are_counted_by_route_not_by_path(client_of: Any) -> None:
    client = client_of()
    for path in ("/healthz", "/api/models/en-fr", "/api/models/none", "/a", "/b", "/c?x=1"):
        client.get(path)
    found = client.get("/metrics")
    assert found.headers["content-type"].startswith("text/plain")
    text = found.text
    assert 'regard_requests_total{path="/healthz",status="200"} 1.0' in text
    assert 'regard_requests_total{path="/api/models/{name}",status="404"} 1.0' in text
    assert 'regard_requests_total{path="other",status="404"} 3.0' in text
    assert 'path="/a"' not in text
    assert "regard_requests_open 1.0" in text

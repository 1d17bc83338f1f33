"""The routes that look into models."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from regard.inspection.page import unpacked
from regard.inspection.trace import Trace
from regard.serving.looking import Shelf, gates_of
from regard.serving.refusals import RefusalError

TEXT = "A dog runs in the park ."
CROSS = "decoder.blocks.0.cross.attend"


def test_words_for_a_place(client: Any) -> None:
    found = client.post("/api/words", {"model": "en-fr", "text": TEXT, "prefix": "Un", "count": 3}).json()
    assert found["model"] == "en-fr"
    assert 1 <= len(found["words"]) <= 3
    assert all(0 < one["probability"] <= 1 and isinstance(one["end"], bool) for one in found["words"])


def test_a_trace_and_its_blocks(client: Any) -> None:
    made = client.post("/api/traces", {"model": "en-fr", "text": TEXT}).json()
    assert (made["schema"], made["model"]["name"], made["task"]) == ("regard.trace/1", "en-fr", "translate")
    assert "data" not in str(made["blocks"])
    again = client.get(f"/api/traces/{made['id']}")
    assert again.json() == made
    name, block = next((name, one) for name, one in made["blocks"].items() if one["dtype"] == "float16")
    found = client.get(f"/api/traces/{made['id']}/blocks/{name}")
    assert found.headers["content-type"] == "application/octet-stream"
    weights = np.frombuffer(found.content, "<f2").reshape(block["shape"])
    assert weights.shape == tuple(block["shape"])
    assert np.isfinite(weights).all()
    page = client.get(f"/api/traces/{made['id']}/export.html")
    assert page.headers["content-disposition"].endswith('"regard.html"')
    assert base64.b64encode(found.content).decode() in unpacked(page.text)


@pytest.mark.filterwarnings("ignore")
def test_a_trace_as_files(client: Any) -> None:
    made = client.post("/api/traces", {"model": "en-fr", "text": TEXT}).json()
    base = f"/api/traces/{made['id']}/export"
    trace = Trace.of(client.get(f"{base}.json").json())
    assert trace.array(trace.attentions[0].weights["0"]).shape == trace.attentions[0].size
    svg, png = client.get(f"{base}.svg?view=grid"), client.get(f"{base}.png")
    assert (svg.headers["content-type"], png.headers["content-type"]) == ("image/svg+xml", "image/png")
    assert svg.content.lstrip().startswith(b"<?xml")
    assert png.content.startswith(b"\x89PNG")
    assert client.get(f"{base}.pdf").status_code == 400
    assert client.get(f"{base}.svg?view=pie").status_code == 400


def test_a_trace_of_a_forced_answer(client: Any) -> None:
    made = client.post("/api/traces", {"model": "en-fr", "text": TEXT, "target": "Deux hommes"}).json()
    assert made["sides"]["target"]["text"].strip() == "Deux hommes"


def test_heads_are_switched_off(client: Any, translator: Any) -> None:
    body = {"model": "en-fr", "text": TEXT, "gates": {CROSS: {"0": 0.0}}}
    found = client.post("/api/changes", body).json()
    assert found["gates"] == {CROSS: {"0": 0.0}}
    assert isinstance(found["text"], str)
    assert found["difference"] != 0
    assert client.post("/api/translate", {"text": TEXT}).json()["translations"][0]["text"] == translator.translate([TEXT])[0]
    found = client.post("/api/changes", body | {"gates": {CROSS: {"0": None, "1": 0.5}}}).json()
    assert found["gates"] == {CROSS: {"0": None, "1": 0.5}}
    assert found["name"] == f"{CROSS}: 0 (mean)+1"
    assert found["difference"] != 0


def test_a_model_with_workers_of_its_own_is_looked_into_too(running_of: Callable[..., Any]) -> None:
    """Traces cross the pipe of a worker process."""
    import pickle

    from regard.serving.insight import Subject, trace

    running = running_of()
    loaded = running.service.engine.models["en-fr"].loaded
    found = trace(loaded, Subject(TEXT))
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("words", {"text": "a", "count": 0}, 400, "count must be a whole number from 1 to 20"),
        ("words", {"text": "a", "count": 10**9}, 400, "count must be a whole number from 1 to 20"),
        ("words", {"text": "a"}, 400, "name the model; those that can be asked this: en-fr, tales"),
        ("words", {"text": "a", "model": "marks"}, 400, "the model marks cannot be asked this"),
        ("words", {"text": "a", "model": "none"}, 404, "there is no model of this name"),
        ("words", {"text": "a", "model": "tales", "prefix": "dog " * 200}, 400, "the model has positions for 128"),
        ("words", {"text": None}, 400, "text: Input should be a valid string"),
        ("traces", {"text": " ", "model": "en-fr"}, 400, "text: there is nothing to look at"),
        ("traces", {"text": "a", "model": "en-fr", "methods": ["guess"]}, 400, "methods.0: Input should be"),
        ("traces", {"text": "a", "model": "marks", "target": "b"}, 400, "a target is given, but"),
        ("traces", {"text": "a", "model": "en-fr", "extra": 1}, 400, "extra: Extra inputs are not permitted"),
        ("changes", {"text": "a", "model": "en-fr"}, 400, "gates: Field required"),
        ("changes", {"text": "a", "model": "en-fr", "gates": {}}, 400, "gates: Dictionary should have at least 1 item"),
        ("changes", {"text": "a", "model": "en-fr", "gates": {CROSS: {"x": 0.0}}}, 400, "heads are named by their numbers"),
        ("changes", {"text": "a", "model": "en-fr", "gates": {CROSS: {"9": 0.0}}}, 400, "heads 0 to 1, not 9"),
        (
            "changes",
            {"text": "a", "model": "en-fr", "gates": {"nowhere": {"0": 0.0}}},
            400,
            "no attention is called 'nowhere'",
        ),
    ],
)
def test_what_is_wrong_is_named(client: Any, path: str, body: dict[str, Any], status: int, says: str) -> None:
    found = client.post(f"/api/{path}", body)
    assert (found.status_code, says in found.json()["error"]) == (status, True), found.json()


def test_what_is_not_there(client: Any) -> None:
    for path in ("x", "x/blocks/y", "x/export.html", "../secret"):
        assert client.get(f"/api/traces/{path}").status_code == 404
    made = client.post("/api/traces", {"model": "vectors", "text": TEXT}).json()
    assert client.get(f"/api/traces/{made['id']}/blocks/none").status_code == 404


def test_the_shelf_lets_the_oldest_go() -> None:
    class Trace:
        def __init__(self, size: int) -> None:
            self.limits = type("Limits", (), {"bytes": size})()

    shelf = Shelf(most=100)
    first, second = shelf.put(Trace(40)), shelf.put(Trace(40))
    shelf.get(first)
    third = shelf.put(Trace(40))
    assert len({first, second, third}) == 3
    with pytest.raises(RefusalError, match="no trace of this name"):
        shelf.get(second)
    assert shelf.get(first).limits.bytes == shelf.get(third).limits.bytes == 40
    huge = shelf.put(Trace(1000))
    assert shelf.get(huge).limits.bytes == 1000
    assert shelf.size == 1000


def test_gates_as_they_travel() -> None:
    assert gates_of({"a": {"0": 0, "3": None}}) == (("a", ((0, 0.0), (3, None))),)
    for factor in (float("nan"), float("inf"), -11.0):
        with pytest.raises(RefusalError, match="factors are numbers from -10 to 10"):
            gates_of({"a": {"0": factor}})
    for wrong in ({"a": {}}, {"a": {"-1": 0.0}}, {"a": {"²": 0.0}}):
        with pytest.raises(RefusalError, match="heads are named by their numbers"):
            gates_of(wrong)

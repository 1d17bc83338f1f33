"""One format: written, read back the same, refused when damaged, described by a schema that is shipped."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import UserError
from regard.inspection import inspect
from regard.inspection.trace import SCHEMA, Trace, schema


@pytest.fixture(scope="module")
def trace(made: Any) -> Trace:
    return inspect(made("translate"), "A dog 这是 runs", "Un chien")


def test_it_is_read_back_as_it_was(trace: Trace, tmp_path: Path) -> None:
    trace.write(tmp_path / "a.json")
    assert Trace.read(tmp_path / "a.json") == trace
    document = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert document["schema"] == SCHEMA


def test_blocks_may_be_fetched_apart(trace: Trace) -> None:
    apart = trace.json_value(inline=False)
    assert all("data" not in one for one in apart["blocks"].values())
    assert Trace.model_validate(apart).blocks.keys() == trace.blocks.keys()
    name = trace.attentions[0].weights["0"]
    data = np.frombuffer(trace.block_bytes(name), "<f2").reshape(apart["blocks"][name]["shape"])
    np.testing.assert_array_equal(data, trace.array(name))


def test_the_shipped_schema_is_the_programs() -> None:
    """`regard inspect schema --output src/regard/inspection/trace.schema.json` writes it anew."""
    shipped = json.loads((files("regard") / "inspection" / "trace.schema.json").read_text("utf-8"))
    assert shipped == json.loads(json.dumps(schema()))


def test_traces_fit_the_schema(trace: Trace) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(trace.json_value(), schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(trace.json_value() | {"extra": 1}, schema())


def _without(document: dict[str, Any], *path: Any) -> None:
    for key in path[:-1]:
        document = document[key]
    del document[path[-1]]


def _with(document: dict[str, Any], value: Any, *path: Any) -> None:
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


DAMAGE = {
    "version": (lambda d: _with(d, "regard.trace/9", "schema"), "schema is 'regard.trace/9'; this regard reads"),
    "missing": (lambda d: _without(d, "sides"), "sides: Field required"),
    "extra": (lambda d: _with(d, 1, "colour"), "colour: Extra inputs are not permitted"),
    "kind": (lambda d: _with(d, "x", "attentions", 0, "layer"), r"attentions\.0\.layer: Input should be a valid integer"),
    "block": (lambda d: d["blocks"].clear(), "block '.*' is spoken of and is not there"),
    "tokens": (lambda d: _without(d, "sides", "source", "tokens", 0), "source tokens, the trace"),
    "short": (
        lambda d: _with(d, "AAAA", "blocks", "alignment", "data"),
        r"blocks\.alignment: float16 of shape .* has .* bytes",
    ),
    "base64": (lambda d: _with(d, "?", "blocks", "alignment", "data"), r"blocks\.alignment: its data is not base64"),
    "shape": (lambda d: _with(d, [1, 1], "blocks", d["attentions"][0]["weights"]["0"], "shape"), "block .* is .*, encoder"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_ones_are_refused_in_one_line(trace: Trace, tmp_path: Path, name: str) -> None:
    document = trace.json_value()
    damage, message = DAMAGE[name]
    damage(document)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(UserError, match=message) as caught:
        Trace.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((content, "is not a trace") for content in (b"", b"{", b"\xff", b'{"schema": "regard.trace/1", "\\ud800": 1}')),
        (b"[]", "schema is None"),
    ],
)
def test_files_of_something_else(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(UserError, match=message):
        Trace.read(tmp_path / "a.json")
    with pytest.raises(UserError, match="cannot be read"):
        Trace.read(tmp_path / "b.json")


def test_files_are_written_by_their_endings(trace: Trace, tmp_path: Path) -> None:
    for name in ("a.html", "a.svg", "a.png"):
        trace.write(tmp_path / name)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.html").read_text("utf-8").startswith("<!doctype html>")
    with pytest.raises(UserError, match=r"a\.pdf: a trace is written as \.json"):
        trace.write(tmp_path / "a.pdf")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.png", "a.svg"]


def test_weights_by_name_and_head(trace: Trace) -> None:
    name = "decoder.blocks.1.cross.attend"
    mean = np.mean([trace.weights(name, head) for head in range(4)], 0)
    np.testing.assert_allclose(trace.weights(name), mean)
    with pytest.raises(KeyError, match="head 4 of"):
        trace.weights(name, 4)
    with pytest.raises(KeyError, match="no attention 'x'"):
        trace.weights("x")


def test_notebooks_show_it_without_a_network(trace: Trace) -> None:
    bundle = trace._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/svg+xml", "text/plain"}
    html = trace._repr_html_()
    assert html.startswith("<iframe srcdoc=")
    assert 'sandbox="allow-scripts"' in html
    assert "<svg" in html
    assert "</script>" not in html.partition("</iframe>")[0]

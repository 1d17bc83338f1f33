"""A trace: what was seen of one pass through a model, as one JSON document with a published schema.

Everything that shows attention (page, picture, terminal, notebook) is made from a trace and from nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, Field, ValidationError, model_validator

from regard.errors import UserError
from regard.files import parsed, read_plain, write_text
from regard.inspection.blocks import Block, Value, softmax
from regard.inspection.values import (
    Alignment,
    Attention,
    Attribution,
    Beam,
    Change,
    Entry,
    Experts,
    Found,
    Hand,
    Labelled,
    Lens,
    Limits,
    Picture,
    Positions,
    Predictions,
    Rollout,
    Side,
    Told,
    Whole,
)

SCHEMA = "regard.trace/1"
LARGEST = 1 << 30
"""Bytes that a trace may have."""

Task = Literal["translate", "generate", "classify", "tag", "fill", "embed", "image"]


class Trace(Value):
    """See the schema: each key is always there, None or empty where the model has no such thing."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_alias=True, extra="forbid", allow_inf_nan=False)

    schema_name: Literal["regard.trace/1"] = Field(default=SCHEMA, alias="schema")
    made_by: str
    created: str
    task: Task
    model: Told
    sides: dict[str, Side]
    blocks: dict[str, Block]
    attentions: list[Attention]
    alignment: Alignment | None
    rollout: list[Rollout]
    predictions: Predictions | None
    lens: Lens | None
    classes: list[Labelled] | None
    tags: list[Labelled | None] | None
    vocabulary: dict[str, Entry]
    attributions: list[Attribution]
    hypotheses: list[Found]
    beam: Beam | None
    hand: list[Hand]
    positions: Positions | None
    image: Picture | None
    experts: list[Experts]
    changes: list[Change]
    checks: Whole
    limits: Limits

    @model_validator(mode="after")
    def _whole(self) -> Trace:
        for name in _named(self):
            if name not in self.blocks:
                raise ValueError(f"block {name!r} is spoken of and is not there")
        for its in self.attentions:
            for side, count in zip((its.rows, its.columns), its.size):
                tokens = self.sides[side].tokens if side in self.sides else None
                if tokens is None or len(tokens) != count:
                    raise ValueError(f"{its.name} has {count} {side} tokens, the trace {len(tokens or ())}")
            for name, shape in _shapes(its):
                if self.blocks[name].shape != shape:
                    raise ValueError(f"block {name!r} is {self.blocks[name].shape}, {its.name} is {shape}")
        return self

    def array(self, name: str) -> np.ndarray:
        """The block of that name. KeyError: there is none."""
        return self.blocks[name].array()

    def block_bytes(self, name: str) -> bytes:
        """The bytes of a block, little-endian. KeyError: there is none."""
        return self.blocks[name].raw()

    def attention(self, name: str) -> Attention:
        """The attention of that name. KeyError: none of that name was looked at."""
        for its in self.attentions:
            if its.name == name:
                return its
        raise KeyError(f"no attention {name!r}; there are {', '.join(its.name for its in self.attentions) or 'none'}")

    def weights(self, name: str, head: int | None = None) -> np.ndarray:
        """Weights [Q K] of a head, or the mean of all that were kept. KeyError: no such attention, or its head was left
        out."""
        its = self.attention(name)
        chosen = its.kept if head is None else [str(head)]
        if not chosen or any(one not in its.kept for one in chosen):
            raise KeyError(f"head {head} of {name} was left out of the trace; kept: {', '.join(its.kept) or 'none'}")
        whole = self._head(its, chosen[0])
        for one in chosen[1:]:
            whole = whole + self._head(its, one)
        return whole / len(chosen)

    def _head(self, its: Attention, head: str) -> np.ndarray:
        if head in its.weights:
            return self.array(its.weights[head])
        q, k = (self.array(name) for name in its.products[head])
        barred = None
        if its.masked is not None:
            barred = np.triu(np.ones(its.size, bool), 1) if its.masked == "causal" else self.array(its.masked).astype(bool)
        return softmax(q @ k.T * (its.scale or 1.0), barred)

    def json_value(self, inline: bool = True) -> dict[str, Any]:
        """The trace as JSON types; without `inline` the blocks' data is left out, to be fetched apart."""
        found = self.model_dump(mode="json", exclude=None if inline else {"blocks": {"__all__": {"data"}}})
        return {"schema": SCHEMA} | found

    def to_json(self) -> str:
        """The trace as one line of JSON."""
        return json.dumps(self.json_value(), ensure_ascii=False, separators=(",", ":"))

    def to_html(self) -> str:
        """One page that opens from a disk, without a network."""
        from regard.inspection.page import html

        return html(self)

    def to_svg(self, view: str = "align") -> str:
        """A picture. view: align, heads, grid (see `regard.inspection.picture`)."""
        from regard.inspection.picture import picture

        return picture(self, view, "svg").decode("utf-8")

    def to_png(self, view: str = "align") -> bytes:
        """The same as PNG."""
        from regard.inspection.picture import picture

        return picture(self, view, "png")

    def to_text(self, width: int = 80, shades: bool | None = None) -> str:
        """The alignment as a table for a terminal."""
        from regard.inspection.picture import table

        return table(self, width, shades)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        from regard.inspection.page import frame

        return {"text/html": frame(self), "image/svg+xml": self.to_svg(), "text/plain": self.to_text()}

    def _repr_html_(self) -> str:
        from regard.inspection.page import frame

        return frame(self)

    def write(self, path: str | Path) -> None:
        """Write a .json, .html, .svg or .png file, whole or not at all. UserError: another ending."""
        from regard.files import write_bytes

        path = Path(path)
        made: dict[str, Any] = {".json": self.to_json, ".html": self.to_html, ".svg": self.to_svg, ".png": self.to_png}
        if path.suffix.lower() not in made:
            raise UserError(f"{path}: a trace is written as {', '.join(made)}, by the file's ending")
        content = made[path.suffix.lower()]()
        write_text(path, content) if isinstance(content, str) else write_bytes(path, content)

    @classmethod
    def read(cls, path: str | Path) -> Trace:
        """Read a .json file, or the trace in a .html file. UserError says what is wrong with it."""
        from regard.inspection.page import unpacked

        try:
            text = read_plain(Path(path), LARGEST).decode("utf-8")
            document = parsed(unpacked(text) if text.lstrip().startswith("<") else text)
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from None
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}: is not a trace ({error})") from None
        return cls.of(document, str(path))

    @classmethod
    def of(cls, document: Any, where: str = "trace") -> Trace:
        """The trace of a JSON document. UserError: another version, a key too many or few, damaged blocks."""
        said = document.get("schema") if isinstance(document, dict) else None
        if said != SCHEMA:
            raise UserError(f"{where}: schema is {said!r}; this regard reads {SCHEMA}")
        try:
            found = cls.model_validate(document)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise UserError(f"{where}: {place + ': ' if place else ''}{' '.join(first['msg'].split())}") from None
        for name, its in found.blocks.items():
            try:
                its.raw()
            except ValueError as error:
                raise UserError(f"{where}: blocks.{name}: {error}") from None
        return found


def _shapes(its: Attention) -> Iterator[tuple[str, list[int]]]:
    """The blocks that an attention's weights are in, or come from, and what shape they have."""
    if its.masked is not None and its.masked != "causal":
        yield its.masked, list(its.size)
    yield from ((name, list(its.size)) for name in its.weights.values())
    for names in its.products.values():
        yield from ((name, [count, its.head_dim]) for name, count in zip(names, its.size))


def _named(trace: Trace) -> Iterator[str]:
    """The names of all blocks that a trace speaks of."""
    for its in trace.attentions:
        yield from (name for name, _ in _shapes(its))
        parts = [] if its.overview is None else [its.overview.max, its.overview.mean]
        parts += [] if its.top is None else [its.top.keys, its.top.weights, its.top.rest]
        parts += [] if its.offsets is None else [its.offsets]
        yield from parts
    yield from [] if trace.alignment is None else [trace.alignment.matrix]
    yield from (its.block for its in (*trace.rollout, *trace.attributions))
    for its in trace.hand:
        yield from (name for name in (its.q, its.k, its.v, its.bias, its.out) if name is not None)
    if trace.positions is not None:
        yield from (name for name in (trace.positions.table, trace.positions.dots) if name is not None)
    for its in trace.experts:
        yield from (its.share, its.chosen)


def schema() -> dict[str, Any]:
    """The JSON schema of a trace."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | Trace.model_json_schema()

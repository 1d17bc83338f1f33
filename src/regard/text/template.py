"""What stands around a text before a model reads it: the post-processor of tokenizer.json, applied to ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import UserError

Item = tuple[str | tuple[int, ...], int]
"""A text ("A", "B") or ids that are put in, and the segment of them."""


@dataclass(frozen=True)
class Template:
    """What one text and what a pair of texts become."""

    single: tuple[Item, ...] = (("A", 0),)
    pair: tuple[Item, ...] = (("A", 0), ("B", 1))

    def wrap(self, first: Sequence[int], second: Sequence[int] | None = None) -> tuple[list[int], list[int]]:
        """The ids as the model reads them, and the segment (token type) of each."""
        texts = {"A": first, "B": second if second is not None else ()}
        ids: list[int] = []
        segments: list[int] = []
        for what, segment in self.single if second is None else self.pair:
            new = texts[what] if isinstance(what, str) else what
            ids += new
            segments += [segment] * len(new)
        return ids, segments

    def before(self) -> list[int]:
        """The ids that stand before a single text: how a text begins that is to be gone on with."""
        ids: list[int] = []
        for what, _ in self.single:
            if isinstance(what, str):
                break
            ids += what
        return ids

    def added(self, pair: bool = False) -> int:
        """How many ids are put in."""
        return sum(len(what) for what, _ in (self.pair if pair else self.single) if not isinstance(what, str))


def read_template(processor: Mapping[str, Any] | None, where: str = "tokenizer.json") -> Template:
    """The template of a `post_processor` section. UserError for a kind that is not known."""
    if processor is None:
        return Template()
    kind = processor.get("type")
    if kind == "Sequence":
        # All but the templates change offsets alone (ByteLevel).
        steps = [one for one in processor["processors"] if one.get("type") != "ByteLevel"]
        if len(steps) > 1:
            raise UserError(f"{where}: has {len(steps)} post-processors that put ids in; regard applies one")
        return read_template(steps[0] if steps else None, where)
    if kind == "ByteLevel":
        return Template()
    if kind == "TemplateProcessing":
        known = {name: tuple(one["ids"]) for name, one in processor["special_tokens"].items()}
        return Template(_items(processor["single"], known), _items(processor["pair"], known))
    if kind in ("BertProcessing", "RobertaProcessing"):
        (_, sep), (_, cls) = processor["sep"], processor["cls"]
        start, end, more = ((cls,), 0), ((sep,), 0), 1 if kind == "BertProcessing" else 0
        single: tuple[Item, ...] = (start, ("A", 0), end)
        between: tuple[Item, ...] = () if more else (end,)
        return Template(single, (*single, *between, ("B", more), ((sep,), more)))
    raise UserError(f"{where}: the post-processor {kind} is not known")


def edged_template(bos: int | None, eos: int | None) -> Template:
    """A start mark before, an end mark after each text, if given: what `add_bos_token` and `add_eos_token` ask for."""
    single, second = (
        (*([] if bos is None else [((bos,), n)]), (name, n), *([] if eos is None else [((eos,), n)]))
        for n, name in enumerate("AB")
    )
    return Template(single, (*single, *second))


def _items(template: Sequence[Mapping[str, Any]], known: Mapping[str, tuple[int, ...]]) -> tuple[Item, ...]:
    found: list[Item] = []
    for entry in template:
        ((kind, one),) = entry.items()
        found.append((one["id"] if kind == "Sequence" else known[one["id"]], one["type_id"]))
    return tuple(found)

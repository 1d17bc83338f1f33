"""From a recorded pass to the values of a trace."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.inspection.blocks import Blocks
from regard.inspection.change import heads_of
from regard.inspection.hand import numbers
from regard.inspection.heads import CELLS, Glance
from regard.inspection.reading import Reading
from regard.inspection.sides import readable
from regard.inspection.tape import ALIVE, Tape, is_cross
from regard.inspection.values import (
    Attention,
    Chance,
    Checks,
    Chosen,
    Entry,
    Labelled,
    Lens,
    Overview,
    Predictions,
    Ranked,
    Top,
)

WHOLE = 128
"""Texts of at most so many tokens are kept with all heads; longer ones as overviews, with one layer's weights."""
FAR = 512
"""Longer texts are looked at a part at a time: no matrix of all their weights is ever made."""
ROOM = 32 << 20
"""Bytes of a long text's whole weights, if no more are asked for."""
BEST = 10
"""So many tokens of each prediction."""
EVERYWHERE = ".everywhere.attend"
"""What global tokens look at stands in an attention of its own, whose rows replace those of the layer's."""


def layer_of(name: str) -> int:
    """The number of the layer that an attention stands in; 0 where there are no blocks."""
    found = re.search(r"\.blocks\.(\d+)\.", name)
    return int(found[1]) if found else 0


def score_of(attend: Any) -> str:
    """How an attention scores keys: "dot", or by the name of what does."""
    return type(attend).__name__.removesuffix("Attend").lower() or "dot"


def sides_of(name: str, reading: Reading) -> tuple[str, str]:
    """The sides of an attention's rows and columns."""
    if name.startswith("encoder."):
        return "source", "source"
    rows = "target" if "target" in reading.sides else reading.first
    return rows, "source" if is_cross(name) else "read" if "read" in reading.sides else reading.first


class Weights:
    """Weights and masks of a recorded pass, a row for each token: Float[H Q K], Bool[Q K] or None."""

    def __init__(self, model: Any, tape: Tape, reading: Reading) -> None:
        self.model, self.tape, self.reading = model, tape, reading
        self._made: dict[str, Tensor] = {}

    def shape(self, name: str) -> tuple[int, int, int]:
        """How many heads, queries and keys an attention has."""
        rows, columns = (len(self.reading.sides[side].tokens) for side in sides_of(name, self.reading))
        return self.tape.heads(name), rows, columns

    def parts(self, name: str) -> Iterator[Tensor]:
        """Float[H q K]: the rows of all heads in order, so many at once as there is room for; all of a short text's at once,
        which are made once."""
        heads, rows, columns = self.shape(name)
        step = max(1, ALIVE // (heads * columns))
        if max(rows, columns) > FAR:
            yield from (self._rows(name, range(at, min(at + step, rows))) for at in range(0, rows, step))
            return
        if name not in self._made:
            self._made[name] = self._rows(name, range(rows))
        yield self._made[name]

    def __call__(self, name: str) -> Tensor:
        """Weights of all heads."""
        return torch.cat(list(self.parts(name)), 1)

    def head(self, name: str, head: int | None) -> Tensor:
        """Float[Q K]: weights of a head, or the mean of all heads."""
        return torch.cat([part.mean(0) if head is None else part[head] for part in self.parts(name)])

    def _rows(self, name: str, rows: range) -> Tensor:
        _, count, columns = self.shape(name)
        answered = self.tape.answered(name, count)
        queries = None if answered is None and len(rows) == count else (answered or range(count))[rows.start : rows.stop]
        made = self.tape.weights(name, queries=queries)[0].float()
        made = F.pad(made, (0, columns - made.shape[2]))  # keys that none of these rows had yet
        other = name.removesuffix(".attend") + EVERYWHERE
        if other in self.tape.names:
            spots = self._spots(name)
            inside = [n for n, spot in enumerate(spots) if spot in rows]
            if inside:
                made[:, [spots[n] - rows.start for n in inside]] = self.tape.weights(other, queries=inside)[0].float()
        return made

    def masked(self, name: str) -> Tensor | None:
        """The cells that no weight may be in."""
        found = self.tape.masked(name, self.tape.answered(name, self.shape(name)[1]))
        if found is None:
            return None
        found = found[0].clone()
        if name.removesuffix(".attend") + EVERYWHERE in self.tape.names:
            found[self._spots(name)] = False
        return found if bool(found.any()) else None

    def products(self, name: str, head: int) -> tuple[Tensor, Tensor] | None:
        """q Float[Q d] and k Float[K d] that say a head's weights in fewer bytes than the weights would take; None: they do
        not, or there is more to the weights than their products."""
        _, rows, columns = self.shape(name)
        if max(rows, columns) <= WHOLE or name.removesuffix(".attend") + EVERYWHERE in self.tape.names:
            return None
        its = numbers(self.tape, name, head, rows)
        if its is None or its.bias is not None or 4 * (its.q.numel() + its.k.numel()) >= 2 * rows * columns:
            return None
        return its.q, its.k

    def cost(self, name: str, head: int) -> int:
        """Bytes that the weights of a head take when they are stored."""
        _, rows, columns = self.shape(name)
        its = self.products(name, head)
        return 2 * rows * columns if its is None else 4 * (its[0].numel() + its[1].numel())

    def _spots(self, name: str) -> list[int]:
        """The places of global tokens."""
        attention: Any = self.model.get_submodule(name.rpartition(".")[0])
        return attention.marked.chosen(self.reading.layout)[0].nonzero()[:, 0].tolist()


def attention(
    weights: Weights, name: str, blocks: Blocks, kept: Sequence[int], brief: bool, importance: list[float] | None
) -> Attention:
    """One attention's value, its blocks added. kept: heads whose weights are stored. brief: of a long text."""
    count, rows, columns = weights.shape(name)
    glance = Glance(count, rows, columns, weights.model.device)
    for part in weights.parts(name):
        glance.add(part)
    barred, attend = weights.masked(name), weights.tape.attends[name]
    sides = sides_of(name, weights.reading)
    cross = is_cross(name)
    causal = barred is not None and rows == columns and bool((barred == torch.ones_like(barred).triu(1)).all())
    masked = "causal" if causal else None if barred is None else blocks.once(f"{name}.masked", barred, "uint8")
    whole, products = _stored(weights, name, blocks, kept)
    small = rows <= CELLS and columns <= CELLS
    check = weights.tape.check(name)
    return Attention(
        name=name,
        half="encoder" if name.startswith("encoder.") else "decoder",
        kind="cross" if cross else "self" if name.startswith("encoder.") or not causal else "causal",
        layer=layer_of(name),
        heads=count,
        rows=sides[0],
        columns=sides[1],
        size=(rows, columns),
        scale=getattr(attend, "scale", None),
        score=score_of(attend),
        head_dim=weights.tape.calls[name][0].q.shape[3],
        weights=whole,
        products=products,
        overview=None if small and len(whole) == count else _overview(glance, name, blocks),
        top=_top(glance, name, blocks) if brief else None,
        masked=masked,
        entropy=glance.entropy(),
        distance=None if cross else glance.distance(),
        sink=glance.sink(),
        importance=importance,
        offsets=None if cross else blocks.add(f"{name}.offsets", glance.offsets()),
        checks=Checks(row_sum=check.row_sum, output=check.output, dtype="float32", kernel=check.kernel),
    )


def whole_heads(
    weights: Weights, names: Sequence[str], asked: Sequence[int] | None, first: tuple[str, int], room: float
) -> dict[str, list[int]]:
    """Of each attention the heads whose weights are kept whole, in so many bytes: `first` before others of its attention,
    these before those of others. asked: no heads but these, None for all."""
    found: dict[str, list[int]] = {}
    for name in sorted(names, key=lambda name: name != first[0]):
        count = weights.shape(name)[0]
        heads = [head for head in (range(count) if asked is None else asked) if head < count]
        kept = []
        for head in sorted(heads, key=lambda head: (name, head) != first):
            cost = weights.cost(name, head) if room < math.inf else 0
            if cost <= room:
                room -= cost
                kept.append(head)
        found[name] = sorted(kept)
    return found


def _stored(
    weights: Weights, name: str, blocks: Blocks, kept: Sequence[int]
) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """The blocks of these heads' weights, or of the queries and keys that say them."""
    whole, products = {}, {}
    for head in kept:
        its = weights.products(name, head)
        if its is None:
            whole[str(head)] = blocks.add(f"{name}.{head}", weights.head(name, head))
        else:
            names = (f"{name}.{head}.{kind}" for kind in "qk")
            q, k = (blocks.once(each, x, "float32") for each, x in zip(names, its))
            products[str(head)] = q, k
    return whole, products


def _overview(glance: Glance, name: str, blocks: Blocks) -> Overview:
    most, mean = glance.overview()
    names = [blocks.add(f"{name}.{what}", each, "uint8", "sqrt") for what, each in (("max", most), ("mean", mean))]
    return Overview(max=names[0], mean=names[1], size=(most.shape[1], most.shape[2]))


def _top(glance: Glance, name: str, blocks: Blocks) -> Top:
    keys, values, rest = glance.strongest()
    return Top(
        keys=blocks.add(f"{name}.top.keys", keys, "int32"),
        weights=blocks.add(f"{name}.top.weights", values),
        rest=blocks.add(f"{name}.top.rest", rest),
    )


def _chances(odds: Tensor, count: int) -> list[list[Chance]]:
    """The likeliest of each row of probabilities Float[N V]."""
    value, number = odds.topk(min(count, odds.shape[1]), -1)
    return [[Chance(id=n, p=p) for n, p in zip(*row)] for row in zip(number.tolist(), value.tolist())]


def predictions(logits: Tensor, reading: Reading) -> Predictions:
    """What would be said at each row of logits Float[N V]."""
    logs = logits.float().log_softmax(-1)
    odds = logs.exp()
    chosen: list[Chosen | None] = []
    for row, number in enumerate(reading.said):
        if number is None:
            chosen.append(None)
            continue
        log_prob = float(logs[row, number])
        rank = 1 + int((logs[row] > logs[row, number]).sum())
        chosen.append(Chosen(id=number, log_prob=max(log_prob, -1e9), rank=rank, p=float(odds[row, number])))
    entropy = -(odds * logs.clamp(min=-1e9)).sum(-1)
    return Predictions(rows=reading.rows, top=_chances(odds, BEST), chosen=chosen, entropy=entropy.tolist())


def lens(layers: Iterable[tuple[str, Tensor]], logits: Tensor, reading: Reading, count: int = 5) -> Lens:
    """What each layer would say: pairs of its name and its logits Float[N V]; the last is compared with the model's."""
    names, top, chosen, last = [], [], [], logits
    for name, made in layers:
        odds, last = made.float().softmax(-1), made
        names.append(name)
        top.append(_chances(odds, count))
        ranks: list[Ranked | None] = []
        for row, number in enumerate(reading.said):
            if number is None:
                ranks.append(None)
            else:
                rank = 1 + int((made[row] > made[row, number]).sum())
                ranks.append(Ranked(p=float(odds[row, number]), rank=rank))
        chosen.append(ranks)
    away = float((last - logits).abs().amax())
    return Lens(rows=reading.rows, layers=names, top=top, chosen=chosen, checked=away)


def labelled(loaded: Any, logits: Tensor) -> list[Labelled]:
    """The labels of one row of logits Float[C], best first."""
    odds = (logits.float().sigmoid() if len(logits) == 1 else logits.float().softmax(-1)).tolist()
    return [Labelled(label=loaded.labels[n], p=odds[n]) for n in sorted(range(len(odds)), key=lambda n: -odds[n])]


def vocabulary(tokenizer: Any, numbers: Iterable[int]) -> dict[str, Entry]:
    """The entries of these ids. An id that the model has and the tokenizer lacks is spelled by its number."""
    found = {}
    for number in sorted(set(numbers)):
        known = number < tokenizer.vocab_size
        text = readable(tokenizer, number) if known else ""
        found[str(number)] = Entry(piece=tokenizer.piece(number) if known else f"#{number}", text=text)
    return found


def wanted(model: Any, names: Iterable[str], layers: Sequence[int] | None, chosen: Sequence[int] | None) -> list[str]:
    """The attentions of these layers, None for all. ValueError: there is no such layer or head."""
    found = [name for name in names if not name.endswith(EVERYWHERE)]
    there = sorted({layer_of(name) for name in found})
    wrong = [layer for layer in layers or () if layer not in there]
    if wrong:
        raise ValueError(f"there is no attention in layer {wrong[0]}; there are layers {', '.join(map(str, there))}")
    kept = [name for name in found if layers is None or layer_of(name) in layers]
    most = max((heads_of(model, name) for name in kept), default=0)
    wrong = [head for head in chosen or () if not 0 <= head < most]
    if wrong:
        raise ValueError(f"there are heads 0 to {most - 1}, not {wrong[0]}")
    return kept

"""Two-way tables between regard's tensors and another library's: one list, read in both directions.

Every tensor of theirs has a rule, is derived, or is ignored by name. Nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.errors import UserError


class Change(Protocol):
    """How tensors differ on the two sides."""

    def take(self, theirs: Sequence[Tensor]) -> Tensor: ...

    def give(self, ours: Tensor, count: int) -> Sequence[Tensor]: ...


@dataclass(frozen=True)
class Same:
    """Not at all."""

    def take(self, theirs: Sequence[Tensor]) -> Tensor:
        return theirs[0]

    def give(self, ours: Tensor, count: int) -> Sequence[Tensor]:
        return [ours]


@dataclass(frozen=True)
class Joined:
    """Theirs, one after another along the first axis, are ours. sizes: rows of each (None: as many in each).
    turned: theirs are stored transposed."""

    sizes: tuple[int, ...] | None = None
    turned: bool = False

    def take(self, theirs: Sequence[Tensor]) -> Tensor:
        return torch.cat([t.T if self.turned else t for t in theirs])

    def give(self, ours: Tensor, count: int) -> Sequence[Tensor]:
        pieces = ours.chunk(count) if self.sizes is None else ours.split(self.sizes)
        return [piece.T if self.turned else piece for piece in pieces]


@dataclass(frozen=True)
class Row:
    """Theirs is a matrix of one row, ours a vector."""

    def take(self, theirs: Sequence[Tensor]) -> Tensor:
        return theirs[0].flatten()

    def give(self, ours: Tensor, count: int) -> Sequence[Tensor]:
        return [ours[None]]


@dataclass(frozen=True)
class Stacked:
    """Theirs are the matrices of `count` experts (all first ones, then all second ones, …), ours one tensor with a leading
    axis of experts, each expert's matrices one after another."""

    count: int

    def take(self, theirs: Sequence[Tensor]) -> Tensor:
        kinds = [torch.stack(list(theirs[at : at + self.count])) for at in range(0, len(theirs), self.count)]
        return torch.cat(kinds, 1)

    def give(self, ours: Tensor, count: int) -> Sequence[Tensor]:
        return [matrix for kind in ours.chunk(count // self.count, 1) for matrix in kind.unbind()]


@dataclass(frozen=True)
class Headed:
    """Theirs are [D H d] for H heads, ours [H·d D], or [D H·d] if not `turned`, one after another."""

    heads: int
    turned: bool = True

    def take(self, theirs: Sequence[Tensor]) -> Tensor:
        return torch.cat([t.flatten(1).T if self.turned else t.flatten(1) for t in theirs])

    def give(self, ours: Tensor, count: int) -> Sequence[Tensor]:
        return [(t.T if self.turned else t).unflatten(1, (self.heads, -1)) for t in ours.chunk(count)]


@dataclass(frozen=True)
class Twice:
    """Theirs is stored under two names, and the first is what is computed with."""

    def take(self, theirs: Sequence[Tensor]) -> Tensor:
        return theirs[0]

    def give(self, ours: Tensor, count: int) -> Sequence[Tensor]:
        return [ours] * count


@dataclass(frozen=True)
class Rule:
    """Their tensor (or tensors) and ours; `#` stands for the number of a layer.

    also: other names under which the same tensor may stand in their file, because it is tied or the file is older; never
    written. instead: their tensor (or tensors) in another form, which is read where the file has it.
    """

    theirs: str | tuple[str, ...]
    ours: str
    change: Change = Same()
    also: tuple[str, ...] = ()
    instead: Rule | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Their names as a tuple."""
        return (self.theirs,) if isinstance(self.theirs, str) else self.theirs

    def at(self, layer: str) -> Rule:
        """This rule for one layer."""
        theirs, also = (tuple(name.replace("#", layer) for name in names) for names in (self.names, self.also))
        instead = None if self.instead is None else self.instead.at(layer)
        return replace(self, theirs=theirs, ours=self.ours.replace("#", layer), also=also, instead=instead)

    def within(self, theirs: Mapping[str, Any]) -> Rule:
        """This rule, or `instead` where the file has what that one names."""
        if self.instead is not None and all(name in theirs for name in self.instead.names):
            return self.instead
        return self

    def given(self, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Our tensor under their names."""
        return dict(zip(self.names, self.change.give(ours[self.ours], len(self.names)), strict=True))


@dataclass(frozen=True)
class Derived:
    """A tensor of theirs that follows from the configuration: written if `written`, and compared when it is read unless it
    is ignored."""

    theirs: str
    make: Callable[[Sequence[int]], Tensor]
    shape: tuple[int, ...]
    written: bool = True


@dataclass(frozen=True)
class Weights:
    """All tensors of a format. ignored: their names that no computation reads."""

    rules: tuple[Rule, ...]
    derived: tuple[Derived, ...] = ()
    ignored: frozenset[str] = frozenset()


def table(ours: str, theirs: str, names: Mapping[str, str], rows: Mapping[str, tuple[int, ...]] | None = None) -> list[Rule]:
    """Rules for the weights and biases of layers: our name -> theirs, each after the beginning that all have. Several
    layers of theirs that are one of ours are named by their ends: "attention q k v"; rows: how many each of them has, where
    they have not all as many. A name that a model has not is passed over. A LayerNorm of theirs may stand in an old file as
    gamma and beta."""
    rules: list[Rule] = []
    for mine, its in names.items():
        name, *ends = its.split()
        change = Joined((rows or {}).get(mine)) if ends else Same()
        for kind, older in (("weight", "gamma"), ("bias", "beta")):
            several = tuple(f"{theirs}{name}.{end}.{kind}" for end in ends)
            also = (f"{theirs}{name}.{older}",) if name.endswith("LayerNorm") else ()
            rules.append(Rule(several or f"{theirs}{name}.{kind}", f"{ours}{mine}.{kind}", change, also))
    return rules


def same_names(ours: Iterable[str]) -> Weights:
    """The table of regard's own format."""
    return Weights(tuple(Rule(name, name) for name in ours))


def _bound(rules: Iterable[Rule], ours: Iterable[str]) -> Iterator[Rule]:
    """Every rule for every layer that the model has."""
    for rule in rules:
        pattern = re.compile(re.escape(rule.ours).replace(r"\#", r"(\d+)"))
        for match in filter(None, map(pattern.fullmatch, ours)):
            yield rule.at(match[1]) if match.groups() else rule


def give(weights: Weights, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our tensors under their names, with those that follow from the configuration."""
    given = _given(weights, ours)
    like = next(iter(ours.values()))
    return given | {d.theirs: d.make(d.shape).to(like.device, like.dtype) for d in weights.derived if d.written}


def _given(weights: Weights, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    given: dict[str, Tensor] = {}
    left = set(ours)
    for rule in _bound(weights.rules, ours):
        left.discard(rule.ours)
        given |= rule.given(ours)
    if left:
        raise RuntimeError(f"no rule gives {', '.join(sorted(left))}")
    return given


def take(
    weights: Weights,
    ours: Mapping[str, Tensor],
    theirs: Mapping[str, Sequence[int]],
    read: Callable[[str], Tensor],
    where: str,
) -> dict[str, Tensor]:
    """Their tensors under our names.

    ours: the model's tensors, which may be on the meta device: only shapes matter. theirs: the shape of every tensor in
    the file. read: one of them. UserError lists all names at once that are missing, unexpected, misshapen, or wrong: tied
    but not equal, or not what the configuration says.
    """
    _given(weights, ours)  # fails if a tensor of ours has no rule
    bound = [rule.within(theirs) for rule in _bound(weights.rules, ours)]
    wanted = {name: tuple(t.shape) for rule in bound for name, t in rule.given(ours).items()}
    stands = {name: name if name in theirs else _alias(rule, theirs) for rule in bound for name in rule.names}
    spare = {a: rule.names[0] for rule in bound for a in rule.also if a in theirs and a not in weights.ignored}
    optional = {d.theirs for d in weights.derived}
    used = set(stands.values()) | set(spare) | optional | weights.ignored
    fitting = {name: at for name, at in stands.items() if at is not None and tuple(theirs[at]) == wanted[name]}
    parted = [(alias, name) for alias, name in spare.items() if name in fitting and alias != fitting[name]]
    _complain(
        where,
        missing=[name for name, at in stands.items() if at is None],
        unexpected=[name for name in theirs if name not in used],
        misshapen=[
            f"{at} ({_shape(theirs[at])}, should be {_shape(wanted[name])})"
            for name, at in stands.items()
            if at is not None and name not in fitting
        ],
        wrong=[
            f"{alias} and {name} should be one tied tensor, but their values differ"
            for alias, name in parted
            if not torch.equal(read(alias), read(fitting[name]))
        ]
        + [
            text
            for item in weights.derived
            if item.theirs in theirs.keys() - weights.ignored and (text := _compare(item, read(item.theirs)))
        ],
    )
    return {rule.ours: rule.change.take([read(fitting[name]) for name in rule.names]) for rule in bound}


def _alias(rule: Rule, theirs: Mapping[str, Any]) -> str | None:
    return next((name for name in rule.also if name in theirs), None)


def _shape(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "scalar"


def _complain(where: str, **lists: list[str]) -> None:
    found = [f"{kind}: {', '.join(sorted(names))}" for kind, names in lists.items() if names]
    if found:
        raise UserError(f"{where}: the weights do not fit the configuration; {'; '.join(found)}")


def _compare(item: Derived, stored: Tensor) -> str | None:
    """What is wrong with a stored tensor that follows from the configuration."""
    if len(stored.shape) != len(item.shape) or stored.shape[1:] != item.shape[1:]:
        return f"{item.theirs} has shape {_shape(stored.shape)}, should be {_shape(item.shape)}"
    worst = (stored.double() - item.make(tuple(stored.shape)).to(stored.device).double()).abs().max().item()
    near = 1e-5 + (torch.finfo(stored.dtype).eps if stored.is_floating_point() else 0.0)  # rounded once, perhaps another way
    return None if worst <= near else f"{item.theirs} is not what the configuration says (it differs by up to {worst:.2g})"

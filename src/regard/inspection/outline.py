"""A description as a tree for people: parts, shapes, parameters, shares, FLOPs a token, in terminals of any width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any

from torch import nn

from regard.architecture import Description
from regard.inspection.flops import flops

NARROW = 76
"""Below this width figures stand under their line instead of beside it."""


@dataclass
class Node:
    """A module, or several in a row that are alike. shapes: of its own weights. parameters: of all in it, tied ones where
    they come first. flops: of all in it, for a whole text."""

    name: str
    label: str
    shapes: str
    parameters: int
    flops: int
    children: list[Node] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        """The same as JSON types."""
        plain = {"name": self.name, "part": self.label, "shapes": self.shapes}
        counts = {"parameters": self.parameters, "flops": self.flops}
        return plain | counts | {"children": [child.json() for child in self.children]}


def outline(description: Description, length: int = 128) -> Node:
    """The tree of a description. length: tokens of the text that FLOPs are counted for (see `flops`)."""
    return _Outline(description, length).node(description.on_meta(), description, "", "model")


class _Outline:
    def __init__(self, description: Description, length: int) -> None:
        self.flops = flops(description, length)
        self.seen: set[int] = set()

    def node(self, module: nn.Module, its: Any, path: str, name: str) -> Node:
        shapes = []
        parameters = 0
        for weight in module.parameters(recurse=False):
            tied = id(weight) in self.seen
            parameters += 0 if tied else weight.numel()
            self.seen.add(id(weight))
            shapes.append("×".join(map(str, weight.shape)) + (" (tied)" if tied else ""))
        inner = [kind for kind in module.named_children() if any(True for _ in kind[1].parameters())]
        label = " ".join([type(its).__name__, *_settings(its, {kind for kind, _ in inner})]) if is_dataclass(its) else ""
        children = [one for kind, child in inner for one in self.branch(child, getattr(its, kind, None), path + kind, kind)]
        parameters += sum(child.parameters for child in children)
        here = self.flops.get(path.removesuffix("."), 0) + sum(child.flops for child in children)
        return Node(name, label, " + ".join(shapes), parameters, here, children)

    def branch(self, module: nn.Module, its: Any, path: str, name: str) -> Iterator[Node]:
        """One node, or of a list of modules one for each run of modules that are alike."""
        if not isinstance(module, nn.ModuleList):
            yield self.node(module, its, f"{path}.", name)
            return
        parts = its if isinstance(its, tuple) and len(its) == len(module) else (None,) * len(module)
        nodes = [self.node(one, part, f"{path}.{n}.", name) for n, (one, part) in enumerate(zip(module, parts, strict=True))]
        runs: list[list[Node]] = []
        for node in nodes:
            if runs and _alike(runs[-1][0], node):
                runs[-1].append(node)
            else:
                runs.append([node])
        for run in runs:
            yield _merged(run, f"{name} × {len(run)}" if len(run) > 1 else name)


def _alike(one: Node, other: Node) -> bool:
    if (one.label, one.shapes, one.flops, len(one.children)) != (
        other.label,
        other.shapes,
        other.flops,
        len(other.children),
    ):
        return False
    return all(a.name == b.name and _alike(a, b) for a, b in zip(one.children, other.children, strict=True))


def _merged(run: list[Node], name: str) -> Node:
    children = [_merged(list(those), those[0].name) for those in zip(*(node.children for node in run), strict=True)]
    parameters, costs = sum(node.parameters for node in run), sum(node.flops for node in run)
    return Node(name, run[0].label, run[0].shapes, parameters, costs, children)


def _settings(its: Any, inner: set[str]) -> list[str]:
    """A part's settings, but for the usual ones and for what has a line of its own."""
    told = []
    for one in fields(its):
        value = getattr(its, one.name)
        usual = value is None or (one.default is not MISSING and value == one.default)
        lines_of_its_own = isinstance(value, tuple) and any(is_dataclass(item) for item in value)
        if one.name not in inner and not usual and not lines_of_its_own:
            told.append(f"{one.name}={_value(value)}")
    return told


def _value(value: Any) -> str:
    return f"{type(value).__name__}({', '.join(_settings(value, set()))})" if is_dataclass(value) else repr(value)


def lines(tree: Node, length: int, width: int = 100) -> list[str]:
    """The tree as text. length: as for `outline`. width: of the terminal."""
    result = []
    beside = width >= NARROW
    if beside:
        result.append(" " * (width - 33) + f"{'parameters':>14}{'share':>8}{'FLOPs/token':>13}"[-33:])
    total = max(tree.parameters, 1)

    def draw(node: Node, depth: int) -> None:
        said = " ".join(filter(None, (f"{node.name}:" if node.label else node.name, node.label, node.shapes)))
        figures = f"{node.parameters:,}", f"{node.parameters / total:.1%}", _short(node.flops / length)
        room = width - 34 if beside else width
        first, *rest = textwrap.wrap(
            said,
            max(room, 2 * depth + 16),
            initial_indent="  " * depth,
            subsequent_indent="  " * depth + "    ",
            break_on_hyphens=False,
        )
        if beside:
            result.append(f"{first:<{room}}{figures[0]:>14}{figures[1]:>8}{figures[2]:>12}")
            result.extend(rest)
        else:
            result.extend([first, *rest, "  " * depth + f"    {figures[0]}, {figures[1]}, {figures[2]} FLOPs"])
        for child in node.children:
            draw(child, depth + 1)

    draw(tree, 0)
    return [line.rstrip() for line in result]


def _short(number: float) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f} {letter}"
    return f"{number:.0f}"

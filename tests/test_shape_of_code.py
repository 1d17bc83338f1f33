"""The rules of the house, kept by a test: what may be long, who may import whom, who may know whose name."""

from __future__ import annotations

import ast
import dataclasses
import re
from functools import cache
from pathlib import Path

import pytest

from regard import models
from regard.layers import part

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "regard"
FILES = sorted(SOURCE.rglob("*.py"))
NAMES = [str(path.relative_to(SOURCE)) for path in FILES]

ROWS = [
    {"errors", "files", "layout", "text"},
    {"layers", "batches", "checkpoints.rules", "checkpoints.formats"},
    {"architecture"},
    {"models"},
    {"checkpoints", "decoding", "compiled"},
    {"loaded", "documents", "translator", "ensemble", "generator", "classifier", "embedder", "filler", "loading"},
    {"inspection"},
    {"evaluation"},
    {"training"},
    {"serving"},
    {"labs"},
    {"cli", "__main__"},
]
"""Imports point one way: a file imports from its own row's package or from rows above."""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree(path)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def row(module: str) -> int:
    """The row of a module named without "regard."; a longer name that a row lists wins."""
    parts = module.split(".")
    for length in (2, 1):
        for number, members in enumerate(ROWS):
            if ".".join(parts[:length]) in members:
                return number
    raise AssertionError(f"regard.{module} stands in no row of ROWS")


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_files_and_functions_stay_short(path: Path) -> None:
    limit = 200 if path.name == "attention.py" else 400
    assert len(path.read_text(encoding="utf-8").split("\n")) <= limit + 1
    for function in functions(path):
        length = (function.end_lineno or 0) - function.lineno + 1
        assert length <= 50, f"{function.name} has {length} lines"
        count = len(function.args.args) + len(function.args.kwonlyargs)
        assert count <= 9 or function.name in ("describe", "command"), f"{function.name} has {count} arguments"


@pytest.mark.parametrize("name", models.names())
def test_an_architecture_is_short(name: str) -> None:
    """Its tables among it. T5 has two releases, eleven sizes, a way to begin of its own, and mT5's format."""
    lines = (SOURCE / "models" / f"{name}.py").read_text(encoding="utf-8").split("\n")
    assert len(lines) <= (205 if name == "t5" else 160) + 1


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_no_forward_takes_anything_at_all(path: Path) -> None:
    for function in functions(path):
        assert function.name != "forward" or function.args.kwarg is None


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_imports_point_upwards(path: Path) -> None:
    own = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    if own == "__init__":
        return  # the public names
    for node in ast.walk(tree(path)):
        imported = []
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "regard":
            base = (node.module or "").removeprefix("regard").removeprefix(".")
            imported = [base] if base else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            imported = [alias.name.removeprefix("regard.") for alias in node.names if alias.name.startswith("regard.")]
        for module in imported:
            assert row(module) <= row(own), f"{own} imports {module}, line {node.lineno}"


@pytest.mark.parametrize("path", [p for p in FILES if "text" in p.parts], ids=lambda p: p.name)
def test_text_knows_no_torch(path: Path) -> None:
    assert not re.search(r"^\s*(import|from) torch", path.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize(
    "path", [p for p in FILES if {"training", "decoding", "serving", "inspection"} & set(p.parts)], ids=lambda p: p.name
)
def test_nothing_asks_what_kind_of_model_it_is(path: Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            asked = ast.unparse(node.args[1])
            assert not re.search(r"\b(Model|Encoder|Decoder|Block\w*|Recurrent\w*|Attend\w*|MultiHead\w*)\b", asked), asked


@pytest.mark.parametrize("path", [p for p in FILES if "models" not in p.parts], ids=lambda p: str(p.relative_to(SOURCE)))
def test_families_are_named_in_their_own_file_alone(path: Path) -> None:
    names = "|".join(models.names())
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            text = ast.unparse(node)
            assert not re.search(rf"\bmodels\.({names})\b|models import .*\b({names})\b", text), text
        if isinstance(node, ast.Compare):
            assert not re.search(rf"['\"]({names})['\"]", ast.unparse(node)), ast.unparse(node)


def test_every_description_is_frozen_and_hashable() -> None:
    for name in models.names():
        models.find(name)
    for cls in part._PARTS.values():
        assert dataclasses.is_dataclass(cls), cls
        assert cls.__dataclass_params__.frozen, cls
        assert cls.__hash__ is not None, cls


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_public_functions_say_what_they_do(path: Path) -> None:
    """Methods that keep a promise written elsewhere (build, forward of a base, private helpers) may stay silent."""
    assert ast.get_docstring(tree(path)) or not tree(path).body, "the file has no docstring"
    for node in tree(path).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{node.name}, line {node.lineno}"


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_every_file_has_a_test(path: Path) -> None:
    relative = path.relative_to(SOURCE)
    if path.name in ("__init__.py", "__main__.py") or not tree(path).body:
        return
    own = ROOT / "tests" / relative.parent / f"test_{path.name}"
    assert own.is_file(), f"{own.relative_to(ROOT)} is missing"


def _listed(readme: str) -> set[str]:
    """Paths of the tree in a README: indentation of two spaces a level, a name, then what it is."""
    block = re.search(r"```text tree\n(.*?)```", readme, re.DOTALL)
    assert block, "the README has no block marked `text tree`"
    found, stack = set(), []
    for line in filter(str.strip, block[1].split("\n")):
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        stack = [*stack[:depth], name.rstrip("/")]
        found.add("/".join(stack) + ("/" if name.endswith("/") else ""))
    return found


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_the_tree_in_the_readme_is_the_disk(name: str) -> None:
    listed = _listed((ROOT / name).read_text(encoding="utf-8"))
    for entry in listed:
        assert (ROOT / entry).exists(), f"{entry} is in the tree, not on the disk"
    folders = {f"src/regard/{path.name}/" for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    singles = {f"src/regard/{path.name}" for path in SOURCE.glob("*.py") if not path.name.startswith("__")}
    assert folders | singles <= listed

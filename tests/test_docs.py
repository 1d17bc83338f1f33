"""The documentation: twins in two languages, tables made from the program, links, and every command run at toy size.

A block runs if `<!-- run: NAME -->` stands in the line before it. `needs: NAME` (or PAGE:NAME) runs that block first in the
same folder; `slow` leaves it to `make test-slow`. Trainings and demos get three updates on a few pairs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TWINS = [(ROOT / "README.md", ROOT / "README.zh-CN.md")]
TWINS += [(path, DOCS / "zh" / path.name) for path in sorted((DOCS / "en").glob("*.md"))]
PAGES = [page for twins in TWINS for page in twins]
SINGLE = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUN = re.compile(r"<!-- run: (\w+)((?:; [^;>]+)*) -->\n```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)

TOY = {
    "data.max_pairs": "64",
    "training.max_steps": "3",
    "training.evaluate_every": "3",
    "training.save_every": "3",
    "training.batch_tokens": "200",
    "evaluation.max_sentences": "2",
    "search.num_beams": "2",
    "search.max_length": "6",
}
"""Settings that the `regard` of these tests lays on top of every recipe."""


@dataclass(frozen=True)
class Runnable:
    """A block that is run. needs: page and name of the block before it, or None."""

    page: str
    name: str
    language: str
    code: str
    needs: tuple[str, str] | None
    slow: bool


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def runnables() -> dict[tuple[str, str], Runnable]:
    found = {}
    for path, _ in TWINS:
        for name, more, language, code in RUN.findall(text_of(path)):
            words = [word.strip() for word in more.split(";") if word.strip()]
            needs = next((word.removeprefix("needs: ") for word in words if word.startswith("needs: ")), None)
            page, _, other = needs.rpartition(":") if needs else ("", "", "")
            before = (page or path.stem, other) if needs else None
            assert (path.stem, name) not in found, f"{path.name} has two blocks named {name}"
            found[path.stem, name] = Runnable(path.stem, name, language, code, before, "slow" in words)
    return found


BLOCKS = runnables()


@cache
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def headings(text: str) -> list[int]:
    return [len(line) - len(line.lstrip("#")) for line in FENCE.sub("", text).split("\n") if re.match(r"#+ ", line)]


def blocks(text: str) -> list[tuple[str, list[str]]]:
    """Language and lines of each block, without comments; of text only how many lines, of a tree the names."""
    found = []
    for language, code in FENCE.findall(text):
        lines = [re.sub(r"(^|\s+)# .*$", "", line).rstrip() for line in code.split("\n")]
        if language == "text tree":
            lines = [re.match(r"\s*\S*", line)[0] for line in lines]
        elif language == "text":
            lines = ["" for _ in lines]
        found.append((language, lines))
    return found


@pytest.mark.parametrize(("english", "chinese"), TWINS, ids=lambda path: path.name)
def test_twins_have_the_same_shape(english: Path, chinese: Path) -> None:
    one, two = text_of(english), text_of(chinese)
    assert headings(one) == headings(two)
    assert blocks(one) == blocks(two)
    for mark in (r"<!-- (?:generated|figures|output)\b[^>]*-->", r"^\|[-|]+\|$"):
        assert re.findall(mark, one, re.MULTILINE) == re.findall(mark, two, re.MULTILINE), "tables or marks differ"


def test_twins_are_the_same_files() -> None:
    assert {path.name for path in (DOCS / "en").iterdir()} == {path.name for path in (DOCS / "zh").iterdir()}


@pytest.mark.parametrize("path", [two for _, two in TWINS], ids=lambda path: path.name)
def test_chinese_pages_are_in_chinese_with_chinese_punctuation(path: Path) -> None:
    prose = re.sub(r"`[^`\n]*`|\]\([^)]*\)|<!--.*?-->|\$[^$]*\$", "", FENCE.sub("", text_of(path)), flags=re.DOTALL)
    assert re.search("[\u4e00-\u9fff]", prose)
    assert not re.findall("[\u4e00-\u9fff][,;:!?]", prose), "half-width punctuation after a Chinese character"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_generated_tables_are_what_the_program_says(language: str) -> None:
    made = generator()
    assert made.missing() == [], "docs/chinese.tsv lacks these"
    for path in sorted((DOCS / language).glob("*.md")):
        assert made.page(text_of(path), language) == text_of(path), f"{path.name} is stale: run docs/generate.py"


@pytest.mark.parametrize("path", [*PAGES, *SINGLE], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text_of(path))):
        if not re.match(r"[a-z]+:", target):
            name, _, anchor = target.partition("#")
            assert (path.parent / name).exists(), target
            if name.endswith(".json"):
                assert _looks_at(path.parent / name, anchor), target
            else:
                assert not anchor or anchor in _anchors(path.parent / name if name else path), target


def _looks_at(trace: Path, address: str) -> bool:
    """Whether the page of a trace has the view that an address names, and the attentions."""
    from regard.inspection import Trace

    asked = dict(parse_qsl(address))
    views = json.loads(text_of(ROOT / "page" / "src" / "en.json"))
    kinds = {f"{one.half} {one.kind}" for one in Trace.read(trace).attentions}
    return f"view.{asked['view']}" in views and asked.get("kind", next(iter(kinds))) in kinds


def _anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", text_of(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", [*PAGES, *SINGLE], ids=lambda path: str(path.relative_to(ROOT)))
def test_every_code_path_that_a_page_names_exists(path: Path) -> None:
    for name in re.findall(r"`((?:src|tests|docs|recipes|benchmarks)/[\w./-]+)`", text_of(path)):
        assert "NAME" in name or (ROOT / name).exists(), name


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_key_is_in_recipes_and_every_verb_in_commands(language: str) -> None:
    from regard.cli import VERBS
    from regard.training.recipe import Recipe

    def keys(section: Any, prefix: str) -> list[str]:
        found = []
        for name, info in section.model_fields.items():
            inner = hasattr(info.annotation, "model_fields")
            found += keys(info.annotation, f"{prefix}{name}.") if inner else [prefix + name]
        return found

    page = text_of(DOCS / language / "recipes.md")
    assert [key for key in keys(Recipe, "") if f"`{key}`" not in page] == []
    page = text_of(DOCS / language / "commands.md")
    assert [verb for verb in VERBS if f"### regard {verb}\n" not in page] == []


def test_every_public_name_is_in_the_reference() -> None:
    import regard
    import regard.inspection

    generator()
    told = {name.rpartition(".")[2] for names in sys.modules["making.reference"].NAMES.values() for name in names}
    assert set(regard.__all__) | set(regard.inspection.__all__) <= told


def test_every_lab_is_in_the_notes_section_by_section() -> None:
    from regard import labs

    page = text_of(DOCS / "en" / "notes.md")
    assert [lab.name for lab in labs.every() if f"[L{lab.number} {lab.name}]" not in page] == []


def test_every_recipe_is_named() -> None:
    page = text_of(DOCS / "en" / "recipes.md")
    words = set(re.findall(r"`([\w-]+)`", page))
    for recipe in (ROOT / "recipes").glob("*.yaml"):
        stem = re.sub(r"(-rnn.*)$", "", recipe.stem)
        assert stem in words, recipe.name


def test_every_bash_block_is_run() -> None:
    for path, _ in TWINS:
        text = text_of(path)
        run = sum(language == "bash" for _, _, language, _ in RUN.findall(text))
        assert run == sum(language == "bash" for language, _ in FENCE.findall(text)), path.name
    for block in BLOCKS.values():
        assert block.needs is None or block.needs in BLOCKS, block


# ------------------------------------------------------------------------------------------------------- running them


REGARD = """#!{python}
import os, sys
sys.path.insert(0, {source!r})
given, settings = sys.argv[1:], {settings!r}
verb = given[0] if given else ""
if verb in ("train", "plan", "demo") and "--help" not in given:
    given += [f"{{key}}={{value}}" for key, value in settings.items() if not any(g.startswith(key + "=") for g in given)]
    given += ["--steps", "1"] * (verb == "plan")
if verb == "evaluate" and "--max-sentences" not in given:
    given += ["--max-sentences", "4"]
if verb == "compare" and "--samples" not in given:
    given += ["--samples", "20"]
from regard.cli import main
if __name__ == "__main__":  # workers read this file too
    sys.exit(main(given))
"""

MAKE = """#!/bin/sh
exec {make} -f {root}/Makefile BIN={bin} "$@"
"""

TORCHRUN = """#!/bin/sh
exec {python} -m torch.distributed.run "$@"
"""

PIP = """#!/bin/sh
shift
exec {python} -m pip install --quiet --dry-run --no-deps {root}
"""


def _script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """A folder in which `regard`, `make` and `pip` are those of the checkout, at toy size."""
    programs, folder = tmp_path / "bin", tmp_path / "work"
    programs.mkdir()
    folder.mkdir()
    for name in ("pyproject.toml", "constraints.txt"):
        os.symlink(ROOT / name, folder / name)
    _script(programs / "regard", REGARD.format(python=sys.executable, source=str(ROOT / "src"), settings=TOY))
    _script(programs / "make", MAKE.format(make=shutil.which("make"), root=ROOT, bin=programs))
    _script(programs / "torchrun", TORCHRUN.format(python=sys.executable))
    _script(programs / "pip", PIP.format(python=sys.executable, root=ROOT))
    return folder


def run(block: Runnable, folder: Path) -> str:
    """Run a block in a folder, after what it needs; gives its output. A command that fails ends the block and the test."""
    if block.needs is not None:
        run(BLOCKS[block.needs], folder)
    environment = {
        **os.environ,
        "PATH": f"{folder.parent / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "REGARD_CACHE": str(folder.parent / "cache"),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    command = ["bash", "-euo", "pipefail", "-c"] if block.language == "bash" else [sys.executable, "-c"]
    done = subprocess.run(
        [*command, block.code], cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8"
    )
    assert done.returncode == 0, f"{block.page}, block {block.name}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def needs_data(block: Runnable) -> bool:
    inner = block.needs is not None and needs_data(BLOCKS[block.needs])
    named = r"multi30k|tatoeba|cmudict|sigmorphon|shakespeare|english-|sst2|trec|docstrings"
    return inner or re.search(named, block.code) is not None


def _parameters(slow: bool) -> list[object]:
    """Blocks that are slow or not; one that is run on the way to another of its kind has no test of its own."""
    wanted = {key: block for key, block in BLOCKS.items() if _slow(block) == slow}
    inner = {block.needs for block in wanted.values()}
    return [pytest.param(block, id="-".join(key)) for key, block in wanted.items() if key not in inner]


def _slow(block: Runnable) -> bool:
    return block.slow or (block.needs is not None and _slow(BLOCKS[block.needs]))


@pytest.mark.parametrize("block", _parameters(slow=False))
def test_commands_of_the_pages_work(block: Runnable, bench: Path, request: pytest.FixtureRequest) -> None:
    if needs_data(block):
        request.getfixturevalue("data_root")
    run(block, bench)


@pytest.mark.slow
@pytest.mark.parametrize("block", _parameters(slow=True))
def test_slow_commands_of_the_pages_work(block: Runnable, bench: Path, request: pytest.FixtureRequest) -> None:
    if needs_data(block):
        request.getfixturevalue("data_root")
    run(block, bench)


def test_the_check_prints_what_the_page_shows(bench: Path) -> None:
    shown = re.search(r"changes nothing:\n\n```text\n(.*?)```", text_of(DOCS / "en" / "own-data.md"), re.DOTALL)
    assert shown is not None
    assert run(BLOCKS["own-data", "check"], bench) == shown[1]

"""Readers fed with damaged and hostile files: they answer, or refuse in one line. The fuzzer is `benchmarks/fuzz.py`."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from regard.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks are no installed package

from benchmarks import fuzz as fuzzer  # noqa: E402
from benchmarks.changes import bent, changed, file_of, value_of, worse  # noqa: E402
from benchmarks.fuzz import Feeding, Reader, fuzz, piece  # noqa: E402
from benchmarks.readers import READERS  # noqa: E402


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(READERS))
def test_a_few_inputs_for_each_reader(name: str, tmp_path: Path) -> None:
    found = fuzz(READERS[name], tmp_path / "place", random.Random(f"1 {name}"), tries=12)
    assert found.crashes == {}
    assert found.tries == 12


ANYTHING = {"body", "checkpoint", "html", "markdown", "srt", "vtt"}
"""Readers that need refuse nothing: any text is a document, a request is answered by a status, and where the newest
checkpoint is damaged an older one is read."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(READERS))
def test_many_inputs_for_each_reader(name: str, tmp_path: Path) -> None:
    found = fuzz(READERS[name], tmp_path / "place", random.Random(f"2 {name}"), seconds=20)
    assert found.crashes == {}
    assert found.tries > 10
    assert found.refused > 10 or name in ANYTHING


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", ["translator", "own description", "tokenizer of words", "index", "recipe", "adapter", "gzip"]
)
def test_inputs_that_hypothesis_draws(name: str, tmp_path: Path) -> None:
    feeding = Feeding(READERS[name], tmp_path / "place")
    feeding.drawn(1, tries=12)
    assert feeding.found.crashes == {}
    assert feeding.found.drawn == 12


def read_letters(folder: Path) -> None:
    """A reader with three faults: one is an error, one ends the process, one takes memory."""
    try:
        value = json.loads((folder / "a.json").read_bytes())
    except (ValueError, RecursionError):
        raise UserError("not JSON") from None
    held = value.get("a") if isinstance(value, dict) else None
    if isinstance(held, str):
        raise KeyError("the fault")
    if isinstance(held, (float, list)) and FAULTS["deadly"]:
        os.abort()
    if held == 7 and FAULTS["large"]:
        bytearray(b"x") * (600 << 20)


FAULTS = {"deadly": False, "large": False}
LETTERS = Reader(lambda at: (at / "a.json").write_text('{"a": 1}') and None, ["a.json"], read_letters)


@pytest.fixture(autouse=True)
def no_faults() -> Any:
    yield
    FAULTS.update(deadly=False, large=False)


def test_the_fuzzer_finds_what_is_wrong(tmp_path: Path) -> None:
    """A reader that fails for one kind of value is caught, and what it was fed is kept."""
    found = fuzz(LETTERS, tmp_path / "place", random.Random(1), tries=100)
    assert ["KeyError" in what for what in found.crashes.values()] == [True]
    assert isinstance(json.loads((tmp_path / "place" / next(iter(found.crashes))).read_bytes())["a"], str)


def test_memory_that_one_input_takes_is_a_crash(tmp_path: Path) -> None:
    FAULTS["large"] = True
    feeding = Feeding(LETTERS, tmp_path / "place")
    assert feeding.take("a.json", b'{"a": 7}')[1].endswith(" MB of memory")
    assert feeding.take("a.json", b'{"a": 8}')[1] == "", "a crash hides none after it"
    assert feeding.take("a.json", b'{"a": 7 }')[1].endswith(" MB of memory")


def test_pieces_add_up_and_mended_faults_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pieces of one fuzzing: what reached new lines is used again, what crashed is tried again."""
    monkeypatch.setattr(fuzzer, "SOURCE", str(Path(__file__).resolve()))  # the lines that count here
    first = piece(LETTERS, tmp_path, "1", 60, tries=120)
    assert first.tries == 120
    assert first.drawn == 30
    assert ["KeyError" in what for what in first.crashes.values()] == [True]
    kept = list((tmp_path / "kept").iterdir())
    assert 0 < len(kept) < 10
    again = piece(LETTERS, tmp_path, "2", 60, tries=1)
    assert again.crashes.keys() == first.crashes.keys()
    mended = Reader(LETTERS.make, LETTERS.names, lambda folder: None)
    last = piece(mended, tmp_path, "3", 60, tries=1)
    assert (last.crashes, last.mended) == ({}, 1)
    assert not list((tmp_path / "crashes").iterdir())


def test_what_ends_the_process_is_kept_and_the_rest_goes_on(tmp_path: Path) -> None:
    FAULTS["deadly"] = True
    found = piece(LETTERS, tmp_path, "1", 60, tries=120)
    assert "the process ended with -6" in found.crashes.values()
    deadly = [json.loads(path.read_bytes())["a"] for path in (tmp_path / "deadly").iterdir()]
    assert deadly
    assert all(isinstance(one, (float, list)) for one in deadly)
    FAULTS["deadly"] = False
    assert piece(LETTERS, tmp_path, "1", 60, tries=1).mended >= len(deadly)
    assert not list((tmp_path / "deadly").iterdir())


def test_changes_are_drawn_by_the_seed() -> None:
    for _ in range(3):
        one, two = ([changed("a.json", b'{"a": [1, 2]}', random.Random(n)) for n in range(20)] for _ in range(2))
        assert one == two
    assert len({bent(b"abc", random.Random(n)) for n in range(50)}) > 30
    assert sum(worse({"a": 1}, random.Random(n)) != {"a": 1} for n in range(20)) > 10


def test_heads_and_packed_files_are_changed_within() -> None:
    import gzip

    head = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    whole = len(head).to_bytes(8, "little") + head + bytes(4)
    found = [changed("a.safetensors", whole, random.Random(n)) for n in range(20)]
    assert sum(value_of("a.safetensors", one) is not None for one in found) > 10
    packed = [changed("a.gz", gzip.compress(b"a\tb\n"), random.Random(n)) for n in range(20)]
    assert sum(value_of("a.gz", one) is not None for one in packed) > 10


def test_who_is_slow_only_while_each_line_is_followed_is_not_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzer, "SECONDS", 0.2)

    def trace(frame: object, event: str, given: object) -> None:
        return None

    def busy(always: bool) -> Any:
        while always or sys.gettrace() is trace:
            pass

    for always, answer in ((False, ("read", "")), (True, ("crash", "more than 0.2 seconds"))):
        reader = Reader(lambda folder: None, [], lambda folder, always=always: busy(always))
        assert fuzzer.fed(reader, tmp_path, trace) == answer


@pytest.mark.parametrize("name", ["a.gz", "a.xz", "a.zst", "a.json", "a.safetensors"])
def test_damaged_files_are_changed_too(name: str) -> None:
    """They were once the end of the fuzzer: zlib has an error of its own."""
    draw, text = random.Random(1), b"Two dogs are playing in the park.\n" * 40
    data = file_of(name, text, text) if name[2:] in ("gz", "xz", "zst") else json.dumps({"a": [1, 2]}).encode()
    found = {data}
    for _ in range(2000):
        data = changed(name, data, draw)[:4000] or data
        found.add(data)
    assert len(found) > 1000

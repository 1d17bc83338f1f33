"""Readers fed with damaged and hostile files: they answer, or refuse in one line. The fuzzer is `benchmarks/fuzz.py`."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks are no installed package

from benchmarks.fuzz import bent, changed, fuzz, worse  # noqa: E402
from benchmarks.readers import READERS  # noqa: E402


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(READERS))
def test_a_few_inputs_for_each_reader(name: str, tmp_path: Path) -> None:
    found = fuzz(READERS[name], tmp_path / "place", random.Random(f"1 {name}"), tries=12)
    assert found.crashes == {}
    assert found.tries == 12


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(READERS))
def test_many_inputs_for_each_reader(name: str, tmp_path: Path) -> None:
    found = fuzz(READERS[name], tmp_path / "place", random.Random(f"2 {name}"), seconds=20)
    assert found.crashes == {}
    assert found.refused > 10


def test_the_fuzzer_finds_what_is_wrong(tmp_path: Path) -> None:
    """A reader that fails for one kind of value is caught, and what it was fed is kept."""
    from benchmarks.fuzz import Reader

    def read(folder: Path) -> None:
        import json

        from regard.errors import UserError

        try:
            value = json.loads((folder / "a.json").read_bytes())
        except ValueError:
            raise UserError("not JSON") from None
        if value == {"a": None}:
            raise KeyError("the fault")

    found = fuzz(
        Reader(lambda at: (at / "a.json").write_text('{"a": 1}') and None, ["a.json"], read),
        tmp_path / "place",
        random.Random(1),
        tries=500,
    )
    assert ["KeyError" in what for what in found.crashes.values()] == [True]
    assert (tmp_path / "place" / next(iter(found.crashes))).read_bytes() == b'{"a": null}'


def test_changes_are_drawn_by_the_seed() -> None:
    for _ in range(3):
        one, two = ([changed("a.json", b'{"a": [1, 2]}', random.Random(n)) for n in range(20)] for _ in range(2))
        assert one == two
    assert len({bent(b"abc", random.Random(n)) for n in range(50)}) > 30
    assert sum(worse({"a": 1}, random.Random(n)) != {"a": 1} for n in range(20)) > 10

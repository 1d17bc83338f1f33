"""Pieces of a large corpus, cleaned and tokenised in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.text.clean import Rules
from regard.text.corpus import Pair
from regard.training.encoding import Work, cleaned, encode, flat


@pytest.fixture
def work(shared: Any, tmp_path: Path) -> Work:
    shared.save(tmp_path / "tokenizers")
    return Work(str(tmp_path / "tokenizers"), Rules(), (), "en", "fr", 1.0)


def pieces(few_lines: tuple[list[str], list[str]]) -> list[tuple[list[Pair], np.ndarray]]:
    pairs = [Pair(a, b, n) for n, (a, b) in enumerate(zip(*few_lines, strict=True), 1)] + [Pair("", "x", 10)]
    again = np.array([number in (3, 4) for number in range(10)])
    return [(pairs[at : at + 4], again[at : at + 4]) for at in range(0, 10, 4)]


@pytest.mark.parametrize("workers", [1, 2])
def test_pieces_come_back_in_order_whoever_does_them(work: Work, few_lines: Any, shared: Any, workers: int) -> None:
    made = list(encode(pieces(few_lines), work, workers))
    lines = [line for arrays, _ in made for line in arrays["lines"].tolist()]
    assert lines == [1, 2, 3, 6, 7, 8, 9]
    reports = [report for _, report in made]
    assert [(report.total, report.kept) for report in reports] == [(4, 3), (4, 3), (2, 1)]
    assert reports[0].rules["duplicate"].lines == [4]
    assert reports[2].rules["empty"].count == 1
    first = made[0][0]
    a, b = first["source_offsets"][:2]
    assert first["source"][a:b].tolist() == shared.source.encode_batch([few_lines[0][0]])[0]


def test_a_tag_stands_before_the_source(work: Work) -> None:
    from dataclasses import replace

    kept, _ = cleaned([Pair("a dog", "un chien", 1)], np.array([False]), replace(work, tag="<2fr>"))
    assert kept == [Pair("<2fr> a dog", "un chien", 1)]


def test_flat_ids() -> None:
    ids, offsets = flat([[1, 2], [], [3]], 100)
    assert (ids.tolist(), ids.dtype, offsets.tolist()) == ([1, 2, 3], np.uint16, [0, 2, 2, 3])
    assert flat([[1]], 1 << 17)[0].dtype == np.int32


def test_a_worker_needs_no_torch() -> None:
    code = "import sys, regard.training.encoding; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

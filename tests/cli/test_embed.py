"""regard embed: a vector for a line."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard import cli

pytestmark = pytest.mark.filterwarnings("ignore")
TEXTS = ["Hello world", "", "The quick brown fox"]


def run(capsysbinary: Any, folder: Path, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    capsysbinary.readouterr()
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="ascii")
    try:
        code = cli.main(["embed", str(folder), *arguments])
    finally:
        sys.stdin = before
    out, err = capsysbinary.readouterr()
    return code, out.decode("utf-8"), err.decode("utf-8")


def test_lines_json_and_arrays(foreign: Any, capsysbinary: Any, tmp_path: Path) -> None:
    folder = foreign("bert", "BertModel")
    want = regard.load(folder).embed(TEXTS)
    code, out, err = run(capsysbinary, folder, stdin="\n".join(TEXTS).encode())
    assert (code, err) == (0, "")
    assert np.allclose([[float(x) for x in line.split()] for line in out.splitlines()], want, atol=1e-6)
    _, out, _ = run(capsysbinary, folder, *TEXTS, "--jsonl", "--batch-tokens", "8")
    told = [json.loads(line) for line in out.splitlines()]
    assert [one["text"] for one in told] == TEXTS
    assert np.allclose([one["vector"] for one in told], want, atol=1e-6)
    run(capsysbinary, folder, *TEXTS, "--json", str(tmp_path / "all.json"), "-o", str(tmp_path / "lines"))
    assert len(json.loads((tmp_path / "all.json").read_text("utf-8"))["vectors"]) == 3
    assert run(capsysbinary, folder, *TEXTS, "-o", str(tmp_path / "all.npy")) == (0, "", "")
    found = np.load(tmp_path / "all.npy")
    assert (found.dtype, found.shape) == (np.float32, want.shape)
    assert np.allclose(found, want, atol=1e-6)


def test_an_array_in_windows(foreign: Any, capsysbinary: Any, tmp_path: Path) -> None:
    folder = foreign("bert", "BertModel")
    (tmp_path / "in").write_text("fox\n" * 2100, encoding="utf-8")
    assert run(capsysbinary, folder, "-i", str(tmp_path / "in"), "-o", str(tmp_path / "all.npy"))[0] == 0
    assert np.load(tmp_path / "all.npy").shape == (2100, 16)
    assert run(capsysbinary, folder, "-o", str(tmp_path / "none.npy"))[0] == 0
    assert np.load(tmp_path / "none.npy").shape == (0, 16)


def test_mistakes(foreign: Any, capsysbinary: Any, tmp_path: Path) -> None:
    code, _, err = run(capsysbinary, foreign("bert", "BertModel"), "a", "-o", str(tmp_path / "a.npy"), "--jsonl")
    assert (code, "leave --json and --jsonl out" in err) == (2, True)
    code, _, err = run(capsysbinary, foreign("gpt2", "GPT2LMHeadModel"), "a")
    assert (code, "holds a language model, not an embedder: use regard generate" in err) == (2, True)


@pytest.mark.parametrize("how", [[], ["--jsonl"], ["-o", "all.npy"]])
def test_texts_that_lose_their_ends_are_named(
    foreign: Any, capsysbinary: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("fox\n" * 2100 + "fox " * 90 + "\nfox\n", encoding="utf-8")
    _, _, err = run(capsysbinary, foreign("bert", "BertModel"), "-i", str(tmp_path / "in"), *how)
    assert err.splitlines() == [
        "line 2101: the text is longer than the model reads, its end was left out",
        "1 of 2102 lines: the text is longer than the model reads, its end was left out",
    ]

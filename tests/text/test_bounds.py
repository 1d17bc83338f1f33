"""Files of tokenizers that no trainer writes, refused before the library takes memory for them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard.errors import UserError
from regard.text.bounds import GROWTH, HOLES, check_file, highest
from regard.text.tokenizer import Plan, Tokenizer, train_tokenizer

SOURCE = Path(__file__).resolve().parents[2] / "src"
LIMITED = """
import resource, sys
from regard.errors import UserError
from regard.text.tokenizer import Tokenizer
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
try:
    Tokenizer.open(sys.argv[1])
except UserError as error:
    print(error)
"""


def made(path: Path, **parts: Any) -> Path:
    """A tokenizer of words with other parts."""
    train_tokenizer(["a b c"] * 3, Plan("words", vocab_size=20)).save(path)
    file = path / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | parts), encoding="utf-8")
    return file


def within_two_gigabytes(folder: Path) -> str:
    """What opening a tokenizer says in a process that has no more memory."""
    command = [sys.executable, "-c", LIMITED, str(folder)]
    environment = {"PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin", "TOKENIZERS_PARALLELISM": "false"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("kind", ["WordLevel", "WordPiece", "BPE"])
@pytest.mark.parametrize("number", [10**9, 2**32 - 1])
def test_an_id_far_beyond_the_entries(tmp_path: Path, kind: str, number: int) -> None:
    """The library writes down each id that is missing, four bytes for each: found by the fuzzer."""
    model = {"type": kind, "vocab": {"a": 0, "b": number}, "unk_token": "a", "merges": []}
    made(tmp_path, model=model)
    assert f"2 entries and the id {number:,}" in within_two_gigabytes(tmp_path)


def test_ids_with_holes_are_counted_to_the_last(tmp_path: Path) -> None:
    """Ids up to the largest need rows in a model, whatever the number of entries."""
    made(
        tmp_path,
        model={"type": "WordLevel", "vocab": {"<unk>": 1, " a": 3, " b": 70}, "unk_token": "<unk>"},
        added_tokens=[],
    )
    its = Tokenizer.open(tmp_path)
    assert its.vocab_size == 71
    assert its.encode("b a") == [70, 3]
    assert its.decode([70, 3]) == "b a"
    assert its.piece(5) == ""
    assert its.decode([70, 5, 3]) == "b a"
    with pytest.raises(UserError, match=r"id 71 is outside the vocabulary \(0 to 70\)"):
        its.decode([71])


def test_the_largest_id() -> None:
    assert highest({"model": {"vocab": {"a": 3, "b": 1}}, "added_tokens": [{"id": 9}]}) == 9
    assert highest({"model": {"vocab": [["a", 0.0], ["b", -1.0]]}, "added_tokens": None}) == 1
    assert highest({}) == -1
    check_file({"model": {"vocab": {"a": HOLES}}})
    with pytest.raises(UserError, match="nearly all ids would be holes"):
        check_file({"model": {"vocab": {"a": HOLES + 2}}})
    check_file([])


DOUBLE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
BETWEEN = {"type": "Replace", "pattern": {"Regex": "x*"}, "content": "x"}
WHOLE = {"type": "Replace", "pattern": {"Regex": r"\A<2fr>\z"}, "content": " <2fr>"}
NESTED = {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": [DOUBLE] * 7}, *[DOUBLE] * 7]}


def table(*entries: str) -> str:
    """A precompiled table of SentencePiece with these entries and no tree."""
    return base64.b64encode((4).to_bytes(4, "little") + bytes(4) + "\0".join(entries).encode()).decode("ascii")


@pytest.mark.parametrize(
    "part",
    [
        {"normalizer": {"type": "Sequence", "normalizers": [DOUBLE] * 40}},
        {"normalizer": NESTED},
        {"normalizer": {"type": "Sequence", "normalizers": [BETWEEN] * 40}},
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": table("a" * 5000)}},
        {"normalizer": {"type": "Prepend", "prepend": "a" * 100_000}},
        {"decoder": {"type": "Sequence", "decoders": [DOUBLE] * 40}},
        {"decoder": {"type": "Sequence", "decoders": [{**WHOLE, "content": "a" * 1000}, *[DOUBLE] * 9]}},
    ],
    ids=["doubling", "nested", "between", "table", "put in front", "decoder", "once and doubled"],
)
def test_texts_that_grow_without_measure(part: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=rf"its (normaliser|decoder) could (make a text more than {GROWTH:,}|put more than)"):
        check_file(part)


def test_what_real_files_do_passes(foreign: Any) -> None:
    for kind in ("gpt2", "roberta", "llama", "bert", "t5"):
        Tokenizer.open(foreign(kind))
    check_file({"decoder": {"type": "Sequence", "decoders": [WHOLE] * 2000}})
    check_file({"normalizer": {"type": "Precompiled", "precompiled_charsmap": table("صلى الله عليه وسلم", "fi")}})
    check_file({"normalizer": {"type": "Precompiled", "precompiled_charsmap": 7}})
    check_file({"normalizer": 5, "decoder": {"decoders": 7}, "model": []})

"""regard inspect: pages, pictures and tables of one text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.cli import main
from regard.decoding.options import Search
from regard.inspection.trace import Trace, schema
from regard.models import rnn
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.translator import Translator

LINES = ["a dog runs in the park", "two men play football", "un chien court dans le parc"] * 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    path = tmp_path_factory.mktemp("model")
    made = train_tokenizer(LINES, Plan("bpe", vocab_size=300))
    torch.manual_seed(1)
    model = rnn.describe(vocab_size=300, d_model=16, attention="additive").build().eval()
    for tensor in model.parameters():
        tensor.data.normal_(0.0, 0.5)
    Translator(model, Tokenizers(made, made, True), Search(num_beams=2, max_length=6)).save(path)
    return path


def test_a_table_in_the_terminal(folder: Path, capsys: Any) -> None:
    assert main(["inspect", str(folder), "--text", "a dog runs", "--target", "un chien"]) == 0
    told = capsys.readouterr().out
    assert "source: a dog runs" in told
    assert "decoder.attend" in told
    assert "alignment: " in told
    assert "weights × values are within" in told


def test_files_by_their_endings(folder: Path, tmp_path: Path, capsys: Any) -> None:
    files = [str(tmp_path / f"a.{ending}") for ending in ("json", "html", "svg")]
    arguments = [part for name in files for part in ("-o", name)]
    gate = "decoder.attend:0=0"
    assert main(["inspect", str(folder), "-t", "a dog", "--gate", gate, "--contrast", "0:un", *arguments]) == 0
    assert capsys.readouterr().out == ""
    trace = Trace.read(files[0])
    assert trace.changes[0].gates == {"decoder.attend": {"0": 0.0}}
    assert trace.attributions[-1].method == "contrastive"
    assert trace.beam is not None
    assert Path(files[1]).read_text("utf-8").startswith("<!doctype html>")
    assert "<svg" in Path(files[2]).read_text("utf-8")


def test_the_schema(capsys: Any) -> None:
    assert main(["inspect", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(schema()))


def test_the_best_head_is_measured_and_kept(folder: Path, tmp_path: Path, capsys: Any) -> None:
    texts = tmp_path / "texts"
    texts.write_text("a dog runs\ntwo men play\n", encoding="utf-8")
    assert main(["inspect", str(folder), "--measure", str(texts)]) == 0
    assert "decoder.attend" in capsys.readouterr().err
    kept = json.loads((folder / "regard.json").read_text("utf-8"))["alignment_head"]
    assert kept["attention"] == "decoder.attend"
    assert 0 <= kept["agreement"] <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to look at: give --text TEXT or --image FILE"),
        (["-t", "a", "--image", "b.png"], "--text and --image: choose one"),
        (["-t", "a", "-o", "a.pdf"], "--output a.pdf: its name must end in .html"),
        (["-t", "a", "--view", "pie"], "--view is one of align, heads, grid, not 'pie'"),
        (["-t", "a", "--layers", "x"], "--layers is numbers by commas"),
        (["-t", "a", "--contrast", "x"], "--contrast is ROW:TEXT"),
        (["-t", "a", "--gate", "x"], "--gate is ATTENTION:HEAD=FACTOR"),
        (["-t", "a", "--layers", "4"], "there is no attention in layer 4"),
        (["-t", "a", "--method", "x"], "no method is called 'x'"),
    ],
)
def test_mistakes_are_one_line(folder: Path, arguments: list[str], message: str, capsys: Any) -> None:
    assert main(["inspect", str(folder), *arguments]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1

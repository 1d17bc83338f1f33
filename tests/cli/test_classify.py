"""regard classify: a label for a line."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import cli

pytestmark = pytest.mark.filterwarnings("ignore")


def run(capsysbinary: Any, folder: Path, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    capsysbinary.readouterr()
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="ascii")
    try:
        code = cli.main(["classify", str(folder), *arguments])
    finally:
        sys.stdin = before
    out, err = capsysbinary.readouterr()
    return code, out.decode("utf-8"), err.decode("utf-8")


def test_texts_and_pairs(foreign: Any, capsysbinary: Any) -> None:
    folder = foreign("bert", "BertForSequenceClassification", num_labels=3)
    inputs = ["Hello world", ("The fox", "a dog"), ""]
    found = regard.load(folder).classify(inputs, details=True)
    lines = "".join(f"{one.label}\t{one.probability:.6f}\n" for one in found)
    assert run(capsysbinary, folder, stdin=b"Hello world\nThe fox\ta dog\n\n") == (0, lines, "")
    assert run(capsysbinary, folder, "Hello world", "The fox\ta dog", "")[1] == lines
    _, out, _ = run(capsysbinary, folder, "The fox\ta dog", "--jsonl", "--batch-tokens", "9")
    told = json.loads(out)
    assert (told["line"], told["text"], told["label"]) == (1, ["The fox", "a dog"], found[1].label)
    assert told["probabilities"] == pytest.approx(found[1].probabilities, abs=1e-6)
    _, out, _ = run(capsysbinary, folder, "Hello world", "--json", "-")
    assert json.loads(out)["answers"][0]["label"] == found[0].label


def test_tokens(foreign: Any, capsysbinary: Any) -> None:
    folder = foreign("bert", "BertForTokenClassification", num_labels=4)
    (one,) = regard.load(folder).classify(["The fox!"], details=True)
    wanted = " ".join(f"{token.text}/{token.label}" for token in one.tokens)
    assert run(capsysbinary, folder, "The fox!") == (0, wanted + "\n", "")
    told = json.loads(run(capsysbinary, folder, "The fox!", "--jsonl")[1])
    assert [(token["start"], token["end"]) for token in told["tokens"]] == [(t.start, t.end) for t in one.tokens]


def test_images(tmp_path: Path, capsysbinary: Any) -> None:
    import numpy as np
    import torch

    transformers = pytest.importorskip("transformers")
    image = pytest.importorskip("PIL.Image")
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=8
    )
    torch.manual_seed(0)
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "its")
    transformers.ViTImageProcessorPil(size={"height": 16, "width": 16}).save_pretrained(tmp_path / "its")
    files = [str(tmp_path / f"{number}.png") for number in range(2)]
    for number, file in enumerate(files):
        image.fromarray(np.full((20, 20, 3), 200 * number, dtype=np.uint8)).save(file)
    capsysbinary.readouterr()
    found = regard.load(tmp_path / "its").classify(files)
    code, out, _ = run(capsysbinary, tmp_path / "its", "--image", *files)
    assert (code, [line.split("\t")[0] for line in out.splitlines()]) == (0, found)
    code, _, err = run(capsysbinary, tmp_path / "its", "--image", str(tmp_path / "no.png"))
    assert (code, "no.png: cannot be opened" in err) == (2, True)
    code, _, err = run(capsysbinary, tmp_path / "its", "--image", *files, "--input", "lines")
    assert code == 2


def test_other_models_name_their_verb(foreign: Any, capsysbinary: Any) -> None:
    code, _, err = run(capsysbinary, foreign("bert", "BertModel"), "a")
    assert (code, "holds an embedder, not a classifier: use regard embed" in err) == (2, True)


@pytest.mark.parametrize("how", [[], ["--jsonl"]])
def test_texts_that_lose_their_ends_are_named(foreign: Any, capsysbinary: Any, how: list[str]) -> None:
    folder = foreign("bert", "BertForSequenceClassification", num_labels=3)
    _, _, err = run(capsysbinary, folder, "fox", "fox " * 90, "fox\t" + "dog " * 90, *how)
    assert err.splitlines() == [
        "line 2: the text is longer than the model reads, its end was left out",
        "line 3: the text is longer than the model reads, its end was left out",
        "2 of 3 lines: the text is longer than the model reads, its end was left out",
    ]

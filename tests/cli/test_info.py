"""regard info."""

from __future__ import annotations

import json
import re

import pytest

from regard.cli import main
from regard.models import transformer
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.translator import Translator

LINES = ["A dog runs in the park .", "Two men play football , and a girl looks on .", "The red house is near the sea ."] * 3
FRENCH = ["Un chien court dans le parc .", "Deux hommes jouent au football .", "La maison rouge est près de la mer ."] * 3

CERTIFICATE = '{"equal": true, "date": "2026-01-02T03:04:05+00:00", "versions": {"transformers": "5.0"}}'


@pytest.fixture(scope="module")
def separate():
    source, target = (train_tokenizer(lines, Plan("words", vocab_size=60)) for lines in (LINES, FRENCH))
    return Tokenizers(source, target, False)


def model_for(tokenizers):
    sizes = {"vocab_size": tokenizers.source.vocab_size, "target_vocab_size": tokenizers.target.vocab_size}
    return transformer.describe(**sizes, num_layers=2, d_model=16, d_ff=32, num_heads=4).build().eval()


def translator(tokenizers):
    return Translator(model_for(tokenizers), tokenizers)


def test_info(tmp_path, separate, capsys):
    its = translator(separate)
    its.meta |= {"source": "en", "target": "fr", "scores": {"bleu": {"value": 12.345, "signature": "tok:13a"}}}
    its.save(tmp_path)
    assert main(["info", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    count = sum(p.numel() for p in its.model.parameters())
    for part in (
        "en → fr",
        f"{count:,} parameters, float32",
        "blocks × 2: Block",
        "d_model=16",
        "texts of 128 tokens",
        "bleu 12.35  tok:13a",
    ):
        assert part in shown
    assert re.search(r"^        qkv 48×16 \+ 48 +1,632 ", shown, re.MULTILINE)
    assert f"tokenizer (target): {separate.target.vocab_size}" in shown
    (tmp_path / "verify.json").write_text(CERTIFICATE, encoding="utf-8")
    assert main(["info", str(tmp_path), "--length", "7"]) == 0
    shown = capsys.readouterr().out
    assert "verified on 2026-01-02: equal in transformers 5.0" in shown
    assert "texts of 7 tokens" in shown
    assert main(["info", str(tmp_path), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"] == count
    assert found["shapes"]["encoder.blocks.0.attention.qkv.weight"] == [48, 16]
    assert found["description"]["part"] == "Description"
    assert (found["tree"]["parameters"], found["length"]) == (count, 128)
    assert found["verified"]["equal"] is True
    assert main(["info", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.count("\n") == 1

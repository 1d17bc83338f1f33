"""regard rerank: weights found, tested on what they were not found on, and used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import cli
from regard.generator import Generator
from regard.models import gpt2

TEXTS = ["A dog runs in the park .", "Two men play football .", "The red house is near the sea ."] * 2


def test_weights_are_found_and_used(
    shared: Any, translator_for: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seed, steps in (("model", 1, []), ("back", 2, []), ("turned", 3, ["right-to-left"])):
        made = translator_for(shared, seed)
        for parameter in made.model.parameters():
            parameter.data.normal_(0.0, 0.4)
        made.search = regard.Search(num_beams=2, max_length=8)
        made.meta |= {"source": "en", "target": "fr", "preprocess": steps}
        made.save(tmp_path / name)
    torch.manual_seed(2)
    sizes = {"num_layers": 1, "d_model": 16, "num_heads": 2, "max_positions": 32}
    Generator(gpt2.describe(vocab_size=shared.source.vocab_size, **sizes).build(), shared).save(tmp_path / "lm")
    source, target, weights = (str(tmp_path / name) for name in ("source", "target", "weights.json"))
    Path(source).write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    Path(target).write_text("Un chien court dans le parc .\nDeux hommes .\nla maison .\n" * 2, encoding="utf-8")
    models = [
        "--reverse",
        str(tmp_path / "back"),
        "--language",
        str(tmp_path / "lm"),
        "--right-to-left",
        str(tmp_path / "turned"),
    ]
    arguments = ["rerank", str(tmp_path / "model"), "-s", source, "-r", target, "-o", weights, *models]
    assert cli.main([*arguments, "--candidates", "4", "--metric", "chrf", "--samples", "20", "--json", "-"]) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert json.loads(Path(weights).read_text(encoding="utf-8")) == {
        "version": 1,
        "candidates": 4,
        "models": {"reverse": "back", "language": "lm", "right_to_left": "turned"},
        "weights": found["weights"],
    }
    assert found["development"]["after"] >= found["development"]["before"]
    assert "weights of one half on the other" in shown.err
    assert (
        cli.main(["evaluate", str(tmp_path / "model"), "-s", source, "-r", target, "--rerank", weights, "--metrics", "chrf"])
        == 0
    )
    assert f"{found['development']['after']:.2f}" in capsys.readouterr().out
    for wrong, message in (
        (arguments[:8], "nothing to rerank with"),
        ([*arguments[:8], "--language", str(tmp_path / "back")], "holds a translator, not a language model"),
    ):
        assert cli.main(wrong) == 2
        said = capsys.readouterr().err
        assert message in said
        assert said.count("\n") == 1

"""Several models and choices among candidates, as translate and evaluate take them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import cli
from regard.cli.craft import opened, reranked, told_from
from regard.ensemble import Ensemble
from regard.errors import UserError

TEXTS = ["A dog runs in the park .", "Two men play football ."]


@pytest.fixture
def folders(shared: Any, translator_for: Any, tmp_path: Path) -> list[str]:
    for seed in (1, 2):
        made = translator_for(shared, seed)
        for parameter in made.model.parameters():
            parameter.data.normal_(0.0, 0.4)
        made.search = regard.Search(num_beams=2, max_length=8)
        made.save(tmp_path / str(seed))
    (tmp_path / "source").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    (tmp_path / "target").write_text("Un chien court .\nDeux hommes .\n", encoding="utf-8")
    return [str(tmp_path / "1"), str(tmp_path / "2")]


def out(capsysbinary: Any, *arguments: str) -> list[str]:
    assert cli.main(list(arguments)) == 0
    return capsysbinary.readouterr().out.decode().removesuffix("\n").split("\n")


def test_translate_with_a_further_model(folders: list[str], capsysbinary: Any) -> None:
    wanted = Ensemble([regard.load(folder) for folder in folders]).translate(TEXTS)
    assert out(capsysbinary, "translate", folders[0], "--with", folders[1], *TEXTS) == wanted
    assert cli.main(["translate", folders[0], "--with", folders[1], "--engine", "ctranslate2", "a"]) == 2
    assert b"an ensemble runs in the engine regard alone" in capsysbinary.readouterr().err


def test_translate_with_groups_and_mbr(folders: list[str], capsysbinary: Any) -> None:
    its = regard.load(folders[0])
    how = {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.5}
    named = ["--num-beams", "4", "--num-beam-groups", "2", "--diversity-penalty", "1.5"]
    assert out(capsysbinary, "translate", folders[0], *named, *TEXTS) == its.translate(TEXTS, **how)
    wanted = its.translate(TEXTS, mbr="bleu", candidates=5, sample=True)
    assert out(capsysbinary, "translate", folders[0], "--mbr", "bleu", "--candidates", "5", "--sample", *TEXTS) == wanted
    assert cli.main(["translate", folders[0], "--mbr", "ter", "a"]) == 2
    assert b"mbr must be one of chrf, bleu" in capsysbinary.readouterr().err


def test_evaluate_an_ensemble_with_mbr(folders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--source", str(tmp_path / "source"), "--reference", str(tmp_path / "target")]
    arguments = ["evaluate", folders[0], *files, "--with", folders[1], "--mbr", "chrf", "--candidates", "3"]
    assert cli.main([*arguments, "--output", str(tmp_path / "out"), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["search"] == {"mbr": "chrf", "candidates": 3}
    wanted = Ensemble([regard.load(folder) for folder in folders]).translate(TEXTS, mbr="chrf", candidates=3)
    assert (tmp_path / "out").read_text(encoding="utf-8").splitlines() == wanted


def test_a_file_of_weights_names_its_models_from_where_it_stands(folders: list[str], tmp_path: Path) -> None:
    document = {"version": 1, "candidates": 3, "models": {"reverse": "2"}, "weights": {"model": 1.0, "reverse": 4.0}}
    (tmp_path / "weights.json").write_text(json.dumps(document), encoding="utf-8")
    made = reranked(opened(folders[0], None), str(tmp_path / "weights.json"))
    assert (made.names, made.weights["reverse"]) == (["model", "length", "reverse"], 4.0)
    assert len(made.translate(TEXTS)) == 2
    assert told_from(tmp_path, folders[1]) == "2"
    assert told_from(tmp_path, "owner/name") == "owner/name"
    for text, message in (("{", "is not a file that regard rerank wrote"), ('{"a": 1}', "is not a file"), ("[]", "is not")):
        (tmp_path / "bad.json").write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=message):
            reranked(None, str(tmp_path / "bad.json"))
    (tmp_path / "bad.json").write_text(json.dumps(document | {"version": 2}), encoding="utf-8")
    with pytest.raises(UserError, match="version 2; this regard reads version 1"):
        reranked(None, str(tmp_path / "bad.json"))

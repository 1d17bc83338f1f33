"""regard export, and translate and evaluate in the engine that it writes for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.checkpoints.folders import save_model
from regard.cli import main
from regard.models import gpt2

pytest.importorskip("ctranslate2")


@pytest.fixture
def folder(translator_for, shared, tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    translator_for(shared).save(tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_for_ctranslate2(folder, tmp_path, capsys):
    output = tmp_path / "out"
    assert main(["export", str(folder), str(output), "--to", "ctranslate2", "--quantization", "int8"]) == 0
    shown = capsys.readouterr()
    assert f"{output}: ctranslate2, int8, " in shown.err
    assert shown.out == ""
    names = {path.name for path in output.iterdir()}
    assert {"model.bin", "config.json", "shared_vocabulary.json", "tokenizer.json"} <= names
    assert main(["export", str(folder), str(output)]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_it_goes_back_with_convert(folder, tmp_path, capsys):
    assert main(["export", str(folder), str(tmp_path / "out")]) == 0
    assert main(["convert", str(tmp_path / "out"), str(tmp_path / "back")]) == 0
    capsys.readouterr()
    found = []
    for name in ("model", "back"):
        assert main(["translate", str(tmp_path / name), "A dog runs .", "Two men", "--max-length", "6"]) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]
    assert found[0].count("\n") == 2


def test_language_models_have_a_vocabulary(shared, tmp_path, capsys):
    size = shared.source.vocab_size
    model = gpt2.describe(vocab_size=size, num_layers=1, d_model=16, num_heads=2, max_positions=20).build()
    save_model(tmp_path / "model", model, shared)
    assert main(["export", str(tmp_path / "model"), str(tmp_path / "out")]) == 0
    assert len(json.loads((tmp_path / "out" / "vocabulary.json").read_text(encoding="utf-8"))) == size


def test_translate_and_evaluate_in_other_engines(folder, tmp_path, capsys):
    (tmp_path / "source").write_text("A dog runs .\nTwo men play football .\n", encoding="utf-8")
    (tmp_path / "want").write_text("Un chien court .\nDeux hommes jouent au football .\n", encoding="utf-8")
    found = {}
    pytest.importorskip("numba")
    for engine in ("regard", "compiled", "ctranslate2"):
        line = ["translate", str(folder), "--input", str(tmp_path / "source"), "--num-beams", "3", "--max-length", "6"]
        more = ["--stopping", "first", "--n-best", "2", "--engine", engine]
        more += ["--workers", "2"] if engine == "compiled" else []
        assert main([*line, *more]) == 0
        rows = [row.split(" ||| ") for row in capsys.readouterr().out.splitlines()]
        found[engine] = [(row[0], row[1], float(row[3])) for row in rows]
        line = ["evaluate", str(folder), "-s", str(tmp_path / "source"), "-r", str(tmp_path / "want"), "--num-beams", "1"]
        document = tmp_path / f"{engine}.json"
        assert main([*line, "--metrics", "chrf,perplexity", "--engine", engine, "--json", str(document)]) == 0
        capsys.readouterr()
    assert len(found["regard"]) == 4
    for name in ("compiled", "ctranslate2"):
        assert [row[:2] for row in found["regard"]] == [row[:2] for row in found[name]]
        assert [row[2] for row in found["regard"]] == pytest.approx([row[2] for row in found[name]], abs=1e-4)
    scores = [json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))["scores"] for name in found]
    assert scores[0] == scores[1] == scores[2]
    assert list((tmp_path / "cache" / "ctranslate2").glob("*-float32/model.bin"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["--engine", "tensorrt"], "engine tensorrt: is not known; known: regard, compiled, ctranslate2"),
        (["--engine", "ctranslate2", "--sample"], "search option sample: CTranslate2 has none"),
    ],
)
def test_mistakes(folder, capsys, line, words):
    assert main(["translate", str(folder), "A dog", *line]) == 2
    shown = capsys.readouterr().err
    assert words in shown
    assert shown.count("\n") == 1


def test_a_program_that_is_not_known(folder, tmp_path, capsys):
    assert main(["export", str(folder), str(tmp_path / "out"), "--to", "tflite"]) == 2
    assert "--to tflite: is not known; known: ctranslate2, onnx" in capsys.readouterr().err

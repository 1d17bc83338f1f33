"""regard evaluate, from the command line."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard import cli, translator

SOURCES = ["One.", "Two.", "Three."]
REFERENCES = ["Un bateau au port.", "Deux chiens dans la neige.", "Trois hommes au parc."]


class Told:
    """A translator that answers with the references in upper case, and remembers how it was asked."""

    def __init__(self, **meta: Any) -> None:
        self.meta, self.asked = meta, []

    def translate(self, texts: list[str], **search: Any) -> list[str]:
        self.asked.append((list(texts), search))
        return [REFERENCES[i].upper() for i in range(len(texts))]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    made = Told()
    monkeypatch.setattr(translator, "load", lambda folder, *more: made)
    return made


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    def write(name: str, lines: list[str]) -> str:
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        return str(tmp_path / name)

    pairs = [f"{s}\t{r}" for s, r in zip([*SOURCES, SOURCES[0]], [*REFERENCES, "Un navire."])]
    return {
        "source": write("t.en", SOURCES),
        "reference": write("t.fr", REFERENCES),
        "hypotheses": write("t.hyp", [REFERENCES[0], "Deux chats.", REFERENCES[2]]),
        "empty": write("e.fr", [REFERENCES[0], "", REFERENCES[2]]),
        "pairs": write("t.tsv", pairs),
        "out": str(tmp_path / "out"),
    }


def test_translations_of_another_system_are_scored(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["evaluate", "--hypotheses", files["hypotheses"], "-r", files["reference"], "--json", "-"])
    said = capsys.readouterr()
    assert code == 0
    document = json.loads(said.out)
    assert document["sentences"] == 3
    assert document["scores"]["bleu"]["signature"] in said.err


def test_s_loss_06_the_number_is_that_of_the_sacrebleu_command(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], told: Told
) -> None:
    """S-LOSS-06: `regard evaluate --output` and then sacrebleu on that file agree, signature and all."""
    arguments = ["evaluate", "folder", "-s", files["source"], "-r", files["reference"], "-o", files["out"]]
    assert cli.main([*arguments, "--json", "-", "--metrics", "bleu"]) == 0
    document = json.loads(capsys.readouterr().out)
    command = [sys.executable, "-m", "sacrebleu", files["reference"], "-i", files["out"], "-m", "bleu", "-w", "6"]
    outside = json.loads(subprocess.run(command, capture_output=True, check=True, encoding="utf-8").stdout)
    assert round(document["scores"]["bleu"]["value"], 6) == outside["score"]
    assert document["scores"]["bleu"]["signature"] == outside["signature"]


def test_a_model_is_asked_with_the_search_of_the_command_line(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], told: Told
) -> None:
    arguments = ["evaluate", "folder", "-s", files["source"], "-r", files["reference"], "--metrics", "exact_match"]
    assert cli.main([*arguments, "--beam-size", "3", "--length-penalty", "0.6", "--max-sentences", "2"]) == 0
    assert told.asked == [(SOURCES[:2], {"num_beams": 3, "length_penalty": 0.6})]
    assert "exact_match      0.00" in capsys.readouterr().out
    assert cli.main([*arguments, "--lowercase"]) == 0
    assert "exact_match    100.00" in capsys.readouterr().out


def test_a_corpus_is_grouped_and_the_model_knows_its_languages_and_metrics(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], told: Told
) -> None:
    told.meta = {"source": "en", "target": "fr", "scores": {"word_error": {}, "cer": {}}}
    assert cli.main(["evaluate", "folder", "--data", files["pairs"], "--json", files["out"]]) == 0
    document = json.loads(Path(files["out"]).read_text(encoding="utf-8"))
    assert (document["sentences"], document["references"]) == (3, 2)
    assert list(document["scores"]) == ["word_error", "cer"]
    assert cli.main(["evaluate", "folder", "--data", files["pairs"], "--no-group", "--max-sentences", "3"]) == 0
    assert "3 sentences, translated" in capsys.readouterr().out


def test_the_steps_of_the_model_are_done_to_sources_and_references(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], told: Told
) -> None:
    told.meta = {"source": "en", "target": "fr", "preprocess": ["moses-lc"]}
    arguments = ["evaluate", "folder", "-s", files["source"], "-r", files["reference"], "--json", "-"]
    assert cli.main([*arguments, "--metrics", "bleu,exact_match", "--finish", "moses-lc"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert told.asked[0][0] == ["one .", "two .", "three ."]
    assert "tok:none" in document["scores"]["bleu"]["signature"]
    assert document["scores"]["exact_match"]["value"] == 100


def test_s_loss_07_an_empty_reference_costs_no_translating(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], told: Told
) -> None:
    """S-LOSS-07: refused before translating, naming line 2; scored when asked to."""
    arguments = ["evaluate", "folder", "-s", files["source"], "-r", files["empty"]]
    assert cli.main(arguments) == 2
    assert "line 2 of the references is empty" in capsys.readouterr().err
    assert not told.asked
    assert cli.main([*arguments, "--allow-empty"]) == 0
    assert told.asked


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either a model folder or --hypotheses"),
        (["folder", "--hypotheses", "x"], "either a model folder or --hypotheses"),
        (["folder"], "say what to score against"),
        (["folder", "-r", "{reference}"], "give --source FILE"),
        (["folder", "--data", "{pairs}"], "--data needs both languages"),
        (["folder", "-s", "{source}", "-r", "{reference}", "--metrics", "rouge"], "unknown metric 'rouge'"),
        (["folder", "-s", "{source}", "-r", "{reference}", "--preprocess", "stem"], "unknown step 'stem'"),
        (["folder", "-s", "{source}", "-r", "{reference}", "--json", "no/where/x.json"], "no folder"),
        (["folder", "-s", "{source}", "-r", "missing.fr"], "missing.fr"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    arguments: list[str], message: str, files: dict[str, str], capsys: pytest.CaptureFixture[str], told: Told
) -> None:
    assert cli.main(["evaluate", *(argument.format(**files) for argument in arguments)]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.count("\n") == 1
    assert not told.asked


def test_real_multi30k_on_the_published_scale(data_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with gzip.open(data_root / "multi30k" / "test_2016_flickr.de.gz", "rt", encoding="utf-8", newline="\n") as file:
        raw = [next(file).rstrip("\n") for _ in range(50)]
    reference, hypotheses = tmp_path / "test.de", tmp_path / "hyp"
    reference.write_text("\n".join(raw) + "\n", encoding="utf-8", newline="\n")
    hypotheses.write_text("\n".join(text.lower() for text in raw) + "\n", encoding="utf-8", newline="\n")
    arguments = ["evaluate", "--hypotheses", str(hypotheses), "-r", str(reference), "--json", "-", "--metrics", "bleu"]
    assert cli.main([*arguments, "--preprocess", "moses-lc", "--finish", "moses-lc"]) == 0
    found = json.loads(capsys.readouterr().out)["scores"]["bleu"]
    assert found["value"] == pytest.approx(100)
    assert "tok:none" in found["signature"]


def test_a_real_model_folder_is_scored_and_asked_for_its_likelihood(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import math

    import torch

    from regard import models
    from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer

    torch.manual_seed(0)
    words = train_tokenizer([*SOURCES, *REFERENCES], Plan(kind="words", vocab_size=60))
    sizes = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1}
    model = models.find("transformer").describe(vocab_size=words.vocab_size, **sizes).build()
    translator.Translator(model, Tokenizers(words, words, True), meta={"target": "fr"}).save(tmp_path / "model")
    arguments = ["evaluate", str(tmp_path / "model"), "-s", files["source"], "-r", files["reference"], "-o", files["out"]]
    metrics = ["--metrics", "bleu,perplexity,loss,token_accuracy", "--num-beams", "2", "--json", "-"]
    assert cli.main([*arguments, *metrics]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert scores["perplexity"]["value"] == pytest.approx(math.exp(scores["loss"]["value"]))
    assert scores["loss"]["tokens"] == sum(len(words.encode(text)) + 1 for text in REFERENCES)
    assert Path(files["out"]).read_bytes().count(b"\n") == 3


def test_real_tatoeba_is_scored_against_all_translations_of_a_sentence(
    data_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with gzip.open(data_root / "tatoeba" / "eng-fra.test.tsv.gz", "rt", encoding="utf-8", newline="\n") as file:
        last = dict(line.rstrip("\n").split("\t") for line in file)
    hypotheses = tmp_path / "last.fr"
    hypotheses.write_text("".join(f"{text}\n" for text in last.values()), encoding="utf-8", newline="\n")
    arguments = ["evaluate", "--hypotheses", str(hypotheses), "--data", "tatoeba-en-fr", "--source-lang", "en"]
    metrics = ["--metrics", "exact_match,word_error_first"]
    assert cli.main([*arguments, "--target-lang", "fr", *metrics, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["sentences"], document["references"] > 5) == (2364, True)
    assert document["scores"]["exact_match"]["value"] == 100
    assert document["scores"]["word_error_first"]["value"] > 20


def test_the_quality_estimate_is_fitted_kept_and_drawn(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from regard.evaluation import quality
    from regard.evaluation.quality import Bin, Calibration

    found = Calibration({"version": 1}, [Bin(50.0, 51.0, 3)], 0.5, 1.0, 3, [50.0], [51.0])
    monkeypatch.setattr(quality, "measured", lambda translator, task, **search: found)
    monkeypatch.setattr(translator, "load", lambda folder, *more: Told(source="en", target="fr"))
    (tmp_path / "regard.json").write_text('{"version": 1}', encoding="utf-8")
    picture = str(tmp_path / "reliable.svg")
    given = ["-s", files["source"], "-r", files["reference"], "--metrics", "chrf"]
    assert cli.main(["evaluate", str(tmp_path), *given, "--calibrate", picture]) == 0
    assert json.loads((tmp_path / "regard.json").read_text(encoding="utf-8"))["quality"] == {"version": 1}
    assert Path(picture).read_text(encoding="utf-8").startswith("<?xml")
    assert "correlation with chrF 0.500" in capsys.readouterr().err
    assert cli.main(["evaluate", "--hypotheses", files["hypotheses"], "-r", files["reference"], "--calibrate", picture]) == 2
    assert "--calibrate needs a model" in capsys.readouterr().err
    assert cli.main(["evaluate", str(tmp_path), *given, "--calibrate", str(tmp_path / "no" / "x.svg")]) == 2


def test_sentences_of_documents_are_asked_for_in_order(told: Told, files: dict[str, str]) -> None:
    """Pairs of one source are not made one sentence then."""
    told.meta = {"source": "en", "target": "fr"}
    given = ["evaluate", "folder", "--data", files["pairs"], "--context", "2", "--leave-unknown", "--max-sentences", "3"]
    assert cli.main(given) == 0
    assert told.asked == [(SOURCES, {"context": 2, "replace_unknown": False})]

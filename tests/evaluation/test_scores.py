"""Scores against known values and against sacrebleu run from outside."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from regard.errors import UserError
from regard.evaluation.scores import (
    METRICS,
    Scoring,
    as_json,
    check_metrics,
    check_references,
    group_references,
    lines,
    score,
    tokenizer_of,
)

REFERENCE = ["The boats are in the harbour.", "A dog runs through the snow.", "Two men play chess in the park."]
HYPOTHESIS = ["The boat is in the harbour.", "A dog runs through the snow.", "Two men are playing chess."]


def test_bleu_chrf_and_ter_are_sacrebleus_with_its_signatures() -> None:
    found = score(HYPOTHESIS, [REFERENCE], ["bleu", "chrf", "chrf++", "ter"])
    metrics = {"bleu": BLEU(), "chrf": CHRF(), "chrf++": CHRF(word_order=2), "ter": TER(case_sensitive=True)}
    for name, metric in metrics.items():
        assert found[name].value == metric.corpus_score(HYPOTHESIS, [REFERENCE]).score
        assert found[name].signature == str(metric.get_signature())
    assert "tok:13a" in found["bleu"].signature
    assert "nw:2" in found["chrf++"].signature


def test_s_loss_06_detokenised_bleu_equals_sacrebleu_from_outside(tmp_path: Path) -> None:
    """S-LOSS-06: the output file, scored by the sacrebleu command, has the printed number and signature."""
    reference, output = tmp_path / "reference", tmp_path / "output"
    odd = ["A\u2028line\u0085with\u000bodd\u000cbreaks .", "It's \"quoted\", isn't it?"]
    references, hypotheses = [*REFERENCE, *odd], [*HYPOTHESIS, *odd]
    reference.write_text("".join(f"{text}\n" for text in references), encoding="utf-8", newline="\n")
    output.write_text("".join(f"{text}\n" for text in hypotheses), encoding="utf-8", newline="\n")
    command = [sys.executable, "-m", "sacrebleu", str(reference), "-i", str(output), "-m", "bleu", "chrf", "-w", "6"]
    outside = json.loads(subprocess.run(command, capture_output=True, check=True, encoding="utf-8").stdout)
    found = score(hypotheses, [references], ["bleu", "chrf"])
    assert [round(found[name].value, 6) for name in ("bleu", "chrf")] == [one["score"] for one in outside]
    assert [found[name].signature for name in ("bleu", "chrf")] == [one["signature"] for one in outside]


def test_s_loss_06_the_same_sentence_has_bleu_100() -> None:
    """S-LOSS-06: text that came out of subwords as the reference is, scores 100."""
    found = score(REFERENCE[:1], [REFERENCE[:1]], ["bleu", "ter", "exact_match", "wer"])
    assert found["bleu"].value == pytest.approx(100)
    assert found["bleu"].signature
    assert (found["ter"].value, found["exact_match"].value, found["wer"].value) == (0, 100, 0)


@pytest.mark.parametrize(
    ("language", "name"),
    [("zh", "zh"), ("zh-CN", "zh"), ("zh_Hans", "zh"), ("cmn", "zh"), ("fr", "13a"), (None, "13a"), ("ja", "ja-mecab")],
)
def test_the_target_language_chooses_the_tokenizer(language: str | None, name: str) -> None:
    assert tokenizer_of(Scoring(language)) == name


def test_chinese_is_scored_by_character_and_says_so() -> None:
    reference, hypothesis = ["我们今天去公园散步。"], ["我们今天去公园跑步。"]
    chinese = score(hypothesis, [reference], ["bleu"], language="zh")["bleu"]
    assert "tok:zh" in chinese.signature
    assert chinese.value > 50 > score(hypothesis, [reference], ["bleu"])["bleu"].value


def test_a_tokenizer_may_be_named_and_a_wrong_one_is_refused() -> None:
    found = score(["a b c d ."], [["a b c d ."]], ["bleu"], language="zh", tokenize="none")["bleu"]
    assert "tok:none" in found.signature
    with pytest.raises(UserError, match=r"unknown tokenizer 'moses'.*13a"):
        score(["a"], [["a"]], ["bleu"], tokenize="moses")


def test_lowercase_is_applied_by_every_metric() -> None:
    found = score(["THE BOATS ARE HERE"], [["the boats are here"]], METRICS, options=Scoring(lowercase=True))
    wrong = {"ter", "wer", "per", "cer", "word_error", "word_error_first"}
    for name, its in found.items():
        assert its.value == pytest.approx(0 if name in wrong else 100), name
        assert "case:lc" in its.signature, name
    assert score(["THE BOATS"], [["the boats"]], ["wer"])["wer"].value == 100


def test_error_rates_sum_edits_over_the_corpus() -> None:
    found = score(["a x c", "d"], [["a b c", "d e f g"]], ["wer", "per", "cer"])
    assert found["wer"].value == pytest.approx(100 * 4 / 7)
    assert found["wer"].extra == {"edits": 4, "reference_length": 7}
    assert found["per"].value == found["wer"].value
    assert found["cer"].value == pytest.approx(100 * 7 / 12)
    assert "unit:phonemes" in found["per"].signature


def test_pronunciations_are_right_as_wholes_with_and_without_variants() -> None:
    hypotheses = ["T AH M EY T OW", "T AH M AA T OW", "K AE T"]
    references = [["T AH M EY T OW", "T AH M EY T OW", "K AH T"], [None, "T AH M AA T OW", ""]]
    found = score(hypotheses, references, ["word_error", "word_error_first", "exact_match", "per"])
    assert found["word_error"].value == pytest.approx(100 / 3)
    assert found["word_error_first"].value == pytest.approx(200 / 3)
    assert found["exact_match"].value == pytest.approx(200 / 3)
    assert found["per"].value == pytest.approx(100 / 15)
    assert "nrefs:var" in found["per"].signature


def test_group_references_keeps_order_and_pads_with_none() -> None:
    pairs = [("Go.", "Va !"), ("Hi.", "Salut !"), ("Go.", "Marche."), ("Go.", "Va !")]
    sources, references = group_references(pairs)
    assert sources == ["Go.", "Hi."]
    assert references == [["Va !", "Salut !"], ["Marche.", None]]
    assert group_references([]) == ([], [])


def test_further_references_can_only_help_and_blank_ones_are_none() -> None:
    one = score(["Marche.", "Salut !"], [["Va !", "Salut !"]], ["chrf", "bleu"])
    two = score(["Marche.", "Salut !"], [["Va !", "Salut !"], ["Marche.", None]], ["chrf", "bleu"])
    blank = score(["Marche.", "Salut !"], [["Va !", "Salut !"], ["Marche.", " "]], ["chrf", "bleu"])
    assert two == blank
    assert two["chrf"].value == pytest.approx(100)
    assert one["chrf"].value < 99
    assert "nrefs:var" in two["bleu"].signature


def test_unequal_counts_are_refused_with_both() -> None:
    with pytest.raises(UserError, match=r"3 sentences .* 2 lines"):
        score(HYPOTHESIS, [REFERENCE[:2]])
    with pytest.raises(UserError, match=r"3 sentences .* 1 lines in reference set 2"):
        score(HYPOTHESIS, [REFERENCE, ["a"]])


def test_s_loss_07_an_empty_reference_is_refused_with_its_line() -> None:
    """S-LOSS-07: refused, naming line 2, by a check that runs before translating."""
    with pytest.raises(UserError, match="line 2 of the references is empty"):
        check_references([["a b", "", "c d"]])
    assert check_references([["a b", "", "c d"], ["", "x", ""]]) == [["a b", None, "c d"], [None, "x", None]]


def test_s_loss_07_empty_references_may_be_scored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """S-LOSS-07: the other choice, a score and a warning."""
    with caplog.at_level(logging.WARNING):
        found = score(["a b", "", "c d"], [["a b", "", "c d"]], METRICS, options=Scoring(allow_empty=True))
    assert "1 of 3 references are empty" in caplog.text
    assert found["exact_match"].value == 100
    assert found["wer"].value == 0


def test_nothing_to_score_and_unknown_metrics_are_refused() -> None:
    with pytest.raises(UserError, match="no sentences"):
        score([], [[]])
    with pytest.raises(UserError, match="one list of lines a reference set"):
        score(["a"], ["a"])
    with pytest.raises(UserError, match=r"unknown metric 'rouge'.*bleu"):
        check_metrics(["rouge"])
    with pytest.raises(UserError, match="no metric"):
        check_metrics([" "])
    assert check_metrics(["BLEU", "exact-match", "bleu"]) == ["bleu", "exact_match"]


def test_s_data_01_odd_line_ends_inside_a_sentence_stay_inside() -> None:
    """S-DATA-01: characters that some functions take for line ends do not shift the pairs that are scored."""
    for odd in "\u2028\u2029\u0085\u000b\u000c\u001c":
        texts = ["one two three four", f"five six{odd}seven eight", "nine ten eleven twelve"]
        found = score(texts, [texts], METRICS)
        assert found["bleu"].value == pytest.approx(100)
        assert found["exact_match"].extra["entries"] == 3
        assert found["wer"].value == 0


def test_scores_as_lines_and_as_json() -> None:
    found = score(HYPOTHESIS, [REFERENCE], ["bleu", "exact_match"])
    assert len(lines(found)) == 2
    assert found["bleu"].signature in lines(found)[0]
    document = json.loads(json.dumps(as_json(found)))
    assert document["bleu"]["value"] == found["bleu"].value
    assert document["exact_match"]["right"] == 1


def test_real_tatoeba_groups_have_all_their_translations(data_root: Path) -> None:
    import gzip

    with gzip.open(data_root / "tatoeba" / "eng-fra.test.tsv.gz", "rt", encoding="utf-8", newline="\n") as file:
        pairs = [tuple(line.rstrip("\n").split("\t")) for line in file]
    sources, references = group_references(pairs)
    assert len(sources) == len({source for source, _ in pairs}) == 2364
    assert sum(r is not None for lines in references for r in lines) == len(set(pairs))
    firsts = [row[0] for row in zip(*references)]
    lasts = [next(r for r in row[::-1] if r is not None) for row in zip(*references)]
    for texts in (firsts, lasts):
        assert score(texts, references, ["exact_match"])["exact_match"].value == 100

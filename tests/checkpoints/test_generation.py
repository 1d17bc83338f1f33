"""generation_config.json: obeyed, or refused in words; written back."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.checkpoints.generation import read_generation, settings_of, written
from regard.decoding.options import Search, read_options
from regard.errors import UserError

TEXTS = ["Hello world, this is a test.", "The quick brown fox", "do n't pay more"]


def test_settings_in_our_words() -> None:
    said = {
        "num_beams": 4,
        "length_penalty": 0.6,
        "early_stopping": True,
        "no_repeat_ngram_size": 3,
        "min_length": 11,
        "max_length": 41,
        "forced_bos_token_id": 7,
        "bad_words_ids": [[5], [9]],
        "suppress_tokens": [3],
        "eos_token_id": 2,
        "temperature": 0.5,
    }
    assert read_options(settings_of(said, "here")) == Search(
        num_beams=4,
        length_penalty=0.6,
        stopping="first",
        no_repeat_ngram_size=3,
        min_length=10,
        max_length=40,
        first_token=7,
        suppress_tokens=(3, 5, 9),
    )
    assert read_options(settings_of({}, "here")) == Search(num_beams=1)
    sampled = settings_of({"do_sample": True, "top_p": 0.9, "num_beams": 3}, "here")
    assert read_options(sampled) == Search(num_beams=1, sample=True, top_k=50, top_p=0.9)
    assert "min_length" not in settings_of({"min_length": 30, "max_length": 20}, "here")


def test_what_cannot_be_obeyed_is_refused_or_named(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UserError, match=r"x: bad_words_ids of generation_config.json forbids sequences of several tokens"):
        settings_of({"bad_words_ids": [[5], [1, 2]]}, "x")
    for key, value in (("begin_suppress_tokens", [4]), ("sequence_bias", {"a": 1}), ("force_words_ids", [[1]])):
        with pytest.raises(UserError, match=f"x: generation_config.json has {key}, which regard's search does not do"):
            settings_of({key: value}, "x")
    with caplog.at_level(logging.WARNING):
        settings_of({"repetition_penalty": 1.2, "typical_p": 1.0, "penalty_alpha": 0.5}, "x")
    assert "x: not used: repetition_penalty, penalty_alpha of generation_config.json" in caplog.text


def test_older_folders_keep_them_in_the_configuration(tmp_path: Path) -> None:
    assert read_generation(tmp_path, {"num_beams": 3, "d_model": 8, "max_length": 9}) == {"num_beams": 3, "max_length": 9}
    (tmp_path / "generation_config.json").write_text('{"num_beams": 2}', encoding="utf-8")
    config = {"num_beams": 3, "max_length": 9, "pad_token_id": 5, "forced_eos_token_id": 6}
    assert read_generation(tmp_path, config) == {"num_beams": 2, "pad_token_id": 5}  # as transformers has it


def test_what_came_is_written_back() -> None:
    config = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    made = written(config, {"num_beams": 5, "length_penalty": 1.0}, 64, {"bad_words_ids": [[3]], "max_length": 30})
    assert made["bad_words_ids"] == [[3]]
    assert (made["max_length"], made["num_beams"], made["bos_token_id"]) == (30, 5, 1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["bart", "mbart", "t5"])
@pytest.mark.parametrize("beams", [1, 3])
def test_translations_of_folders_of_others_equal_theirs(kind: str, beams: int, foreign: Any, tmp_path: Path) -> None:
    """Sources framed by the tokenizer's template, the decoder started as the folder says, a first token forced, tokens
    forbidden: ids and texts of generate of transformers, greedy and with beams."""
    import transformers

    names = {"bart": "BartForConditionalGeneration", "mbart": "MBartForConditionalGeneration"}
    start = {} if kind == "t5" else {"decoder_start_token_id": 2}
    made = foreign(kind, names.get(kind, "T5ForConditionalGeneration"), **start)
    folder = tmp_path / "its"
    shutil.copytree(made, folder)
    known = json.loads((folder / "generation_config.json").read_text("utf-8"))
    for key in ("forced_eos_token_id",):
        known.pop(key, None)
    settings = {"bad_words_ids": [[20], [33]], "num_beams": beams, "max_length": 13, "no_repeat_ngram_size": 2}
    settings |= {"forced_bos_token_id": 30} if kind == "mbart" else {}
    if (
        kind == "t5"
    ):  # its start counts among the n-grams of transformers and not in ours: it differs where it is written again
        settings["bad_words_ids"].append([0])
    (folder / "generation_config.json").write_text(json.dumps(known | settings), "utf-8")
    its = regard.load(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    model.generation_config.forced_eos_token_id = None
    found = its.translate(TEXTS, details=True)
    for text, one in zip(TEXTS, found):
        with torch.no_grad():
            (want,) = model.generate(**tokenizer(text, return_tensors="pt", return_token_type_ids=False)).tolist()
        silent = (its.tokenizer.pad, its.tokenizer.eos)
        want = [number for number in want[1:] if number not in silent]
        ids = [its.tokenizer.backend.token_to_id(token) for token in one.tokens]
        assert [number for number in ids if number not in silent] == want
        assert {20, 33}.isdisjoint(want)
        assert one.text == tokenizer.decode(want, skip_special_tokens=True)
        assert kind != "mbart" or want[0] == 30
    its.save(tmp_path / "again")
    again = regard.load(tmp_path / "again")
    assert (again.translate(TEXTS), again.search) == ([one.text for one in found], its.search)
    theirs = json.loads((tmp_path / "again" / "generation_config.json").read_text("utf-8"))
    assert (theirs["bad_words_ids"], theirs["max_length"]) == (settings["bad_words_ids"], 13)

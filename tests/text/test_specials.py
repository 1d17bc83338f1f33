"""Special symbols of other programs' folders: found by name, never made of text; ids as AutoTokenizer gives them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend

from regard.errors import UserError
from regard.text.specials import mark, ordinary, read_config, renamed, special_ids
from regard.text.tokenizer import Plan, Tokenizer, Tokenizers, train_tokenizer

KINDS = ("gpt2", "llama", "bert", "roberta", "t5")
TEXTS = [
    "Hello world, this is a test.",
    "",
    "  two  spaces ",
    "The quick brown fox\njumps — 日本語🙂 café",
    "do n't x : 'y' , z .",
    "a",
    "\t tab",
]
WANTED = {
    "gpt2": (None, 0, 0, 0, None),
    "llama": (None, 0, 1, 2, None),
    "bert": (0, 1, None, None, 4),
    "roberta": (1, 3, 0, 2, 4),
    "t5": (0, 2, None, 1, None),
}

pytestmark = pytest.mark.filterwarnings("ignore")


def pair(kind: str, foreign: Any) -> tuple[Tokenizer, Any]:
    import transformers

    folder = foreign(kind)
    return Tokenizer.open(folder), transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_segments_and_text_equal_autotokenizers(kind: str, foreign: Any) -> None:
    its, reference = pair(kind, foreign)
    assert (its.pad, its.unk, its.bos, its.eos, its.mask) == WANTED[kind]
    assert its.vocab_size == len(reference)
    for first in TEXTS:
        want = reference(first, return_token_type_ids=True)
        assert its.wrap(its.encode(first)) == (want.input_ids, want.token_type_ids)
        decoded = its.decode(want.input_ids)
        assert decoded == reference.decode(want.input_ids, skip_special_tokens=True)
        stream = its.stream()
        assert "".join(map(stream.push, want.input_ids)) + stream.end() == decoded  # S-TOK-04
        for second in filter(None, TEXTS):  # transformers takes an empty second text for none
            want = reference(first, second, return_token_type_ids=True)
            assert its.wrap(its.encode(first), its.encode(second)) == (want.input_ids, want.token_type_ids)


@pytest.mark.parametrize("kind", KINDS)
def test_s_tok_02_no_text_becomes_a_special_symbol(kind: str, foreign: Any) -> None:
    its, reference = pair(kind, foreign)
    names = its.special_names
    for text in [*names, "I like </s> and <pad> tags", *(f"a {one} b{one}" for one in names), mark(1), "".join(names)]:
        ids = its.encode(text)
        assert set(ids).isdisjoint(its._specials - {its.unk})
        assert its.tokens(text).ids == ids
        if kind in ("gpt2", "roberta", "llama"):
            assert its.unk is None or its.unk not in ids
            assert its.decode(ids) == text
    if kind != "t5":  # whose pieces hold "</s>": transformers gives the end mark here
        text = "I like </s> and <pad> tags"
        assert its.encode(text) == reference(text, split_special_tokens=True, add_special_tokens=False).input_ids


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_are_meant_are_symbols_as_in_autotokenizer(kind: str, foreign: Any) -> None:
    its, reference = pair(kind, foreign)
    for name in its.special_names:
        text = f"Hello {name} world {name}{name}, {name}"
        assert its.encode_marked(text, [name]) == reference(text, add_special_tokens=False).input_ids
    assert its.encode_marked("Hello world", []) == its.encode("Hello world")
    name = its.special_names[0]
    assert its.encode_marked(f"a {name[0]}\ue0a5{name[1:]}", [name], "\ue0a5") == its.encode(f"a {name}")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_opens_in_transformers_with_the_same(kind: str, foreign: Any, tmp_path: Path) -> None:
    import transformers

    its, reference = pair(kind, foreign)
    Tokenizers(its, its, True).save(tmp_path)
    again = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert type(again) is type(reference)
    for text in TEXTS:
        assert again(text, "more").input_ids == reference(text, "more").input_ids
    before = json.loads((foreign(kind) / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8")) == before
    assert Tokenizer.open(tmp_path).encode(TEXTS[3]) == its.encode(TEXTS[3])


def test_padding_and_truncation_of_a_file_touch_no_ids_and_stay(foreign: Any, tmp_path: Path) -> None:
    shutil.copytree(foreign("bert"), tmp_path / "a")
    path = tmp_path / "a" / "tokenizer.json"
    file = json.loads(path.read_text(encoding="utf-8"))
    file["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    file["padding"] = {
        "strategy": {"Fixed": 9},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    path.write_text(json.dumps(file), encoding="utf-8")
    its = Tokenizer.open(tmp_path / "a")
    assert its.encode_batch(TEXTS) == Tokenizer.open(foreign("bert")).encode_batch(TEXTS)
    its.save(tmp_path / "b")
    again = json.loads((tmp_path / "b" / "tokenizer.json").read_text(encoding="utf-8"))
    assert (again["truncation"], again["padding"]) == (file["truncation"], file["padding"])


def test_names_come_from_the_configuration_then_from_habit(foreign: Any, tmp_path: Path) -> None:
    shutil.copytree(foreign("roberta"), tmp_path / "a")
    config = tmp_path / "a" / "tokenizer_config.json"
    config.unlink()
    its = Tokenizer.open(tmp_path / "a")
    assert (its.pad, its.unk, its.bos, its.eos, its.mask) == WANTED["roberta"]
    config.write_text(json.dumps({"pad_token": None, "eos_token": {"content": "<unk>"}, "bos_token": "<no>"}), "utf-8")
    its = Tokenizer.open(tmp_path / "a")
    assert (its.pad, its.unk, its.bos, its.eos, its.mask) == (None, 3, None, 3, 4)
    (tmp_path / "a" / "special_tokens_map.json").write_text(json.dumps({"pad_token": "<pad>"}), "utf-8")
    assert Tokenizer.open(tmp_path / "a").pad == 1
    config.write_text("[]", "utf-8")
    with pytest.raises(UserError, match="is not a JSON object"):
        read_config(tmp_path / "a")
    config.write_text("{", "utf-8")
    with pytest.raises(UserError, match="is not JSON"):
        read_config(tmp_path / "a")
    assert read_config(tmp_path) is None


def test_merges_of_a_special_symbol_do_not_break_the_pipeline() -> None:
    """Found by the fuzzer: what is written out of two pieces, one of which has become a special symbol."""
    its = train_tokenizer(["bar far car", "bar car"] * 5, Plan("bpe", vocab_size=280))
    file = json.loads(its.backend.to_str())
    merged = next(name for one in file["model"]["merges"] for name in one if len(name) > 1)
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    file["added_tokens"].append({"id": file["model"]["vocab"][merged], "content": merged} | special)
    its = Tokenizer(Backend.from_str(json.dumps(file)))
    assert its.decode(its.encode("arar bar")) == "arar bar"


def test_renamed_pipelines_keep_ids(foreign: Any) -> None:
    assert ordinary(mark(1)) == "\ufffd1\ufffd"
    for kind in KINDS:
        its = Tokenizer.open(foreign(kind))
        other = renamed(its.backend, its._specials)
        for text in TEXTS:
            assert other.encode(text, add_special_tokens=False).ids == its.encode(text)
        assert special_ids(its.backend, {})["unk"] == (None if kind == "gpt2" else WANTED[kind][1])

"""What a folder becomes, by its model's halves and head."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import translator
from regard.architecture import Description
from regard.classifier import Classifier
from regard.embedder import Embedder
from regard.errors import UserError
from regard.filler import Filler
from regard.generator import Generator
from regard.loading import kind_of, load_as
from regard.translator import Translator

pytestmark = pytest.mark.filterwarnings("ignore")
FOLDERS = {
    ("bert", "BertForMaskedLM"): Filler,
    ("bert", "BertForSequenceClassification"): Classifier,
    ("bert", "BertModel"): Embedder,
    ("gpt2", "GPT2LMHeadModel"): Generator,
    ("bart", "BartForConditionalGeneration"): Translator,
    ("t5", "T5ForConditionalGeneration"): Translator,
}


@pytest.mark.parametrize(("names", "kind"), FOLDERS.items())
def test_the_description_decides(names: tuple[str, str], kind: type, foreign: Any, tmp_path: Path) -> None:
    its = regard.load(foreign(*names))
    assert type(its) is kind
    its.save(tmp_path / "again")
    again = regard.load(tmp_path / "again")
    assert type(again) is kind
    again.save(tmp_path / "third")
    for name in ("config.json", "regard.json", "tokenizer_config.json", "generation_config.json"):
        files = [tmp_path / folder / name for folder in ("again", "third")]
        assert [file.exists() for file in files] in ([True, True], [False, False])
        if files[0].exists():
            assert files[0].read_text("utf-8") == files[1].read_text("utf-8"), name


@pytest.mark.parametrize(
    ("names", "wanted", "says"),
    [
        (("gpt2", "GPT2LMHeadModel"), Translator, "holds a language model, not a translator: use regard generate"),
        (
            ("bart", "BartForConditionalGeneration"),
            Generator,
            "holds a translator, not a language model: use regard translate",
        ),
        (("bert", "BertModel"), Classifier, "holds an embedder, not a classifier: use regard embed"),
        (("bert", "BertForSequenceClassification"), Embedder, "holds a classifier, not an embedder: use regard classify"),
        (("bert", "BertForMaskedLM"), Generator, r"holds a model of masked tokens, not a language model: use .*\.fill"),
    ],
)
def test_the_wrong_use_is_told_the_right_one(names: tuple[str, str], wanted: Any, says: str, foreign: Any) -> None:
    with pytest.raises(UserError, match=says):
        load_as(wanted, foreign(*names))


def test_a_head_that_nothing_uses() -> None:
    class Strange:
        kind = "strange"

    with pytest.raises(UserError, match="no use is known for a model whose head is Strange"):
        kind_of(Description(Strange()))


def test_translator_load_is_for_translators(foreign: Any) -> None:
    with pytest.raises(UserError, match="use regard generate"):
        translator.load(foreign("gpt2", "GPT2LMHeadModel"))


def test_ckpt_12_ids_disagree(foreign: Any, tmp_path: Path) -> None:
    """S-CKPT-12: pad 1 and end 2 in the configuration against pad 0 and end 1 in the tokenizer: both are named."""
    shutil.copytree(foreign("t5", "T5ForConditionalGeneration"), tmp_path / "its")
    path = tmp_path / "its" / "config.json"
    config = json.loads(path.read_text("utf-8")) | {"pad_token_id": 1, "eos_token_id": 2}
    path.write_text(json.dumps(config), "utf-8")
    with pytest.raises(UserError) as error:
        regard.load(tmp_path / "its")
    assert "pad is 1 in the model and 0 in the tokenizer; eos is 2 in the model and 1 in the tokenizer" in str(error.value)


def test_several_ends_are_all_obeyed(foreign: Any, tmp_path: Path) -> None:
    shutil.copytree(foreign("llama", "LlamaForCausalLM"), tmp_path / "its")
    path = tmp_path / "its" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"eos_token_id": [300, 2]}), "utf-8")
    its = regard.load(tmp_path / "its")
    assert its.ends == [2, 300]
    its.save(tmp_path / "again")
    assert regard.load(tmp_path / "again").ends == [2, 300]
    assert json.loads((tmp_path / "again" / "config.json").read_text("utf-8"))["eos_token_id"] == [300, 2]


def test_what_is_done_to_answers_is_no_option_of_the_search(foreign: Any, tmp_path: Path) -> None:
    its = regard.load(foreign("bart", "BartForConditionalGeneration"))
    its.meta["search"] = {"replace_unknown": True}
    its.save(tmp_path / "its")
    again = regard.load(tmp_path / "its")
    assert again.replaces_unknown
    assert again.search == its.search

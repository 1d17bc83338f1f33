"""The model card."""

from __future__ import annotations

import yaml

from regard.checkpoints.card import USES, card, task_of

SCORES = {"bleu": {"value": 55.21, "signature": "nrefs:1|case:mixed|tok:13a"}, "chrf": {"value": 71.0, "signature": "nc:6"}}


def front(text: str) -> dict:
    head = text.split("---\n")
    assert head[0] == ""
    return yaml.safe_load(head[1])


def test_scores_stand_with_their_signatures():
    meta = {"source": "no", "target": "fr", "data": "multi30k", "scores": SCORES, "architecture": "transformer"}
    text = card(meta, {"num_beams": 5}, 1_234_567, True)
    assert "# no → fr" in text
    assert "1,234,567 parameters" in text
    assert "| BLEU | 55.21 | `nrefs:1|case:mixed|tok:13a` |".replace("|case", "\\|case").replace("|tok", "\\|tok") in text
    found = front(text)
    assert found["language"] == ["no", "fr"]
    assert (found["library_name"], found["pipeline_tag"]) == ("regard", "translation")
    (result,) = found["model-index"][0]["results"]
    assert result["metrics"][0] == {
        "type": "bleu",
        "name": "BLEU",
        "value": 55.21,
        "args": {"signature": "nrefs:1|case:mixed|tok:13a"},
    }
    assert "AutoModelForSeq2SeqLM" in text


def test_each_task_is_asked_for_in_its_own_way(foreign):
    from regard.checkpoints.folders import load_model

    for names, task, asked in (
        (("bert", "BertForMaskedLM"), "fill-mask", "model.fill("),
        (("bert", "BertForSequenceClassification"), "text-classification", "model.classify("),
        (("bert", "BertForTokenClassification"), "token-classification", "model.classify("),
        (("bert", "BertModel"), "feature-extraction", "model.embed("),
        (("gpt2", "GPT2LMHeadModel"), "text-generation", "model.generate("),
        (("bart", "BartForConditionalGeneration"), "translation", "model.translate("),
    ):
        found = task_of(load_model(foreign(*names))[1])
        text = card({}, {}, 10, True, found)
        assert (found, front(text)["pipeline_tag"]) == (task, task)
        assert asked in text
        assert f"`{USES[task][1]}` of transformers" in text
    from regard.models import vit

    assert (
        task_of(vit.describe(image_size=8, patch_size=4, num_layers=1, d_model=8, num_heads=2, classes=2))
        == "image-classification"
    )


def test_a_card_without_anything_known():
    text = card({}, {}, 10, False)
    assert front(text) == {"library_name": "regard", "pipeline_tag": "translation"}
    assert "Scores" not in text
    assert "transformers" not in text
    assert text.endswith("\n")


def test_the_hub_reads_it():
    from huggingface_hub import ModelCard

    data = ModelCard(card({"source": "en", "target": "zh", "scores": SCORES}, {}, 10, True)).data
    assert data.eval_results[0].metric_value == 55.21
    assert data.language == ["en", "zh"]

"""Longformer against transformers' LongformerForMaskedLM, -ForSequenceClassification, -ForTokenClassification, -Model."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from regard.checkpoints.folders import load_model, save_model
from regard.checkpoints.fresh import with_head
from regard.errors import UserError
from regard.layers.masks import lower
from regard.layout import Layout
from regard.models import longformer

transformers = pytest.importorskip("transformers")

SHAPE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24, "vocab_size": 23}
SHAPE |= {"max_position_embeddings": 512, "attention_window": [4, 8], "type_vocab_size": 2, "pad_token_id": 1}
OURS = {"vocab_size": 23, "d_model": 16, "num_layers": 2, "num_heads": 4, "d_ff": 24, "max_positions": 510}
OURS |= {"window": (4, 8), "segments": 2, "eps": 1e-12}
CLASSES = {
    "masked": ("LongformerForMaskedLM", "AutoModelForMaskedLM"),
    "class": ("LongformerForSequenceClassification", "AutoModelForSequenceClassification"),
    "tokens": ("LongformerForTokenClassification", "AutoModelForTokenClassification"),
    "vector": ("LongformerModel", "AutoModel"),
}


@pytest.fixture
def theirs(randomised):
    """theirs(class name, folder or None, **configuration) -> a tiny random model of transformers, saved if asked."""

    def make(name, folder=None, **config):
        model = getattr(transformers, name)(transformers.LongformerConfig(**(SHAPE | config)))
        randomised(model)
        model.tie_weights()
        if folder is not None:
            model.save_pretrained(folder)
        return model

    return make


@pytest.fixture
def check(hidden_states, padded_ids):
    """check(ours, theirs, head, side, length) -> None if logits and hidden states of real tokens are equal, with marks."""

    def run(mine, other, head, side, length=40, marks=True):
        ids = padded_ids(side, 1, 23, length=length)
        layout = Layout.of_ids(ids, 1)
        mark = (layout.position == 0) & layout.real
        if marks:
            mark = mark | ((layout.position == 17) | (layout.position == 3) & torch.tensor([[True], [False], [True]]))
        mark = mark & layout.real
        segments = (layout.position % 5 > 2).long().expand(len(ids), -1)
        given = {"attention_mask": layout.real.long().expand(len(ids), -1), "token_type_ids": segments}
        if marks or head != "class" or side == "left":  # by itself that class takes the first column, be it padding
            given["global_attention_mask"] = (mark & (marks or head == "class")).long().expand(len(ids), -1)
        with torch.no_grad():
            want = other(input_ids=ids, output_hidden_states=True, **given)
        layout = replace(layout, mark=mark.long().expand(len(ids), -1)) if marks else layout
        answer, states = hidden_states(mine, ids, layout=layout, segments=segments)
        assert len(states["encoder"]) == len(want.hidden_states)
        real = layout.real.expand(len(ids), -1)
        for a, b in zip(states["encoder"], want.hidden_states):
            assert (a - b)[real].abs().max() < 1e-5
        if head == "vector":
            mean = want.last_hidden_state.masked_fill(~real[..., None], 0).sum(1) / real.sum(1, keepdim=True)
            assert (answer.vectors - mean).abs().max() < 1e-5
        elif head == "class":  # that class takes the first column, be it padding
            rows = real[:, 0]
            assert (answer.logits - want.logits)[rows].abs().max() < 1e-5
        else:
            assert (answer.logits - want.logits)[real].abs().max() < 1e-5
            assert want.logits.std() > 0.1

    return run


@pytest.mark.parametrize("side", ["no", "left", "right"])
@pytest.mark.parametrize("head", CLASSES)
def test_transformers_folder_opens_here(tmp_path, theirs, check, head, side):
    other = theirs(CLASSES[head][0], tmp_path, **({"num_labels": 5} if head in ("class", "tokens") else {}))
    model, description, meta = load_model(tmp_path)
    classes = {"classes": 5} if head in ("class", "tokens") else {}
    assert description == longformer.describe(**OURS, head=head, **classes)
    assert meta["ids"]["pad"] == 1
    check(model, other, head, side)
    check(model, other, head, side, marks=False)


@pytest.mark.parametrize("side", ["no", "left", "right"])
def test_long_texts_go_through_blocks(tmp_path, theirs, check, side):
    """The same against transformers where the window is cut into blocks; 450 is no multiple of a block."""
    other = theirs("LongformerForMaskedLM", tmp_path)
    model, _, _ = load_model(tmp_path)
    layout = Layout.unpadded(450)
    assert all(lower(block.attention.mask, layout, layout).blocked is not None for block in model.encoder.blocks)
    check(model, other, "masked", side, length=450)


@pytest.mark.parametrize("head", CLASSES)
def test_our_folder_opens_there(tmp_path, randomised, check, head):
    classes = {"classes": 3} if head in ("class", "tokens") else {}
    model = randomised(longformer.describe(**OURS, head=head, **classes).build())
    save_model(tmp_path, model)
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["model_type"] == "longformer"
    other, info = getattr(transformers, CLASSES[head][1]).from_pretrained(tmp_path, output_loading_info=True)
    assert type(other).__name__ == CLASSES[head][0]
    pooler = {"pooler.dense.weight", "pooler.dense.bias"} if head == "vector" else set()
    assert set(info["missing_keys"]) == pooler
    assert not info["unexpected_keys"]
    check(model, other, head, "right")


def test_untied(tmp_path, theirs, check):
    other = theirs("LongformerForMaskedLM", tmp_path, tie_word_embeddings=False)
    model, description, _ = load_model(tmp_path)
    assert description.tied == "no"
    check(model, other, "masked", "right")


def test_one_window_for_all_layers_in_an_older_configuration(tmp_path, theirs, check):
    other = theirs("LongformerForMaskedLM", tmp_path, attention_window=6)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config |= {"attention_window": 6, "torch_dtype": config.pop("dtype", "float32"), "attention_mode": "longformer"}
    path.write_text(json.dumps(config), encoding="utf-8")
    model, description, _ = load_model(tmp_path)
    assert [block.attention.window for block in description.encoder.blocks] == [6, 6]
    check(model, other, "masked", "left")


def test_windows_that_no_layer_can_have_are_refused(tmp_path, theirs):
    for window in (5, (4,), 0):
        with pytest.raises(ValueError, match="window"):
            longformer.describe(**OURS | {"window": window})
    theirs("LongformerForMaskedLM", tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"attention_window": [4, 7]}), encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.json: window must be an even number"):
        load_model(tmp_path)


@pytest.mark.parametrize("more", [{"global_tokens": 2}, {"head": "class", "classes": 3, "class_dropout": 0.3}])
def test_what_no_class_computes_is_written_as_regard(tmp_path, randomised, more):
    model = randomised(longformer.describe(**OURS | more).build())
    save_model(tmp_path, model)
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["model_type"] == "regard"
    back, description, _ = load_model(tmp_path)
    assert description == model.description
    ids = torch.randint(4, 23, (2, 9))
    assert torch.equal(back(ids).logits, model(ids).logits)


@pytest.mark.parametrize("more", [{}, {"window": 4, "head": "tokens", "classes": 2}, {"head": "vector", "pool": "first"}])
def test_arguments_are_read_off_a_description(more):
    description = longformer.describe(**OURS | more)
    assert longformer.describe(**longformer.arguments(description)) == description
    assert longformer.arguments(replace(description, encoder=replace(description.encoder, blocks=()))) is None


def test_marks_are_the_global_tokens():
    """The first token sees the last through all other tokens' windows only if one of them is global."""
    torch.manual_seed(1)
    model = longformer.describe(**OURS | {"dropout": 0.0, "attention_dropout": 0.0}).build().eval()
    ids, layout = torch.randint(4, 23, (1, 30)), Layout.unpadded(30)
    other = ids.clone()
    other[0, -1] = 3

    def moved(mark):
        marked = replace(layout, mark=torch.tensor([[int(i in mark) for i in range(30)]]))
        return not torch.equal(model.encode(ids, marked).states[0, 0], model.encode(other, marked).states[0, 0])

    assert not moved(())
    assert moved((0,))
    assert moved((15,))
    assert moved((29,))


def test_a_head_of_classes_on_a_pretrained_body_makes_the_first_token_global(randomised):
    new, fresh = with_head(randomised(longformer.describe(**OURS).build()), "class", 3)
    assert new.description == longformer.describe(**OURS, head="class", classes=3)
    assert all(name.startswith("head.") for name in fresh)
    assert new.encoder.blocks[0].attention.marked.first == 1

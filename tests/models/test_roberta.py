"""RoBERTa against transformers' RobertaForMaskedLM, -ForSequenceClassification, -ForTokenClassification and RobertaModel."""

from __future__ import annotations

import json

import pytest
import torch

from regard.checkpoints.folders import load_model, save_model
from regard.errors import UserError
from regard.models import bert, roberta

transformers = pytest.importorskip("transformers")

SHAPE = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 24, "vocab_size": 23}
SHAPE |= {"max_position_embeddings": 50, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
OURS = {"vocab_size": 23, "d_model": 16, "num_layers": 3, "num_heads": 4, "d_ff": 24, "max_positions": 48}
CLASSES = {
    "masked": ("RobertaForMaskedLM", "AutoModelForMaskedLM"),
    "class": ("RobertaForSequenceClassification", "AutoModelForSequenceClassification"),
    "tokens": ("RobertaForTokenClassification", "AutoModelForTokenClassification"),
    "vector": ("RobertaModel", "AutoModel"),
}
PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-10)]


@pytest.fixture
def theirs(randomised):
    """theirs(class name, folder or None, **configuration) -> a tiny random model of transformers, saved if asked."""

    def make(name, folder=None, **config):
        kind = getattr(transformers, name)
        model = kind(kind.config_class(**(SHAPE | config)))
        randomised(model)
        model.tie_weights()
        if folder is not None:
            model.save_pretrained(folder)
        return model

    return make


@pytest.fixture
def ours(randomised):
    """ours(**arguments) -> a tiny random model."""
    return lambda **arguments: randomised(roberta.describe(**OURS | arguments).build())


@pytest.fixture
def check(hidden_states, padded_ids):
    """check(mine, other, side, dtype, tolerance): logits and the states after embeddings and blocks are equal. The
    reference numbers positions by itself."""

    def run(mine, other, side="right", dtype=torch.float32, tolerance=1e-5):
        mine, other = mine.to(dtype), other.to(dtype)
        other.set_attn_implementation("eager")
        ids = padded_ids(side, 1, 23)
        real = ids != 1
        with torch.no_grad():
            want = other(input_ids=ids, attention_mask=real.long(), output_hidden_states=True)
        answer, states = hidden_states(mine, ids)
        assert len(states["encoder"]) == len(want.hidden_states) == 4
        for a, b in zip(states["encoder"], want.hidden_states, strict=True):
            assert (a - b)[real].abs().max() < tolerance
        logits = getattr(want, "logits", None)
        if logits is None:
            pooled = (want.last_hidden_state * real[..., None]).sum(1) / real.sum(1, keepdim=True)
            assert (answer.vectors - pooled).abs().max() < tolerance
        elif logits.dim() == 3:
            assert (answer.logits - logits)[real].abs().max() < tolerance
            assert logits.std() > 0.1
        else:  # on the left the class reads padding at column 0; the row without padding still tells
            rows = slice(0, 1) if side == "left" else slice(None)
            assert (answer.logits - logits)[rows].abs().max() < tolerance

    return run


@pytest.mark.parametrize("head", CLASSES)
def test_transformers_folder_opens_here(tmp_path, theirs, check, head):
    other = theirs(CLASSES[head][0], tmp_path, num_labels=3, hidden_dropout_prob=0.2, classifier_dropout=0.3)
    model, description, meta = load_model(tmp_path)
    classes = 3 if head in ("class", "tokens") else None
    assert description == roberta.describe(**OURS, dropout=0.2, class_dropout=0.3, head=head, classes=classes)
    assert meta["ids"] == {"pad": 1, "bos": 0, "eos": 2}
    for dtype, tolerance in PRECISIONS:
        for side in ("no", "right", "left"):
            check(model, other, side, dtype, tolerance)


@pytest.mark.parametrize("head", CLASSES)
def test_our_folder_opens_there(tmp_path, ours, check, head):
    model = ours(head=head, classes=3 if head in ("class", "tokens") else None)
    save_model(tmp_path, model, meta={"ids": {"bos": 0, "eos": 2}})
    name, auto = CLASSES[head]
    other, info = getattr(transformers, auto).from_pretrained(tmp_path, output_loading_info=True)
    assert type(other).__name__ == name
    missing = {"pooler.dense.weight", "pooler.dense.bias"} if head == "vector" else set()
    assert set(info["missing_keys"]) == missing
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    for dtype, tolerance in PRECISIONS:
        check(model, other, "right", dtype, tolerance)
    assert load_model(tmp_path)[1] == model.description


@pytest.mark.parametrize("tied", ["head", "no"])
def test_ties_both_ways(tmp_path, theirs, check, tied):
    other = theirs("RobertaForMaskedLM", tmp_path / "theirs", tie_word_embeddings=tied == "head")
    model, description, _ = load_model(tmp_path / "theirs")
    assert description.tied == tied
    check(model, other)
    save_model(tmp_path / "ours", model)
    back, info = transformers.RobertaForMaskedLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not info["missing_keys"]
    check(model, back)


@pytest.mark.parametrize("kind", ["XLMRoberta", "Camembert"])
@pytest.mark.parametrize("head", ["masked", "class"])
def test_the_same_function_under_other_names(tmp_path, theirs, check, kind, head):
    other = theirs(CLASSES[head][0].replace("Roberta", kind), tmp_path)
    check(load_model(tmp_path)[0], other)


@pytest.mark.parametrize(("eps", "name"), [(1e-12, "relu"), (1e-3, "gelu_new")])
def test_ckpt_05_06_epsilon_and_activation_are_read(tmp_path, theirs, check, eps, name):
    """S-CKPT-05, S-CKPT-06: every norm has the configured epsilon; the blocks have the configured activation, the masked
    head has the exact gelu whatever that is."""
    other = theirs("RobertaForMaskedLM", tmp_path, layer_norm_eps=eps, hidden_act=name)
    model, description, _ = load_model(tmp_path)
    assert {module.eps for module in model.modules() if isinstance(module, torch.nn.LayerNorm)} == {eps}
    assert description.head.activation == "gelu"
    check(model, other)


def test_pos_03_padding_is_not_counted(ours, theirs):
    """S-POS-03: rows padded on the right and on the left number their real tokens from pad + 1, padding is at pad."""
    model, other = ours(), theirs("RobertaModel")
    seen = []
    hook = model.encoder.embed.position.table.register_forward_pre_hook(lambda table, given: seen.append(given[0].tolist()))
    rows = [[0, 5, 6, 2, 1, 1]], [[1, 1, 0, 5, 2]]
    for row in rows:
        model(torch.tensor(row))
    hook.remove()
    assert seen == [[[2, 3, 4, 5, 1, 1]], [[1, 1, 2, 3, 4]]]
    make = other.embeddings.create_position_ids_from_input_ids
    assert [make(torch.tensor(row), 1).tolist() for row in rows] == seen


def test_positions_end_where_the_table_ends(tmp_path, theirs):
    """The published table has 514 rows for 512 tokens; here 50 for 48."""
    other = theirs("RobertaForMaskedLM", tmp_path)
    model, _, _ = load_model(tmp_path)
    ids = torch.randint(4, 23, (1, 49), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        assert (model(ids[:, :48]).logits - other(ids[:, :48]).logits).abs().max() < 1e-5
        with pytest.raises(ValueError, match="49 tokens, but this model has 48 positions"):
            model(ids)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"tied": "no", "pad": 0},
        {"head": "class", "classes": 4},
        {"head": "tokens", "classes": 4, "segments": 2},
        {"head": "vector"},
        {"head": "vector", "pool": "first", "activation": "relu"},
    ],
)
def test_arguments_are_read_off_a_description(arguments):
    description = roberta.describe(**OURS | arguments)
    found = roberta.arguments(description)
    assert found is not None
    assert roberta.describe(**found) == description
    assert roberta.arguments(bert.describe(**OURS)) is None


def test_a_missing_padding_id_is_refused(tmp_path, theirs):
    theirs("RobertaModel", tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | {"pad_token_id": None}
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.json: positions are numbered after the padding id"):
        load_model(tmp_path)


def test_published_sizes():
    """125 M and 355 M parameters (Liu et al. 2019)."""
    for name, millions in {"base": 125, "large": 355}.items():
        with torch.device("meta"):
            model = roberta.describe(vocab_size=50265, **roberta.SIZES[name]).build()
        assert sum(tensor.numel() for tensor in model.parameters()) / 1e6 == pytest.approx(millions, rel=0.01)

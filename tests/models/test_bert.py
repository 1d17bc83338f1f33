"""BERT against transformers' BertForMaskedLM, BertForSequenceClassification, BertForTokenClassification and BertModel."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from regard.architecture import Targets
from regard.checkpoints.folders import load_model, save_model
from regard.checkpoints.formats import ACTIVATION_NAMES
from regard.checkpoints.tensors import TensorFiles, write_tensors
from regard.errors import UserError
from regard.layers.feedforward import activation
from regard.layers.heads import IGNORED
from regard.layers.initial import normal_
from regard.layout import Layout
from regard.models import bert

transformers = pytest.importorskip("transformers")

SHAPE = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 24, "vocab_size": 23}
SHAPE |= {"max_position_embeddings": 48}
OURS = {"vocab_size": 23, "d_model": 16, "num_layers": 3, "num_heads": 4, "d_ff": 24, "max_positions": 48}
CLASSES = {
    "masked": ("BertForMaskedLM", "AutoModelForMaskedLM"),
    "class": ("BertForSequenceClassification", "AutoModelForSequenceClassification"),
    "tokens": ("BertForTokenClassification", "AutoModelForTokenClassification"),
    "vector": ("BertModel", "AutoModel"),
}
PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-10)]


@pytest.fixture
def theirs(randomised):
    """theirs(class name, folder or None, **configuration) -> a tiny random model of transformers, saved if asked."""

    def make(name, folder=None, **config):
        model = getattr(transformers, name)(transformers.BertConfig(**(SHAPE | config)))
        randomised(model)
        model.tie_weights()
        if folder is not None:
            model.save_pretrained(folder)
        return model

    return make


@pytest.fixture
def ours(randomised):
    """ours(**arguments) -> a tiny random model."""
    return lambda **arguments: randomised(bert.describe(**OURS | arguments).build())


def asked(ids, segments):
    """What transformers must be told so that real tokens stand where they stand without padding."""
    layout = Layout.of_ids(ids, 0)
    return {
        "input_ids": ids,
        "attention_mask": layout.real.expand_as(ids).long(),
        "position_ids": layout.position.clamp(max=47).expand_as(ids),
        "token_type_ids": segments,
        "output_hidden_states": True,
    }


@pytest.fixture
def check(hidden_states, padded_ids):
    """check(mine, other, side, dtype, tolerance): logits and the states after embeddings and blocks are equal."""

    def run(mine, other, side="right", dtype=torch.float32, tolerance=1e-5):
        mine, other = mine.to(dtype), other.to(dtype)
        other.set_attn_implementation("eager")
        ids = padded_ids(side, 0, 23)
        segments = (torch.arange(40) > 20).long().expand_as(ids) % mine.description.encoder.embed.segments
        with torch.no_grad():
            want = other(**asked(ids, segments))
        answer, states = hidden_states(mine, ids, segments=segments)
        assert len(states["encoder"]) == len(want.hidden_states) == 4
        for a, b in zip(states["encoder"], want.hidden_states, strict=True):
            assert (a - b)[ids != 0].abs().max() < tolerance
        logits = getattr(want, "logits", None)
        if logits is None:
            pooled = (want.last_hidden_state * (ids != 0)[..., None]).sum(1) / (ids != 0).sum(1, keepdim=True)
            assert (answer.vectors - pooled).abs().max() < tolerance
        elif logits.dim() == 3:
            assert (answer.logits - logits)[ids != 0].abs().max() < tolerance
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
    told = bert.describe(**OURS, dropout=0.2, class_dropout=0.3, head=head, classes=classes)
    assert description == told
    assert "labels" not in meta  # LABEL_0, LABEL_1, … are no names
    for dtype, tolerance in PRECISIONS:
        for side in ("no", "right", "left"):
            check(model, other, side, dtype, tolerance)


@pytest.mark.parametrize("head", CLASSES)
def test_our_folder_opens_there(tmp_path, ours, check, head):
    model = ours(head=head, classes=3 if head in ("class", "tokens") else None)
    save_model(tmp_path, model, meta={"labels": ["x", "y", "z"]} if head == "class" else None)
    name, auto = CLASSES[head]
    other, info = getattr(transformers, auto).from_pretrained(tmp_path, output_loading_info=True)
    assert type(other).__name__ == name
    missing = {"pooler.dense.weight", "pooler.dense.bias"} if head == "vector" else set()
    assert set(info["missing_keys"]) == missing
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    if head == "class":
        assert other.config.id2label == {0: "x", 1: "y", 2: "z"}
    for dtype, tolerance in PRECISIONS:
        check(model, other, "right", dtype, tolerance)
    assert load_model(tmp_path)[1] == model.description


@pytest.mark.parametrize("tied", ["head", "no"])
def test_ties_both_ways(tmp_path, theirs, check, tied):
    """Untied, the class has two biases and adds that of its last layer."""
    other = theirs("BertForMaskedLM", tmp_path / "theirs", tie_word_embeddings=tied == "head")
    assert torch.equal(other.cls.predictions.bias, other.cls.predictions.decoder.bias) == (tied == "head")
    model, description, _ = load_model(tmp_path / "theirs")
    assert description.tied == tied
    check(model, other)
    save_model(tmp_path / "ours", model)
    back, info = transformers.BertForMaskedLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not info["missing_keys"]
    check(model, back)


def test_pretraining_folder_is_read_as_a_masked_model(tmp_path, theirs, check):
    """The head of sentence order and its pooler are left aside, by name."""
    other = theirs("BertForPreTraining", tmp_path)
    model, description, _ = load_model(tmp_path)
    assert description == bert.describe(**OURS)
    masked = theirs("BertForMaskedLM")
    masked.load_state_dict(other.state_dict(), strict=False)
    check(model, masked)
    written = tmp_path / "again"
    save_model(written, model)
    assert json.loads((written / "config.json").read_text(encoding="utf-8"))["architectures"] == ["BertForMaskedLM"]


def test_published_folders_have_older_names(tmp_path, theirs, check):
    """Folders of the first release: gamma and beta, tied tensors stored twice, ids of positions, few keys and no class."""
    other = theirs("BertForPreTraining", tmp_path)
    files = TensorFiles(tmp_path)
    stored = {name: files.read(name) for name in files.shapes}
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in stored.items()
    }
    assert sum("gamma" in name for name in old) == 8
    old["cls.predictions.decoder.weight"] = stored["bert.embeddings.word_embeddings.weight"]
    old["bert.embeddings.position_ids"] = torch.arange(48)[None]
    write_tensors(tmp_path, old)
    config = SHAPE | {"model_type": "bert", "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "type_vocab_size": 2}
    config |= {"attention_probs_dropout_prob": 0.1, "initializer_range": 0.02}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    model, description, _ = load_model(tmp_path)
    assert description == bert.describe(**OURS)
    masked = theirs("BertForMaskedLM")
    masked.load_state_dict(other.state_dict(), strict=False)
    check(model, masked)


def test_version_4_spelling(tmp_path, theirs, check):
    other = theirs("BertForMaskedLM", tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["torch_dtype"] = config.pop("dtype")
    path.write_text(json.dumps(config | {"position_embedding_type": "absolute", "transformers_version": "4.40.0"}))
    check(load_model(tmp_path)[0], other)


@pytest.mark.parametrize("eps", [1e-12, 1e-3])
def test_ckpt_05_epsilon_is_that_of_the_configuration(tmp_path, theirs, check, hidden_states, eps):
    """S-CKPT-05: each norm reports the configured value; rows of variance about 1e-6 come out as in the reference."""
    other = theirs("BertForMaskedLM", layer_norm_eps=eps)
    embeds = other.bert.embeddings
    for table in (embeds.word_embeddings, embeds.position_embeddings, embeds.token_type_embeddings):
        table.weight.data.mul_(1e-3 / table.weight.std() / 3**0.5)
    other.save_pretrained(tmp_path / "theirs")
    model, _, _ = load_model(tmp_path / "theirs")
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert [norm.eps for norm in norms] == [eps] * (1 + 2 * 3 + 1)
    check(model, other)
    _, states = hidden_states(model, torch.tensor([[5, 6, 7]]))
    assert (states["encoder"][0].std() > 0.5) == (eps == 1e-12)
    save_model(tmp_path / "ours", model)
    check(model, transformers.BertForMaskedLM.from_pretrained(tmp_path / "ours"))


@pytest.mark.parametrize("name", ["gelu", "gelu_python", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu", "silu"])
def test_ckpt_06_the_two_forms_of_gelu(tmp_path, theirs, check, name):
    """S-CKPT-06: the value at 1.0 under each name, and logits equal to the reference; in blocks and in the masked head."""
    want = {"gelu": 0.841345, "gelu_python": 0.841345, "relu": 1.0, "silu": 0.731059}.get(name, 0.841192)
    assert activation(ACTIVATION_NAMES[name])(torch.tensor(1.0)).item() == pytest.approx(want, abs=1e-6)
    other = theirs("BertForMaskedLM", tmp_path, hidden_act=name)
    model, description, _ = load_model(tmp_path)
    assert description.head.activation == description.encoder.blocks[0].feedforward.activation == ACTIVATION_NAMES[name]
    check(model, other)


@pytest.mark.parametrize("rows", [4, 3])
def test_mask_11_padding_is_hidden_as_a_key(ours, rows):
    """S-MASK-11: as many rows as tokens, or not; the last token of the first row is padding. No query of that row weighs
    it, the other rows see all their tokens, and each row is what it is alone."""
    model, ids = ours(), torch.randint(4, 23, (rows, 4), generator=torch.Generator().manual_seed(1))
    ids[0, 3] = 0
    seen = []
    hooks = [
        block.attention.attend.register_forward_pre_hook(
            lambda attend, given: seen.append(attend.explain(given[0], *given[1::2]))
        )
        for block in model.encoder.blocks
    ]
    with torch.no_grad():
        logits = model(ids).logits
    for hook in hooks:
        hook.remove()
    assert len(seen) == 3
    for weights in seen:
        assert weights.shape == (rows, 4, 4, 4)
        assert not weights[0, :, :3, 3].any()
        assert (weights[0, :, :3, :3] > 0).all()
        assert (weights[1:] > 0).all()
    for row in range(rows):
        count = 3 if row == 0 else 4
        torch.testing.assert_close(
            logits[row : row + 1, :count], model(ids[row : row + 1, :count]).logits, rtol=0, atol=1e-5
        )


def test_positions_end_where_the_table_ends(theirs, tmp_path, check, ours):
    """All 48 positions equal the reference, one more is refused; padding may reach further than the table."""
    other = theirs("BertForMaskedLM", tmp_path)
    model, _, _ = load_model(tmp_path)
    ids = torch.randint(4, 23, (1, 49), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        assert (model(ids[:, :48]).logits - other(ids[:, :48]).logits).abs().max() < 1e-5
        with pytest.raises(ValueError, match="49 tokens, but this model has 48 positions"):
            model(ids)
        wide = torch.cat([ids[:, :48], torch.zeros(1, 10, dtype=torch.long)], 1)
        assert (model(wide).logits[:, :48] - model(ids[:, :48]).logits).abs().max() < 1e-5


def test_segments_count_and_default_to_the_first(ours):
    model, ids = ours().double(), torch.randint(4, 23, (2, 9), generator=torch.Generator().manual_seed(3))
    plain = model(ids).logits
    assert torch.equal(plain, model(ids, segments=torch.zeros_like(ids)).logits)
    assert not torch.allclose(plain, model(ids, segments=(torch.arange(9) > 4).long().expand_as(ids)).logits)


def test_the_masked_loss_is_that_of_the_reference(tmp_path, theirs, padded_ids):
    other = theirs("BertForMaskedLM", tmp_path)
    model, _, _ = load_model(tmp_path)
    ids = padded_ids("right", 0, 23)
    targets = torch.where((torch.arange(40) % 7 == 3) & (ids != 0), ids, IGNORED)
    answer = model(ids, targets=Targets(targets))
    want = other(input_ids=ids, attention_mask=(ids != 0).long(), labels=targets).loss
    assert answer.count == (targets != IGNORED).sum()
    torch.testing.assert_close(answer.loss_sum / answer.count, want)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"tied": "no", "activation": "relu"},
        {"head": "class", "classes": 4, "class_dropout": 0.5},
        {"head": "tokens", "classes": 4},
        {"head": "vector", "pool": "first"},
        {"segments": 1, "pad": None},
    ],
)
def test_arguments_are_read_off_a_description(arguments):
    description = bert.describe(**OURS | arguments)
    found = bert.arguments(description)
    assert found is not None
    assert bert.describe(**found) == description


def test_descriptions_of_others_are_not_taken_for_bert():
    from regard.models import roberta, transformer

    assert bert.arguments(roberta.describe(vocab_size=9)) is None
    assert bert.arguments(transformer.describe(vocab_size=9)) is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"head": "class"}, "needs the number of `classes`"), ({"head": "next"}, "head must be 'masked'.*not 'next'")],
)
def test_wrong_heads_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        bert.describe(**OURS | arguments)


@pytest.mark.parametrize("key", ["is_decoder", "add_cross_attention"])
def test_bert_as_a_decoder_is_refused(tmp_path, theirs, key):
    theirs("BertForMaskedLM", tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {key: True}), encoding="utf-8")
    with pytest.raises(UserError, match=f"{key} is True, must be False"):
        load_model(tmp_path)


def test_published_sizes():
    """The counts of parameters that the papers give (Devlin et al.: 110 M, 340 M; Turc et al.: 4.4, 11.3, 29.1, 41.7 M)."""
    wanted = {"tiny": 4.4, "mini": 11.3, "small": 29.1, "medium": 41.7, "base": 110, "large": 340}
    assert set(bert.SIZES) == set(wanted)
    for name, millions in wanted.items():
        with torch.device("meta"):
            model = bert.describe(vocab_size=30522, head="class", classes=2, **bert.SIZES[name]).build()
        assert sum(tensor.numel() for tensor in model.parameters()) / 1e6 == pytest.approx(millions, rel=0.02)


def test_initial_weights_are_as_published():
    """Normal with 0.02, biases zero, norms one."""
    model = bert.describe(**OURS | {"vocab_size": 400, "d_model": 64}).build()
    bert.initialise(model)
    assert bert.initialise is normal_
    assert model.encoder.embed.tokens.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert model.encoder.blocks[0].attention.qkv.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert not model.head.project.bias.any()
    assert (model.encoder.embed.norm.weight == 1).all()


def test_minilm_embeds_as_in_transformers(minilm):
    """Published weights: mean-pooled sentence embeddings of a padded batch equal the reference's within 1e-5."""
    model, description, meta = load_model(minilm)
    assert description == bert.describe(vocab_size=30522, num_layers=6, d_model=384, d_ff=1536, num_heads=12, head="vector")
    assert meta["ids"]["pad"] == 0
    other = transformers.AutoModel.from_pretrained(minilm, attn_implementation="eager").eval()
    texts = ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby.", "Ein Satz." * 30]
    given = transformers.AutoTokenizer.from_pretrained(minilm)(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = other(**given).last_hidden_state
        mask = given["attention_mask"][..., None].float()
        want = (states * mask).sum(1) / mask.sum(1)
        got = model(given["input_ids"]).vectors
    assert got.shape == (4, 384)
    assert (got - want).abs().max() < 1e-5
    alike = nn.functional.cosine_similarity(got[:1], got[1:])
    assert alike[0] > 0.7
    assert alike[1:].max() < 0.3

"""LLaMA against transformers' LlamaForCausalLM and LlamaForSequenceClassification, and a really trained checkpoint."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from regard.checkpoints.folders import load_model, save_model
from regard.decoding.options import Search
from regard.decoding.search import search
from regard.errors import UserError
from regard.layers.scalings import ByWavelength, Interpolated, Yarn
from regard.layout import Layout
from regard.models import llama

transformers = pytest.importorskip("transformers")

SHAPE = {"vocab_size": 23, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
SHAPE |= {"max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
OURS = {"vocab_size": 23, "d_model": 16, "d_ff": 24, "num_layers": 2, "num_heads": 4, "max_positions": 64, "pad": 0}
WAVES = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
WAVES |= {"original_max_position_embeddings": 16}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LINEAR = {"rope_type": "linear", "factor": 4.0}

CASES = [
    ({}, {}),
    (
        {"num_key_value_heads": 2, "tie_word_embeddings": True, "rms_norm_eps": 1e-3, "hidden_act": "gelu"},
        {"num_kv_heads": 2, "tied": True, "eps": 1e-3, "activation": "gelu"},
    ),
    (
        {"head_dim": 6, "attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1},
        {"head_dim": 6, "attention_bias": True, "feedforward_bias": True, "num_kv_heads": 1},
    ),
    ({"rope_parameters": LINEAR | {"rope_theta": 5e5}}, {"base": 5e5, "scaling": Interpolated(4.0)}),
    ({"rope_parameters": WAVES | {"rope_theta": 1e4}}, {"scaling": ByWavelength(8.0, 16)}),
    ({"rope_parameters": YARN | {"rope_theta": 1e4}}, {"scaling": Yarn(4.0, 16)}),
]


@pytest.fixture
def theirs(randomised, tmp_path):
    """A tiny random model of transformers, saved in tmp_path / "theirs"."""

    def make(kind: str = "LlamaForCausalLM", **config):
        model = randomised(getattr(transformers, kind)(transformers.LlamaConfig(**(SHAPE | config))))
        model.save_pretrained(tmp_path / "theirs")
        return model

    return make


@pytest.fixture
def ours(randomised):
    """A tiny random model of regard."""

    def make(**arguments):
        return randomised(llama.describe(**(OURS | arguments)).build())

    return make


@pytest.fixture
def check(decoder_parity):
    def compare(mine, other, **how):
        its = other.model
        decoder_parity(mine, other, (its.embed_tokens, *its.layers, its.norm), **how)

    return compare


def config_of(folder):
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def edit(folder, **keys):
    """Change keys of a folder's config.json; None takes one away."""
    config = config_of(folder) | keys
    kept = {key: value for key, value in config.items() if key not in keys or value is not None}
    (folder / "config.json").write_text(json.dumps(kept), encoding="utf-8")


@pytest.mark.parametrize(("config", "arguments"), CASES)
def test_both_ways(theirs, ours, check, tmp_path, config, arguments):
    """S-MASK-04, S-POS-05 among others: no padding, padding on the left and on the right, positions beyond 30."""
    other = theirs(**config)
    model, description, meta = load_model(tmp_path / "theirs")
    assert description == llama.describe(**OURS, **arguments)
    assert meta["ids"] == {"pad": 0, "bos": 2, "eos": 3}
    check(model, other)
    model = ours(**arguments)
    save_model(tmp_path / "ours", model, meta={"ids": {"bos": 2, "eos": 3}})
    other, info = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert type(other).__name__ == "LlamaForCausalLM"
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert other.config.max_position_embeddings == 64
    check(model, other)
    assert load_model(tmp_path / "ours")[1] == model.description


@pytest.mark.parametrize(("config", "arguments"), CASES[2:])
def test_spellings_of_transformers_4(theirs, check, tmp_path, config, arguments):
    """rope_theta and rope_scaling in place of rope_parameters, torch_dtype in place of dtype, keys left out, and the rates
    that old versions stored among the tensors."""
    from safetensors.torch import load_file, save_file

    other, folder = theirs(**config), tmp_path / "theirs"
    rope = config_of(folder)["rope_parameters"]
    base, kind = rope.pop("rope_theta"), rope.pop("rope_type")
    scaling = None if kind == "default" else rope | {"type": kind}
    edit(folder, rope_parameters=None, dtype=None, hidden_act=None, attention_dropout=None)
    edit(folder, rope_theta=base, torch_dtype="float32", pretraining_tp=1)
    path = folder / "config.json"
    path.write_text(json.dumps(config_of(folder) | {"rope_scaling": scaling}), encoding="utf-8")
    tensors = load_file(folder / "model.safetensors")
    tensors |= {f"model.layers.{n}.self_attn.rotary_emb.inv_freq": torch.ones(2) for n in range(2)}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    model, description, _ = load_model(folder)
    assert description == llama.describe(**OURS, **arguments)
    check(model, other, sides=("right",))


def test_classes_both_ways(theirs, ours, check, tmp_path):
    other = theirs("LlamaForSequenceClassification", id2label={0: "bad", 1: "so so", 2: "good"})
    model, description, meta = load_model(tmp_path / "theirs")
    assert description == llama.describe(**OURS, head="class", classes=3)
    assert meta["labels"] == ["bad", "so so", "good"]
    check(model, other)
    model = ours(head="class", classes=2)
    save_model(tmp_path / "ours", model, meta={"labels": ["bad", "good"]})
    other = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours")
    assert other.config.id2label == {0: "bad", 1: "good"}
    check(model, other)


def test_ids_of_greedy_and_beam_search(theirs, generation_parity, tmp_path):
    """S-POS-05: the same for each prompt alone and in a batch padded on the left."""
    other = theirs(num_key_value_heads=2)
    generation_parity(load_model(tmp_path / "theirs")[0], other)


def test_s_mask_05_new_tokens_stand_at_the_end(ours, sees_one_more_each):
    sees_one_more_each(ours(num_kv_heads=2))


def test_s_ckpt_02_halves_are_paired_and_neighbours_are_not(theirs, ours, tmp_path, monkeypatch):
    """S-CKPT-02: logits at positions 1, 10 and 30 equal the reference's; a model that pairs neighbours, as the first release
    did, gives the same from its own order of rows and something else from ours; out and in again, bits stay."""
    other = theirs(num_key_value_heads=2)
    model, _, _ = load_model(tmp_path / "theirs")
    ids = torch.randint(4, 23, (2, 31), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        want, got = other(ids).logits, model(ids).logits
    at = [1, 10, 30]
    assert (got - want)[:, at].abs().max() < 1e-5
    save_model(tmp_path / "again", model)
    again, _, _ = load_model(tmp_path / "again")
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values()))

    def neighbours(x, cosine, sine):
        """Pairs (0, 1), (2, 3), … as complex numbers, turned by multiplication."""
        angle = torch.complex(cosine[..., : x.shape[-1] // 2], sine[..., : x.shape[-1] // 2])
        return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * angle).flatten(-2)

    monkeypatch.setattr("regard.layers.attention.turned", neighbours)
    with torch.no_grad():
        assert (model(ids).logits - want)[:, at].abs().max() > 1e-3
        for block in model.decoder.blocks:
            q, k, v = block.attention.qkv.weight.split((16, 8, 8))
            woven = [w.unflatten(0, (-1, 2, 2)).transpose(1, 2).flatten(0, 2) for w in (q, k)]
            block.attention.qkv.weight.copy_(torch.cat([*woven, v]))
        assert (model(ids).logits - want)[:, at].abs().max() < 1e-5


def test_s_ckpt_07_the_base_is_read_and_written(theirs, tmp_path):
    """S-CKPT-07: base 1000000, position 100."""
    other = theirs(rope_parameters={"rope_type": "default", "rope_theta": 1e6}, max_position_embeddings=128)
    model, description, _ = load_model(tmp_path / "theirs")
    assert description.decoder.position.base == 1e6
    ids = torch.randint(4, 23, (1, 101), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        want = other(ids).logits[0, 100]
        assert (model(ids).logits[0, 100] - want).abs().max() < 1e-5
        assert (load_usual(model)(ids).logits[0, 100] - want).abs().max() > 1e-3
    save_model(tmp_path / "ours", model)
    written = config_of(tmp_path / "ours")
    assert written["rope_theta"] == written["rope_parameters"]["rope_theta"] == 1e6


def load_usual(model):
    """The same weights with the usual base."""
    its = model.description
    usual = dataclasses.replace(its.decoder, position=dataclasses.replace(its.decoder.position, base=1e4))
    other = dataclasses.replace(its, decoder=usual).build().eval()
    other.load_state_dict(model.state_dict())
    return other


@pytest.mark.parametrize(
    ("rope", "message"),
    [
        ({"rope_type": "dynamic", "factor": 2.0}, "rope_type is 'dynamic', whose angles depend on the longest text"),
        ({"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}, "rope_type is 'longrope', whose angles"),
        ({"rope_type": "moon"}, "rope_type is 'moon'; known are default, linear, llama3, yarn"),
        (LINEAR | {"tide": 1}, "rope_parameters of type linear has tide, which is unknown"),
        ({"rope_type": "linear"}, "rope_parameters of type linear has no factor"),
        (LINEAR | {"partial_rotary_factor": 0.5}, "partial_rotary_factor is not 1"),
    ],
)
def test_scalings_that_cannot_be_computed_are_refused(theirs, tmp_path, rope, message):
    theirs()
    edit(tmp_path / "theirs", rope_parameters=rope)
    with pytest.raises(UserError) as error:
        load_model(tmp_path / "theirs")
    assert message in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "theirs" / "config.json"))
    assert "\n" not in str(error.value)


def test_what_the_class_does_not_compute_is_written_as_our_own(ours, tmp_path):
    """A width that is no multiple of the heads is refused by the class, whatever head_dim says."""
    model = ours(d_model=18, head_dim=4)
    save_model(tmp_path, model)
    assert config_of(tmp_path)["model_type"] == "regard"
    assert load_model(tmp_path)[1] == model.description


def test_arguments_are_read_off_a_description():
    for more in (*(arguments for _, arguments in CASES), {"dropout": 0.1}, {"head": "class", "classes": 4}):
        description = llama.describe(**OURS, **more)
        assert llama.describe(**llama.arguments(description)) == description
    assert llama.arguments(dataclasses.replace(description, encoder=description.decoder, decoder=None)) is None
    with pytest.raises(ValueError, match="head must be"):
        llama.describe(**OURS, head="masked")
    assert llama.describe(**OURS, scaling={"part": "Yarn", "factor": 4.0, "original": 16}).decoder.position.scaling == Yarn(
        4, 16
    )


def test_dropout_goes_into_the_folder_and_back(ours, tmp_path):
    """A key that the class of transformers does not read, but keeps."""
    model = ours(dropout=0.1)
    save_model(tmp_path, model)
    assert config_of(tmp_path)["model_type"] == "llama"
    (tmp_path / "regard.json").unlink()
    assert load_model(tmp_path)[1] == model.description
    assert transformers.AutoConfig.from_pretrained(tmp_path).hidden_dropout == 0.1


def test_nano_has_the_weights_of_its_elder_sister():
    from regard.models import gpt2

    ours, hers = (its.describe(vocab_size=65, **its.SIZES["nano"]).build() for its in (llama, gpt2))
    counts = [sum(tensor.numel() for tensor in model.decoder.blocks.parameters()) for model in (ours, hers)]
    assert counts[0] == pytest.approx(counts[1], rel=0.02)


@pytest.fixture(scope="session")
def stories(data_root):
    """The folder of a LLaMA of 260,032 weights trained on TinyStories, and its documented outputs."""
    folder = data_root / "checkpoints" / "stories260K"
    if not folder.is_dir():
        pytest.skip("the checkpoint stories260K is not there")
    return folder, json.loads((folder / "expected.json").read_text(encoding="utf-8"))


def test_stories260k_gives_its_documented_text_and_logits(stories):
    folder, expected = stories
    model, description, meta = load_model(folder)
    assert sum(tensor.numel() for tensor in model.parameters()) == 260_032
    assert description == llama.describe(
        vocab_size=512,
        d_model=64,
        d_ff=172,
        num_layers=5,
        num_heads=8,
        num_kv_heads=4,
        max_positions=512,
        eps=1e-5,
        tied=True,
    )
    prompt = expected["prompt_ids"]
    options = Search(num_beams=1, max_length=len(expected["greedy_ids"]))
    ((answer,),) = search(model, torch.tensor([prompt]), Layout.unpadded(1), options, meta["ids"]["bos"], meta["ids"]["eos"])
    assert answer.ids == expected["greedy_ids"]
    from tokenizers import Tokenizer

    assert Tokenizer.from_file(str(folder / "tokenizer.json")).decode(answer.ids) == expected["greedy_text"]
    with torch.no_grad():
        logits = model(torch.tensor([prompt + answer.ids[:-1]])).logits[0]
    for at, name in ((0, "logits_after_bos"), (-1, "logits_after_last_but_one_token")):
        torch.testing.assert_close(logits[at], torch.tensor(expected[name]), rtol=0, atol=2e-5)
    surprise = torch.nn.functional.cross_entropy(logits, torch.tensor(answer.ids))
    assert float(surprise) == pytest.approx(expected["mean_nll_of_greedy_ids"], abs=1e-5)


def test_stories260k_goes_out_to_transformers_with_the_same(stories, tmp_path):
    model, _, _ = load_model(stories[0])
    save_model(tmp_path, model, meta={"ids": {"bos": 1, "eos": 2}})
    other = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    ids = torch.tensor([[1, *stories[1]["greedy_ids"][:100]]])
    with torch.no_grad():
        assert (other(ids).logits - model(ids).logits).abs().max() < 2e-5

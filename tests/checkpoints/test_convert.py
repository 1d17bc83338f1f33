"""CTranslate2 folders against what that program gives, for a model that was really trained and for random ones."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.checkpoints.convert import convert_folder
from regard.checkpoints.folders import load_model
from regard.decoding.options import Search
from regard.decoding.search import search
from regard.errors import UserError
from regard.inspection.tape import record
from regard.layers.positions import sinusoids
from regard.layout import Layout
from regard.text.tokenizer import Tokenizers

TRAINED = "checkpoints/aren-transliteration"


def opened(folder: Path):
    """The converted model, its tokenizers, the ids it starts and ends with."""
    model, description, meta = load_model(folder)
    return model, description, Tokenizers.open(folder), meta["ids"]


def answers(its, texts: list[str], options: Search):
    """For each text the tokens of every answer of what was opened, and the answer."""
    model, _, tokenizers, ids = its
    sources = [tokenizers.source.wrap(tokenizers.source.encode(text))[0] for text in texts]
    lengths = [len(source) for source in sources]
    inputs = torch.tensor([source + [0] * (max(lengths) - len(source)) for source in sources])
    found = search(model, inputs, Layout.padded(lengths), options, ids["bos"], ids["eos"])
    return [[([tokenizers.target.piece(i) for i in one.ids], one) for one in each] for each in found]


# ------------------------------------------------------------------------------------------------ a real checkpoint


@pytest.fixture(scope="module")
def trained(data_root, tmp_path_factory) -> tuple[Path, list[dict]]:
    source = data_root / TRAINED
    folder = convert_folder(source, tmp_path_factory.mktemp("aren") / "model")
    return folder, json.loads((source / "expected.json").read_text(encoding="utf-8"))["examples"]


def test_the_real_model_gives_its_documented_answers(trained):
    its, examples = opened(trained[0]), trained[1]
    assert len(examples) == 20
    texts = [" ".join(example["source"]) for example in examples]
    for example, ((tokens, best),) in zip(examples, answers(its, texts, Search(num_beams=1)), strict=True):
        assert tokens == example["greedy"]
        want = torch.tensor(example["greedy_token_log_probs_incl_eos"])
        assert (torch.tensor(best.token_log_probs) - want).abs().max() < 2e-5


def test_the_real_model_gives_its_documented_n_best(trained):
    """CTranslate2 ends a sentence as soon as it has so many hypotheses. Its sums of log-probabilities are off by up to 3e-4
    from those of its own single tokens, so no more is asked for here."""
    its, examples = opened(trained[0]), trained[1]
    options = Search(num_beams=4, num_return=4, length_penalty=0.0, stopping="first")
    texts = ["".join(example["source"]) for example in examples]
    for example, found in zip(examples, answers(its, texts, options), strict=True):
        assert [tokens for tokens, _ in found] == [one["hyp"] for one in example["beam4"]]
        for (_, one), want in zip(found, example["beam4"], strict=True):
            assert abs(one.score - want["score"]) < 4e-4


def test_the_real_model_gives_its_documented_attention(trained):
    folder, examples = trained
    model, description, tokenizers, ids = opened(folder)
    last = f"decoder.blocks.{len(description.decoder.blocks) - 1}.cross.attend"
    for example in examples:
        source = torch.tensor([tokenizers.source.encode("".join(example["source"]))])
        read = torch.tensor([[ids["bos"], *tokenizers.target.encode("".join(example["greedy"]))[:-1]]])
        with record(model, [last]) as tape:
            model(source, read)
        want = torch.tensor(example["greedy_cross_attention_last_layer_head0"])
        assert (tape.weights(last, head=0)[0] - want).abs().max() < 1e-4


def test_what_no_class_of_transformers_computes_is_not_named_for_one(trained):
    """Its sinusoids begin at 1 and close at 1/10000."""
    folder, _ = trained
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"] == "regard"
    _, description, tokenizers, ids = opened(folder)
    assert description.encoder.embed.position.closed
    assert ids == {"pad": 0, "bos": 1, "eos": 2}
    assert (tokenizers.source.unk, tokenizers.target.unk) == (50, 42)


# ---------------------------------------------------------------------------------------------------- random models

SHAPE = {"num_layers": (2, 3), "num_heads": 4}
SIDES = (["<unk>", "<s>", "</s>", *"abcdefgh"], ["<unk>", "<s>", "</s>", *"tuvwxyz"])
WORDS = ["<unk>", "<s>", "</s>", *(f"▁{c}{c}" for c in "abcdefgh")]


def filled(spec, ct2, d_model=16, d_ff=32, sizes=(11, 10), seed=0):
    """Random numbers for all weights of a specification."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape, around=0.0):
        return (around + 0.25 * torch.randn(shape, generator=generator)).numpy()

    def norm(its):
        its.gamma = draw(d_model, around=1.0)
        its.beta = draw(d_model)

    def linear(its, out, into):
        its.weight, its.bias = draw(out, into), draw(out)

    for half, size in ((spec.encoder, sizes[0]), (spec.decoder, sizes[1])):
        embeddings = half.embeddings[0] if isinstance(half.embeddings, list) else half.embeddings
        embeddings.weight = draw(size, d_model)
        for name in ("layer_norm", "layernorm_embedding"):
            if hasattr(half, name):
                norm(getattr(half, name))
        for layer in half.layer:
            linear(layer.self_attention.linear[0], 3 * d_model, d_model)
            linear(layer.self_attention.linear[1], d_model, d_model)
            norm(layer.self_attention.layer_norm)
            if hasattr(layer, "attention"):
                for its, out in zip(layer.attention.linear, (d_model, 2 * d_model, d_model), strict=True):
                    linear(its, out, d_model)
                norm(layer.attention.layer_norm)
            linear(layer.ffn.linear_0, d_ff, d_model)
            if hasattr(layer.ffn, "linear_0_noact"):
                linear(layer.ffn.linear_0_noact, d_ff, d_model)
            linear(layer.ffn.linear_1, d_model, d_ff)
            norm(layer.ffn.layer_norm)
    linear(spec.decoder.projection, sizes[1], d_model)
    return spec


def written(spec, folder: Path, sides=SIDES, quantization=None, **config) -> Path:
    for name, tokens in zip(("source", "target"), sides, strict=True):
        getattr(spec, f"register_{name}_vocabulary")(tokens)
    for key, value in config.items():
        setattr(spec.config, key, value)
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir()
    spec.save(str(folder))
    return folder


def agree(ct2, source: Path, folder: Path, texts, tolerance=5e-5):
    """The same greedy tokens and the same log-probability of each."""
    theirs = ct2.Translator(str(source), compute_type="float32", inter_threads=1, intra_threads=1)
    found = answers(opened(folder), [" ".join(tokens) for tokens in texts], Search(num_beams=1, min_length=1, max_length=12))
    for tokens, ((ours, one),) in zip(texts, found, strict=True):
        (want,) = theirs.translate_batch([tokens], beam_size=1, max_decoding_length=12)
        scored = theirs.score_batch([tokens], [want.hypotheses[0]])[0].log_probs
        assert ours == want.hypotheses[0]
        count = min(len(scored), len(one.token_log_probs))
        assert count > 0
        difference = torch.tensor(one.token_log_probs[:count]) - torch.tensor(scored[:count])
        assert difference.abs().max() < tolerance


TEXTS = [list("abc"), list("hgfedcba"), ["a"]]


@pytest.fixture
def ct2():
    return pytest.importorskip("ctranslate2")


@pytest.mark.parametrize(
    ("arguments", "config"),
    [
        ({"activation": "SWISH"}, {}),
        ({"activation": "GELU", "pre_norm": False}, {"add_source_eos": True, "layer_norm_epsilon": 1e-3}),
        ({"activation": "GELUTanh", "layernorm_embedding": True, "ffn_glu": True}, {"add_source_bos": True}),
        ({"activation": "RELU", "no_final_norm": True}, {"add_source_bos": True, "add_source_eos": True}),
    ],
)
def test_random_models_answer_alike(ct2, tmp_path, arguments, config):
    code = getattr(ct2.specs.Activation, arguments["activation"])
    spec = ct2.specs.TransformerSpec.from_config(**SHAPE, **(arguments | {"activation": code}))
    source = written(filled(spec, ct2), tmp_path / "source", **config)
    agree(ct2, source, convert_folder(source, tmp_path / "model"), TEXTS)


def test_learned_positions_scales_and_words(ct2, tmp_path):
    """A stored table; no factor on embeddings, one on outputs; tokens of several characters, one vocabulary."""
    spec = filled(ct2.specs.TransformerSpec.from_config(**SHAPE), ct2, sizes=(11, 11))
    for half in (spec.encoder, spec.decoder):
        half.position_encodings.encodings = torch.randn(20, 16, generator=torch.Generator().manual_seed(1)).numpy()
        half.scale_embeddings = False
    spec.decoder.scale_outputs = torch.tensor(0.5).numpy()
    spec.decoder.projection.weight = spec.decoder.embeddings.weight
    source = written(spec, tmp_path / "source", (WORDS, WORDS))
    folder = convert_folder(source, tmp_path / "model")
    _, description, tokenizers, _ = opened(folder)
    assert description.tied == "head"
    assert description.encoder.embed.position.limit == 20
    assert tokenizers.shared
    agree(ct2, source, folder, [WORDS[3:7], WORDS[6:]])


def test_a_marian_model_becomes_marian_again(ct2, tmp_path):
    """It starts from zeros, not from a token: a token of that vector is added, and never written."""
    transformers = pytest.importorskip("transformers")
    spec = ct2.specs.TransformerSpec.from_config(**SHAPE, pre_norm=False, activation=ct2.specs.Activation.SWISH)
    filled(spec, ct2, sizes=(11, 11))
    for half in (spec.encoder, spec.decoder):
        half.position_encodings.encodings = sinusoids(32, 16).numpy()
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight
    spec.decoder.projection.weight = spec.decoder.embeddings.weight
    spec.decoder.start_from_zero_embedding = True
    source = written(spec, tmp_path / "source", (WORDS, WORDS), add_source_eos=True)
    folder = convert_folder(source, tmp_path / "model")
    agree(ct2, source, folder, [WORDS[3:7], WORDS[6:]])
    model, description, tokenizers, ids = opened(folder)
    assert description.tied == "all"
    assert ids["bos"] == 11
    assert tokenizers.target.piece(11) == "<pad>"
    other = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    assert type(other).__name__ == "MarianMTModel"
    inputs, outputs = torch.tensor([[4, 5, 6, 2]]), torch.tensor([[11, 7, 8]])
    with torch.no_grad():
        want = other(input_ids=inputs, decoder_input_ids=outputs).logits
        assert (model(inputs, outputs).logits - want).abs().max() < 1e-5
    assert want.argmax(-1).max() < 11


@pytest.mark.parametrize(("kind", "near"), [("int8", 0.02), ("int16", 2e-3), ("int8_float16", 0.02)])
def test_small_weights_become_what_they_stand_for(ct2, tmp_path, kind, near):
    weights = []
    for quantization in (None, kind):
        spec = filled(ct2.specs.TransformerSpec.from_config(**SHAPE), ct2)
        source = written(spec, tmp_path / f"source-{quantization}", quantization=quantization)
        model, _, _, _ = opened(convert_folder(source, tmp_path / f"model-{quantization}"))
        weights.append(model.state_dict())
    far = max((weights[0][name] - weights[1][name]).abs().max().item() for name in weights[0])
    assert 0 < far < near


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"with_relative_position": True}, "encoder/layer_#/self_attention/relative_position_keys"),
        ({"activation": 6}, "activation 6 is not known"),
    ],
)
def test_what_regard_does_not_compute_is_named(ct2, tmp_path, arguments, words):
    spec = filled(ct2.specs.TransformerSpec.from_config(**SHAPE, **arguments), ct2)
    for half in (spec.encoder, spec.decoder):
        for layer in half.layer if "with_relative_position" in arguments else ():
            layer.self_attention.relative_position_keys = torch.zeros(5, 4).numpy()
            layer.self_attention.relative_position_values = torch.zeros(5, 4).numpy()
    with pytest.raises(UserError) as error:
        convert_folder(written(spec, tmp_path / "source"), tmp_path / "model")
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "model").exists()


def test_a_folder_of_something_else(tmp_path):
    with pytest.raises(UserError, match=r"has no model\.bin; regard converts folders of CTranslate2"):
        convert_folder(tmp_path, tmp_path / "model")


def test_a_folder_without_vocabularies(data_root, tmp_path):
    shutil.copy(data_root / TRAINED / "model.bin", tmp_path)
    with pytest.raises(UserError, match=r"has no source_vocabulary\.json, source_vocabulary\.txt or shared vocabulary"):
        convert_folder(tmp_path, tmp_path / "model")
    (tmp_path / "shared_vocabulary.json").write_text('{"a": 1}', encoding="utf-8")
    with pytest.raises(UserError, match=r"shared_vocabulary\.json: should be a list of tokens"):
        convert_folder(tmp_path, tmp_path / "model")


@pytest.mark.parametrize(
    "lost", ["decoder/projection/weight", "encoder/layer_0/ffn/linear_0/weight", "encoder/embeddings_0/weight"]
)
def test_a_model_without_a_weight(ct2, tmp_path, monkeypatch, lost):
    """One line, whatever is missing, and nothing is written."""
    from regard.checkpoints import convert

    source = written(filled(ct2.specs.TransformerSpec.from_config(**SHAPE), ct2), tmp_path / "source")
    whole = convert.read_binary(source / "model.bin")
    assert lost in {**whole.arrays, **whole.aliases}
    kept = {name: array for name, array in whole.arrays.items() if name != lost}
    aliases = {name: other for name, other in whole.aliases.items() if lost not in (name, other)}
    monkeypatch.setattr(convert, "read_binary", lambda path: replace(whole, arrays=kept, aliases=aliases))
    with pytest.raises(UserError, match=r"model\.bin: .*") as error:
        convert_folder(source, tmp_path / "model")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "model").exists()

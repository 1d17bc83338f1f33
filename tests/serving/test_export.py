"""Folders for CTranslate2 give there what the model gives here; what CTranslate2 does not compute is named."""

from __future__ import annotations

import builtins
import json
from typing import Any

import numpy as np
import pytest
import torch

from regard import models
from regard.checkpoints.convert import convert_folder
from regard.errors import UserError
from regard.generator import Generator
from regard.layers.lora import adapt
from regard.layers.scalings import ByWavelength, Interpolated, Yarn
from regard.loading import load, load_as
from regard.serving.export import export_ctranslate2, export_folder, vocabulary
from regard.text.tokenizer import Tokenizers
from regard.translator import Translator

ct2 = pytest.importorskip("ctranslate2")
SMALL = {"num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 4}


@pytest.fixture
def make(shared):
    """make(family, **arguments): what `load` would give, with random weights that let every part speak."""

    def made(family: str, seed: int = 1, tokenizers: Tokenizers = shared, **arguments: Any) -> Any:
        description = models.find(family).describe(**{"vocab_size": tokenizers.source.vocab_size} | SMALL | arguments)
        torch.manual_seed(seed)
        model = description.build().eval()
        with torch.no_grad():
            for tensor in model.parameters():
                tensor.normal_(0.0, 0.3) if tensor.dim() > 1 else tensor.add_(0.2 * torch.randn_like(tensor))
        return (Generator if description.encoder is None else Translator)(model, tokenizers)

    return made


def logits_of(model: Any, *ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(*(torch.tensor([each]) for each in ids)).logits


# ------------------------------------------------------------------------------------------------- language models


@pytest.mark.parametrize(
    ("family", "arguments"),
    [
        ("gpt2", {"max_positions": 40}),
        ("llama", {}),
        ("llama", {"num_kv_heads": 2, "head_dim": 6, "tied": True, "base": 500.0}),
        ("llama", {"attention_bias": True, "feedforward_bias": True, "activation": "gelu", "scaling": Interpolated(4.0)}),
        ("llama", {"scaling": ByWavelength(4.0, 16)}),
        ("mistral", {"window": None}),
    ],
)
def test_language_models_have_the_same_logits(make, tmp_path, family, arguments):
    its = make(family, **arguments)
    folder = export_ctranslate2(its, tmp_path / "out")
    ids = [(7 * n + 3) % its.tokenizer.vocab_size for n in range(36)]
    tokens = [its.tokenizer.piece(number) for number in ids]
    runs = ct2.Generator(str(folder), compute_type="float32", intra_threads=1)
    found = torch.tensor(np.array(runs.forward_batch([tokens])))
    assert (found - logits_of(its.model, ids)).abs().max() < 1e-4
    prompt = "A dog runs in"
    (want,) = its.generate([prompt], max_new_tokens=12, details=True)
    (made,) = runs.generate_batch(
        [[its.tokenizer.piece(n) for n in its.prompt_ids(prompt)]],
        max_length=12, min_length=0, beam_size=1, sampling_topk=1, include_prompt_in_result=False,
    )  # fmt: skip
    assert made.sequences[0] == [token for token in want.tokens if token != its.tokenizer.piece(its.tokenizer.eos)]


# ------------------------------------------------------------------------------------------------ encoder-decoders


@pytest.mark.parametrize(
    ("family", "arguments"),
    [
        ("transformer", {}),
        ("transformer", {"placement": "pre", "activation": "gelu", "gated": True, "num_kv_heads": 2}),
        ("transformer", {"positions": "learned", "max_positions": 30, "scaled": False, "tied": "no", "head_bias": True}),
        ("transformer", {"positions": "none", "decoder_layers": 1, "decoder_heads": 2, "decoder_d_ff": 24}),
        ("bart", {"max_positions": 30}),
        ("bart", {"max_positions": 30, "placement": "pre", "scaled": True, "head_bias": True}),
    ],
)
def test_there_and_back_again_the_logits_are_equal(make, tmp_path, family, arguments):
    its = make(family, **arguments)
    back = load_as(Translator, convert_folder(export_ctranslate2(its, tmp_path / "out"), tmp_path / "back"))
    source, target = [5, 9, 13, 21, 8, its.tokenizer.eos], [its.marks()[0], 11, 17, 6]
    difference = logits_of(back.model, source, target) - logits_of(its.model, source, target)
    assert difference.abs().max() < 1e-6
    assert back.marks() == its.marks()
    texts = ["A dog runs in the park .", "Two men ."]
    assert back.translate(texts, num_beams=2, max_length=9) == its.translate(texts, num_beams=2, max_length=9)


def test_rows_keep_their_order_and_the_last_is_there(make, tmp_path, shared):
    """The converter that CTranslate2 has for Marian's folders takes the last row for padding and drops it."""
    size = shared.source.vocab_size
    its = make("transformer", vocab_size=size + 3, pad=size + 2)
    its.meta["ids"] = {"bos": size - 1, "eos": its.tokenizer.eos}
    folder = export_ctranslate2(its, tmp_path / "out")
    names = json.loads((folder / "shared_vocabulary.json").read_text(encoding="utf-8"))
    assert len(names) == size + 3 == len(set(names))
    assert names[:size] == [shared.source.piece(number) for number in range(size)]
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config["decoder_start_token"] == names[size - 1]
    assert [config[f"{role}_token"] for role in ("eos", "bos", "unk")] == ["</s>", "<s>", "<unk>"]
    assert config["layer_norm_epsilon"] == 1e-5


def test_separate_vocabularies_are_separate_files(make, tmp_path, few_lines):
    from regard.text.tokenizer import Plan, train_tokenizer

    sides = [train_tokenizer(lines, Plan("words", vocab_size=60)) for lines in few_lines]
    its = make("transformer", tokenizers=Tokenizers(*sides, False), target_vocab_size=sides[1].vocab_size, decoder_layers=1)
    folder = export_ctranslate2(its, tmp_path / "out")
    for name, side in zip(("source", "target"), sides, strict=True):
        names = json.loads((folder / f"{name}_vocabulary.json").read_text(encoding="utf-8"))
        assert names == [side.piece(number) for number in range(side.vocab_size)] == vocabulary(side, side.vocab_size)


def test_updates_of_adapters_are_in_the_weights(make, tmp_path):
    its = make("transformer")
    adapt(its.model, ["qkv"], 2, 4.0)
    with torch.no_grad():
        for name, tensor in its.model.named_parameters():
            if "updates" in name:
                tensor.normal_(0.0, 0.5)
    back = load(convert_folder(export_ctranslate2(its, tmp_path / "out"), tmp_path / "back")).model
    want = logits_of(its.model, [5, 6, 7], [3, 9])
    assert (logits_of(back, [5, 6, 7], [3, 9]) - want).abs().max() < 1e-5
    assert (logits_of(make("transformer").model, [5, 6, 7], [3, 9]) - want).abs().max() > 1e-2


@pytest.mark.parametrize(("kind", "size"), [("int8", 1), ("int16", 2), ("float16", 2)])
def test_small_weights_are_small(make, tmp_path, kind, size):
    its = make("transformer", d_model=64, d_ff=256)
    bare = export_ctranslate2(its, tmp_path / "bare")
    before = {name: tensor.clone() for name, tensor in its.model.named_parameters()}
    small = export_ctranslate2(its, tmp_path / "small", kind)
    assert all(torch.equal(tensor, before[name]) for name, tensor in its.model.named_parameters())  # not rounded in place
    weights = sum(tensor.numel() for tensor in its.model.parameters() if tensor.dim() > 1)
    saved = (bare / "model.bin").stat().st_size - (small / "model.bin").stat().st_size
    assert saved > 0.85 * weights * (4 - size)


# ---------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("family", "arguments", "words"),
    [
        ("mistral", {"window": 4}, "no mask .*Window"),
        ("mixtral", {}, "no feed-forward such as"),
        ("llama", {"scaling": Yarn(4.0, 16)}, "no scaling of rotary positions such as Yarn"),
        ("gpt2", {"head": "class"}, "no head such as Classify"),
        ("bert", {"head": "masked"}, "no head such as MaskedToken"),
        ("xlnet", {}, "CTranslate2 does not compute this model: it has no "),
        ("longformer", {}, "CTranslate2 does not compute this model: it has no "),
    ],
)
def test_what_ctranslate2_does_not_compute_is_named(make, tmp_path, family, arguments, words):
    its = make(family, **arguments)
    with pytest.raises(UserError, match=words) as error:
        export_ctranslate2(its, tmp_path / "out")
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_recurrent_models_are_refused(shared, tmp_path):
    size = shared.source.vocab_size
    model = models.find("rnn").describe(vocab_size=size, num_layers=1, d_model=8).build()
    with pytest.raises(UserError, match="no stack such as Recurrent"):
        export_ctranslate2(Translator(model, shared), tmp_path / "out")


def test_norms_that_differ_are_refused(make, tmp_path):
    from dataclasses import replace

    from regard.layers.norms import LayerNorm

    for norm, words in ((LayerNorm(1e-3), "norms with different eps \\(1e-05, 0.001\\)"), (None, "blocks that differ")):
        its = make("transformer", placement="pre")
        first = its.model.description.encoder
        changed = replace(first, last_norm=norm) if norm else replace(
            first, blocks=(first.blocks[0], replace(first.blocks[1], placement="post"))
        )  # fmt: skip
        its.model.description = replace(its.model.description, encoder=changed)
        with pytest.raises(UserError, match=words):
            export_ctranslate2(its, tmp_path / "out")


def test_mistakes(make, tmp_path, monkeypatch):
    its = make("transformer")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(UserError, match="is not empty"):
        export_ctranslate2(its, tmp_path / "full")
    with pytest.raises(UserError, match="quantization int4: is not known; known: int8, int16, float16"):
        export_ctranslate2(its, tmp_path / "new", "int4")
    with pytest.raises(UserError, match="--to tflite: is not known; known: ctranslate2"):
        export_folder(tmp_path, tmp_path / "new", "tflite")
    real = builtins.__import__

    def absent(name: str, *more: Any) -> Any:
        if name == "ctranslate2":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(UserError, match=r"not installed: pip install 'regard\[ctranslate2\]'"):
        export_ctranslate2(its, tmp_path / "new")

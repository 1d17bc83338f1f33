"""Tiny models of every kind, with tokenizers that split characters into bytes."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from regard.classifier import Classifier
from regard.decoding.options import Search
from regard.embedder import Embedder
from regard.filler import Filler
from regard.generator import Generator
from regard.models import bert, find, longformer, mixtral, rnn, transformer, vit
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.translator import Translator

torch.set_num_threads(1)

LINES = ["A dog runs in the park .", "Two men play football , and a girl looks on .", "The red house is near the sea ."] * 3
FRENCH = ["Un chien court dans le parc .", "Deux hommes jouent au football .", "La maison rouge est près de la mer ."] * 3
SIZES: dict[str, Any] = {"num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 4, "dropout": 0.0}


@cache
def tokenizers() -> Tokenizers:
    made = train_tokenizer(LINES + FRENCH, Plan("bpe", vocab_size=330))
    return Tokenizers(made, made, True)


def _filled(description: Any, spread: float = 0.4) -> Any:
    """Random weights, large enough that attention is not even."""
    torch.manual_seed(1)
    model = description.build().eval()
    for name, tensor in model.named_parameters():
        if not name.endswith("norm.weight"):
            tensor.data.normal_(0.0, spread)
    return model


def _translator(family: Any = transformer, **more: Any) -> Translator:
    sizes = {"vocab_size": tokenizers().source.vocab_size} | (SIZES if family is transformer else {"d_model": 16}) | more
    return Translator(_filled(family.describe(**sizes)), tokenizers(), Search(num_beams=3, max_length=9))


def _text_model(kind: Any, family: Any, **more: Any) -> Any:
    vocabulary = {"vocab_size": tokenizers().source.vocab_size}
    return kind(_filled(family.describe(**vocabulary, **(SIZES | more))), tokenizers())


def _images() -> Classifier:
    sizes = {"image_size": 8, "patch_size": 4, "channels": 1, "num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 4}
    settings = {"image_mean": [0.5], "image_std": [0.5], "size": {"height": 8, "width": 8}}
    return Classifier(_filled(vit.describe(**sizes, classes=3)), None, {"images": settings, "labels": ["cat", "dog", "owl"]})


EXPERTS: dict[str, Any] = {"num_layers": 2, "d_model": 16, "d_ff": 24, "num_heads": 4, "experts": 3, "active": 2}
EXPERTS["vocab_size"] = 330

MADE = {
    "translate": _translator,
    "bahdanau": lambda: _translator(rnn, attention="additive"),
    "no-attention": lambda: _translator(rnn, attention="none"),
    "generate": lambda: _text_model(Generator, find("gpt2"), num_heads=2, max_positions=64),
    "experts": lambda: Generator(_filled(mixtral.describe(**EXPERTS)), tokenizers()),
    "classify": lambda: _text_model(Classifier, longformer, window=(2, 4), head="class", classes=3, max_positions=64),
    "tag": lambda: _text_model(Classifier, bert, head="tokens", classes=3, max_positions=64),
    "embed": lambda: _text_model(Embedder, bert, head="vector", max_positions=64),
    "fill": lambda: _text_model(Filler, bert, max_positions=64),
    "image": _images,
}


@pytest.fixture(scope="session")
def made() -> Any:
    """made(kind): what `load` would return."""
    return cache(lambda kind: MADE[kind]())


@pytest.fixture(scope="session")
def kinds() -> list[str]:
    return list(MADE)

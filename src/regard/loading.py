"""From a model folder to what it is used with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from regard.architecture import Description
from regard.checkpoints.adapters import open_model
from regard.checkpoints.fit import check_fit, extended
from regard.checkpoints.folders import locate
from regard.checkpoints.generation import settings_of
from regard.classifier import Classifier
from regard.decoding.options import read_options
from regard.embedder import Embedder
from regard.ensemble import Ensemble
from regard.errors import UserError
from regard.filler import Filler
from regard.generator import Generator
from regard.loaded import Loaded
from regard.text.tokenizer import Tokenizers
from regard.translator import Translator

L = TypeVar("L", bound=Loaded)

KINDS: dict[str, type[Loaded]] = {"class": Classifier, "vector": Embedder, "masked": Filler}
"""By what the head gives; heads of next tokens are told apart by whether there is an encoder."""


def kind_of(description: Description) -> type[Loaded]:
    """What a model of this description is used with. UserError for heads of a kind that nothing here uses."""
    kind = getattr(description.head, "kind", None)
    if kind == "next" and description.decoder is not None:
        return Generator if description.encoder is None else Translator
    if kind not in KINDS:
        raise UserError(f"no use is known for a model whose head is {type(description.head).__name__}")
    return KINDS[kind]


def load(
    folder_or_name: str | Path | Sequence[str | Path],
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    extend: bool = False,
) -> Any:
    """What a model folder holds, or a name of the Hugging Face Hub: by the model's halves and head a Translator, Generator,
    Classifier, Embedder or Filler. Of a list of folders of translators their Ensemble; of a folder of LoRA updates in
    peft's format the model that it names, with the updates in it.

    device: None for the GPU if there is one. dtype: None for the number type stored, but float32 on a CPU, where half
    precision is slow; "int8" for weights of eight bits, on the CPU (see `Loaded.quantize`). extend: add embeddings,
    untrained, for entries that the tokenizer has and the model lacks. UserError says what is missing or does not fit.
    """
    if isinstance(folder_or_name, (str, Path)):
        return _open(locate(folder_or_name), device, dtype, extend, None)
    members = [load_as(Translator, one, device, dtype, extend) for one in folder_or_name]
    return members[0] if len(members) == 1 else Ensemble(members, folder_or_name)


def load_as(
    wanted: type[L],
    folder_or_name: str | Path,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    extend: bool = False,
) -> L:
    """`load` of a folder that should hold a certain kind; UserError says what it holds instead and how that is used."""
    found: Any = _open(locate(folder_or_name), device, dtype, extend, wanted)
    return found


def _open(
    folder: Path,
    device: str | torch.device | None,
    dtype: str | torch.dtype | None,
    extend: bool,
    wanted: type[Loaded] | None,
) -> Loaded:
    small = dtype == "int8"
    device = torch.device(device or ("cuda" if torch.cuda.is_available() and not small else "cpu"))
    dtype = "float32" if small or (dtype is None and device.type == "cpu") else dtype
    model, description, meta, base = open_model(folder, device, dtype)
    kind = kind_of(description)
    if wanted is not None and kind is not wanted:
        raise UserError(f"{folder}: holds {kind.what}, not {wanted.what}: use {kind.use}")
    half = description.decoder if description.encoder is None else description.encoder
    if not hasattr(half.embed, "vocab_size"):
        return _small(kind(model, None, meta), small)
    tokenizers = Tokenizers.open(base)
    if tokenizers.target.eos in meta.get("ends", ()):
        meta["ids"]["eos"] = tokenizers.target.eos
    if extend:
        model = extended(model, tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    check_fit(model.description, meta["ids"], tokenizers, folder)
    if kind is Translator:
        said = meta.get("search")
        if said is None:
            said = settings_of(meta["generation"], folder) if "generation" in meta else {}
        named = {name: value for name, value in said.items() if name != "replace_unknown"}  # the translator looks itself
        return _small(Translator(model, tokenizers, read_options(named), meta), small)
    return _small(kind(model, tokenizers, meta), small)


def _small(loaded: Loaded, small: bool) -> Loaded:
    return loaded.quantize() if small else loaded

"""The mean of several models' weights: of one run's checkpoints, usually (Vaswani et al. 2017, section 6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.checkpoints.folders import load_model, locate, named_tensors, save_model
from regard.errors import UserError
from regard.text.spm import SOURCE, TARGET, TARGET_VOCABULARY, VOCABULARY


def mean_weights(folders: Sequence[str | Path]) -> dict[str, Tensor]:
    """The mean of the folders' weights by our names, summed in float64 and given in the number type of the first.
    UserError: no folder, or models of different descriptions or number types."""
    if not folders:
        raise UserError("nothing to average: give at least one model folder")
    total: dict[str, Tensor] = {}
    first, kinds = None, {}
    for folder in folders:
        model, description, _ = load_model(folder)
        tensors = named_tensors(model)
        if first is None:
            first, kinds = description, {name: t.dtype for name, t in tensors.items()}
            total = {name: torch.zeros_like(t, dtype=torch.float64) for name, t in tensors.items()}
        if description != first:
            raise UserError(f"{folder}: another model than {folders[0]}; only models of one description have a mean")
        for name, tensor in tensors.items():
            total[name] += tensor.detach()
    return {name: (tensor / len(folders)).to(kinds[name]) for name, tensor in total.items()}


def average(folders: Sequence[str | Path], output: str | Path) -> dict[str, Any]:
    """Write the model whose weights are the mean of the folders' to a new folder; gives its meta.

    All folders must hold the same description and the same tokenizers, and `output` nothing: UserError otherwise.
    """
    from regard.text.tokenizer import Tokenizers

    output = Path(output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UserError(f"{output}: is not empty; an average goes into a new folder")
    places = [locate(folder) for folder in folders]
    if not places:
        raise UserError("nothing to average: give at least one model folder")
    hashes = [_tokenizer_files(place) for place in places]
    for place, its in zip(places, hashes):
        if its != hashes[0]:
            raise UserError(f"{place}: has other tokenizers than {places[0]}; the mean of their models says nothing")
    weights = mean_weights(places)
    model, _, meta = load_model(places[0])
    with torch.no_grad():
        for name, tensor in named_tensors(model).items():
            tensor.copy_(weights[name])
    meta |= {"scores": {}, "average_of": [place.name for place in places]}
    tokenizers = Tokenizers.open(places[0]) if hashes[0] else None
    save_model(output, model, tokenizers, meta)
    return meta


def _tokenizer_files(folder: Path) -> dict[str, bytes]:
    names = ("tokenizer.json", "target_tokenizer.json", SOURCE, TARGET, VOCABULARY, TARGET_VOCABULARY)
    return {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}

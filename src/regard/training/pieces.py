"""Tensors that FSDP cuts, written by all processes at once: torch.distributed.checkpoint over files of safetensors.

Any number of processes, one too, reads them back whatever number wrote them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter

from regard.training import ranks


def save(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write cut tensors (DTensors) by name; all processes call it. OSError, on all, if a disk fails."""
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # one process alone is told that it is
            state_dict_saver.save(dict(tensors), storage_writer=writer, no_dist=ranks.world() == 1)
    except CheckpointException as error:
        raise OSError(f"{folder}: {error.failures}") from error


def load(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Fill tensors, cut or whole, with what was saved under their names; all processes call it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        state_dict_loader.load(tensors, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=ranks.world() == 1)

"""A training run: what it holds, how it goes into a checkpoint and comes back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import gather_object
from torch import Tensor

from regard import models
from regard.architecture import Description, Model
from regard.batches.budget import find_budget
from regard.batches.stream import Stream
from regard.checkpoints.adapters import merged, save_adapter
from regard.checkpoints.folders import load_weights, save_model
from regard.errors import UserError
from regard.files import write_text
from regard.training import resume
from regard.training.adapt import check_model, choose_weights
from regard.training.optimizers import build_optimizer
from regard.training.prepare import Prepared, limits
from regard.training.recipe import Recipe, describe_model
from regard.training.start import load_start


@dataclass
class Progress:
    """How far a run is: all of it goes through JSON into a checkpoint.

    step: updates done. skipped: updates dropped because a gradient overflowed (fp16). elapsed: seconds trained, evaluation
    included. tokens: target tokens seen. best: (score, step) of the best evaluations, best first; scores are better when
    larger. waited: evaluations since the best. history: each evaluation's figures.
    """

    step: int = 0
    skipped: int = 0
    elapsed: float = 0.0
    tokens: int = 0
    best: list[tuple[float, int]] = field(default_factory=list)
    waited: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


BUDGET = 2048
"""Token budget from which training.batch_tokens: auto begins to look for the largest that fits. On a CPU more than four
times as much gains no speed, and costs updates."""


class Run:
    """Model, optimiser, stream of batches and progress of one training."""

    def __init__(self, recipe: Recipe, prepared: Prepared, output: Path) -> None:
        its = recipe.training
        self.recipe, self.prepared, self.output = recipe, prepared, output
        self.accelerator = _accelerator(its.precision)
        torch.manual_seed(its.seed)
        self.notes: list[str] = []
        model = self._model()
        self.description: Description = model.description
        self.notes += choose_weights(model, recipe)
        self.plain: Model = model
        optimizer = build_optimizer(model, its)
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        torch.manual_seed(its.seed + rank)  # the same weights on all ranks, other dropout masks on each
        self._stream = partial(
            Stream,
            prepared.train,
            objective=prepared.objective,
            seed=its.seed,
            rank=rank,
            world=world,
            limits=limits(recipe),
            prefetch=its.prefetch,
        )
        self.stream: Stream = self._stream(BUDGET if its.batch_tokens == "auto" else its.batch_tokens)
        self.progress = Progress()
        self.average: dict[str, Tensor] | None = None
        if its.ema:
            self.average = {name: p.detach().clone() for name, p in model.named_parameters()}
        self._began, self._before = time.monotonic(), 0.0

    def _model(self) -> Model:
        """A new model of the recipe's, or the one it goes on from."""
        recipe, prepared = self.recipe, self.prepared
        if prepared.start is not None:
            model = load_start(prepared.start, recipe, prepared.given, prepared.labels, self.notes.append)
        else:
            assert recipe.model.architecture is not None
            model = describe_model(recipe, prepared.tokenizers, prepared.given).build()
            models.find(recipe.model.architecture).initialise(model)
        check_model(model, recipe.task.kind, prepared.packed)
        return model

    @property
    def lora(self) -> bool:
        """Whether low-rank updates are learned in place of whole matrices."""
        return self.recipe.training.lora.rank > 0

    def weights(self) -> str:
        """How many weights there are, and are learned, in words."""
        count = sum(p.numel() for p in self.plain.parameters())
        learned = sum(p.numel() for p in self.plain.parameters() if p.requires_grad)
        return f"{count:,} weights" + ("" if learned == count else f", {learned:,} of them learned")

    def fit_budget(self, trial: Callable[[int], None]) -> int:
        """Choose the largest token budget whose `trial` does not run out of memory, and start the stream anew with it."""
        cpu = self.accelerator.device.type == "cpu"
        budget = find_budget(trial, BUDGET, 4 * BUDGET if cpu else 128 * BUDGET)
        self.stream = self._stream(budget)
        return budget

    @property
    def elapsed(self) -> float:
        """Seconds trained, over all its parts."""
        return self._before + time.monotonic() - self._began

    @property
    def main(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.accelerator.is_main_process

    def average_step(self) -> None:
        """Move the average of the weights towards the weights."""
        if self.average is not None:
            for name, p in self.plain.named_parameters():
                self.average[name].lerp_(p.detach(), 1.0 - self.recipe.training.ema)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[Model]:
        """The model as it would be used: in evaluation mode, with the averaged weights where the recipe has them; random
        states are as before afterwards."""
        random = resume.random_tensors()
        kept = self._swap(self.average)
        self.plain.eval()
        try:
            yield self.plain
        finally:
            self.plain.train()
            self._swap(kept)
            resume.load_random({f"{key}.0": value for key, value in random.items()})

    def _swap(self, weights: dict[str, Tensor] | None) -> dict[str, Tensor] | None:
        if weights is None:
            return None
        kept = {name: p.detach().clone() for name, p in self.plain.named_parameters()}
        with torch.no_grad():
            for name, p in self.plain.named_parameters():
                p.copy_(weights[name])
        return kept

    def save_folder(self, folder: Path) -> None:
        """Write the model as it is now as a model folder."""
        self.write_model(folder, self.meta())

    def write_model(self, folder: Path, meta: dict[str, Any]) -> None:
        """Write a model folder; LoRA's updates are merged, and stand in its folder `adapter` by themselves too."""
        save_model(folder, merged(self.plain) if self.lora else self.plain, self.prepared.tokenizers, meta)
        if self.lora:
            save_adapter(folder / "adapter", self.plain, self.recipe.model.folder or "")

    def meta(self) -> dict[str, Any]:
        """What a model folder tells about its origin and use."""
        progress, data, prepared = self.progress, self.recipe.data, self.prepared
        found: dict[str, Any] = {
            "recipe": self.recipe.description,
            "architecture": self.recipe.model.architecture,
            "source": data.source,
            "target": data.target,
            "data": data.name or data.train,
            "preprocess": list(data.preprocess),
            "search": self.recipe.search.model_dump(exclude_defaults=True),
            "training": {"steps": progress.step, "seconds": round(self.elapsed, 1), "target_tokens": progress.tokens},
            "scores": {},
        }
        if self.recipe.task.kind != "translation":
            for name in ("source", "target", "preprocess", "search"):
                del found[name]
            found["task"] = self.recipe.task.kind
        if prepared.labels:
            found["labels"] = prepared.labels
        if prepared.start is not None:
            found["ids"] = prepared.start.ids
            found["architecture"] = prepared.start.meta.get("architecture")
        return found | prepared.facts

    def load_weights(self, folder: Path, tensors: dict[str, Tensor]) -> None:
        """Put the weights of a checkpoint into the model; with LoRA what is learned, for the rest never changed."""
        if not self.lora:
            load_weights(folder, self.plain)
            return
        with torch.no_grad():
            for name, p in self.plain.named_parameters():
                if p.requires_grad:
                    p.copy_(tensors[f"learned/{name}"])

    def save(self) -> Path:
        """Write a checkpoint of this moment; gives its folder."""
        self.progress.elapsed = self.elapsed
        rank = self.accelerator.process_index
        random = gather_object([{f"{key}.{rank}": value for key, value in resume.random_tensors().items()}])
        folder = resume.folder_of(self.output, self.progress.step)
        if self.main:
            tensors = {name: value for part in random for name, value in part.items()}
            tensors |= resume.optimizer_tensors(self.plain, self.optimizer)
            tensors |= {f"average/{name}": value.cpu() for name, value in (self.average or {}).items()}
            if self.lora:
                learned = ((name, p) for name, p in self.plain.named_parameters() if p.requires_grad)
                tensors |= {f"learned/{name}": p.detach().cpu() for name, p in learned}
            facts: dict[str, Any] = {"progress": vars(self.progress), "stream": self.stream.state_dict()}
            scaler = self.accelerator.scaler
            facts["scaler"] = None if scaler is None else scaler.state_dict()
            resume.write(folder, self.save_folder, tensors, facts)
        self.accelerator.wait_for_everyone()
        return folder

    def note_recipe(self) -> None:
        """Write the resolved recipe beside what it makes."""
        if self.main:
            write_text(self.output / "recipe.yaml", self.recipe.to_yaml())

    def load(self, folder: Path) -> None:
        """Go back to the moment of a checkpoint."""
        tensors, facts = resume.read(folder)
        self.load_weights(folder, tensors)
        resume.load_optimizer(self.plain, self.optimizer, tensors)
        if self.average is not None:
            for name, value in self.average.items():
                if f"average/{name}" not in tensors:
                    raise UserError(f"{folder}: training.ema is set, but the run so far was made without it")
                value.copy_(tensors[f"average/{name}"])
        self.progress = Progress(**facts["progress"])
        self.progress.best = [(score, step) for score, step in self.progress.best]
        if self.recipe.training.batch_tokens == "auto":
            self.stream = self._stream(facts["stream"]["budget"])
        self.stream.load_state_dict(facts["stream"])
        if facts["scaler"] and self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(facts["scaler"])
        resume.load_random(tensors, self.accelerator.process_index)
        self._began, self._before = time.monotonic(), self.progress.elapsed


def _accelerator(precision: str) -> Accelerator:
    kind = {"fp32": "no", "bf16": "bf16", "fp16": "fp16"}[precision]
    cpu = not torch.cuda.is_available()
    if cpu and kind == "fp16":
        raise UserError("training.precision: fp16 needs a GPU; use fp32 (or bf16) on a CPU")
    AcceleratorState._reset_state()  # accelerate keeps one for the process; a second training may want another precision
    return Accelerator(mixed_precision=kind, cpu=cpu, step_scheduler_with_optimizer=False)

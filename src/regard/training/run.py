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
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from regard import models
from regard.architecture import Description, Model
from regard.batches.budget import find_budget
from regard.batches.stream import Share, Stream
from regard.checkpoints.adapters import merged, save_adapter
from regard.checkpoints.folders import load_weights, save_model
from regard.errors import UserError
from regard.files import write_text
from regard.training import parallel, pieces, ranks, resume
from regard.training.adapt import check_model, check_positions, check_search, choose_weights
from regard.training.optimizers import build_optimizer
from regard.training.output import RECIPE
from regard.training.prepare import Prepared, held
from regard.training.recipe import Recipe, describe_model
from regard.training.sections import Training
from regard.training.start import load_start


@dataclass
class Progress:
    """How far a run is: all of it goes through JSON into a checkpoint.

    step: updates done. skipped: updates dropped because a gradient overflowed (fp16). elapsed: seconds trained, evaluation
    included. tokens: target tokens seen. best: (score, step) of the best evaluations, best first; scores are better when
    larger. waited: evaluations since the best. history: each evaluation's figures. saved: the last updates after which a
    checkpoint was due. loss_sum, loss_tokens: since the last line of the log. first_loss: of the first update. high: updates
    in a row with a loss well above that.
    """

    step: int = 0
    skipped: int = 0
    elapsed: float = 0.0
    tokens: int = 0
    best: list[tuple[float, int]] = field(default_factory=list)
    waited: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    saved: list[int] = field(default_factory=list)
    loss_sum: float = 0.0
    loss_tokens: int = 0
    first_loss: float | None = None
    high: int = 0


BUDGET = 2048
"""Token budget from which training.batch_tokens: auto begins to look for the largest that fits. On a CPU more than four
times as much gains no speed, and costs updates."""


class Run:
    """Model, optimiser, stream of batches and progress of one training."""

    def __init__(self, recipe: Recipe, prepared: Prepared, output: Path) -> None:
        its = recipe.training
        self.recipe, self.prepared, self.output = recipe, prepared, output
        self.kind: parallel.Kind = parallel.kind_of(its)
        self.device = _device(its)
        self.scaler = torch.amp.GradScaler(self.device.type) if its.precision == "fp16" else None
        torch.manual_seed(its.seed)
        self.notes: list[str] = []
        model = self._model()
        self.description: Description = model.description
        self.notes += choose_weights(model, recipe)
        self.plain: Model = model
        if its.activation_checkpointing:
            parallel.checkpoint_activations(model)
        self.limits = held(recipe, model)
        check_positions(model, recipe, prepared)
        self._stream = partial(
            Stream,
            prepared.train,
            objective=prepared.objective,
            seed=its.seed,
            share=Share(ranks.rank(), ranks.world(), its.accumulate),
            limits=self.limits,
            prefetch=its.prefetch,
        )
        budget = BUDGET if its.batch_tokens == "auto" else its.batch_tokens
        self.stream: Stream = self._stream(budget)
        used = self.kind != "ddp" or parallel.uses_all(model, self._stream(budget, share=Share(), prefetch=0).update()[0])
        self.model: nn.Module = parallel.wrap(model, its, self.kind, self.device, used)
        self.optimizer = build_optimizer(model, its)
        torch.manual_seed(its.seed + ranks.rank())  # the same weights on all ranks, other dropout masks on each
        self.progress = Progress()
        self.average: dict[str, Tensor] | None = None
        if its.ema:
            self.average = {name: p.detach().clone() for name, p in model.named_parameters()}
        self._began, self._before = time.monotonic(), 0.0
        self._clock: float | None = None

    def _model(self) -> Model:
        """A new model of the recipe's, or the one it goes on from."""
        recipe, prepared = self.recipe, self.prepared
        if prepared.start is not None:
            model = load_start(prepared.start, recipe, prepared.given, prepared.labels, self.notes.append)
        else:
            assert recipe.model.architecture is not None
            model = _built(describe_model(recipe, prepared.tokenizers, prepared.given))
            models.find(recipe.model.architecture).initialise(model)
        check_model(model, recipe.task.kind, prepared.packed)
        check_search(model, recipe)
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
        cpu = self.device.type == "cpu"
        budget = min(ranks.gather(find_budget(trial, BUDGET, 4 * BUDGET if cpu else 128 * BUDGET)))
        self.stream = self._stream(budget)
        return budget

    @property
    def elapsed(self) -> float:
        """Seconds trained, over all its parts; of several ranks the first one's, when they last agreed."""
        return self._before + time.monotonic() - self._began if self._clock is None else self._clock

    def agree(self, stop: bool) -> bool:
        """Have all ranks know the first one's clock, and whether any was asked to stop."""
        if ranks.world() == 1:
            return stop
        own = self._before + time.monotonic() - self._began if self.main else 0.0
        self._clock, stops = ranks.total([own, float(stop)])
        return stops > 0

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Where products are in half precision, if the recipe says so."""
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.recipe.training.precision)
        return contextlib.nullcontext() if kind is None else torch.autocast(self.device.type, kind)

    def backward(self, loss: Tensor) -> None:
        """Add a loss's gradients to those that are there."""
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def shorten(self, weights: list[nn.Parameter], longest: float) -> float:
        """The length of the gradient, which is then `longest` at most."""
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        return parallel.norm_of(weights, longest)

    def update(self) -> bool:
        """Move the weights and forget the gradients. False: one had overflowed (fp16) and nothing moved."""
        done = True
        if self.scaler is None:
            self.optimizer.step()
        else:
            scale = self.scaler.get_scale()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            done = self.scaler.get_scale() >= scale
        self.optimizer.zero_grad(set_to_none=True)
        return done

    @property
    def main(self) -> bool:
        """Whether this process writes files and speaks."""
        return ranks.main()

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
            with parallel.gathered(self.model):
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

    def write_model(self, folder: Path, meta: dict[str, Any], model: Model) -> None:
        """Write a model folder of what `whole` gave; LoRA's updates are merged, and stand in its folder `adapter` by
        themselves too."""
        save_model(folder, merged(model) if self.lora else model, self.prepared.tokenizers, meta)
        if self.lora:
            told = self.recipe.model.folder or ""
            base = str(Path(told).absolute()) if told and Path(told).is_dir() else told
            save_adapter(folder / "adapter", model, base, meta)

    def whole(self) -> Model:
        """The model as it is written. Of one that FSDP cuts the first process gets a copy: while it is gathered, its weights
        are as they are exchanged (bf16), and its own state_dict would cut it again. All processes call it."""
        values = parallel.collected(self.plain) if self.kind == "fsdp" else {}
        if not values:
            return self.plain
        with torch.random.fork_rng(devices=[]):
            model = self.description.build()
            choose_weights(model, self.recipe)
        parallel.put(model, values)
        return model

    def meta(self) -> dict[str, Any]:
        """What a model folder tells about its origin and use."""
        progress, data, prepared = self.progress, self.recipe.data, self.prepared
        found: dict[str, Any] = {
            "recipe": self.recipe.description,
            "architecture": self.recipe.model.architecture,
            "source": data.source,
            "target": data.target,
            "data": data.name or data.train or prepared.name,
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
        if self.lora:
            learned = ((name, p) for name, p in self.plain.named_parameters() if p.requires_grad)
            self.put({name: tensors[f"learned/{name}"] for name, _ in learned})
        elif self.kind == "fsdp":
            model = self.description.build()
            load_weights(folder, model)
            self.put(dict(model.named_parameters()))
        else:
            load_weights(folder, self.plain)

    def put(self, values: dict[str, Tensor]) -> None:
        """Put whole tensors into the model, by name."""
        if self.kind == "fsdp":
            parallel.put(self.plain, values)
        else:
            self.plain.load_state_dict(values, strict=False)

    def _state(self) -> dict[str, Tensor]:
        """Tensors of a checkpoint beside the model: of the optimiser, the moving average, what LoRA learns; where FSDP cuts
        them this rank's piece."""
        state = resume.optimizer_tensors(self.plain, self.optimizer)
        state |= {f"average/{name}": parallel.kept(value) for name, value in (self.average or {}).items()}
        if self.lora:
            learned = ((name, p) for name, p in self.plain.named_parameters() if p.requires_grad)
            state |= {f"learned/{name}": parallel.kept(p) for name, p in learned}
        return state

    def save(self) -> Path:
        """Write a checkpoint of this moment; gives its folder. OSError, on all ranks, if the disk fails."""
        self.progress.elapsed = self.elapsed
        folder = resume.folder_of(self.output, self.progress.step)
        random = ranks.gather({f"{key}.{ranks.rank()}": value for key, value in resume.random_tensors().items()})
        state = self._state() if self.main or self.kind == "fsdp" else {}
        cut = {name: value for name, value in state.items() if isinstance(value, DTensor)}
        aside = resume.pieces_of(folder) if cut else None
        if aside is not None:
            ranks.first(partial(resume.make, aside))
            pieces.save(aside, cut)
        tensors = {name: value for name, value in state.items() if name not in cut}
        tensors |= {name: value for part in random for name, value in part.items()}
        facts: dict[str, Any] = {"progress": vars(self.progress), "stream": self.stream.state_dict()}
        facts["scaler"] = None if self.scaler is None else self.scaler.state_dict()
        facts["pieces"] = sorted(cut)
        ranks.first(partial(self._write, self.whole(), folder, tensors, facts, aside))
        return folder

    def _write(
        self, model: Model, folder: Path, tensors: dict[str, Tensor], facts: dict[str, Any], aside: Path | None
    ) -> None:
        if not (self.output / RECIPE).is_file():  # somebody moved the folder away
            self.note_recipe()
        resume.write(folder, lambda place: self.write_model(place, self.meta(), model), tensors, facts, aside)

    def note_recipe(self) -> None:
        """Write the resolved recipe beside what it makes."""
        if self.main:
            self.output.mkdir(parents=True, exist_ok=True)
            write_text(self.output / RECIPE, self.recipe.to_yaml())

    def read(self, folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and facts of a checkpoint, beside its model; what FSDP cut is as it is cut now."""
        tensors, facts = resume.read(folder)
        if facts.get("pieces"):
            ours = dict(self.plain.named_parameters())
            cut = {name: torch.zeros_like(ours[name.split("/", 1)[1]].detach()) for name in facts["pieces"]}
            pieces.load(folder / resume.PIECES, cut)
            tensors |= cut
        return tensors, facts

    def load(self, folder: Path) -> None:
        """Go back to the moment of a checkpoint, whatever number of ranks wrote it."""
        tensors, facts = self.read(folder)
        self.load_weights(folder, tensors)
        resume.load_optimizer(self.plain, self.optimizer, tensors)
        if self.average is not None:
            for name, value in self.average.items():
                if f"average/{name}" not in tensors:
                    raise UserError(f"{folder}: training.ema is set, but the run so far was made without it")
                value.copy_(parallel.like(tensors[f"average/{name}"], value))
        self.progress = Progress(**facts["progress"])
        self.progress.best = [(score, step) for score, step in self.progress.best]
        if self.recipe.training.batch_tokens == "auto":
            self.stream = self._stream(facts["stream"]["budget"])
        self.stream.load_state_dict(facts["stream"])
        if facts["scaler"] and self.scaler is not None:
            self.scaler.load_state_dict(facts["scaler"])
        if f"random.cpu.{ranks.rank()}" in tensors:  # of a rank that there was not before they are as at the start
            resume.load_random(tensors, ranks.rank())
        self._began, self._before = time.monotonic(), self.progress.elapsed


def _built(description: Description) -> Model:
    """The model of a description. UserError: it is larger than this machine's memory."""
    try:
        return description.build()
    except RuntimeError as error:
        said = " ".join(str(error).split())
        if "alloc" not in said and "overflow" not in said:
            raise
        raise UserError(f"model: is too large for this machine's memory ({said[-120:]})") from None


def _device(its: Training) -> torch.device:
    """Where this process trains: a GPU of its own where there is one, and the recipe does not say cpu."""
    if its.device == "auto" and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    if its.precision == "fp16":
        raise UserError("training.precision: fp16 needs a GPU; use fp32 (or bf16) on a CPU")
    return torch.device("cpu")

"""The training loop: `steps` is a generator of updates, `train` drives it, watches, saves and finishes."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, cast

import torch

from regard.architecture import Targets
from regard.batches import Batch, ordered
from regard.errors import UserError
from regard.training import finish, resume, tasks
from regard.training.journal import Journal, draw
from regard.training.memory import keep_memory
from regard.training.optimizers import learning_rate
from regard.training.prepare import prepare
from regard.training.recipe import Recipe
from regard.training.run import Run

DIVERGED = 200
"""Updates in a row with a loss well above the first one's after which a training counts as lost."""


@dataclass(frozen=True)
class Step:
    """One update. loss: nats per target token, smoothing included. skipped: a gradient overflowed (fp16) and the update
    was dropped. source_tokens, target_tokens: real tokens it saw, on all ranks."""

    number: int
    loss: float
    learning_rate: float
    grad_norm: float
    source_tokens: int
    target_tokens: int
    skipped: bool = False


@dataclass(frozen=True)
class Result:
    """How a training ended: its folder, updates done, seconds, the best monitored value, test scores by metric, why."""

    folder: Path
    steps: int
    seconds: float
    best: float | None
    scores: dict[str, Any]
    reason: str


def _sum(run: Run, value: torch.Tensor) -> torch.Tensor:
    """A tensor summed over all ranks."""
    return cast(torch.Tensor, run.accelerator.reduce(value, "sum"))


def forward_backward(run: Run, group: list[Batch]) -> tuple[float, int]:
    """Gradients of a group of batches, as if they were one: the loss is summed over all their target tokens, on all ranks,
    and divided by how many those are. Gives the loss per token and their number."""
    accelerator, its = run.accelerator, run.recipe.training
    world = accelerator.num_processes
    count = sum(batch.target_tokens for batch in group)
    if world > 1:
        count = int(_sum(run, torch.tensor(count, device=accelerator.device)))
    total = torch.zeros((), device=accelerator.device)
    for number, batch in enumerate(group, 1):
        batch = batch.to(accelerator.device)
        assert batch.targets is not None
        shared = contextlib.nullcontext() if number == len(group) else accelerator.no_sync(run.model)
        with shared, accelerator.autocast():
            answer = run.model(
                batch.inputs,
                batch.outputs,
                segments=batch.segments,
                layout=batch.layout,
                output_layout=batch.output_layout,
                targets=Targets(batch.targets, its.label_smoothing),
            )
            loss: torch.Tensor = answer.loss_sum + sum(answer.penalties.values())
            accelerator.backward(loss * (world / count))
        total += loss.detach()
    if world > 1:
        total = _sum(run, total)
    return float(total) / count, count


def steps(run: Run) -> Iterator[Step]:
    """Train for ever, an update at a time. UserError, naming the batch, when the loss is not a number."""
    its, progress = run.recipe.training, run.progress
    weights = [p for p in run.plain.parameters() if p.requires_grad]
    while True:
        group = _group(run)
        rate = learning_rate(its, progress.step + 1, run.elapsed)
        for part in run.optimizer.param_groups:
            part["lr"] = rate
        loss, count = forward_backward(run, group)
        norm = float(cast(torch.Tensor, run.accelerator.clip_grad_norm_(weights, its.clip_norm or math.inf)))
        if not math.isfinite(loss) or (not math.isfinite(norm) and run.accelerator.scaler is None):
            raise UserError(_lost(run, group, f"the loss is {loss}, the gradient's norm {norm}"))
        run.optimizer.step()
        run.optimizer.zero_grad(set_to_none=True)
        skipped = bool(run.accelerator.optimizer_step_was_skipped)
        if skipped:
            progress.skipped += 1
        else:
            progress.step += 1
            run.average_step()
        progress.tokens += count
        yield Step(progress.step, loss, rate, norm, sum(batch.source_tokens for batch in group), count, skipped)


def _group(run: Run) -> list[Batch]:
    """The batches of one update; at the end of an epoch there may be fewer, so that none is carried into the next."""
    epoch, group = run.stream.epoch, [next(run.stream)]
    while len(group) < run.recipe.training.accumulate and run.stream.epoch == epoch:
        group.append(next(run.stream))
    return group


def _lost(run: Run, group: list[Batch], what: str) -> str:
    lines = sorted(int(run.prepared.train.lines[number]) for batch in group for number in batch.examples)
    shown = ", ".join(map(str, lines[:8])) + (f" and {len(lines) - 8} more" if len(lines) > 8 else "")
    last = resume.found(run.output)
    back = f"the last good checkpoint is {last[-1]}" if last else "no checkpoint was written yet"
    return f"update {run.progress.step + 1}: {what}; batch of training lines {shown}; lower training.learning_rate; {back}"


class _Stop:
    """Ctrl-C or SIGTERM once: save and leave; twice: leave at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.before: dict[int, Any] = {}

    def __enter__(self) -> _Stop:
        with contextlib.suppress(ValueError):  # not the main thread: signals are somebody else's
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self.caught)
        return self

    def caught(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        print("\nstopping after this update; once more to leave at once", file=sys.stderr)
        for which in self.before:
            signal.signal(which, signal.SIG_DFL)

    def __exit__(self, *error: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


class Stopped(KeyboardInterrupt):
    """A training was stopped by a signal, and what it had learned is saved."""


def train(recipe: Recipe, output: Path, resumed: bool = False, bar: bool = True) -> Result:
    """Train by a recipe into `output`, which ends as the finished model folder.

    resumed: go on from the newest good checkpoint, if there is one. Stopped after a signal, when all is saved.
    """
    keep_memory()
    if recipe.training.threads:
        torch.set_num_threads(recipe.training.threads)
    prepared = prepare(recipe)
    run = Run(recipe, prepared, output)
    folder = resume.newest(output, _tell) if resumed else None
    if folder is not None:
        run.load(folder)
    output.mkdir(parents=True, exist_ok=True)
    journal = Journal(output, run.progress.step, bar and run.main, recipe.training.tensorboard)
    try:
        run.note_recipe()
        if folder is None and recipe.training.batch_tokens == "auto":
            journal.say(f"token budget {run.fit_budget(partial(_try_budget, run)):,}, the largest that fits")
        journal.say(prepared.summary())
        journal.say("\n".join([*run.notes, f"{run.weights()}; output {output}"]))
        if folder is not None:
            journal.say(f"going on after update {run.progress.step} from {folder}")
        with _Stop() as stop:
            reason = _drive(run, journal, stop)
        if stop.signal is not None:
            journal.say(f"stopped after update {run.progress.step}; `--resume` goes on from here")
            raise Stopped(stop.signal)
        scores = finish.finish(run, journal.say)
        draw(output)
    finally:
        journal.close()
    best = run.progress.best[0][0] if run.progress.best else None
    return Result(output, run.progress.step, run.elapsed, best, scores, reason)


def _try_budget(run: Run, budget: int) -> None:
    """Gradients of one batch as large as a budget allows, of the longest pairs."""
    forward_backward(run, [next(iter(ordered(run.prepared.train, budget, objective=run.prepared.objective)))])
    run.optimizer.zero_grad(set_to_none=True)


def _tell(text: str) -> None:
    print(text, file=sys.stderr)


def over(run: Run) -> str | None:
    """Why the training is over, None if it is not. Limits are absolute: a resumed run counts from its very beginning."""
    its, progress = run.recipe.training, run.progress
    if its.max_steps and progress.step >= its.max_steps:
        return f"update {progress.step} of training.max_steps {its.max_steps}"
    if its.max_minutes and run.elapsed >= 60 * its.max_minutes:
        return f"{run.elapsed / 60:.1f} of training.max_minutes {its.max_minutes:g}"
    if its.max_epochs and run.stream.epoch >= its.max_epochs:
        return f"training.max_epochs {its.max_epochs}"
    if its.patience and progress.waited >= its.patience:
        return f"{progress.waited} evaluations without a better {its.monitor} (training.patience)"
    return None


def _done(run: Run) -> float:
    its = run.recipe.training
    shares = [run.progress.step / its.max_steps if its.max_steps else 0.0]
    shares.append(run.elapsed / (60 * its.max_minutes) if its.max_minutes else 0.0)
    shares.append(run.stream.epoch / its.max_epochs if its.max_epochs else 0.0)
    return max(shares)


def _drive(run: Run, journal: Journal, stop: _Stop) -> str:
    its, progress = run.recipe.training, run.progress
    reason = over(run)
    if reason is not None:
        journal.say(f"nothing is left to do: {reason} is reached")
        return reason
    watch, first, high, saved = _Watch(), None, 0, progress.step
    for step in steps(run):
        watch.add(step)
        first = step.loss if first is None else first
        high = high + 1 if step.loss > 1.5 * first + 1.0 else 0
        if high >= DIVERGED:
            raise UserError(
                f"the loss has been above {1.5 * first + 1.0:.2f} for {high} updates: training has diverged at"
                f" update {step.number}; lower training.learning_rate"
            )
        if step.number % its.log_every == 0 and not step.skipped:
            entry = watch.entry(progress.skipped)
            journal.write(entry)
            journal.show(_done(run), entry)
        reason = over(run)
        better = False
        if not step.skipped and (step.number % its.evaluate_every == 0 or reason is not None) and stop.signal is None:
            better = _evaluate(run, journal)
            reason = reason or over(run)
        ending = reason is not None or stop.signal is not None
        if ending or better or (step.number % its.save_every == 0 and not step.skipped):
            saved = _save(run, journal)
        if ending:
            return reason or "a signal"
    raise AssertionError(f"unreachable: the stream of batches ended after update {saved}")


class _Watch:
    """Sums steps between two lines of the log."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.began = time.monotonic()

    def add(self, step: Step) -> None:
        self.steps.append(step)

    def entry(self, skipped: int) -> dict[str, Any]:
        """Figures of the steps since the last entry."""
        seconds = max(time.monotonic() - self.began, 1e-9)
        targets = sum(step.target_tokens for step in self.steps)
        entry = {
            "step": self.steps[-1].number,
            "loss": sum(step.loss * step.target_tokens for step in self.steps) / targets,
            "learning_rate": self.steps[-1].learning_rate,
            "grad_norm": self.steps[-1].grad_norm,
            "source_per_second": round(sum(step.source_tokens for step in self.steps) / seconds, 1),
            "target_per_second": round(targets / seconds, 1),
            "skipped": skipped,
        }
        self.steps, self.began = [], time.monotonic()
        return entry


def _evaluate(run: Run, journal: Journal) -> bool:
    its, progress = run.recipe.training, run.progress
    with run.in_use() as model:
        seen = tasks.find(run.recipe.task.kind).look(model, run.recipe, run.prepared)
    value = seen.value(its.monitor)
    better = not progress.best or value > progress.best[0][0]
    progress.waited = 0 if better else progress.waited + 1
    progress.history.append(seen.entry(progress.step))
    ranked = sorted([*progress.best, (value, progress.step)], reverse=True)  # among equals the later
    wanted = ranked[: its.average_count if its.average == "best" else 1]
    enters = (value, progress.step) in wanted
    progress.best = wanted
    journal.write(progress.history[-1])
    journal.say(seen.line(progress.step) + ("  (best)" if better else ""))
    for source, text, reference in seen.samples:
        journal.say(f"    {source}\n  → {text}\n  = {reference}")
    return enters


def _save(run: Run, journal: Journal) -> int:
    its = run.recipe.training
    try:
        run.save()
    except OSError as error:
        journal.say(
            f"cannot write the checkpoint of update {run.progress.step}: {error}; training goes on, the last one is kept"
        )
        return run.progress.step
    if run.main:
        keep = [resume.folder_of(run.output, step) for _, step in run.progress.best]
        last = max(its.keep_last, its.average_count if its.average == "last" else 1)
        resume.prune(run.output, last, keep)
    return run.progress.step

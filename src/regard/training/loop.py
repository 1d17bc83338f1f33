"""The training loop: `steps` is a generator of updates, `train` drives it, watches, saves and finishes."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from regard.batches import Batch, ordered
from regard.errors import UserError
from regard.layers.memory import keep_memory
from regard.training import finish, parallel, ranks, resume, tasks
from regard.training.adapt import too_long
from regard.training.journal import Journal, Silence, draw
from regard.training.optimizers import learning_rate
from regard.training.output import RECIPE, alone
from regard.training.prepare import prepare
from regard.training.recipe import Recipe
from regard.training.run import Progress, Run

DIVERGED = 200
"""Updates in a row with a loss well above the first one's after which a training counts as lost."""

OVERFLOWS = 100
"""Updates in a row dropped because a gradient overflowed (fp16) after which a training counts as lost: each halves the
factor of the loss, and seventeen make it less than one."""


@dataclass(frozen=True)
class Step:
    """One update. loss: nats per target token, smoothing included. skipped: a gradient overflowed (fp16) and the update
    was dropped. source_tokens, target_tokens: real tokens it saw, the sources on this rank, the targets on all."""

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


def forward_backward(run: Run, group: list[Batch]) -> tuple[float, int]:
    """Gradients of a group of batches, as if they were one: the loss is summed over all their target tokens, on all ranks,
    and divided by how many those are. Gives the loss per token and their number."""
    count = max(1, int(ranks.total([sum(batch.target_tokens for batch in group)])[0]))  # there may be nothing to predict
    total = torch.zeros((), device=run.device)
    for number, batch in enumerate(group, 1):
        exchanged = contextlib.nullcontext() if number == len(group) else parallel.unsynchronised(run.model)
        with exchanged, run.autocast():
            loss: torch.Tensor = run.model(batch.to(run.device))
            if not batch.target_tokens:  # a row that another rank counts, or nothing to predict
                loss = loss * 0.0
            run.backward(loss * (ranks.world() / count))  # DDP and FSDP take the mean over ranks
        total += loss.detach()
    return ranks.total([float(total)])[0] / count, count


def steps(run: Run) -> Iterator[Step]:
    """Train for ever, an update at a time. UserError, naming the batch, when the loss is not a number."""
    its, progress = run.recipe.training, run.progress
    weights, in_row = [p for p in run.plain.parameters() if p.requires_grad], 0
    while True:
        group = run.stream.update()
        rate = learning_rate(its, progress.step + 1, run.elapsed)
        for part in run.optimizer.param_groups:
            part["lr"] = rate
        loss, count = forward_backward(run, group)
        norm = run.shorten(weights, its.clip_norm or math.inf)
        if not math.isfinite(loss) or (not math.isfinite(norm) and run.scaler is None):
            raise UserError(_lost(run, group, f"the loss is {loss}, the gradient's norm {norm}"))
        skipped = not run.update()
        in_row = in_row + 1 if skipped else 0
        if in_row >= OVERFLOWS:
            raise UserError(_lost(run, group, f"gradients have overflowed for {in_row} updates in a row"))
        if skipped:
            progress.skipped += 1
        else:
            progress.step += 1
            run.average_step()
        progress.tokens += count
        yield Step(progress.step, loss, rate, norm, sum(batch.source_tokens for batch in group), count, skipped)


def _lost(run: Run, group: list[Batch], what: str) -> str:
    lines = sorted(line for part in ranks.gather(run.stream.lines(group)) for line in part)
    shown = ", ".join(map(str, lines[:8])) + (f" and {len(lines) - 8} more" if len(lines) > 8 else "")
    last = resume.found(run.output)
    back = f"the last good checkpoint is {last[-1]}" if last else "no checkpoint was written yet"
    half = ", or set training.precision to bf16, which does not end at 65,504" if run.scaler is not None else ""
    where = f"update {run.progress.step + 1}: {what}; batch of training lines {shown}"
    return f"{where}; lower training.learning_rate{half}; {back}"


class _Stop:
    """Ctrl-C, SIGTERM or a closed terminal once: save and leave; twice: leave at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.before: dict[int, Any] = {}

    def __enter__(self) -> _Stop:
        with contextlib.suppress(ValueError):  # not the main thread: signals are somebody else's
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a job in the background
                    self.before[number] = signal.signal(number, self.caught)
        return self

    def caught(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        with contextlib.suppress(OSError):  # not print: the signal may have come in the middle of one
            os.write(2, b"\nstopping after this update; once more to leave at once\n")
        for which in self.before:
            signal.signal(which, signal.SIG_DFL)

    def __exit__(self, *error: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


class Stopped(KeyboardInterrupt):
    """A training was stopped by a signal, and what it had learned is saved."""


def train(recipe: Recipe, output: Path, resumed: bool = False, bar: bool = True) -> Result:
    """Train by a recipe into `output`, which ends as the finished model folder.

    resumed: go on from the newest good checkpoint, if there is one. Stopped after a signal, when all is saved. Started by
    torchrun, all its processes train together.
    """
    keep_memory()
    ranks.join(recipe.training.device == "cpu")
    if recipe.training.threads:
        torch.set_num_threads(recipe.training.threads)
    prepared = ranks.in_turn(lambda: prepare(recipe))
    run = Run(recipe, prepared, output)
    with alone(output) if run.main else contextlib.nullcontext():
        return _train(run, bar, resumed)


def _train(run: Run, bar: bool, resumed: bool) -> Result:
    recipe, prepared, output = run.recipe, run.prepared, run.output
    folder = ranks.first(lambda: resume.newest(output, _tell)) if resumed else None
    if folder is not None:
        run.load(folder)
        _prune(run)  # whoever was killed between a checkpoint and this, perhaps the last one
    run.note_recipe()
    seen = run.progress.history[-1]["step"] if run.progress.history else 0
    its = recipe.training
    journal = Journal(output, run.progress.step, bar, its.tensorboard, seen) if run.main else Silence()
    try:
        if folder is None and recipe.training.batch_tokens == "auto":
            journal.say(f"token budget {run.fit_budget(partial(_try_budget, run)):,}, the largest that fits")
        journal.say(prepared.summary())
        journal.say(
            "\n".join([*too_long(run.stream.report, run.limits, prepared), *run.notes, f"{run.weights()}; output {output}"])
        )
        if folder is not None:
            journal.say(f"going on after update {run.progress.step} from {folder}")
        with _Stop() as stop:
            reason = _drive(run, journal, stop)
        if run.agree(stop.signal is not None):
            journal.say(f"stopped after update {run.progress.step}; `--resume` goes on from here")
            raise Stopped(stop.signal)
        scores = finish.finish(run, journal.say)
        with contextlib.suppress(OSError):  # the model is there, the picture can be drawn again
            if run.main:
                draw(output)
    finally:
        journal.close()
    best = run.progress.best[0][0] if run.progress.best else None
    return Result(output, run.progress.step, run.elapsed, best, scores, reason)


def _try_budget(run: Run, budget: int) -> None:
    """Gradients of one batch as large as a budget allows, of the longest pairs; each rank by itself."""
    batch = next(iter(ordered(run.prepared.train, budget, objective=run.prepared.objective))).to(run.device)
    with parallel.unsynchronised(run.model), run.autocast():
        run.backward(run.model(batch))
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
    run.agree(False)
    if progress.step and _unseen(run):  # a signal came before the evaluation that was due
        before = progress.best
        better = _evaluate(run, journal)
        _save(run, journal, better or progress.step in progress.saved or over(run) is not None, before)
    reason = over(run)
    if reason is not None:
        journal.say(f"nothing is left to do: {reason} is reached")
        return reason
    watch = _Watch(progress)
    for step in steps(run):
        watch.add(step)
        stopping = run.agree(stop.signal is not None)
        if step.number % its.log_every == 0 and not step.skipped:
            entry = watch.entry(step)
            journal.write(entry)
            journal.show(_done(run), entry)
        reason = over(run)
        before, better = progress.best, False
        if not step.skipped and _unseen(run) and not stopping:
            better = _evaluate(run, journal)
            reason = reason or over(run)
        due = better or reason is not None or (step.number % its.save_every == 0 and not step.skipped)
        if due or stopping:
            _save(run, journal, due, before)
        if stopping:
            stop.signal = stop.signal or signal.SIGTERM  # of another rank
        if reason is not None or stopping:
            return reason or "a signal"
    raise AssertionError("unreachable: a stream of batches has no end")


class _Watch:
    """Sums steps between two lines of the log, and sees when a training is lost. what it sums is part of the progress, so
    that a resumed run writes the same lines."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.source, self.target = progress, 0, 0
        self.began = time.monotonic()

    def add(self, step: Step) -> None:
        """Take a step. UserError: the loss has been too high for too long."""
        its = self.progress
        self.source, self.target = self.source + step.source_tokens, self.target + step.target_tokens
        its.loss_sum += step.loss * step.target_tokens
        its.loss_tokens += step.target_tokens
        its.first_loss = step.loss if its.first_loss is None else its.first_loss
        most = 1.5 * its.first_loss + 1.0
        its.high = its.high + 1 if step.loss > most else 0
        if its.high >= DIVERGED:
            raise UserError(
                f"the loss has been above {most:.2f} for {its.high} updates: training has diverged at update {step.number};"
                " lower training.learning_rate"
            )

    def entry(self, step: Step) -> dict[str, Any]:
        """Figures of the steps since the last entry, of which `step` is the last."""
        its, seconds = self.progress, max(time.monotonic() - self.began, 1e-9)
        sources = ranks.total([self.source])[0]
        entry = {
            "step": step.number,
            "loss": its.loss_sum / its.loss_tokens,
            "learning_rate": step.learning_rate,
            "grad_norm": step.grad_norm,
            "source_per_second": round(sources / seconds, 1),
            "target_per_second": round(self.target / seconds, 1),
            "skipped": its.skipped,
        }
        its.loss_sum, its.loss_tokens = 0.0, 0
        self.source, self.target, self.began = 0, 0, time.monotonic()
        return entry


def _unseen(run: Run) -> bool:
    """Whether the weights are due for an evaluation that they have not had."""
    its, progress = run.recipe.training, run.progress
    due = progress.step % its.evaluate_every == 0 or over(run) is not None
    return due and all(entry["step"] != progress.step for entry in progress.history[-1:])


def _evaluate(run: Run, journal: Journal) -> bool:
    its, progress = run.recipe.training, run.progress
    with run.in_use() as model:
        found = tasks.find(run.recipe.task.kind).look(model, run.recipe, run.prepared)
    seen = ranks.first(lambda: found)
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


def _save(run: Run, journal: Journal, due: bool, before: list[tuple[float, int]]) -> None:
    """Write a checkpoint. due: an unbroken run would write it too. before: the best ones until now, which stay that where
    the disk does not take this one."""
    its, progress = run.recipe.training, run.progress
    if due and progress.step not in progress.saved:
        last = max(its.keep_last, its.average_count if its.average == "last" else 1)
        progress.saved = [*progress.saved, progress.step][-last:]
    if run.main and not (run.output / RECIPE).is_file():
        journal.say(f"{run.output} is gone; it is made anew, with what comes from here on")
    try:
        run.save()
    except OSError as error:
        progress.best = before
        journal.say(
            f"cannot write the checkpoint of update {progress.step}: {error}; training goes on, the last one is kept"
        )
        return
    _prune(run)


def _prune(run: Run) -> None:
    """Delete the checkpoints that the newest one makes needless."""
    its = run.progress
    if run.main:
        resume.prune(run.output, {*its.saved, *(step for _, step in its.best)}, its.step)

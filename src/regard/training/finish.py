"""The end of a training: choose the weights, write the model folder, score it on the test pairs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.checkpoints.average import mean_weights
from regard.evaluation.files import write_lines
from regard.evaluation.quality import draw
from regard.training import parallel, ranks, resume, tasks
from regard.training.run import Run
from regard.training.validate import calibrated

RELIABILITY = "reliability.png"
"""The picture of how far the estimate of quality can be relied on."""


def finish(run: Run, tell: Callable[[str], None]) -> dict[str, Any]:
    """Write the finished model into the run's folder; gives the test scores by metric ({} without test pairs)."""
    chosen = choose(run, tell)
    its = run.recipe.evaluation
    tell(f"finished model: {chosen}")
    run.plain.eval()
    meta = run.meta() | {"weights": chosen}
    scores: dict[str, Any] = {}
    with parallel.gathered(run.model):
        tested = tasks.find(run.recipe.task.kind).test(run.plain, run.recipe, run.prepared)
        if tested is not None:
            scores = tested.scores
            if tested.texts is not None and run.main:
                write_lines(run.output / "test.hyp", tested.texts)
            for name, s in scores.items():
                tell(f"test {name} {s['value']:.2f}  {s['signature']}")
        quality = ranks.first(lambda: calibrated(run.plain, run.recipe, run.prepared)) if its.calibrate else None
        if quality is not None:
            meta["quality"] = quality.formula
            tell("\n".join(quality.lines()))
    model = run.whole()
    ranks.first(lambda: run.write_model(run.output, meta | {"scores": scores}, model))
    if quality is not None and run.main:
        with contextlib.suppress(OSError):  # the estimate is there, the picture can be drawn again
            draw(quality, run.output / RELIABILITY)
    return scores


def choose(run: Run, tell: Callable[[str], None]) -> str:
    """Put the weights that the recipe asks for into the model; says in words which they are. Checkpoints that are damaged or
    gone are named through `tell` and left out."""
    its, progress = run.recipe.training, run.progress
    ranked = [step for _, step in progress.best]
    if its.average == "last":
        ranked = (progress.saved or [resume.step_of(folder) for folder in resume.found(run.output)])[-its.average_count :]
    good = [step for step in ranked if _good(run.output, step, tell)]
    folders = [resume.folder_of(run.output, step) for step in good]
    if its.average != "none" and folders:
        run.put(mean_weights(folders))
        return f"mean of the {its.average} {len(folders)} checkpoints, updates {', '.join(map(str, good))}"
    if its.average == "none" and folders:
        tensors, _ = run.read(folders[0])
        run.load_weights(folders[0], tensors)
        if run.average is not None:
            averages = {key.removeprefix("average/"): value for key, value in tensors.items() if key.startswith("average/")}
            run.put(averages)
        value = -progress.best[0][0] if its.monitor == "loss" else progress.best[0][0]
        kind = "running mean of the weights" if run.average is not None else "weights"
        return f"{kind} after update {good[0]}, the best by {its.monitor} ({value:.3f})"
    return f"weights after update {progress.step}"


def _good(output: Path, step: int, tell: Callable[[str], None]) -> bool:
    folder = resume.folder_of(output, step)
    fault = resume.damage(folder) if folder.is_dir() else "it is gone"
    if fault is not None:
        tell(f"checkpoint {folder} is left out of the finished model: {fault}")
    return fault is None

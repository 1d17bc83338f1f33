"""The end of a training: choose the weights, write the model folder, score it on the test pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.checkpoints.average import mean_weights
from regard.evaluation.files import write_lines
from regard.training import resume, tasks
from regard.training.run import Run


def finish(run: Run, tell: Callable[[str], None]) -> dict[str, Any]:
    """Write the finished model into the run's folder; gives the test scores by metric ({} without test pairs)."""
    if not run.main:
        run.accelerator.wait_for_everyone()
        return {}
    chosen = choose(run)
    tell(f"finished model: {chosen}")
    run.plain.eval()
    meta = run.meta() | {"weights": chosen}
    scores: dict[str, Any] = {}
    tested = tasks.find(run.recipe.task.kind).test(run.plain, run.recipe, run.prepared)
    if tested is not None:
        scores = tested.scores
        if tested.texts is not None:
            write_lines(run.output / "test.hyp", tested.texts)
        for name, s in scores.items():
            tell(f"test {name} {s['value']:.2f}  {s['signature']}")
    run.write_model(run.output, meta | {"scores": scores})
    run.accelerator.wait_for_everyone()
    return scores


def choose(run: Run) -> str:
    """Put the weights that the recipe asks for into the model; says in words which they are."""
    its, progress = run.recipe.training, run.progress
    if its.average != "none":
        ranked = [resume.folder_of(run.output, step) for _, step in progress.best]
        folders = ranked if its.average == "best" else resume.found(run.output)[-its.average_count :]
        folders = [folder for folder in folders if folder.is_dir()]
        run.plain.load_state_dict(mean_weights(folders), strict=False)
        updates = ", ".join(str(resume.step_of(folder)) for folder in folders)
        return f"mean of the {its.average} {len(folders)} checkpoints, updates {updates}"
    best = resume.folder_of(run.output, progress.best[0][1]) if progress.best else None
    if best is not None and best.is_dir():
        tensors, _ = resume.read(best)
        run.load_weights(best, tensors)
        if run.average is not None:
            averages = {key.removeprefix("average/"): value for key, value in tensors.items() if key.startswith("average/")}
            run.plain.load_state_dict(averages, strict=False)
        value = -progress.best[0][0] if its.monitor == "loss" else progress.best[0][0]
        kind = "running mean of the weights" if run.average is not None else "weights"
        return f"{kind} after update {progress.best[0][1]}, the best by {its.monitor} ({value:.3f})"
    return f"weights after update {progress.step}"

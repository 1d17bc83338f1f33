"""regard tune: the length penalty that suits a model, kept in its folder."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from regard.errors import UserError


def command(
    model: Annotated[str, Argument(help="model folder; its settings are changed")],
    source: Annotated[str, Option("--source", "-s", help="file of sources of the development set")],
    references: Annotated[list[str], Option("--reference", "-r", help="file of references; may be repeated")],
    penalties: Annotated[str, Option(help="length penalties to try")] = "0,0.4,0.6,0.8,1,1.2,1.6",
    metric: Annotated[str, Option(help="bleu, chrf, chrf++ or ter")] = "bleu",
    num_beams: Annotated[int | None, Option("--num-beams", "--beam-size", help="kept as well; default: the model's")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="show the scores and change nothing")] = False,
    device: Annotated[str | None, Option(help="cpu, cuda, cuda:1 …; default: the GPU if there is one")] = None,
    json: Annotated[str | None, Option("--json", help="write one JSON document to this file (-: stdout)")] = None,
) -> None:
    """Translate a development set with each length penalty and keep the best in the model's folder, whoever made it."""
    from regard.checkpoints.settings import store
    from regard.evaluation.files import check_writable
    from regard.evaluation.task import task_of_files
    from regard.evaluation.tune import best_of_trials, tune_length
    from regard.files import write_json
    from regard.translator import load

    check_writable(json)
    if not Path(model).is_dir() and not dry_run:
        raise UserError(f"{model}: there is no such folder to keep settings in; --dry-run only shows the scores")
    values, translator = _numbers(penalties), load(model, device)
    task = task_of_files(source, references, translator.meta.get("source"), translator.meta.get("target"))
    stream = sys.stderr if json == "-" else sys.stdout

    def tell(one: Any) -> None:
        print(f"length penalty {one.length_penalty:4g}  {metric} {one.score:6.2f}  length {one.ratio:.3f}", file=stream)

    trials = tune_length(translator, task, metric, values, num_beams, tell)
    best = best_of_trials(trials, metric)
    kept = {"length_penalty": best.length_penalty} | ({} if num_beams is None else {"num_beams": num_beams})
    if not dry_run:
        store(Path(model), kept)
    print(f"best: {best.length_penalty:g}" + ("" if dry_run else f", kept in {model}"), file=stream)
    if json is not None:
        write_json(json, {"folder": model, "metric": metric, "trials": [asdict(one) for one in trials], "best": kept})


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--penalties takes numbers such as 0.6,0.8,1, not {text!r}") from None

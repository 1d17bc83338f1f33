"""regard rerank: weights for choosing among a translator's best answers, found on a development set."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from regard.cli.craft import VERSION, More, opened, scorer, told_from
from regard.errors import UserError


def command(
    model: Annotated[str, Argument(help="model folder, or name on the Hugging Face hub")],
    source: Annotated[str, Option("--source", "-s", help="file of sources of the development set")],
    references: Annotated[list[str], Option("--reference", "-r", help="file of references; may be repeated")],
    output: Annotated[str, Option("--output", "-o", help="file of weights, for --rerank of translate and evaluate")],
    more: More = None,
    reverse: Annotated[str | None, Option(help="model folder that translates the other way round")] = None,
    language: Annotated[str | None, Option(help="folder of a language model of the target language")] = None,
    right_to_left: Annotated[str | None, Option(help="model folder that writes from the end of the target")] = None,
    candidates: Annotated[int, Option(min=2, help="best answers to choose among")] = 10,
    metric: Annotated[str, Option(help="bleu, chrf, chrf++ or ter")] = "bleu",
    samples: Annotated[int, Option(min=1, help="bootstrap resamples")] = 1000,
    seed: Annotated[int, Option(min=1, help="of the search and of the resamples")] = 1,
    device: Annotated[str | None, Option(help="cpu, cuda, cuda:1 …; default: the GPU if there is one")] = None,
    json: Annotated[str | None, Option("--json", help="write one JSON document to this file (-: stdout)")] = None,
) -> None:
    """Find weights for a reverse model, a language model and a right-to-left model, and test what they gain on halves of the
    development set that they were not found on."""
    from regard.evaluation.files import check_writable
    from regard.evaluation.rerank import Reranker, tune
    from regard.evaluation.task import task_of_files
    from regard.files import write_json

    folders = {"reverse": reverse, "language": language, "right_to_left": right_to_left}
    chosen = {kind: folder for kind, folder in folders.items() if folder is not None}
    if not chosen:
        raise UserError("nothing to rerank with: give --reverse, --language or --right-to-left")
    for path in (output, json):
        check_writable(path)
    translator = opened(model, more, device)
    task = task_of_files(source, references, translator.meta.get("source"), translator.meta.get("target"))
    scorers = [scorer(kind, folder, device) for kind, folder in chosen.items()]
    found = tune(
        Reranker(translator, scorers, candidates=candidates), list(task.sources or ()), task.references, metric, seed
    )
    told = {kind: told_from(Path(output).parent, folder) for kind, folder in chosen.items()}
    document = {"version": VERSION, "candidates": candidates, "models": told, "weights": found.weights}
    write_json(output, document)
    _tell(found, task, (metric, samples, seed), json, document)


def _tell(found: Any, task: Any, how: tuple[str, int, int], json: str | None, document: dict[str, Any]) -> None:
    from regard.evaluation.compare import Comparing, compare
    from regard.evaluation.scores import Scoring
    from regard.files import write_json

    metric, samples, seed = how
    options = Comparing((metric,), samples, seed, worst=0, scoring=Scoring(task.target_language))
    tested = compare(task.references, found.first, found.held_out, task.sources, ("as it is", "reranked"), options)
    (test,) = tested.tests
    stream = sys.stderr if json == "-" else sys.stdout
    for name, weight in found.weights.items():
        print(f"{name:14} {weight:8.3f}", file=stream)
    print(f"{metric} of {len(task):,} sentences: {found.before:.2f}, with these weights {found.after:.2f}", file=stream)
    gap = f"{test.difference:+.2f} [{test.low:+.2f}, {test.high:+.2f}], p {test.p_value:.4f}"
    print(f"weights of one half on the other: {test.second.score:.2f}, {gap} (paired bootstrap)", file=stream)
    if json is not None:
        figures = {"before": found.before, "after": found.after, "held_out": tested.json()["tests"][0]}
        write_json(json, document | {"metric": metric, "development": figures})

"""What translate, evaluate and compare share: several models at once, and the choice among many candidates."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from regard.errors import UserError
from regard.files import parsed

More = Annotated[
    list[str] | None,
    Option("--with", help="a further model of the same tokenizer: the mean of all is used; may be repeated"),
]
Utility = Annotated[
    str | None, Option("--mbr", help="of many candidates the one most like the others: chrf or bleu (minimum Bayes risk)")
]
Candidates = Annotated[int | None, Option(help="of --mbr; 32 by default; with --sample they are drawn")]
Rerank = Annotated[str | None, Option(help="choose among candidates by the models and weights of this file (regard rerank)")]
Groups = Annotated[int | None, Option("--num-beam-groups", help="diverse beams: groups that the beams are parted into")]
Diversity = Annotated[float | None, Option("--diversity-penalty", help="what a token costs that an earlier group wrote")]

VERSION = 1


def opened(model: str, more: Sequence[str] | None, device: str | None = None, dtype: str | None = None) -> Any:
    """The translator of a folder, or the ensemble of several."""
    from regard.translator import load

    if not more:
        return load(model, device, dtype)
    from regard.loading import load as load_several

    return load_several([model, *more], device, dtype)


def scorer(kind: str, folder: str, device: str | None = None) -> Any:
    """A further model for reranking. UserError: it is of another kind."""
    from regard.evaluation.rerank import Scorer
    from regard.generator import Generator
    from regard.loading import load_as
    from regard.translator import Translator

    loaded: Any = load_as(Generator if kind == "language" else Translator, folder, device)
    return Scorer(kind, loaded, _steps(loaded.meta, folder))


def _steps(meta: dict[str, Any], folder: str) -> tuple[Callable[[str], str], Callable[[str], str]]:
    """What was done to the text that a model learned from, for its source and its target."""
    from regard.training.preprocess import STEPS

    steps = list(meta.get("preprocess") or [])
    unknown = [name for name in steps if name not in STEPS]
    if unknown:
        raise UserError(f"{folder}: was trained on text after the unknown step {unknown[0]!r}")
    sides = [STEPS[name](str(meta.get("source")), str(meta.get("target"))) for name in steps]

    def chain(side: int) -> Callable[[str], str]:
        return lambda text: reduce(lambda done, step: step[side](done), sides, text)

    return chain(0), chain(1)


def reranked(translator: Any, path: str, device: str | None = None) -> Any:
    """The translator with the choice that a file of `regard rerank` describes. UserError: it is no such file."""
    from regard.evaluation.rerank import Reranker

    try:
        told = parsed(Path(path).read_text(encoding="utf-8"))
        version, models, weights, count = (told[key] for key in ("version", "models", "weights", "candidates"))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{path}: is not a file that regard rerank wrote") from None
    if version != VERSION:
        raise UserError(f"{path}: version {version}; this regard reads version {VERSION}")
    base = Path(path).resolve().parent
    scorers = [scorer(kind, _place(base, folder), device) for kind, folder in models.items()]
    return Reranker(translator, scorers, weights, count)


def _place(base: Path, folder: str) -> str:
    """A folder that is told relative to a file, or a name of the Hub as it is."""
    return str(base / folder) if (base / folder).is_dir() else folder


def told_from(base: Path, folder: str) -> str:
    """How a file in the folder `base` tells where a model is: `_place` backwards."""
    return os.path.relpath(Path(folder).resolve(), base.resolve()) if Path(folder).is_dir() else folder

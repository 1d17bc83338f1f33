"""regard shortlist: which target tokens are likely beside which source tokens, for faster translation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.text.corpus import Pair


def command(
    model: Annotated[str, Argument(help="folder of a translator; the shortlist is put into it")],
    data: Annotated[
        str | None, Option(help="parallel text: a .tsv, .jsonl or .parquet file, or SRC,TGT; default: the recipe's")
    ] = None,
    near: Annotated[int, Option(min=1, help="target tokens kept for each source token")] = 40,
    common: Annotated[int, Option(min=1, help="frequent target tokens that are always scored")] = 200,
    max_pairs: Annotated[int, Option(min=1, help="learn from the first so many pairs only")] = 100_000,
) -> None:
    """Learn a shortlist of the vocabulary from parallel text, for `regard translate --shortlist`."""
    folder = Path(model)
    if not folder.is_dir():
        raise UserError(f"{model}: no such folder")
    from regard.decoding.shortlist import Shortlist
    from regard.translator import load

    translator = load(model, device="cpu")
    pairs = _pairs(folder, data, translator)[:max_pairs]
    tokenizers = translator.tokenizers
    source = tokenizers.source.encode_batch([pair.source for pair in pairs])
    target = tokenizers.target.encode_batch([pair.target for pair in pairs])
    size = translator.model.description.encoder.embed.vocab_size
    path = Shortlist.learn(zip(source, target), size, common, near).save(folder)
    print(f"{path}: from {len(pairs):,} pairs", file=sys.stderr)


def _pairs(folder: Path, data: str | None, translator: Any) -> list[Pair]:
    """The pairs to learn from: those that are named, or those that the model was trained on."""
    from regard.text.corpus import open_corpus

    if data is not None:
        return open_corpus(data, translator.meta.get("source") or "source", translator.meta.get("target") or "target")
    recipe = folder / "recipe.yaml"
    if not recipe.is_file():
        raise UserError(f"{folder}: has no recipe.yaml that names its training data: give --data")
    from regard.training.prepare import read_split
    from regard.training.recipe import load_recipe

    return read_split(load_recipe(str(recipe)), "train")

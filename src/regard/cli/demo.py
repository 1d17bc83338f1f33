"""`regard demo`: train a toy translator from nothing in two minutes, and try it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.text.corpus import Pair
    from regard.training.recipe import Recipe
    from regard.translator import Translator

PAIRS = {
    "en-fr": [],
    "en-zh": ["data.name=grammar-en-zh", "data.target=zh", "tokenizer.target_kind=characters"],
}
"""What the recipe "demo" is told for each pair of languages; a Chinese character is a token."""
LANGUAGES = {"en-fr": "English to French", "en-zh": "English to Chinese"}
SHOWN = 5


def command(
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="key.path=value for each setting of the recipe to change", show_default=False),
    ] = None,
    pair: Annotated[str, typer.Option("--pair", help="languages: en-fr or en-zh")] = "en-fr",
    output: Annotated[
        str | None, typer.Option("--output", help="folder of the model; by default a new one in runs/", show_default=False)
    ] = None,
    json: Annotated[str | None, typer.Option("--json", help="write the result as one JSON document; '-': stdout")] = None,
) -> None:
    """Train a toy translator from nothing in two minutes and try it: regard demo --pair en-zh

    It learns from sentences of a built-in grammar and is tried on sentences that it has never seen.
    """
    if pair not in PAIRS:
        raise UserError(f"--pair: no grammar for {pair!r}; there are {', '.join(PAIRS)}")
    from regard.training.output import claim
    from regard.training.recipe import load_recipe

    recipe = load_recipe("demo", [*PAIRS[pair], *(settings or [])])
    folder = _fresh(Path("runs") / f"demo-{pair}") if output is None else Path(output).expanduser()
    claim(folder, recipe)
    from regard.training.loop import train

    print(f"regard demo: {LANGUAGES[pair]}, learned from nothing\n", file=sys.stderr)
    result = train(recipe, folder)
    from regard.translator import load

    translator, samples = load(folder), unseen(recipe)
    texts = translator.translate([one.source for one in samples])
    document = summary(folder, result.seconds, result.scores, samples, texts)
    out = sys.stderr if json == "-" else sys.stdout
    print(report(document, picture(translator, samples, texts)), file=out)
    if json is not None:
        from regard.files import write_json

        write_json(json, document)


def _fresh(folder: Path) -> Path:
    """The folder, or with the first number behind it that is not taken."""
    number, free = 1, folder
    while free.exists():
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    return free


def unseen(recipe: Recipe) -> list[Pair]:
    """Test sentences to show, evenly taken from first to last; none of them is in the training data."""
    from regard.training.prepare import read_split

    pairs = read_split(recipe, "test")
    return pairs[:: max(1, len(pairs) // SHOWN)][:SHOWN]


def summary(folder: Path, seconds: float, scores: dict[str, Any], samples: list[Pair], texts: list[str]) -> dict[str, Any]:
    """What --json writes: scores are per cent (chrF and BLEU on their scale of 100)."""
    values = {name: scores[name]["value"] for name in ("exact_match", "bleu", "chrf")}
    shown = [
        {"source": one.source, "translation": text, "reference": one.target}
        for one, text in zip(samples, texts, strict=True)
    ]
    return {"folder": str(folder), "train_seconds": round(seconds, 1), **values, "samples": shown}


def picture(translator: Translator, samples: list[Pair], texts: list[str]) -> str:
    """Where the model looked while it wrote the longest of the right translations (of all, if none is right)."""
    from regard.inspection.tape import align
    from regard.inspection.views import alignment_text

    both = zip(samples, texts, strict=True)
    one, text = max(both, key=lambda pair: (pair[0].target == pair[1], len(pair[0].source)))
    read, written = translator.tokenizers.source.tokens(one.source), translator.tokenizers.target.tokens(text)
    few = 2 * len(read.ids) + 10  # a model that has learned nothing writes without end
    begin, end = translator.marks()
    weights = align(translator.model, [*read.ids, end], [begin, *written.ids][:few])
    columns = [one.source[start:end] for start, end in read.offsets]
    rows = [text[start:end] for start, end in written.offsets]
    width = shutil.get_terminal_size().columns
    return alignment_text([*columns, "(end)"], [*rows, "(end)"][:few], weights, width)


def report(document: dict[str, Any], drawn: str) -> str:
    """What is shown at the end."""
    lines = [
        "",
        f"trained in {document['train_seconds']:.0f} seconds; on sentences it has never seen:",
        f"  {document['exact_match']:.1f} % translated exactly, BLEU {document['bleu']:.1f}, chrF {document['chrf']:.1f}",
        "",
    ]
    for one in document["samples"]:
        right = one["translation"] == one["reference"]
        lines += [f"  {one['source']}", f"  → {one['translation']}" + ("" if right else f"\n  ≠ {one['reference']}"), ""]
    lines += ["where it looked while it wrote (rows: what it wrote, columns: what it read):", "", drawn, ""]
    folder = document["folder"]
    lines += [
        "what to type next:",
        f'  regard translate {folder} "{document["samples"][0]["source"]}"',
        f"  regard info {folder}",
        "  regard init my.tsv --source en --target fr     # your own text",
    ]
    return "\n".join(lines)

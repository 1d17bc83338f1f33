"""regard classify: a label for each text, pair of texts or image; of a model of tokens, one for each token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from regard.cli.streams import Writer, argument, chunks, out
from regard.cli.translating import Report
from regard.errors import UserError


def command(
    model: Annotated[str, Argument(help="model folder, or name on the Hugging Face hub")],
    text: Annotated[list[str] | None, Argument(help="texts, a tab between the two of a pair; none: lines of stdin")] = None,
    image: Annotated[list[str] | None, Option("--image", help="image files, in place of texts")] = None,
    input: Annotated[str | None, Option("--input", "-i", help="read lines of this file, plain or compressed")] = None,
    output: Annotated[str | None, Option("--output", "-o", help="write here, whole or not at all")] = None,
    json: Annotated[str | None, Option("--json", help="write one JSON document to this file (-: stdout)")] = None,
    jsonl: Annotated[bool, Option("--jsonl", help="write one JSON object a line, with every label's probability")] = False,
    batch_tokens: Annotated[int | None, Option(min=1, help="tokens of a batch; changes speed, not answers")] = None,
    device: Annotated[str | None, Option(help="cpu, cuda, cuda:1 …; default: the GPU if there is one")] = None,
    dtype: Annotated[str | None, Option(help="float32, bfloat16, float16, int8 (CPU); default: as stored")] = None,
) -> None:
    """Classify texts given as arguments, or else lines of stdin, or images: LABEL, a tab and its probability a line.

    A model that labels tokens writes TOKEN/LABEL for each token of a line; --jsonl adds where in the text they stand.
    """
    if image is not None and input is not None:
        raise UserError("give either --image FILES or --input FILE, not both")
    given = None if image is None else [*image, *(text or ())]
    texts = chunks(text, input, "texts to classify") if given is None else [[argument(name) for name in given]]
    classifier = _load(model, device, dtype)
    options = {} if batch_tokens is None else {"batch_tokens": batch_tokens}
    with out(output) as file:
        writer, report = Writer(file, jsonl, json), Report()
        for chunk in texts:
            inputs = [Path(name) for name in chunk] if given is not None else [_input(line) for line in chunk]
            found = classifier.classify(inputs, details=True, **options)
            for one in found:
                report.lines += 1
                if one.truncated:
                    report.note("shortened", report.lines)
            writer.answers((_line(classifier, one), one.json()) for one in found)
        writer.close("answers")
        report.close()


def _load(model: str, device: str | None, dtype: str | None) -> Any:
    from regard.classifier import Classifier
    from regard.loading import load_as

    return load_as(Classifier, model, device, dtype)


def _input(line: str) -> str | tuple[str, ...]:
    """A text, or a pair where a tab stands between two."""
    parts = line.split("\t")
    return line if len(parts) != 2 else tuple(parts)


def _line(classifier: Any, one: Any) -> str:
    if classifier.of_tokens:
        return _tokens(one.tokens)
    return f"{one.label}\t{one.probability:.6f}"


def _tokens(tokens: Sequence[Any]) -> str:
    return " ".join(f"{token.text.strip()}/{token.label}" for token in tokens)

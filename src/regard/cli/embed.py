"""regard embed: a vector for each text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from typer import Argument, Option

from regard.cli.streams import Writer, chunks, out
from regard.cli.translating import Report
from regard.errors import UserError

if TYPE_CHECKING:
    import numpy as np


def command(
    model: Annotated[str, Argument(help="model folder, or name on the Hugging Face hub")],
    text: Annotated[list[str] | None, Argument(help="texts; none: lines of stdin")] = None,
    input: Annotated[str | None, Option("--input", "-i", help="read lines of this file, plain or compressed")] = None,
    output: Annotated[str | None, Option("--output", "-o", help="write here; FILE.npy: a NumPy array, a row a text")] = None,
    json: Annotated[str | None, Option("--json", help="write one JSON document to this file (-: stdout)")] = None,
    jsonl: Annotated[bool, Option("--jsonl", help="write one JSON object a line, text and vector")] = False,
    batch_tokens: Annotated[int | None, Option(min=1, help="tokens of a batch; changes speed, not answers")] = None,
    device: Annotated[str | None, Option(help="cpu, cuda, cuda:1 …; default: the GPU if there is one")] = None,
    dtype: Annotated[str | None, Option(help="float32, bfloat16, float16, int8 (CPU); default: as stored")] = None,
) -> None:
    """Give vectors of texts given as arguments, or else of lines of stdin: numbers with spaces between, a line a text."""
    texts = chunks(text, input, "texts")
    array = (output or "").endswith(".npy")
    if array and (jsonl or json is not None):
        raise UserError(f"{output} is a NumPy array: leave --json and --jsonl out, or give another --output")
    embedder = _load(model, device, dtype)
    options = {} if batch_tokens is None else {"batch_tokens": batch_tokens}
    report = Report()
    found = _embedded(embedder, texts, report, options)
    with out(output) as file:
        if array:
            _write_array(file, (vectors for _, vectors in found), embedder)
        else:
            writer = Writer(file, jsonl, json)
            for chunk, vectors in found:
                rows = zip(chunk, vectors.tolist())
                writer.answers((_numbers(row), {"text": text, "vector": row}) for text, row in rows)
            writer.close("vectors")
    report.close()


def _embedded(
    embedder: Any, texts: Iterable[list[str]], report: Report, options: dict[str, Any]
) -> Iterator[tuple[list[str], np.ndarray]]:
    """The texts with their vectors; those that lost their ends are named."""
    for chunk in texts:
        before = report.lines + 1
        yield (
            chunk,
            embedder.embed(chunk, tell=lambda number, first=before: report.note("shortened", first + number), **options),
        )
        report.lines += len(chunk)


def _load(model: str, device: str | None, dtype: str | None) -> Any:
    from regard.embedder import Embedder
    from regard.loading import load_as

    return load_as(Embedder, model, device, dtype)


def _numbers(row: list[float]) -> str:
    return " ".join(f"{value:.8g}" for value in row)


def _write_array(file: BinaryIO, blocks: Iterable[np.ndarray], embedder: Any) -> None:
    """Rows as they come; the header, which says how many there are, is written again at the end (its length is kept by the
    space that the format leaves for this)."""
    import numpy as np

    width = embedder.embed([]).shape[1]

    def head(rows: int) -> None:
        file.seek(0)
        shape = {"descr": np.lib.format.dtype_to_descr(np.dtype("<f4")), "fortran_order": False, "shape": (rows, width)}
        np.lib.format.write_array_header_1_0(file, shape)

    head(0)
    place, count = file.tell(), 0
    for block in blocks:
        file.write(np.ascontiguousarray(block, dtype="<f4").tobytes())
        count += len(block)
    head(count)
    if file.tell() != place:
        raise RuntimeError("the header of the array changed its length")

"""regard inspect: what a model looked at, as a page, a picture, a JSON document, or a table in the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.inspection.trace import Trace

ENDINGS = (".html", ".json", ".svg", ".png")

_Model = Annotated[str, Argument(help="model folder, or name on the Hugging Face hub; schema: the JSON schema of a trace")]
_Method = Annotated[list[str] | None, Option(help="input_x_gradient (default), integrated_gradients or occlusion")]
_Files = Annotated[list[str] | None, Option("--output", "-o", help="FILE.html, .json, .svg or .png; may be repeated")]
_Measured = Annotated[str | None, Option(help="file of texts by which the head that aligns best is found and kept")]


def command(
    model: _Model,
    text: Annotated[str | None, Option("--text", "-t", help="text, prompt, or first of a pair to look at")] = None,
    pair: Annotated[str | None, Option(help="second text, for models of pairs")] = None,
    image: Annotated[str | None, Option(help="picture to look at, for models of images")] = None,
    target: Annotated[str | None, Option(help="answer to force on the model; default: its own")] = None,
    layers: Annotated[str | None, Option(help="these layers alone, by commas, from 0")] = None,
    heads: Annotated[str | None, Option(help="keep the weights of these heads alone, by commas, from 0")] = None,
    method: _Method = None,
    contrast: Annotated[str | None, Option(help="ROW:TEXT, why the token of this row rather than TEXT; 0:LABEL")] = None,
    gate: Annotated[
        list[str] | None, Option(help="ATTENTION:HEAD=FACTOR, a head times a factor; 0: silence; mean: its mean")
    ] = None,
    full: Annotated[bool, Option("--full", help="all weights, however long the text")] = False,
    view: Annotated[str, Option(help="of pictures: align, heads or grid")] = "align",
    num_beams: Annotated[int | None, Option("--num-beams", "--beam-size", help="of the search for the answer")] = None,
    max_length: Annotated[int | None, Option("--max-length", "--max-new-tokens", help="most tokens of an answer")] = None,
    measure: _Measured = None,
    output: _Files = None,
    device: Annotated[str | None, Option(help="cpu, cuda, cuda:1 …; default: the GPU if there is one")] = None,
    dtype: Annotated[str | None, Option(help="float32, bfloat16, float16, int8 (CPU); default: as stored")] = None,
) -> None:
    """Look at one text: what attends to what, what else could have been said, and why."""
    from pathlib import Path

    files = [Path(name) for name in output or ()]
    if model == "schema":
        _schema(files)
        return
    _check(files, text, image, measure, view)
    wanted: dict[str, Any] = {"num_beams": num_beams, "max_length": max_length}
    search = {key: value for key, value in wanted.items() if value is not None}
    options = {"layers": _numbers(layers, "--layers"), "heads": _numbers(heads, "--heads"), "full": full}
    options |= {"contrast": _contrast(contrast), "gates": _gates(gate or [])}
    options |= {"methods": method} if method else {}

    from regard.loading import load

    loaded = load(model, device, dtype)
    if measure is not None:
        _measure(loaded, model, measure)
    asked: Any = image if image is not None else text if pair is None else (text, pair)
    if asked is not None:
        from regard.inspection.look import inspect

        _show(inspect(loaded, asked, target, **options, **search), files, view)


def _show(trace: Trace, files: list[Any], view: str) -> None:
    """Write the files, or say in the terminal what there is."""
    for path in files:
        if path.suffix in (".svg", ".png"):
            _picture(trace, path, view)
        else:
            trace.write(path)
    if files and trace.limits.message is not None:
        sizes = ", ".join(f"{path} has {path.stat().st_size / 1e6:.1f} MB" for path in files)
        print(f"{trace.limits.message}; --full keeps everything; {sizes}", file=sys.stderr)
    if not files:
        print("\n".join(told(trace)))


def _schema(files: list[Any]) -> None:
    from regard.files import write_json
    from regard.inspection.trace import schema

    for path in files or ["-"]:
        write_json(path, schema())


def _check(files: list[Any], text: str | None, image: str | None, measure: str | None, view: str) -> None:
    if text is not None and image is not None:
        raise UserError("--text and --image: choose one")
    if text is None and image is None and measure is None:
        raise UserError("nothing to look at: give --text TEXT or --image FILE")
    for path in files:
        if path.suffix not in ENDINGS:
            raise UserError(f"--output {path}: its name must end in {', '.join(ENDINGS)}")
    from regard.inspection.picture import VIEWS

    if view not in VIEWS:
        raise UserError(f"--view is one of {', '.join(VIEWS)}, not {view!r}")


def _numbers(given: str | None, name: str) -> list[int] | None:
    if given is None:
        return None
    try:
        return [int(part) for part in given.split(",")]
    except ValueError:
        raise UserError(f"{name} is numbers by commas, such as 0,2, not {given!r}") from None


def _contrast(given: str | None) -> tuple[int, str] | None:
    if given is None:
        return None
    row, _, text = given.partition(":")
    if not row.isdecimal() or not text:
        raise UserError(f"--contrast is ROW:TEXT, such as 2:cat, not {given!r}")
    return int(row), text


def _gates(given: list[str]) -> dict[str, dict[int, float | None]]:
    found: dict[str, dict[int, float | None]] = {}
    for one in given:
        name, _, rest = one.rpartition(":")
        head, _, factor = rest.partition("=")
        try:
            found.setdefault(name, {})[int(head)] = None if factor == "mean" else float(factor)
        except ValueError:
            raise UserError(
                f"--gate is ATTENTION:HEAD=FACTOR, such as decoder.blocks.0.cross.attend:2=0, not {one!r}"
            ) from None
    return found


def _measure(loaded: Any, model: str, file: str) -> None:
    """Find the head that aligns best and keep it in the model's folder."""
    from dataclasses import asdict
    from pathlib import Path

    from regard.checkpoints.folders import locate
    from regard.inspection.aligning import KEY, measure, store
    from regard.text.corpus import read_lines

    if loaded.use != "regard translate":
        raise UserError(f"--measure is for translators, and {model} holds {loaded.what}")
    head = measure(loaded, read_lines(Path(file)))
    store(locate(model), head)
    loaded.meta[KEY] = asdict(head)
    which = "the mean of the heads" if head.head is None else f"head {head.head}"
    found = f"{head.agreement:.1%} of {head.tokens} tokens (the last layer's mean: {head.baseline:.1%})"
    print(f"{head.attention}, {which}: agrees with what matters at {found}", file=sys.stderr)


def _picture(trace: Trace, path: Any, view: str) -> None:
    from regard.files import write_bytes
    from regard.inspection.picture import picture

    write_bytes(path, picture(trace, view, path.suffix[1:]))


def told(trace: Trace) -> list[str]:
    """A trace in a terminal: texts, the matrix in shades, what the model would have said, how exact it is."""
    import shutil

    result = [f"{name}: {side.text}" for name, side in trace.sides.items() if name != "read"]
    result += ["", trace.to_text(shutil.get_terminal_size((80, 24)).columns)]
    if trace.alignment is not None:
        result += ["", f"alignment: {trace.alignment.pharaoh}"]
    for one in (trace.classes or [])[:5]:
        result.append(f"{one.p:6.1%}  {one.label}")
    exact = max((its.checks.output for its in trace.attentions), default=0.0)
    if trace.attentions:
        result.append(f"weights × values are within {exact:.1e} of what the heads gave")
    if trace.checks.log_prob is not None:
        result.append(f"log-probabilities are within {trace.checks.log_prob:.1e} of the search's")
    result += [
        f"log-probability with the gates: {its.log_prob:.4f} ({its.difference:+.4f})"
        for its in trace.changes
        if its.difference is not None
    ]
    return result

"""regard export: a model folder for another program."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Argument, Option


def command(
    model: Annotated[str, Argument(help="model folder, or name on the Hugging Face hub")],
    output: Annotated[str, Argument(help="new folder")],
    to: Annotated[str, Option(help="ctranslate2 for translators and language models, onnx for encoders")] = "ctranslate2",
    quantization: Annotated[str | None, Option(help="int8, int16 or float16 weights; default: float32")] = None,
) -> None:
    """Write a model as a folder that another program reads and that gives the same answers there."""
    from regard.serving.export import export_folder

    folder = export_folder(model, output, to, quantization)
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder}: {to}, {quantization or 'float32'}, {size / 1e6:,.1f} MB", file=sys.stderr)

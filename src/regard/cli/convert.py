"""regard convert: a model of another program, or in another spelling, as a model folder."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from regard.errors import UserError

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


def command(
    source: Annotated[str, Argument(help="model folder, name on the Hugging Face hub, or folder of CTranslate2")],
    output: Annotated[str, Argument(help="new folder")],
    dtype: Annotated[str | None, Option(help="float32, bfloat16, float16 or float64 (as stored)")] = None,
    shard_size: Annotated[str, Option(help="most bytes of a file of weights, such as 500MB or 2GB")] = "5GB",
    allow_pickle: Annotated[bool, Option("--allow-pickle", help="read .bin files too: tensors alone, no code")] = False,
    json: Annotated[str | None, Option("--json", help="write one JSON document to this file (-: stdout)")] = None,
) -> None:
    """Write a model as a folder of safetensors that regard and, where it has the class, transformers open."""
    from regard.checkpoints.folders import CONFIG
    from regard.checkpoints.tensors import read_json
    from regard.files import write_json

    size = shard_bytes(shard_size)
    if _is_ctranslate2(Path(source)):
        from regard.checkpoints.convert import convert_folder

        if dtype is not None:
            raise UserError("a folder of CTranslate2 is converted to float32: convert the result for another --dtype")
        convert_folder(source, output)
    else:
        from regard.checkpoints.resave import resave

        resave(source, output, dtype, size, allow_pickle)
    config = read_json(Path(output) / CONFIG)
    named = ", ".join(config.get("architectures") or ["no class of transformers"])
    print(f"{output}: {named}, {config.get('dtype')}", file=sys.stderr)
    if json is not None:
        write_json(json, {"folder": output, "architectures": config.get("architectures"), "dtype": config.get("dtype")})


def shard_bytes(text: str) -> int:
    """500MB -> 500000000. UserError for what is no size."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *([KMG]?)B?", text.strip(), re.IGNORECASE)
    if found is None or float(found[1]) == 0:
        raise UserError(f"--shard-size {text}: should be a size such as 500MB or 2GB")
    return int(float(found[1]) * UNITS[found[2].upper()])


def _is_ctranslate2(folder: Path) -> bool:
    from regard.checkpoints.folders import CONFIG
    from regard.checkpoints.tensors import read_json

    if not (folder / "model.bin").is_file():
        return False
    return not (folder / CONFIG).is_file() or "model_type" not in read_json(folder / CONFIG)

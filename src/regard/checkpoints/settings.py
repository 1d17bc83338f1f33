"""A folder's settings of the search changed in place, whoever wrote the folder; its weights are not touched."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.checkpoints.folders import CARD, CONFIG, OWN
from regard.checkpoints.generation import GENERATION, read_generation
from regard.checkpoints.tensors import read_json
from regard.files import write_json, write_text


def store(folder: Path, settings: Mapping[str, Any]) -> None:
    """Keep settings such as num_beams and length_penalty in generation_config.json, which transformers reads too, and where
    regard wrote the folder in regard.json and in the model card. Each file is written whole or not at all. UserError: it is
    no model folder."""
    kept = read_generation(folder, read_json(folder / CONFIG))
    write_json(folder / GENERATION, kept | dict(settings))
    if (folder / OWN).is_file():
        own = read_json(folder / OWN)
        own["search"] = dict(own.get("search") or {}) | dict(settings)
        write_json(folder / OWN, own)
    if (folder / CARD).is_file():
        text = (folder / CARD).read_text(encoding="utf-8")
        for name, value in settings.items():
            text = re.sub(rf"(?m)^- {name}: .*$", lambda _, line=f"- {name}: {value}": line, text)
        write_text(folder / CARD, text)

"""Keys of a foreign configuration that no table names: what `transformers`, where it is installed, says of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from regard.checkpoints.formats import Format, unknown_keys
from regard.errors import UserError


def sifted(form: Format, config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The configuration without the keys that say only what the reference class does anyhow.

    A key that no table of regard's names and the reference class reads is refused unless it has that class's usual value:
    it may change what is computed. One that the class does not know either stays, and gives `read_config`'s warning, as
    all do where transformers is not installed. UserError names all keys that are refused.
    """
    unknown = unknown_keys(form, config)
    usual = _usual(form.model_type) if unknown else {}
    wrong = [key for key in unknown if key in usual and config[key] != usual[key]]
    if wrong:
        told = "; ".join(f"{key} is {config[key]!r}, must be {usual[key]!r}" for key in wrong)
        raise UserError(f"{where}: keys that transformers reads and regard does not compute: {told}")
    return {key: value for key, value in config.items() if key not in unknown or key not in usual}


def _usual(model_type: str) -> dict[str, Any]:
    """What the reference class's configuration holds where a file says nothing; {} without transformers or such a class."""
    try:
        if find_spec("transformers") is None:
            return {}
    except ValueError:  # a module without a specification stands in its place
        return {}
    from transformers import CONFIG_MAPPING

    return CONFIG_MAPPING[model_type]().to_dict() if model_type in CONFIG_MAPPING else {}

"""generation_config.json: how a folder wants its model to write, in transformers' words and in regard's."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.checkpoints.tensors import read_json
from regard.errors import UserError

log = logging.getLogger("regard.checkpoints")

GENERATION = "generation_config.json"
IDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "forced_eos_token_id")

SAME = {
    "num_beams": "num_beams",
    "length_penalty": "length_penalty",
    "no_repeat_ngram_size": "no_repeat_ngram_size",
    "early_stopping": "stopping",
    "suppress_tokens": "suppress_tokens",
    "forced_bos_token_id": "first_token",
    "num_beam_groups": "num_beam_groups",
    "diversity_penalty": "diversity_penalty",
}
SAMPLING = {"temperature": 1.0, "top_k": 50, "top_p": 1.0, "min_p": 0.0}
"""Options of sampling, and what transformers takes where a folder says nothing."""

REFUSED: dict[str, tuple[Any, ...]] = {
    "begin_suppress_tokens": (None, []),
    "force_words_ids": (None,),
    "constraints": (None,),
    "sequence_bias": (None, {}),
    "prefix_allowed_tokens_fn": (None,),
    "forced_decoder_ids": (None, []),
}
"""Settings that change what may be written and that regard's search does not know -> values that change nothing."""

UNUSED: dict[str, tuple[Any, ...]] = {
    "repetition_penalty": (None, 1.0),
    "encoder_repetition_penalty": (None, 1.0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "exponential_decay_length_penalty": (None,),
    "penalty_alpha": (None, 0.0),
    "typical_p": (None, 1.0),
    "epsilon_cutoff": (None, 0.0),
    "eta_cutoff": (None, 0.0),
    "guidance_scale": (None, 1.0),
}
"""Settings of taste that regard's search does not know -> values that change nothing."""


def read_generation(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a folder that another program wrote; folders without a file of their own for them keep them in
    config.json, which is not looked at otherwise but for ids."""
    keys = {*SAME, *SAMPLING, *REFUSED, *UNUSED, "do_sample", "min_length", "max_length", "bad_words_ids", *IDS}
    path = folder / GENERATION
    if not path.is_file():
        return {key: value for key, value in config.items() if key in keys}
    ids = {key: config[key] for key in IDS if key in config and key != "forced_eos_token_id"}
    return ids | read_json(path)


def settings_of(generation: Mapping[str, Any], where: str | Path) -> dict[str, Any]:
    """Options of `Search` by name that mean what the settings of a folder mean for transformers.

    UserError for a setting that forbids or forces what regard's search cannot; those that only rank differently are named
    in a warning and left out. The unit of lengths is changed: transformers counts the decoder's start token.
    """
    try:
        return _settings(generation, where)
    except (TypeError, ValueError, LookupError) as error:
        raise UserError(f"{where}: {GENERATION} has a value of the wrong kind ({type(error).__name__}: {error})") from None


def _settings(generation: Mapping[str, Any], where: str | Path) -> dict[str, Any]:
    its = {key: value for key, value in generation.items() if value is not None}
    for key, harmless in REFUSED.items():
        if its.get(key) not in (None, *harmless):
            raise UserError(f"{where}: {GENERATION} has {key}, which regard's search does not do; remove it to go without")
    unused = [key for key, harmless in UNUSED.items() if its.get(key) not in (None, *harmless)]
    if unused:
        log.warning("%s: not used: %s of %s, which regard's search does not have", where, ", ".join(unused), GENERATION)
    found: dict[str, Any] = {"num_beams": 1}  # transformers searches greedily where a folder says nothing
    found |= {ours: its[theirs] for theirs, ours in SAME.items() if theirs in its}
    for theirs, ours in (("min_length", "min_length"), ("max_length", "max_length")):
        if its.get(theirs, 0) > 1:
            found[ours] = its[theirs] - 1
    if found.get("min_length", 0) >= found.get("max_length", float("inf")):
        del found["min_length"]
    banned = its.get("bad_words_ids") or []
    if any(len(word) != 1 for word in banned):
        raise UserError(
            f"{where}: bad_words_ids of {GENERATION} forbids sequences of several tokens; regard forbids single ones only"
        )
    if banned:
        found["suppress_tokens"] = (*found.get("suppress_tokens", ()), *(word[0] for word in banned))
    if its.get("do_sample"):
        found |= {"sample": True, "num_beams": 1, "num_beam_groups": 1} | {
            key: its.get(key, usual) for key, usual in SAMPLING.items()
        }
    return found


def written(config: Mapping[str, Any], search: Mapping[str, Any], limit: int, kept: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a folder. limit: most tokens that the model can write. kept: the settings it came with."""
    chosen: dict[str, Any] = {name: config[name] for name in IDS if name in config}
    chosen |= {key: search[key] for key in ("num_beams", "length_penalty")}
    chosen |= {"max_length": min(limit, (search.get("max_length") or limit - 1) + 1), "early_stopping": False}
    return chosen | {key: value for key, value in kept.items() if key not in IDS or value is not None}

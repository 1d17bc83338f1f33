"""Special symbols: their names in folders of other programs, and a pipeline in which no text becomes one."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from regard.errors import UserError
from regard.files import parsed, read_plain

CONFIG, MAP, CHAT = "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"

ROLES: dict[str, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]"),
    "unk": ("<unk>", "[UNK]"),
    "bos": ("<s>", "<|endoftext|>"),
    "eos": ("</s>", "<|endoftext|>"),
    "mask": ("<mask>", "[MASK]"),
}
"""What a symbol does, and its usual names, which hold where a folder names none."""


def read_config(folder: Path) -> dict[str, Any] | None:
    """tokenizer_config.json of a folder, None if there is none, completed by what older folders say elsewhere. UserError if
    it is not an object."""
    config = _read(folder / CONFIG)
    if config is None:
        return None
    for key, value in (_read(folder / MAP) or {}).items():
        if config.get(key) is None:
            config[key] = value
    if "chat_template" not in config and (folder / CHAT).is_file():
        config["chat_template"] = _text(folder / CHAT)
    return config


def _read(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        found = parsed(_text(path))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}: is not a JSON object")
    return found


def _text(path: Path) -> str:
    try:
        return read_plain(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def special_ids(backend: Backend, config: Mapping[str, Any] | None) -> dict[str, int | None]:
    """The ids of pad, unk, bos, eos and mask: as the configuration names them; where it is silent, by their usual names
    among the special symbols of the file; None for what this vocabulary has not."""
    special = {token.content for token in backend.get_added_tokens_decoder().values() if token.special}
    found: dict[str, int | None] = {}
    for role, usual in ROLES.items():
        key = f"{role}_token"
        if config is not None and key in config:
            value = config[key]
            names = [value.get("content") if isinstance(value, dict) else value]
            if not all(name is None or isinstance(name, str) for name in names):
                raise UserError(f"{CONFIG}: {key} is {value!r}, should be the name of a symbol")
        else:
            names = [name for name in usual if name in special]
        ids = [backend.token_to_id(name) for name in names if name is not None]
        found[role] = next((number for number in ids if number is not None), None)
    return found


def mark(number: int) -> str:
    """The name that `renamed` gives a special symbol: between two characters that no text may hold."""
    return f"\ufdd0{number}\ufdd1"


def ordinary(text: str) -> str:
    """The text without the characters that `mark` uses."""
    return text.replace("\ufdd0", "\ufffd").replace("\ufdd1", "\ufffd")


def renamed(backend: Backend, ids: Collection[int]) -> Backend:
    """The same pipeline with the same ids in which the special symbols `ids` are found by `mark` alone. Models made by other
    programs hold "</s>" among their pieces, so that a text with these letters would become the end mark."""
    file = json.loads(backend.to_str())
    names = {backend.id_to_token(number): number for number in ids}
    model = file["model"]

    def new(name: str) -> str:
        return mark(names[name]) if name in names else name

    if isinstance(model["vocab"], dict):
        model["vocab"] = {new(name): number for name, number in model["vocab"].items()}
    else:
        model["vocab"] = [[new(name), score] for name, score in model["vocab"]]
    if "merges" in model:
        merges = [(one, one.split(" ") if isinstance(one, str) else one) for one in model["merges"]]
        model["merges"] = [one for one, halves in merges if names.keys().isdisjoint(["".join(halves), *halves])]
    if model.get("unk_token") in names:
        model["unk_token"] = new(model["unk_token"])
    flags = {"single_word": False, "lstrip": False, "rstrip": False}
    listed = {token["content"] for token in file["added_tokens"]}
    file["added_tokens"] += [{"id": n, "content": name} | flags for name, n in names.items() if name not in listed]
    for token in file["added_tokens"]:
        if token["content"] in names:
            token |= {"content": new(token["content"]), "special": True, "normalized": False}
    file["post_processor"] = None
    return Backend.from_str(json.dumps(file))

"""regard info: what a model folder holds."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

if TYPE_CHECKING:
    from torch import Tensor, nn


def command(
    model: Annotated[str, Argument(help="model folder, or name on the Hugging Face hub")],
    json: Annotated[str | None, Option("--json", help="write one JSON document to this file (-: stdout)")] = None,
) -> None:
    """Show a model's description, shapes, parameter counts, tokenizers, search and scores."""
    from regard.checkpoints.folders import locate
    from regard.files import write_json

    found = facts(locate(model))
    if json is not None:
        write_json(json, {key: value for key, value in found.items() if key != "tree"})
    if json != "-":
        print("\n".join(lines(found)))


def facts(folder: Path) -> dict[str, Any]:
    """Everything that `regard info` shows, as JSON types."""
    from regard.architecture import to_json
    from regard.checkpoints.fit import check_fit
    from regard.checkpoints.folders import load_model, named_tensors
    from regard.text.tokenizer import Tokenizers

    model, description, meta = load_model(folder)
    tensors = named_tensors(model)
    kinds = sorted({str(t.dtype).removeprefix("torch.") for t in tensors.values()})
    tokenizers = Tokenizers.open(folder) if (folder / "tokenizer.json").is_file() else None
    check_fit(description, meta["ids"], tokenizers, folder)
    sides = () if tokenizers is None else (("source",) if tokenizers.shared else ("source", "target"))
    return {
        "folder": str(folder),
        "parameters": sum(t.numel() for t in tensors.values()),
        "dtype": ", ".join(kinds),
        "bytes": sum(file.stat().st_size for file in folder.glob("model*.safetensors")),
        "tokenizers": {side: {"entries": getattr(tokenizers, side).vocab_size} for side in sides},
        "description": to_json(description),
        "shapes": {name: list(t.shape) for name, t in tensors.items()},
        "tree": [*_tree(description), "", *_shapes(tensors), "", *_counts(model)],
        **meta,
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The facts for the terminal."""
    direction = f"  {found['source']} → {found['target']}" if found.get("source") and found.get("target") else ""
    size = f"{found['parameters']:,} parameters, {found['dtype']}, {found['bytes'] / 1e6:,.1f} MB"
    result = [f"{found['folder']}{direction}", size, ""]
    result += [*found["tree"], ""]
    for side, its in found["tokenizers"].items():
        result.append(f"tokenizer ({side}): {its['entries']:,} entries")
    result.append("ids: " + ", ".join(f"{name} {value}" for name, value in found["ids"].items()))
    for name in ("search", "training"):
        if found.get(name):
            result.append(f"{name}: " + ", ".join(f"{key} {value}" for key, value in found[name].items()))
    for name, score in (found.get("scores") or {}).items():
        result.append(f"{name} {score['value']:.2f}  {score['signature']}")
    return result


def _tree(value: Any, name: str = "", depth: int = 0) -> list[str]:
    """A description as an indented tree; equal blocks in a row are shown once with their number."""
    plain = {f.name: getattr(value, f.name) for f in fields(value)}
    inner = {key: item for key, item in plain.items() if is_dataclass(item) or (isinstance(item, tuple) and item)}
    shown = ", ".join(f"{key}={item!r}" for key, item in plain.items() if key not in inner and item is not None)
    result = ["  " * depth + (f"{name}: " if name else "") + type(value).__name__ + (f"({shown})" if shown else "")]
    for key, item in inner.items():
        if is_dataclass(item):
            result += _tree(item, key, depth + 1)
            continue
        for one in dict.fromkeys(item):
            label = f"{key} × {item.count(one)}"
            result += _tree(one, label, depth + 1) if is_dataclass(one) else ["  " * (depth + 1) + f"{label}: {one!r}"]
    return result


def _shapes(tensors: dict[str, Tensor]) -> list[str]:
    """Names and shapes; layers that are alike share a line."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, tensor in tensors.items():
        shape = "×".join(map(str, tensor.shape)) or "1"
        number = re.search(r"(?<=\.)\d+(?=\.)", name)
        groups.setdefault((re.sub(r"(?<=\.)\d+(?=\.)", "#", name, count=1), shape), []).append(number[0] if number else "")
    shown = [(key.replace("#", "|".join(numbers)), shape) for (key, shape), numbers in groups.items()]
    width = max(len(name) for name, _ in shown)
    return [f"{name:<{width}}  {shape}" for name, shape in shown]


def _counts(model: nn.Module) -> list[str]:
    """Parameters of the halves and the head, tied ones counted where they first stand."""
    seen: set[int] = set()
    result = []
    for name, half in model.named_children():
        own = {id(p): p.numel() for p in half.parameters()}
        count = sum(size for key, size in own.items() if key not in seen)
        tied = sum(size for key, size in own.items() if key in seen)
        result.append(f"{name}: {count:,} parameters" + (f" and {tied:,} tied" if tied else ""))
        seen |= own.keys()
    return result

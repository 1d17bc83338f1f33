"""regard info: what a model folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option


def command(
    model: Annotated[str, Argument(help="model folder, or name on the Hugging Face hub")],
    length: Annotated[int, Option(min=1, help="tokens of the texts that FLOPs are counted for")] = 128,
    json: Annotated[str | None, Option("--json", help="write one JSON document to this file (-: stdout)")] = None,
) -> None:
    """Show a model's description as a tree with shapes, parameters and FLOPs, its tokenizers, search and scores."""
    import shutil

    from regard.checkpoints.folders import locate
    from regard.files import write_json
    from regard.inspection.outline import lines, outline

    found = facts(locate(model))
    tree = outline(found.pop("model"), length)
    if json is not None:
        write_json(json, found | {"length": length, "tree": tree.json()})
    if json != "-":
        head, tail = told(found)
        shown = lines(tree, length, shutil.get_terminal_size((100, 24)).columns)
        print("\n".join([*head, f"FLOPs: of the products for texts of {length} tokens", "", *shown, "", *tail]))


def facts(folder: Path) -> dict[str, Any]:
    """Everything that `regard info` shows but the tree, as JSON types; model: the description itself."""
    from regard.architecture import to_json
    from regard.checkpoints.adapters import open_model
    from regard.checkpoints.fit import check_fit
    from regard.checkpoints.folders import named_tensors
    from regard.text.tokenizer import Tokenizers

    model, description, meta, base = open_model(folder)
    tensors = named_tensors(model)
    kinds = sorted({str(t.dtype).removeprefix("torch.") for t in tensors.values()})
    tokenizers = Tokenizers.open(base) if (base / "tokenizer.json").is_file() else None
    check_fit(description, meta["ids"], tokenizers, folder)
    sides = () if tokenizers is None else (("source",) if tokenizers.shared else ("source", "target"))
    return {
        "folder": str(folder),
        "parameters": sum(t.numel() for t in tensors.values()),
        "dtype": ", ".join(kinds),
        "bytes": sum(file.stat().st_size for file in folder.glob("*model*.safetensors")),
        "tokenizers": {side: {"entries": getattr(tokenizers, side).vocab_size} for side in sides},
        "description": to_json(description),
        "shapes": {name: list(t.shape) for name, t in tensors.items()},
        "verified": _verified(folder),
        "model": description,
        **meta,
    }


def _verified(folder: Path) -> dict[str, Any] | None:
    """What the certificate says, if there is one."""
    from regard.checkpoints.tensors import read_json

    path = folder / "verify.json"
    its = read_json(path) if path.is_file() else None
    if its is None:
        return None
    return {
        "equal": its.get("equal"),
        "date": str(its.get("date")),
        "transformers": its.get("versions", {}).get("transformers"),
    }


def told(found: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The facts for the terminal: what stands before the tree, and what after it."""
    direction = f"  {found['source']} → {found['target']}" if found.get("source") and found.get("target") else ""
    size = f"{found['parameters']:,} parameters, {found['dtype']}, {found['bytes'] / 1e6:,.1f} MB"
    result = []
    for side, its in found["tokenizers"].items():
        result.append(f"tokenizer ({side}): {its['entries']:,} entries")
    result.append("ids: " + ", ".join(f"{name} {value}" for name, value in found["ids"].items()))
    for name in ("search", "training"):
        if found.get(name):
            result.append(f"{name}: " + ", ".join(f"{key} {value}" for key, value in found[name].items()))
    for name, score in (found.get("scores") or {}).items():
        result.append(f"{name} {score['value']:.2f}  {score['signature']}")
    if found["verified"]:
        its = found["verified"]
        says = "equal" if its["equal"] else "different"
        result.append(f"verified on {its['date'][:10]}: {says} in transformers {its['transformers']}")
    return [f"{found['folder']}{direction}", size], result

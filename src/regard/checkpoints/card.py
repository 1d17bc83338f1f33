"""The model card: README.md of a model folder, with front matter that the Hugging Face Hub reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

NAMES = {"bleu": "BLEU", "chrf": "chrF", "chrf++": "chrF++", "ter": "TER"}


def card(meta: Mapping[str, Any], search: Mapping[str, Any], parameters: int, opens_elsewhere: bool) -> str:
    """The text of a model card. meta: as for `save_model`. opens_elsewhere: whether transformers computes this model."""
    source, target = meta.get("source"), meta.get("target")
    title = f"{source} → {target}" if source and target else "regard model"
    scores = dict(meta.get("scores") or {})
    front = _front(meta, scores)
    lines = ["---", yaml.safe_dump(front, allow_unicode=True, sort_keys=False).rstrip(), "---", "", f"# {title}", ""]
    kind = f" Architecture: {meta['architecture']}." if meta.get("architecture") else ""
    lines += [f"{parameters:,} parameters, trained with regard.{kind}", ""]
    if meta.get("recipe"):
        lines += [str(meta["recipe"]), ""]
    if scores:
        lines += ["## Scores", "", "| metric | value | signature |", "|---|---|---|"]
        for name, score in scores.items():
            signature = str(score["signature"]).replace("|", "\\|")  # in a table a bar would end the cell
            lines.append(f"| {NAMES.get(name, name)} | {float(score['value']):.2f} | `{signature}` |")
        lines.append("")
    for heading, facts in (("Search", search), ("Training", meta.get("training"))):
        if facts:
            lines += [f"## {heading}", "", *(f"- {key}: {value}" for key, value in facts.items()), ""]
    lines += ["## Use", "", "```python", "import regard", "", 'model = regard.load("path/to/this/folder")']
    lines += ['print(model.translate(["…"])[0])', "```"]
    if opens_elsewhere:
        lines += ["", "`AutoModelForSeq2SeqLM` of transformers opens this folder too."]
    return "\n".join(lines) + "\n"


def _front(meta: Mapping[str, Any], scores: Mapping[str, Any]) -> dict[str, Any]:
    """The YAML block at the card's head."""
    languages = [code for code in (meta.get("source"), meta.get("target")) if code]
    front: dict[str, Any] = {"language": languages} if languages else {}
    front |= {"library_name": "regard", "pipeline_tag": "translation"}
    if scores:
        data = str(meta.get("data") or "test")
        metrics = [
            {"type": k, "name": NAMES.get(k, k), "value": float(v["value"]), "args": {"signature": v["signature"]}}
            for k, v in scores.items()
        ]
        result = {
            "task": {"type": "translation"},
            "dataset": {"name": data, "type": data},
            "metrics": metrics,
        }
        front["model-index"] = [{"name": "-".join(["regard", *map(str, languages)]), "results": [result]}]
    return front

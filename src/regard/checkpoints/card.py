"""The model card: README.md of a model folder, with front matter that the Hugging Face Hub reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMES = {"bleu": "BLEU", "chrf": "chrF", "chrf++": "chrF++", "ter": "TER"}


USES = {
    "translation": ('translate(["…"])[0]', "AutoModelForSeq2SeqLM"),
    "text-generation": ('generate(["…"])[0]', "AutoModelForCausalLM"),
    "text-classification": ('classify(["…"])[0]', "AutoModelForSequenceClassification"),
    "token-classification": ('classify(["…"])[0]', "AutoModelForTokenClassification"),
    "image-classification": ('classify(["image.png"])[0]', "AutoModelForImageClassification"),
    "feature-extraction": ('embed(["…"])[0]', "AutoModel"),
    "fill-mask": ('fill("… " + model.mask + " …")', "AutoModelForMaskedLM"),
}
"""Tasks by the Hub's names -> how regard is asked for it, and what opens the model in transformers."""


def task_of(description: Any) -> str:
    """The task that a model of this description is for."""
    kind, half = getattr(description.head, "kind", "next"), description.encoder or description.decoder
    if kind == "next":
        return "translation" if description.encoder is not None else "text-generation"
    if kind == "class" and description.head.pool == "tokens":
        return "token-classification"
    if kind == "class":
        return "text-classification" if hasattr(half.embed, "vocab_size") else "image-classification"
    return "fill-mask" if kind == "masked" else "feature-extraction"


def card(
    meta: Mapping[str, Any], search: Mapping[str, Any], parameters: int, opens_elsewhere: bool, task: str = "translation"
) -> str:
    """The text of a model card. meta: as for `save_model`. opens_elsewhere: whether transformers computes this model. task:
    one of USES."""
    source, target = meta.get("source"), meta.get("target")
    title = f"{source} → {target}" if source and target else "regard model"
    scores = dict(meta.get("scores") or {})
    front = _front(meta, scores, task)
    asked, elsewhere = USES[task]
    import yaml

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
    lines += [f"print(model.{asked})", "```"]
    if opens_elsewhere:
        lines += ["", f"`{elsewhere}` of transformers opens this folder too."]
    return "\n".join(lines) + "\n"


def _front(meta: Mapping[str, Any], scores: Mapping[str, Any], task: str) -> dict[str, Any]:
    """The YAML block at the card's head."""
    languages = [code for code in (meta.get("source"), meta.get("target")) if code]
    front: dict[str, Any] = {"language": languages} if languages else {}
    front |= {"library_name": "regard", "pipeline_tag": task}
    if scores:
        data = str(meta.get("data") or "test")
        metrics = [
            {"type": k, "name": NAMES.get(k, k), "value": float(v["value"]), "args": {"signature": v["signature"]}}
            for k, v in scores.items()
        ]
        result = {
            "task": {"type": task},
            "dataset": {"name": data, "type": data},
            "metrics": metrics,
        }
        front["model-index"] = [{"name": "-".join(["regard", *map(str, languages)]), "results": [result]}]
    return front

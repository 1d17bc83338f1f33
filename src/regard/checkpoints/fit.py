"""Whether a model and its tokenizers fit each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.architecture import Description
from regard.errors import UserError


def ids_of(tokenizers: Any) -> dict[str, int]:
    """pad, bos, eos of a `Tokenizers`: the ids that the decoder starts and ends with; {} for None."""
    if tokenizers is None:
        return {}
    return {name: getattr(tokenizers.target, name) for name in ("pad", "bos", "eos")}


def check_fit(description: Description, ids: Mapping[str, int | None], tokenizers: Any, where: str | Path) -> None:
    """UserError if tokenizers have more entries than the model has embeddings, or other ids than the model goes by."""
    if tokenizers is None:
        return
    for side, half in (("source", description.encoder), ("target", description.decoder)):
        if half is None:
            continue
        tokenizer, size = getattr(tokenizers, side), half.embed.vocab_size
        if tokenizer.vocab_size > size:
            extra = [tokenizer.token(i) for i in range(size, tokenizer.vocab_size)]
            shown = ", ".join(map(repr, extra[:10])) + (" …" if len(extra) > 10 else "")
            raise UserError(
                f"{where}: the model has {size} {side} entries, the tokenizer {tokenizer.vocab_size}; the model lacks"
                f" {shown} (load with extend=True to add them, untrained)"
            )
    told = {"pad": description.pad, "eos": ids.get("eos"), "bos": ids.get("bos")}
    differ = [
        f"{name} is {told[name]} in the model and {value} in the tokenizer"
        for name, value in ids_of(tokenizers).items()
        if told[name] is not None and told[name] != value
    ]
    if differ:
        raise UserError(f"{where}: the ids of model and tokenizer disagree: {'; '.join(differ)}")

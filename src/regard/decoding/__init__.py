"""From a model and a source to an answer: greedy and beam search, sampling, batches. Through Model and State alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.decoding.options import Hypothesis, Search, search_options

if TYPE_CHECKING:
    from regard.decoding.generate import stream_translate, translate_ids

__all__ = ["Hypothesis", "Search", "search_options", "stream_translate", "translate_ids"]


def __getattr__(name: str) -> Any:
    """What needs torch is imported when it is first asked for."""
    if name in ("stream_translate", "translate_ids"):
        from regard.decoding import generate

        return getattr(generate, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

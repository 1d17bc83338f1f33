"""Looking into a model: `inspect` makes a trace of one input, `record` keeps what attentions were asked, `gate_heads` and
`patch_heads` change what heads say.

Views are pure functions, a file a kind; everything that shows something is made from a trace."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.inspection.change import gate_heads, head_importance, patch_heads
    from regard.inspection.look import inspect
    from regard.inspection.tape import record
    from regard.inspection.trace import Trace

_WHERE = {
    "Trace": "trace",
    "gate_heads": "change",
    "head_importance": "change",
    "inspect": "look",
    "patch_heads": "change",
    "record": "tape",
}

__all__ = ["Trace", "gate_heads", "head_importance", "inspect", "patch_heads", "record"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'regard.inspection' has no attribute {name!r}")
    return getattr(importlib.import_module(f"regard.inspection.{_WHERE[name]}"), name)

"""The toy training of tests/training."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_path = Path(__file__).resolve().parents[1] / "training" / "conftest.py"
_spec = importlib.util.spec_from_file_location("toy_training", _path)
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
toy, toy_recipe = _module.toy, _module.toy_recipe

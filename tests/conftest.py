"""What all tests share."""

from __future__ import annotations

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

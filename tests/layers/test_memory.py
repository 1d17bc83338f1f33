"""The allocator's settings."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import resource, torch
from regard.layers.memory import keep_memory
print(keep_memory())
def work():
    for _ in range(5):
        torch.ones(10_000_000).add_(1)  # above the size that glibc always maps anew
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(environment: dict[str, str]) -> tuple[str, int]:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=environment)
    said, faults = done.stdout.split()
    return said, int(faults)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_freed_memory_is_kept_and_can_be_given_back() -> None:
    environment = dict(os.environ)
    kept, few = _faults(environment)
    plain, many = _faults(environment | {"REGARD_MALLOC": "system"})
    assert plain == "False"
    if kept == "True":
        assert few < many / 2

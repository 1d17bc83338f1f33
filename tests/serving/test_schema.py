"""Requests made up from the server's own document (schemathesis, from the extra `fuzz`) find nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)
"""All but those that expect any text to be a language and any name a model."""


@pytest.mark.slow
def test_schemathesis_finds_nothing(running_of: Callable[..., Any], tmp_path: Any) -> None:
    command = shutil.which("schemathesis")
    if command is None:
        pytest.skip("schemathesis is not installed: pip install 'regard[fuzz]'")
    server = running_of(new_tokens=32)
    options = ["--max-time", "60", "--phases", "coverage,fuzzing", "--continue-on-failure", "--warnings", "off"]
    done = subprocess.run(
        [command, "run", f"{server.address}/openapi.json", "--checks", ",".join(CHECKS), *options],
        cwd=tmp_path,
        env=os.environ | {"NO_PROXY": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:]

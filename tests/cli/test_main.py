"""The command line as a whole."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from regard import cli


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["train", "--help"]])
def test_help_into_a_closed_pipe_ends_quietly(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "regard", *arguments], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert done.returncode == (1 if len(arguments) > 1 else 141)  # the library behind verbs ends with 1
    assert done.stderr == b""


def test_help_names_every_verb_and_loads_no_torch() -> None:
    code = "import sys; from regard import cli; cli.main(['--help']); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert all(f"  {verb} " in done.stdout for verb in cli.VERBS)


HEAVY = (
    "accelerate",
    "transformers",
    "pydantic",
    "matplotlib",
    "sacrebleu",
    "huggingface_hub",
    "yaml",
    "fastapi",
    "ctranslate2",
)


def test_a_translation_loads_nothing_heavy_but_torch() -> None:
    code = (
        "import sys, torch; before = set(sys.modules)\n"
        "import regard.cli.translate; from regard.translator import load\n"
        f"print([name for name in {HEAVY} if name in set(sys.modules) - before])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_a_verb_that_is_nearly_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trian"]) == 2
    assert capsys.readouterr().err == "regard: error: unknown verb 'trian'; did you mean train?\n"

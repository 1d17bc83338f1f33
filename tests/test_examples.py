"""The scripts in examples/: they are what they say, and run where what they need is installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.sh")), ids=lambda path: path.name)
def test_shell_scripts_are_sound(path: Path) -> None:
    assert os.access(path, os.X_OK)
    subprocess.run(["bash", "-n", str(path)], check=True)


STUBS = {
    "scontrol": 'if [ "$1" = show ]; then printf "node1\\nnode2\\n"; else echo "scontrol $*" >> "$LOG"; fi',
    "srun": 'shift; exec "$@"',
    "torchrun": 'sleep 60 & trap "echo saved >> $LOG; kill $!; exit 0" TERM; sleep 0.3; echo "$*" >> "$LOG"; wait',
}
"""What a cluster would have, writing down how it was called; the training waits until it is told to save."""


def test_the_slurm_script_saves_before_its_time_is_over_and_goes_back_into_the_queue(tmp_path: Path) -> None:
    log, bin_ = tmp_path / "log", tmp_path / "bin"
    bin_.mkdir()
    for name, code in STUBS.items():
        (bin_ / name).write_text(f"#!/bin/bash\n{code}\n", encoding="utf-8")
        (bin_ / name).chmod(0o755)
    job = {"SLURM_JOB_NODELIST": "node[1-2]", "SLURM_NNODES": "2", "SLURM_JOB_ID": "77", "SLURM_GPUS_ON_NODE": "4"}
    environment = {**os.environ, **job, "LOG": str(log), "PATH": f"{bin_}:{os.environ['PATH']}"}
    line = ["bash", str(EXAMPLES / "slurm.sh"), "toy", "runs/toy", "training.max_steps=3"]
    process = subprocess.Popen(line, env=environment)
    while not log.exists() or "--resume" not in log.read_text(encoding="utf-8"):
        assert process.poll() is None
        time.sleep(0.02)
    process.terminate()
    process.wait(30)
    began, saved, queued = log.read_text(encoding="utf-8").splitlines()
    assert "--nnodes 2 --nproc-per-node 4" in began
    assert "--rdzv-id 77 --rdzv-endpoint node1:29500 -m regard train toy output=runs/toy" in began
    assert began.endswith("training.max_steps=3 --resume")
    assert (saved, queued) == ("saved", "scontrol requeue 77")


def test_the_machines_are_read() -> None:
    from regard.training.machines import read_machines

    assert read_machines(EXAMPLES / "machines.yaml").count == 16


def ray_example() -> Any:
    spec = importlib.util.spec_from_file_location("ray_translate", EXAMPLES / "ray_translate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_ray_class_maps_batches(shared: Any, translator_for: Any, few_lines: Any, tmp_path: Path) -> None:
    """Without Ray: what map_batches would call."""
    translator = translator_for(shared)
    translator.save(tmp_path)
    translate = ray_example().Translate(str(tmp_path), "text", num_beams=2, max_length=5)
    found = translate({"text": few_lines[0][:3], "number": [1, 2, 3]})
    assert found["number"] == [1, 2, 3]
    assert found["translation"] == translator.translate(few_lines[0][:3], num_beams=2, max_length=5)


@pytest.mark.slow
def test_the_ray_example_on_a_local_cluster(shared: Any, translator_for: Any, few_lines: Any, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (pip install 'ray[data]')")
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    translator = translator_for(shared)
    translator.save(tmp_path / "model")
    (tmp_path / "in").mkdir()
    parquet.write_table(pyarrow.table({"text": few_lines[0], "n": list(range(9))}), tmp_path / "in" / "a.parquet")
    script, model, out = EXAMPLES / "ray_translate.py", tmp_path / "model", tmp_path / "out"
    environment = {**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    line = [sys.executable, str(script), str(model), str(tmp_path / "in"), "text", str(out)]
    subprocess.run(line, check=True, env=environment, timeout=600)
    rows = [row for file in sorted(out.glob("*.parquet")) for row in parquet.read_table(file).to_pylist()]
    found = {row["n"]: row["translation"] for row in rows}
    assert [found[n] for n in range(9)] == translator.translate(few_lines[0])


@pytest.mark.slow
def test_the_elastic_script_trains_to_the_end(tmp_path: Path) -> None:
    lines = "".join(f"{a} {b}\t{b} {a} {b}\n" for a in "abcdefgh" for b in "abcdefgh")
    (tmp_path / "train.tsv").write_text(lines, encoding="utf-8")
    (tmp_path / "valid.tsv").write_text("a b\tb a b\n", encoding="utf-8")
    recipe = {
        "data": {"train": "train.tsv", "valid": "valid.tsv"},
        "tokenizer": {"kind": "words", "vocab_size": 40},
        "model": {"architecture": "transformer", "d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2},
        "training": {"max_steps": 6, "batch_tokens": 100, "device": "cpu", "threads": 1},
    }
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    settings = {"NODES": "1:1", "GPUS": "2", "HEAD": "localhost:0", "PYTHON": sys.executable, "REGARD_CACHE": str(tmp_path)}
    line = ["bash", str(EXAMPLES / "elastic.sh"), str(tmp_path / "toy.yaml"), str(tmp_path / "out")]
    subprocess.run(line, check=True, env={**os.environ, **settings, "CUDA_VISIBLE_DEVICES": ""}, timeout=600)
    assert (tmp_path / "out" / "model.safetensors").is_file()

"""Training with the command lines of Eole, OpenNMT-py and JoeyNMT: their settings for the shape of the benchmark, and the
rates that they print themselves. Runs in regard's environment; the tools run in theirs."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from benchmarks.measure import Run

REPORT = 5
"""Updates between two reports of a tool."""


def run(tool: str, python: str, data: Path, kind: str, shape: dict[str, Any], counts: tuple[int, int, int]) -> Run:
    """One training of a tool. counts: tokens of a batch, updates, and updates before the first that counts."""
    budget, updates, warm = counts
    make, module, pattern = TOOLS[tool]
    with tempfile.TemporaryDirectory() as folder:
        settings = make(kind, data, Path(folder), shape, (budget, warm + updates))
        path = Path(folder) / "settings.yaml"
        path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
        text, peak = _output([python, "-W", "ignore", *(part.format(path=path) for part in module)], folder)
    found = [tuple(float(number) for number in match.groups()) for match in re.finditer(pattern, text)]
    counted = found[warm // REPORT :]
    if not counted:
        raise RuntimeError(f"{tool} reported no rate:\n{text[-2000:]}")
    target = statistics.median(one[-1] for one in counted)
    source = statistics.median(one[0] for one in counted) if len(counted[0]) > 1 else 0.0
    return {"target": target, "source": source, "peak_mib": peak, "weights": 0, "gemm": 0.0}


def _output(command: list[str], folder: str) -> tuple[str, float]:
    """What a command prints on both streams, and its peak memory in MiB."""
    log = Path(folder) / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=folder)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    text = log.read_text(encoding="utf-8", errors="replace")
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{text[-2000:]}")
    return text, used.ru_maxrss / 1024


def _onmt_common(data: Path) -> dict[str, Any]:
    return {
        "seed": 1,
        "share_vocab": True,
        "src_vocab": str(data / "vocabulary.counts"),
        "src_vocab_size": 8000,
        "tgt_vocab_size": 8000,
        "overwrite": True,
        "report_every": REPORT,
        "data": {"corpus_1": {side: str(data / f"train.pieces.{end}") for side, end in _SIDES}},
    }


_SIDES = (("path_src", "en"), ("path_tgt", "fr"))


def _onmt_training(kind: str, shape: dict[str, Any], counts: tuple[int, int]) -> dict[str, Any]:
    schedule = {"learning_rate": 2.0, "decay_method": "noam"} if kind == "transformer" else {"learning_rate": 0.001}
    return {
        "num_workers": 0,
        "bucket_size": 29000,
        "batch_type": "tokens",
        "batch_size": counts[0],
        "normalization": "tokens",
        "accum_count": [1],
        "optim": "adam",
        "adam_beta2": 0.998,
        **schedule,
        "warmup_steps": 1000,
        "max_grad_norm": 0,
        "dropout": [shape["dropout"]],
        "attention_dropout": [shape.get("attention_dropout", shape["dropout"])],
        "label_smoothing": 0.1,
        "train_steps": counts[1],
        "save_checkpoint_steps": counts[1],
        "valid_steps": 1_000_000,
        "keep_checkpoint": 1,
    }


def eole(kind: str, data: Path, folder: Path, shape: dict[str, Any], counts: tuple[int, int]) -> dict[str, Any]:
    """Settings of Eole 0.6; pieces are words, without any transform."""
    training = _onmt_training(kind, shape, counts) | {
        "model_path": str(folder / "model"),
        "world_size": 0,
        "gpu_ranks": [],
        "compute_dtype": "fp32",
        "param_init_method": "xavier_uniform",
        "dropout_steps": [0],
        "accum_steps": [0],
    }
    model: dict[str, Any] = {"share_embeddings": True, "share_decoder_embeddings": True, "hidden_size": shape["d_model"]}
    embeddings = {"word_vec_size": shape["d_model"], "position_encoding_type": None}
    if kind == "transformer":
        model |= {
            "architecture": "transformer",
            "layers": shape["num_layers"],
            "transformer_ff": shape["d_ff"],
            "heads": shape["num_heads"],
            "mlp_activation_fn": "relu",
            "add_qkvbias": True,
            "add_final_linear_bias": True,
            "add_ffnbias": True,
            "embeddings": embeddings | {"position_encoding_type": "SinusoidalInterleaved"},
        }
    else:
        model |= {
            "architecture": "rnn",
            "rnn_type": "LSTM",
            "layers": 1,
            "encoder": {"encoder_type": "brnn"},
            "decoder": {"global_attention": "general"},
            "embeddings": embeddings,
        }
    common = _onmt_common(data) | {"tensorboard": False, "n_sample": 0, "transforms": []}
    return common | {"training": training, "model": model}


def opennmt(kind: str, data: Path, folder: Path, shape: dict[str, Any], counts: tuple[int, int]) -> dict[str, Any]:
    """Settings of OpenNMT-py 3.5."""
    own = {
        "save_model": str(folder / "model"),
        "save_data": str(folder / "data"),
        "hidden_size": shape["d_model"],
        "word_vec_size": shape["d_model"],
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "param_init": 0,
        "param_init_glorot": True,
    }
    if kind == "transformer":
        own |= {
            "encoder_type": "transformer",
            "decoder_type": "transformer",
            "layers": shape["num_layers"],
            "transformer_ff": shape["d_ff"],
            "heads": shape["num_heads"],
            "position_encoding": True,
        }
    else:
        own |= {
            "encoder_type": "brnn",
            "decoder_type": "rnn",
            "rnn_type": "LSTM",
            "layers": 1,
            "global_attention": "general",
        }
    return _onmt_common(data) | _onmt_training(kind, shape, counts) | own


def joeynmt(kind: str, data: Path, folder: Path, shape: dict[str, Any], counts: tuple[int, int]) -> dict[str, Any]:
    """Settings of JoeyNMT 2.3, whose words are our pieces."""
    side = {"max_length": 256, "level": "word", "voc_file": str(data / "vocabulary.plain"), "tokenizer_type": "none"}
    training = {
        "optimizer": "adam",
        "adam_betas": [0.9, 0.98],
        "normalization": "tokens",
        "scheduling": "warmupinversesquareroot",
        "learning_rate": 0.002,
        "learning_rate_warmup": 1000,
        "learning_rate_min": 1.0e-9,
        "loss": "crossentropy",
        "label_smoothing": 0.1,
        "batch_size": counts[0],
        "batch_type": "token",
        "epochs": 1000,
        "updates": counts[1],
        "validation_freq": 100000,
        "logging_freq": REPORT,
        "overwrite": True,
        "shuffle": True,
        "early_stopping_metric": "bleu",
        "print_valid_sents": [],
    }
    return {
        "name": "benchmark",
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "fp16": False,
        "random_seed": 1,
        "data": {
            "train": str(data / "train.pieces"),
            "dev": str(data / "val.pieces"),
            "test": str(data / "test.pieces"),
            "dataset_type": "plain",
            "src": side | {"lang": "en"},
            "trg": side | {"lang": "fr"},
        },
        "testing": {"beam_size": 1, "batch_size": 64, "batch_type": "sentence", "eval_metrics": ["bleu"]},
        "training": training,
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": _joeys(kind, shape),
            "decoder": _joeys(kind, shape, decoder=True),
        },
    }


def _joeys(kind: str, shape: dict[str, Any], decoder: bool = False) -> dict[str, Any]:
    """One half of JoeyNMT's model."""
    d, p = shape["d_model"], shape["dropout"]
    if kind == "transformer":
        embeddings = {"embedding_dim": d, "scale": True, "dropout": p}
        sizes = {"num_layers": shape["num_layers"], "num_heads": shape["num_heads"], "ff_size": shape["d_ff"]}
        more = {"hidden_size": d, "dropout": p, "layer_norm": "post", "activation": "relu"}
        return {"type": "transformer", "embeddings": embeddings, **sizes, **more}
    half = {"type": "recurrent", "rnn_type": "lstm", "embeddings": {"embedding_dim": d, "scale": False}, "hidden_size": d}
    if not decoder:
        return half | {"bidirectional": True, "dropout": p, "num_layers": 1}
    own = {"hidden_dropout": p, "input_feeding": True, "init_hidden": "bridge", "attention": "luong"}
    return half | {"dropout": p, "num_layers": 1} | own


Maker = Callable[[str, Path, Path, dict[str, Any], tuple[int, int]], dict[str, Any]]
TOOLS: dict[str, tuple[Maker, tuple[str, ...], str]] = {
    "eole": (eole, ("-c", "from eole.bin.main import main; main()", "train", "--config", "{path}"), r"(\d+)/ *(\d+) tok/s"),
    "opennmt": (opennmt, ("-m", "onmt.bin.train", "-config", "{path}"), r"(\d+)/ *(\d+) tok/s"),
    "joeynmt": (joeynmt, ("-m", "joeynmt", "train", "{path}", "--skip-test"), r"Tokens per Sec: +(\d+)"),
}
"""What writes a tool's settings, its command, and how its rates are read (source and target, or target alone)."""

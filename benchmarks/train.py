"""Training throughput: the same model, data, vocabulary, batches and optimiser in regard and in its peers.

Each run is a process of its own; runs are interleaved A B C A B C …, since a machine's speed drifts. Real (not padded)
target tokens a second, as a ratio regard / peer and as a share of what the machine's matrix products would allow.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measure import gemm_rate, machine, summary

SHAPE = {"num_layers": 3, "d_model": 256, "d_ff": 1024, "num_heads": 4, "dropout": 0.1}
VOCABULARY, BUDGET = 8000, 4096


class TorchTransformer(nn.Module):
    """torch.nn.Transformer as its tutorial has it: scaled embeddings, sinusoids, causal and padding masks, tied."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        d, self.pad = SHAPE["d_model"], 0
        self.embed = nn.Embedding(vocabulary, d, padding_idx=self.pad)
        layers = SHAPE["num_layers"]
        self.core = nn.Transformer(
            d, SHAPE["num_heads"], layers, layers, SHAPE["d_ff"], SHAPE["dropout"], "relu", batch_first=True
        )
        self.out = nn.Linear(d, vocabulary)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)
        self.out.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, 0, d**-0.5)
        position, rate = torch.arange(512)[:, None], torch.exp(-torch.arange(0, d, 2) * math.log(10000) / d)
        table = torch.zeros(512, d)
        table[:, 0::2], table[:, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
        self.register_buffer("table", table)
        self.dropout = nn.Dropout(SHAPE["dropout"])

    def embedded(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embed(ids) * math.sqrt(SHAPE["d_model"]) + self.table[: ids.shape[1]])

    def forward(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        future = torch.triu(torch.ones(outputs.shape[1], outputs.shape[1], dtype=torch.bool), 1)
        absent = inputs == self.pad
        hidden = self.core(
            self.embedded(inputs),
            self.embedded(outputs),
            tgt_mask=future,
            src_key_padding_mask=absent,
            tgt_key_padding_mask=outputs == self.pad,
            memory_key_padding_mask=absent,
        )
        return self.out(hidden)


def marian(vocabulary: int) -> nn.Module:
    """The same shape in transformers."""
    from transformers import MarianConfig, MarianMTModel

    d, p = SHAPE["d_model"], SHAPE["dropout"]
    sides = {
        f"{side}_{key}": value
        for side in ("encoder", "decoder")
        for key, value in (("layers", 3), ("attention_heads", SHAPE["num_heads"]), ("ffn_dim", SHAPE["d_ff"]))
    }
    rates = {"dropout": p, "attention_dropout": p, "activation_dropout": p}
    return MarianMTModel(
        MarianConfig(
            vocab_size=vocabulary,
            decoder_vocab_size=vocabulary,
            d_model=d,
            activation_function="relu",
            scale_embedding=True,
            share_encoder_decoder_embeddings=True,
            tie_word_embeddings=True,
            max_position_embeddings=512,
            pad_token_id=0,
            bos_token_id=2,
            eos_token_id=3,
            decoder_start_token_id=2,
            forced_eos_token_id=None,
            init_std=d**-0.5,
            **sides,
            **rates,
        )
    )


def stream(cache: Path) -> tuple[Any, int]:
    """Multi30k English to French in batches of BUDGET tokens."""
    from regard.training.prepare import prepare
    from regard.training.recipe import load_recipe

    recipe = load_recipe("multi30k-en-fr", [f"tokenizer.vocab_size={VOCABULARY}", f"training.batch_tokens={BUDGET}"])
    prepared = prepare(recipe, cache)
    from regard.batches.stream import Stream

    return Stream(prepared.train, BUDGET, seed=1, prefetch=4), prepared.tokenizers.source.vocab_size


def loss_of(system: str, model: nn.Module, batch: Any) -> Tensor:
    """Label-smoothed cross entropy of a batch, per target token, by the system's own usual means."""
    if system == "regard":
        from regard.architecture import Targets

        answer = model(
            batch.inputs,
            batch.outputs,
            layout=batch.layout,
            output_layout=batch.output_layout,
            targets=Targets(batch.targets, 0.1),
        )
        return answer.loss_sum / answer.count
    if system == "torch":
        logits = model(batch.inputs, batch.outputs)
    else:
        real = (batch.inputs != 0).long()
        logits = model(input_ids=batch.inputs, attention_mask=real, decoder_input_ids=batch.outputs, use_cache=False).logits
    return nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=-100, label_smoothing=0.1)


def work(system: str, updates: int, warm: int, cache: Path) -> dict[str, float]:
    """Train for some updates in this process: real tokens a second of the median segment of five updates."""
    torch.manual_seed(1)
    batches, vocabulary = stream(cache)
    if system == "regard":
        from regard.models.transformer import describe, initialise
        from regard.training.memory import keep_memory

        keep_memory()
        model: nn.Module = describe(vocab_size=vocabulary, **SHAPE).build()
        initialise(model)
    else:
        model = TorchTransformer(vocabulary) if system == "torch" else marian(vocabulary)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=system == "regard")
    rates, source, target, began = [], 0, 0, 0.0
    for number in range(warm + updates):
        if number >= warm and (number - warm) % 5 == 0:
            if target:
                rates.append((target / (time.perf_counter() - began), source / (time.perf_counter() - began)))
            source, target, began = 0, 0, time.perf_counter()
        batch = next(batches)
        loss_of(system, model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        source, target = source + batch.source_tokens, target + batch.target_tokens
    rates.append((target / (time.perf_counter() - began), source / (time.perf_counter() - began)))
    middle = sorted(rates)[len(rates) // 2]
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    weights = sum(p.numel() for p in model.parameters())
    return {"target": middle[0], "source": middle[1], "peak_mib": peak, "weights": weights, "gemm": gemm_rate()}


def flops_per_target(source: float, target: float) -> float:
    """Matrix-product operations of a training step for each real target token (backward = 2 × forward); source, target:
    mean tokens of a pair, with eos."""
    d, f, layers = SHAPE["d_model"], SHAPE["d_ff"], SHAPE["num_layers"]
    encoder = layers * (4 * d * d + 2 * d * f + 2 * source * d) + layers * 2 * d * d
    decoder = layers * (6 * d * d + 2 * d * f + 2 * target * d + 2 * source * d) + d * VOCABULARY
    return 6 * (decoder + encoder * source / target)


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks train", description=__doc__)
    parser.add_argument("--peers", default="torch,transformers", help="torch, transformers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=15)
    parser.add_argument("--warm", type=int, default=5)
    parser.add_argument("--json", default="")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "regard" / "benchmarks")
    parser.add_argument("--system", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.system:
        print(json.dumps(work(options.system, options.updates, options.warm, options.cache)))
        return 0
    systems = ["regard", *filter(None, options.peers.split(","))]
    found: dict[str, list[dict[str, float]]] = {system: [] for system in systems}
    for number in range(options.rounds):
        for system in systems:
            own = ["--system", system, "--updates", str(options.updates), "--warm", str(options.warm)]
            command = [sys.executable, "-m", "benchmarks", "train", *own, "--cache", str(options.cache)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[system].append(json.loads(done.stdout.strip().split("\n")[-1]))
            print(f"round {number + 1}, {system}: {found[system][-1]['target']:.0f} target tokens/s", file=sys.stderr)
    report = tell(found)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report, indent=1))
    return 0


def tell(found: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Figures a system, ratios round by round, and the share of the ceiling."""
    report: dict[str, Any] = {"machine": machine(), "shape": SHAPE, "batch_tokens": BUDGET, "systems": {}, "ratios": {}}
    for system, runs in found.items():
        source = sum(run["source"] for run in runs) / sum(run["target"] for run in runs)
        flops = flops_per_target(17.65 * source, 17.65)
        report["systems"][system] = {
            "target_per_second": summary([run["target"] for run in runs]),
            "of_ceiling": summary([run["target"] * flops / (run["gemm"] * 1e9) for run in runs]),
            "peak_mib": summary([run["peak_mib"] for run in runs]),
            "weights": runs[0]["weights"],
        }
        if system != "regard":
            ratios = [ours["target"] / theirs["target"] for ours, theirs in zip(found["regard"], runs, strict=True)]
            report["ratios"][system] = summary(ratios)
    return report

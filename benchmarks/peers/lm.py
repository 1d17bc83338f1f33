"""A language model of nanoGPT's shape for CPUs, trained or asked in one program; figures as JSON in the last line."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measure import Run, gemm_rate, peak
from benchmarks.peers.common import measured

VOCABULARY = 65
"""Characters of Tiny Shakespeare."""


def of_transformers(shape: dict[str, Any]) -> Any:
    """GPT-2 in transformers."""
    from transformers import GPT2Config, GPT2LMHeadModel

    d, rates = shape["d_model"], {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    sizes = {"n_embd": d, "n_layer": shape["num_layers"], "n_head": shape["num_heads"], "n_positions": shape["width"]}
    marks = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, **sizes, **rates, **marks))


def of_regard(shape: dict[str, Any]) -> Any:
    """The same in regard."""
    from regard import models

    sizes = {"num_layers": shape["num_layers"], "num_heads": shape["num_heads"], "max_positions": shape["width"]}
    family = models.find("gpt2")
    model = family.describe(vocab_size=VOCABULARY, d_model=shape["d_model"], dropout=0.0, **sizes).build()
    family.initialise(model)
    return model


def train(system: str, model: nn.Module, its: argparse.Namespace, shape: dict[str, Any]) -> Run:
    """Updates on random characters: what they are changes no speed."""
    model.train()
    steps = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=system == "regard")
    drawn = torch.Generator().manual_seed(1)

    def loss(rows: Tensor) -> Tensor:
        inputs, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        if system == "regard":
            from regard.architecture import Targets
            from regard.layout import Layout

            answer = model(inputs, layout=Layout.unpadded(inputs.shape[1]), targets=Targets(targets))
            return answer.loss_sum / answer.count
        return nn.functional.cross_entropy(model(input_ids=inputs).logits.flatten(0, 1), targets.flatten())

    def update() -> tuple[int, int]:
        loss(torch.randint(0, VOCABULARY, (shape["rows"], shape["width"] + 1), generator=drawn)).backward()
        steps.step()
        steps.zero_grad()
        return 0, shape["rows"] * shape["width"]

    return measured(update, its.updates, its.warm, model)


def generate(system: str, model: Any, its: argparse.Namespace, shape: dict[str, Any]) -> Run:
    """One prompt of one character, greedily gone on with to the end of the positions, with a cache."""
    model.eval()
    count, prompt = shape["width"] - 1, torch.tensor([[1]])

    def once() -> None:
        if system == "regard":
            from regard.decoding.continuation import Continuation
            from regard.decoding.options import Search

            assert sum(1 for _ in Continuation(model, [[1]], Search(num_beams=1, max_length=count), [])) == count
        else:
            with torch.inference_mode():
                model.generate(prompt, attention_mask=prompt, max_new_tokens=count, min_new_tokens=count, do_sample=False)

    once()
    rates = []
    for _ in range(its.updates):
        began = time.perf_counter()
        once()
        rates.append(count / (time.perf_counter() - began))
    weights = sum(p.numel() for p in model.parameters())
    return {
        "target": sorted(rates)[len(rates) // 2],
        "source": 0.0,
        "peak_mib": peak(),
        "weights": weights,
        "gemm": gemm_rate(),
    }


def main() -> None:
    """The command line of a worker."""
    parser = argparse.ArgumentParser()
    for name in ("--system", "--task", "--shape"):
        parser.add_argument(name, required=True)
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--warm", type=int, default=5)
    its = parser.parse_args()
    torch.manual_seed(1)
    shape = json.loads(its.shape)
    if its.system.startswith("regard"):
        from regard.layers.memory import keep_memory

        keep_memory()
    name, _, variant = its.system.partition(":")
    model = {"regard": of_regard, "transformers": of_transformers}[name](shape)
    if variant == "compiled":
        from regard.compiled.twin import Compiled

        torch.set_num_threads(1)
        model.compiled = Compiled.of(model)
    print(json.dumps({"train": train, "generate": generate}[its.task](name, model, its, shape)))


if __name__ == "__main__":
    main()

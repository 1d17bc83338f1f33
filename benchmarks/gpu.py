"""On a GPU, in at most eight minutes: training, packing, decoding and window attention, regard beside transformers.

`python -m benchmarks gpu --json gpu.json`; `--dry` runs the same at toy size on a CPU. Systems take turns within each part.
The data is random: lengths are drawn as those of captions and of web pages, and no weight is trained. A part that would
begin after the time is up is left out, and named. `of_ceiling`: matrix-product operations on real tokens over the rate of a
large product in the same number type, measured in the same run.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.measure import figures, machine, ratios, summary, told
from benchmarks.peers.common import halves

TRANSLATION = {"vocab_size": 32000, "num_layers": 6, "d_model": 512, "d_ff": 2048, "num_heads": 8}
LANGUAGE = {"vocab_size": 32000, "num_layers": 24, "d_model": 1024, "d_ff": 2816, "num_heads": 16, "num_kv_heads": 16}
TOY = {"vocab_size": 64, "num_layers": 2, "d_model": 32, "d_ff": 64, "num_heads": 2}


class Bench:
    """Sizes, device and the clock of a run."""

    def __init__(self, dry: bool, rounds: int, seconds: float) -> None:
        self.dry, self.rounds, self.end = dry, rounds, time.perf_counter() + seconds
        self.device = torch.device("cpu" if dry else "cuda")
        self.type = torch.float32 if dry else torch.bfloat16
        self.steps, self.tokens, self.length = (2, 64, 16) if dry else (10, 24_000, 1024)
        self.translation = TOY if dry else TRANSLATION
        self.language = TOY | {"num_kv_heads": 2} if dry else LANGUAGE

    def wait(self) -> None:
        """Until the device has done what it was told."""
        if not self.dry:
            torch.cuda.synchronize()

    def rate(self, size: int = 8192) -> float:
        """FLOP/s of a square product."""
        size = 256 if self.dry else size
        a = torch.randn(size, size, device=self.device, dtype=self.type)
        for _ in range(3):
            a @ a
        self.wait()
        began = time.perf_counter()
        for _ in range(10):
            a @ a
        self.wait()
        return 10 * 2 * size**3 / (time.perf_counter() - began)

    def seconds(self, work: Callable[[], Any], times: int, warm: int = 2) -> float:
        """Of one of `times` calls, after some that warm up."""
        for _ in range(warm):
            work()
        self.wait()
        began = time.perf_counter()
        for _ in range(times):
            work()
        self.wait()
        return (time.perf_counter() - began) / times

    def compare(self, systems: dict[str, Callable[[], float]], what: str = "per_second") -> dict[str, Any]:
        """Each system in every round."""
        found: dict[str, list[dict[str, float]]] = {name: [] for name in systems}
        for _ in range(self.rounds):
            for name, run in systems.items():
                found[name].append({what: run()})
                print(f"  {name}: {found[name][-1][what]:,.1f}", file=sys.stderr, flush=True)
        return {"systems": figures(found), "ratios": ratios(found, what)}

    def trained(self, model: nn.Module, loss: Callable[[], Any], tokens: int) -> Callable[[], float]:
        """Real tokens a second of updates with a loss."""
        steps = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=not self.dry)

        def update() -> None:
            with torch.autocast(self.device.type, self.type, enabled=not self.dry):
                value = loss()
            value.backward()
            steps.step()
            steps.zero_grad()

        return lambda: tokens / self.seconds(update, self.steps)


def share(made: dict[str, Any], flops: float, rate: float) -> dict[str, Any]:
    """With each system's part of the ceiling."""
    for its in made["systems"].values():
        its["of_ceiling"] = summary([value * flops / rate for value in its["per_second"].values()])
    return made


def translation(its: Bench) -> dict[str, Any]:
    """Updates of a base translator on sentences of like lengths, padded."""
    from transformers import MarianConfig, MarianMTModel

    from regard import models
    from regard.architecture import Targets

    shape, width = its.translation, max(4, its.length // 32)
    rows, size, device = max(1, its.tokens // width), shape["vocab_size"], its.device
    source, target = (torch.randint(4, size, (rows, width), device=device) for _ in range(2))
    ours = models.find("transformer").describe(**shape).build().to(device).train()
    marks = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}
    config = MarianConfig(
        vocab_size=size,
        decoder_vocab_size=size,
        d_model=shape["d_model"],
        activation_function="relu",
        **marks,
        **halves(shape),
    )
    theirs = MarianMTModel(config).to(device).train()

    def our_loss() -> Any:
        answer = ours(source, target, targets=Targets(target, 0.1))
        return answer.loss_sum / answer.count

    def their_loss() -> Any:
        logits = theirs(input_ids=source, decoder_input_ids=target, use_cache=False).logits
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), target.flatten(), label_smoothing=0.1)

    count = rows * width
    made = its.compare(
        {"regard": its.trained(ours, our_loss, count), "transformers": its.trained(theirs, their_loss, count)}
    )
    d, f, layers = shape["d_model"], shape["d_ff"], shape["num_layers"]
    flops = 6 * (layers * (12 * d * d + 4 * d * f + 6 * width * d) + d * size)
    return share(made, flops, its.rate())


def _documents(its: Bench) -> list[list[int]]:
    """Rows of lengths of documents, full but for the rest of the last."""
    drawn, rows = random.Random(1), []
    for _ in range(max(2, its.tokens // its.length)):
        row: list[int] = []
        while its.length - sum(row) > 8:
            row.append(min(drawn.randint(its.length // 16, its.length // 2), its.length - sum(row)))
        rows.append(row)
    return rows


def language(its: Bench) -> dict[str, Any]:
    """Updates of a LLaMA of 350 million weights: rows of one text each; and in regard documents packed beside padded."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from regard import models
    from regard.architecture import Targets
    from regard.layout import Layout

    shape, device = its.language, its.device
    documents = _documents(its)
    rows, width, size = len(documents), its.length, shape["vocab_size"]
    ids = torch.randint(4, size, (rows, width), device=device)
    ours = models.find("llama").describe(**shape).build().to(device).train()
    names = (("num_layers", "num_hidden_layers"), ("d_model", "hidden_size"), ("d_ff", "intermediate_size"))
    names += (("num_heads", "num_attention_heads"), ("num_kv_heads", "num_key_value_heads"))
    config = LlamaConfig(
        vocab_size=size, max_position_embeddings=width, **{theirs: shape[mine] for mine, theirs in names}, use_cache=False
    )
    theirs = LlamaForCausalLM(config).to(device).train()

    def our_loss(ids: Any = ids, layout: Any = None) -> Any:
        layout = Layout.unpadded(ids.shape[1], device=device) if layout is None else layout
        targets = ids.masked_fill(~layout.real.expand_as(ids), -100)
        answer = ours(ids, layout=layout, targets=Targets(targets))
        return answer.loss_sum / answer.count

    def their_loss() -> Any:
        return nn.functional.cross_entropy(theirs(input_ids=ids).logits.flatten(0, 1).float(), ids.flatten())

    count = rows * width
    whole = its.compare(
        {"regard": its.trained(ours, our_loss, count), "transformers": its.trained(theirs, their_loss, count)}
    )
    d, f, layers = shape["d_model"], shape["d_ff"], shape["num_layers"]
    share(whole, 6 * (layers * (4 * d * d + 3 * d * f + width * d) + d * size), its.rate())
    packed = Layout.packed(documents, width, device=device)
    lengths = [length for row in documents for length in row]
    padded = Layout.padded(lengths, device=device)
    spread = torch.randint(4, size, (len(lengths), padded.length), device=device)
    real = sum(lengths)
    rows_of = its.compare(
        {
            "regard": its.trained(ours, lambda: our_loss(ids, packed), real),
            "padded": its.trained(ours, lambda: our_loss(spread, padded), real),
        }
    )
    return {"whole rows": whole, "packed beside padded": rows_of}


def decoding(its: Bench) -> dict[str, Any]:
    """Answers of a base translator with random weights, all of the same length, greedy and with five beams."""
    from transformers import MarianConfig, MarianMTModel

    from regard import models
    from regard.decoding import Search, translate_ids

    shape, device, count = its.translation, its.device, 4 if its.dry else 256
    length = 4 if its.dry else 32
    model = models.find("transformer").describe(**shape).build().to(device, its.type).eval()
    sources = [[*range(5, 5 + min(24, shape["vocab_size"] - 8)), 3] for _ in range(count)]
    marks = {
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": None,
    }
    size = shape["vocab_size"]
    config = MarianConfig(vocab_size=size, decoder_vocab_size=size, d_model=shape["d_model"], **marks, **halves(shape))
    theirs = MarianMTModel(config).to(device, its.type).eval()
    found = {}
    for beams in (1, 5):
        options = Search(num_beams=beams, max_length=length, min_length=length - 1)

        def ours(options: Search = options) -> None:
            translate_ids(model, sources, options, 2, 3, batch_tokens=10**6)

        def other(beams: int = beams) -> None:
            rows = torch.tensor(sources, device=device)
            more = {"max_new_tokens": length, "min_new_tokens": length, "do_sample": False}
            theirs.generate(input_ids=rows, attention_mask=torch.ones_like(rows), num_beams=beams, **more)

        runs = {"regard": ours, "transformers": other}
        rates = {name: (lambda run=run: count / its.seconds(run, 1, 1)) for name, run in runs.items()}
        found[f"beams {beams}"] = its.compare(rates)
    return found


def attention(its: Bench) -> dict[str, Any]:
    """Window and document masks, in blocks beside a table of Q × K, forward and backward."""
    from dataclasses import replace

    from regard.layers.attention import Attend
    from regard.layers.masks import Causal, Window, lower
    from regard.layout import Layout

    length, heads, width = (512, 2, 8) if its.dry else (16384, 8, 64)
    found = {}
    documents = Layout.packed([[length // 16] * 16], device=its.device)
    for name, mask, layout in (
        ("window", Window(length // 32), Layout.unpadded(length, device=its.device)),
        ("documents", Window(length // 16) & Causal(), documents),
    ):
        given = [
            torch.randn(1, heads, length, width, device=its.device, dtype=its.type, requires_grad=True) for _ in range(3)
        ]
        lowered = lower(mask, layout, layout)
        assert lowered.blocked is not None
        dense = replace(lowered, allowed=lowered.blocked.dense(), blocked=None)
        attend = Attend(width**-0.5)

        def once(lowered: Any, given: Any = given, attend: Any = attend) -> None:
            attend(*given, lowered).square().sum().backward()

        rates = {
            "regard": lambda once=once, its=its, lowered=lowered: 1 / its.seconds(lambda: once(lowered), 3),
            "dense": lambda once=once, its=its, dense=dense: 1 / its.seconds(lambda: once(dense), 3),
        }
        found[name] = its.compare(rates)
    return found


PARTS = {"translation": translation, "language": language, "decoding": decoding, "attention": attention}


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description=__doc__)
    parser.add_argument("--dry", action="store_true", help="toy sizes on the CPU")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=420, help="no part begins later than this")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--json", default="")
    options = parser.parse_args(arguments)
    if not options.dry and not torch.cuda.is_available():
        print("there is no GPU here: --dry runs the same at toy size on the CPU", file=sys.stderr)
        return 2
    its = Bench(options.dry, options.rounds, options.seconds)
    report: dict[str, Any] = {"benchmark": "gpu", "machine": machine(), "parts": {}, "left_out": []}
    report["machine"]["gpu"] = "none" if options.dry else torch.cuda.get_device_name()
    for name in options.parts.split(","):
        if time.perf_counter() > its.end:
            report["left_out"].append(name)
            continue
        print(name, file=sys.stderr)
        report["parts"][name] = PARTS[name](its)
        gc.collect()
        if not options.dry:
            torch.cuda.empty_cache()
    return told(report, options.json)

"""One training run of one system, in that system's own environment; figures as JSON in the last line."""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measure import Run, gemm_rate, peak
from benchmarks.peers.common import SEGMENT, Data, halves, measured, plain_loop


class TorchTransformer(nn.Module):
    """torch.nn.Transformer as its tutorial has it: scaled embeddings, sinusoids, causal and padding masks, tied."""

    def __init__(self, vocabulary: int, pad: int, shape: dict[str, Any]) -> None:
        super().__init__()
        d, self.pad = shape["d_model"], pad
        self.d_model = d
        self.embed = nn.Embedding(vocabulary, d, padding_idx=pad)
        layers = shape["num_layers"]
        self.core = nn.Transformer(
            d, shape["num_heads"], layers, layers, shape["d_ff"], shape["dropout"], "relu", batch_first=True
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
        self.dropout = nn.Dropout(shape["dropout"])

    def embedded(self, ids: Tensor) -> Tensor:
        """Int[B T] -> Float[B T D]."""
        return self.dropout(self.embed(ids) * math.sqrt(self.d_model) + self.table[: ids.shape[1]])

    def forward(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Logits Float[B T V]."""
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


def marian(data: Data, shape: dict[str, Any]) -> Any:
    """The same shape in transformers."""
    from transformers import MarianConfig, MarianMTModel

    d = shape["d_model"]
    rates = {name: shape[name] for name in ("dropout", "attention_dropout", "activation_dropout")}
    size = len(data.pieces)
    return MarianMTModel(
        MarianConfig(
            vocab_size=size,
            decoder_vocab_size=size,
            d_model=d,
            activation_function="relu",
            scale_embedding=True,
            share_encoder_decoder_embeddings=True,
            tie_word_embeddings=True,
            max_position_embeddings=512,
            pad_token_id=data.pad,
            bos_token_id=data.bos,
            eos_token_id=data.eos,
            decoder_start_token_id=data.bos,
            forced_eos_token_id=None,
            init_std=d**-0.5,
            **halves(shape),
            **rates,
        )
    )


def run_torch(data: Data, its: argparse.Namespace, shape: dict[str, Any]) -> Run:
    """The tutorial's model in a plain loop."""
    model = TorchTransformer(len(data.pieces), data.pad, shape)
    return plain_loop(model, model, data, its.budget, its.updates, its.warm)


def run_transformers(data: Data, its: argparse.Namespace, shape: dict[str, Any]) -> Run:
    """Marian in a plain loop."""
    model = marian(data, shape)

    def logits(inputs: Tensor, outputs: Tensor) -> Tensor:
        real = (inputs != data.pad).long()
        return model(input_ids=inputs, attention_mask=real, decoder_input_ids=outputs, use_cache=False).logits

    return plain_loop(model, logits, data, its.budget, its.updates, its.warm)


def run_trainer(data: Data, its: argparse.Namespace, shape: dict[str, Any]) -> Run:
    """Marian in Seq2SeqTrainer: batches of as many sentences as have the budget's real target tokens on average."""
    from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback

    model = marian(data, shape)
    mean = sum(len(target) + 1 for _, target in data.train) / len(data.train)
    seen: list[tuple[int, int]] = []

    def collate(rows: list[dict[str, list[int]]]) -> dict[str, Tensor]:
        inputs = data.padded([row["input_ids"] for row in rows], data.pad)
        labels = data.padded([row["labels"] for row in rows], -100)
        seen.append((int((inputs != data.pad).sum()), int((labels != -100).sum())))
        outputs = data.padded([[data.bos, *row["labels"][:-1]] for row in rows], data.pad)
        real = (inputs != data.pad).long()
        return {"input_ids": inputs, "attention_mask": real, "decoder_input_ids": outputs, "labels": labels}

    examples = [{"input_ids": [*s, data.eos], "labels": [*t, data.eos]} for s, t in data.train]
    with tempfile.TemporaryDirectory() as folder:
        arguments = Seq2SeqTrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=max(1, int(its.budget / mean)),
            learning_rate=1e-4,
            adam_beta2=0.98,
            adam_epsilon=1e-9,
            label_smoothing_factor=0.1,
            max_steps=its.warm + its.updates,
            max_grad_norm=0.0,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            train_sampling_strategy="group_by_length",
            seed=1,
        )
        ends: list[float] = []

        class Steps(TrainerCallback):
            """Notes when each update ended."""

            def on_step_end(self, *_: Any, **__: Any) -> None:
                ends.append(time.perf_counter())

        trainer: Any = Seq2SeqTrainer(model, arguments, train_dataset=examples, data_collator=collate, callbacks=[Steps()])
        trainer.train()
    return _of_ends(ends, seen, its, model)


def _of_ends(ends: list[float], seen: list[tuple[int, int]], its: argparse.Namespace, model: nn.Module) -> Run:
    """The figures of a run that another loop made: the times at which its updates ended, and what they read."""
    rates = []
    for at in range(its.warm, len(ends), SEGMENT):
        last = min(at + SEGMENT, len(ends)) - 1
        seconds, part = ends[last] - ends[at - 1], seen[at : last + 1]
        rates.append((sum(target for _, target in part) / seconds, sum(source for source, _ in part) / seconds))
    middle = sorted(rates)[len(rates) // 2]
    weights = sum(p.numel() for p in model.parameters())
    return {"target": middle[0], "source": middle[1], "peak_mib": peak(), "weights": weights, "gemm": gemm_rate()}


def run_regard(data: Data, its: argparse.Namespace, shape: dict[str, Any]) -> Run:
    """regard's own loop, as `regard train` runs it: its batches, its loss, its optimiser."""
    from regard import models
    from regard.architecture import Targets
    from regard.batches.data import TokenisedPairs
    from regard.batches.objectives import Translation
    from regard.batches.stream import Stream
    from regard.layers.memory import keep_memory

    keep_memory()
    sources, targets = zip(*data.train)
    pairs = TokenisedPairs.from_ids(sources, targets)
    batches = Stream(pairs, its.budget, seed=1, prefetch=4, objective=Translation(data.pad, data.bos, data.eos))
    family = models.find("transformer" if its.kind == "transformer" else "rnn")
    model = family.describe(vocab_size=len(data.pieces), **shape).build()
    family.initialise(model)
    model.train()
    steps = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def update() -> tuple[int, int]:
        batch = next(batches)
        layouts = {"layout": batch.layout, "output_layout": batch.output_layout}
        answer = model(batch.inputs, batch.outputs, targets=Targets(batch.targets, 0.1), **layouts)
        (answer.loss_sum / answer.count).backward()
        steps.step()
        steps.zero_grad()
        return batch.source_tokens, batch.target_tokens

    return measured(update, its.updates, its.warm, model)


def main() -> None:
    """The command line of a worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--system", required=True)
    parser.add_argument("--kind", default="transformer")
    parser.add_argument("--data", required=True)
    parser.add_argument("--shape", required=True)
    parser.add_argument("--budget", type=int, required=True)
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--warm", type=int, required=True)
    its = parser.parse_args()
    torch.manual_seed(1)
    run = {"torch": run_torch, "transformers": run_transformers, "trainer": run_trainer, "regard": run_regard}[its.system]
    print(json.dumps(run(Data(its.data), its, json.loads(its.shape))))


if __name__ == "__main__":
    main()

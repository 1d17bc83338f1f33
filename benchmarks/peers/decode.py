"""Translating the same sentences with the same weights in one program; figures as JSON in the last line.

Loading and tokenising are not counted; every program gets the same token ids. Sentences of like length share a batch.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.measure import Run, peak

MOST = 100
"""Tokens of an answer at most."""
Answers = list[list[int]]


def of_regard(its: argparse.Namespace, ids: Answers) -> Callable[[], Answers]:
    """regard, fp32, int8 or in compiled code, with a shortlist or without, in one thread, several processes or, in compiled
    code, several threads."""
    import torch

    from regard.decoding import Search
    from regard.decoding.generate import Job, Workers, run_job
    from regard.layers.memory import keep_memory
    from regard.translator import load

    keep_memory()
    torch.set_num_threads(its.threads)
    kinds = set(filter(None, its.variant.split("+")))
    translator = load(its.model, device="cpu", dtype="int8" if "int8" in kinds else "float32")
    if "compiled" in kinds:
        translator.compile()
    if "shortlist" in kinds:
        translator.use_shortlist(its.model)
    job = Job(Search(its.beams, max_length=MOST), *translator.marks(), its.batch_tokens, shortlist=translator.shortlist)
    pool: Any = Workers(translator.model, its.workers) if its.workers > 1 else 1

    def run() -> Answers:
        groups = [ids] if its.batch_tokens > 1 else [[one] for one in ids]
        found = [run_job(job, translator.model, group, None, pool) for group in groups]
        return [answers[0].ids for group in found for answers in group]

    for _ in range(its.workers):  # each process has its first batch
        if its.workers > 1:
            pool.wait()
        run_job(replace(job, batch_tokens=1), translator.model, ids[:8], None, pool)
    return run


def of_transformers(its: argparse.Namespace, ids: Answers) -> Callable[[], Answers]:
    """transformers' generate."""
    import torch
    from transformers import AutoModelForSeq2SeqLM

    torch.set_num_threads(its.threads)
    model = AutoModelForSeq2SeqLM.from_pretrained(its.model, dtype=torch.float32).eval()
    pad, eos = model.config.pad_token_id, model.config.eos_token_id
    groups = _groups(ids, its.batch_tokens)
    more = {"length_penalty": 1.0, "early_stopping": False} if its.beams > 1 else {}

    def run() -> Answers:
        found: Answers = [[] for _ in ids]
        with torch.inference_mode():
            for group in groups:
                most = max(len(ids[n]) for n in group)
                rows = torch.tensor([ids[n] + [pad] * (most - len(ids[n])) for n in group])
                real = torch.tensor([[1] * len(ids[n]) + [0] * (most - len(ids[n])) for n in group])
                made = model.generate(
                    input_ids=rows, attention_mask=real, num_beams=its.beams, do_sample=False, max_new_tokens=MOST, **more
                )
                for n, row in zip(group, made[:, 1:].tolist()):
                    found[n] = row[: row.index(eos)] if eos in row else row
        return found

    return run


def of_ctranslate2(its: argparse.Namespace, ids: Answers) -> Callable[[], Answers]:
    """CTranslate2 on regard's export of the same weights."""
    import ctranslate2

    about = json.loads((Path(its.model) / "names.json").read_text(encoding="utf-8"))
    source, target = about["source"], {name: number for number, name in enumerate(about["target"])}
    running = ctranslate2.Translator(
        its.model, device="cpu", compute_type=its.variant, inter_threads=its.workers, intra_threads=its.threads
    )
    rows = [[source[number] for number in one] for one in ids]
    options = {"beam_size": its.beams, "length_penalty": 1.0, "max_decoding_length": MOST, "max_input_length": 0}

    def run() -> Answers:
        if its.batch_tokens == 1:
            found = [running.translate_batch([row], **options)[0] for row in rows]
        else:
            found = running.translate_batch(rows, max_batch_size=its.batch_tokens, batch_type="tokens", **options)
        return [[target[token] for token in one.hypotheses[0]] for one in found]

    return run


def _groups(ids: Answers, batch_tokens: int) -> list[list[int]]:
    """Numbers of sentences, longest first, as many as the budget holds; a budget of one: one at a time."""
    if batch_tokens == 1:
        return [[n] for n in range(len(ids))]
    groups: list[list[int]] = []
    for n in sorted(range(len(ids)), key=lambda n: -len(ids[n])):
        if groups and (len(groups[-1]) + 1) * len(ids[groups[-1][0]]) <= batch_tokens:
            groups[-1].append(n)
        else:
            groups.append([n])
    return groups


def main() -> None:
    """The command line of a worker."""
    parser = argparse.ArgumentParser()
    for name in ("--system", "--model", "--ids"):
        parser.add_argument(name, required=True)
    parser.add_argument("--variant", default="")
    parser.add_argument("--answers", default="")
    for name in ("--beams", "--batch-tokens", "--workers", "--threads"):
        parser.add_argument(name, type=int, default=1)
    its = parser.parse_args()
    ids: Answers = json.loads(Path(its.ids).read_text(encoding="utf-8"))
    run = {"regard": of_regard, "transformers": of_transformers, "ctranslate2": of_ctranslate2}[its.system](its, ids)
    began = time.perf_counter()
    answers = run()
    seconds = time.perf_counter() - began
    if its.answers:
        Path(its.answers).write_text(json.dumps(answers), encoding="utf-8")
    tokens = sum(len(one) + 1 for one in answers)
    found: Run = {"sentences": len(ids) / seconds, "tokens": tokens / seconds, "peak_mib": peak()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()

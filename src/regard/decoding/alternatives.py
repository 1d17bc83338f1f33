"""What else could stand at a place of a translation, and how the sentence would go on from there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.decoding.generate import Job, run_job
from regard.decoding.options import Search
from regard.errors import UserError
from regard.layout import Layout
from regard.text.words import word_spans

MOST = 100
"""Alternatives that may be asked for."""


@dataclass(frozen=True)
class Alternative:
    """piece: the next token, "" where the text ends. log_prob: its own. word: the word that it begins, as far as it follows
    the prefix. text: the best translation that begins so. score: that translation's, as the search ranks."""

    piece: str
    log_prob: float
    word: str
    text: str
    score: float


def alternatives(translator: Any, text: str, prefix: str, count: int, options: Search) -> list[Alternative]:
    """`Translator.alternatives`. Of tokens that lead to one text the likeliest is kept."""
    if not isinstance(count, int) or not 1 <= count <= MOST:
        raise UserError(f"count must be a whole number from 1 to {MOST}, not {count!r}")
    if not text.strip():
        raise UserError("an empty text has no alternatives")
    target, (bos, eos) = translator.tokenizers.target, translator.marks()
    (source, _), _ = translator.frame(translator.tokenizer.encode(text))
    begun = [*([] if options.first_token is None else [options.first_token]), *target.encode(prefix)]
    logs = _next(translator.model, source, [bos, *begun], options)
    found = logs.topk(min(count, len(logs)))
    tokens = [token for token, log in zip(found.indices.tolist(), found.values.tolist()) if log > -torch.inf]
    job = Job(replace(options, num_return=1), bos, eos)
    answers = run_job(job, translator.model, [source] * len(tokens), [[*begun, token] for token in tokens])
    made: dict[str, Alternative] = {}
    written = target.decode(begun)
    for token, (answer, *_) in zip(tokens, answers):
        whole = target.decode(answer.ids)
        piece = "" if token == eos else target.decode([*begun, token]).removeprefix(written)
        made.setdefault(whole, Alternative(piece, float(logs[token]), _word(whole, len(written)), whole, answer.score))
    return list(made.values())


@torch.inference_mode()
def _next(model: Any, source: list[int], read: list[int], options: Search) -> torch.Tensor:
    """Float[V]: log-probabilities of the token that follows those read, minus infinity for what is never written."""
    device = model.device
    inputs, outputs = (torch.tensor([ids], device=device) for ids in (source, read))
    state = model.start(model.encode(inputs, Layout.unpadded(len(source), device=device)), len(read))
    logs = model.step(outputs, state)[0].float().log_softmax(-1)
    if options.suppress_tokens:
        logs[list(options.suppress_tokens)] = -torch.inf
    return logs.cpu()


def _word(text: str, place: int) -> str:
    """What is left, from `place` on, of the word that stands there or comes next; "" at the end of the text."""
    spans = [(max(start, place), end) for start, end in word_spans(text) if end > place]
    return text[slice(*spans[0])] if spans else ""

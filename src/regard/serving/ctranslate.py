"""`--engine ctranslate2`: a translator whose search runs in CTranslate2, on an export that is made once and kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.architecture import to_json
from regard.decoding.generate import Job
from regard.decoding.options import Hypothesis, Search, canonical
from regard.errors import UserError
from regard.serving.export import POSITIONS, QUANTIZATIONS, ctranslate2, export_ctranslate2, vocabulary
from regard.text.download import cache_root
from regard.translator import Translator

NAME = "ctranslate2"
ENGINES = ("regard", "compiled", NAME, *(f"{NAME}:{kind}" for kind in QUANTIZATIONS))
OTHERWISE = (
    "length_form", "coverage_penalty", "repetition_penalty", "no_repeat_ngram_size", "min_length", "sample",
    "num_beam_groups", "diversity_penalty",
)  # fmt: skip
"""Options that CTranslate2 lacks or that change answers or scores in another way there, whether a call or the folder sets
them."""
OF_SAMPLES = ("temperature", "top_k", "top_p", "min_p", "seed")
"""Options that say nothing where nothing is drawn, but that a call should not name."""


def engine(name: str) -> Callable[[Translator], Translator]:
    """What makes of a translator one that runs in the engine of that name (see ENGINES). UserError: there is none such, or
    it is not installed."""
    if name not in ENGINES:
        raise UserError(f"engine {name}: is not known; known: {', '.join(ENGINES)}")
    if name == "regard":
        return lambda translator: translator
    if name == "compiled":
        return Translator.compile
    ctranslate2()
    return partial(ExportedTranslator, quantization=name.partition(":")[2] or None)


class ExportedTranslator(Translator):
    """A translator whose search runs in CTranslate2; texts become tokens and tokens texts as in the one it was made of.

    CTranslate2 ends a sentence when num_beams hypotheses are finished (stopping="first"), shares what suppress_tokens takes
    away among the others, and writes one token at least after first_token. Options that it lacks, and prefixes, are refused
    in words. The log-probabilities of single tokens, in details, cost a further pass.
    """

    def __init__(self, its: Translator, quantization: str | None = None) -> None:
        super().__init__(its.model, its.tokenizers, its.search, its.meta)
        self.folder = exported(its, quantization)
        head, encoder = its.model.description.head, its.model.description.encoder
        self._source = vocabulary(its.tokenizers.source, encoder.embed.vocab_size)
        self._target = vocabulary(its.tokenizers.target, head.vocab_size)
        self._ids = {token: number for number, token in enumerate(self._target)}
        self._running: dict[int, Any] = {}

    def _options(self, named: Mapping[str, Any]) -> Search:
        options, usual = super()._options(named), Search()
        said = {canonical(name) for name, value in named.items() if value is not None}
        for name in (*OTHERWISE, *(name for name in OF_SAMPLES if name in said)):
            if getattr(options, name) != getattr(usual, name):
                raise UserError(f"search option {name}: CTranslate2 has none that means the same; use the engine regard")
        if options.stopping == "exhaustive" or ("stopping" in said and options.stopping != "first"):
            raise UserError(f'search option stopping: CTranslate2 has "first" alone, not "{options.stopping}"')
        return replace(options, stopping="first")

    def _run(
        self, job: Job, sources: Sequence[Sequence[int]], begin: Any, workers: Any, scored: bool
    ) -> list[list[Hypothesis]]:
        if begin is not None:
            raise UserError("prefixes and required or forbidden phrases: CTranslate2 has none that mean the same")
        if any(job.given):
            raise UserError("context: CTranslate2 begins each translation anew; use the engine regard")
        if job.shortlist is not None:
            raise UserError("shortlist: CTranslate2 does not read regard's; use the engine regard")
        if job.tell is not None:
            raise UserError("progress: CTranslate2 does not tell what of an answer is certain; use the engine regard")
        answers: list[list[Hypothesis]] = [[Hypothesis([], 0.0, 0.0)] for _ in sources]
        groups: dict[int, list[int]] = {}
        for number, source in enumerate(sources):
            if list(source) not in ([], [job.eos]):
                groups.setdefault(self._limit(len(source), job.options), []).append(number)
        running = self._engine(workers)
        waiting = [
            (number, result)
            for limit, group in groups.items()
            for number, result in zip(group, self._asked(running, job, [sources[n] for n in group], limit))
        ]
        for number, result in waiting:
            found = result.result()
            answers[number] = [self._answer(job, *each) for each in zip(found.hypotheses, found.scores)]
        if scored:
            self._score(running, job, sources, answers)
        return answers

    def _score(self, running: Any, job: Job, sources: Sequence[Sequence[int]], answers: list[list[Hypothesis]]) -> None:
        """Put in the log-probability of each token of each answer, which takes one more pass over them."""
        rows = [(sources[n], one) for n, each in enumerate(answers) for one in each if one.ids or one.log_prob]
        given = [[self._source[number] for number in source] for source, _ in rows]
        # What the limit cut has no end mark to be scored, and after its last token there may be no position.
        target = [[self._target[number] for number in (one.ids if one.finished else one.ids[:-1])] for _, one in rows]
        found = running.score_batch(given, target, max_batch_size=job.batch_tokens, batch_type="tokens", max_input_length=0)
        for (_, one), scored in zip(rows, found):
            logs = list(scored.log_probs)
            if job.options.first_token is not None:
                logs[0] = 0.0
            one.token_log_probs = logs if one.finished else [*logs[:-1], one.log_prob - sum(logs[:-1])]

    def _limit(self, length: int, options: Search) -> int:
        """Most tokens to write for a source of so many."""
        wanted = 2 * length + 50 if options.max_length is None else options.max_length
        limit = self.model.decoder.limit
        return min(wanted, POSITIONS if limit is None else limit)

    def _asked(self, running: Any, job: Job, sources: Sequence[Sequence[int]], limit: int) -> list[Any]:
        its = job.options
        first = None if its.first_token is None else [[self._target[its.first_token]]] * len(sources)
        return running.translate_batch(
            [[self._source[number] for number in source] for source in sources],
            first,
            asynchronous=True,
            max_batch_size=job.batch_tokens,
            batch_type="tokens",
            beam_size=its.num_beams,
            num_hypotheses=its.num_return,
            length_penalty=its.length_penalty,
            no_repeat_ngram_size=its.no_repeat_ngram_size,
            suppress_sequences=[[self._target[number]] for number in its.suppress_tokens] or None,
            min_decoding_length=its.min_length,
            max_decoding_length=limit,
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
        )

    def _answer(self, job: Job, tokens: list[str], score: float) -> Hypothesis:
        ids = [self._ids[token] for token in tokens]
        log_prob = score * job.options.penalty(max(len(ids), 1))
        finished = bool(ids) and ids[-1] == job.eos
        return Hypothesis(ids[:-1] if finished else ids, score, log_prob, [], finished)

    def _engine(self, workers: int) -> Any:
        if workers not in self._running:
            threads = max(1, torch.get_num_threads() // workers)
            device = self.model.device.type
            self._running = {
                workers: ctranslate2().Translator(
                    str(self.folder), device=device, inter_threads=workers, intra_threads=threads
                )
            }
        return self._running[workers]


def exported(its: Translator, quantization: str | None = None) -> Path:
    """The folder of this translator's export, made now if it is not there: in the cache, under a name that the weights, the
    tokenizers, the marks and CTranslate2's version decide."""
    folder = cache_root().parent / NAME / _key(its, quantization)
    if not (folder / "model.bin").is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            export_ctranslate2(its, folder, quantization)
        except OSError:
            if not (folder / "model.bin").is_file():  # else another process was faster
                raise
    return folder


def _key(its: Translator, quantization: str | None) -> str:
    about = [to_json(its.model.description), its.tokenizers.source.hash, its.tokenizers.target.hash, list(its.marks())]
    found = hashlib.sha256(json.dumps([*about, ctranslate2().__version__]).encode("utf-8"))
    for name, tensor in its.model.state_dict().items():
        found.update(f"{name} {tuple(tensor.shape)}".encode())
        found.update(tensor.detach().to("cpu", torch.float32).contiguous().numpy().data)
    return f"{found.hexdigest()[:32]}-{quantization or 'float32'}"

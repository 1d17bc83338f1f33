"""Greedy search, sampling and beam search through Model.encode, start, step and State.select, keep alone.

Beam search keeps, for each sentence, the `num_beams` most likely beginnings. Each step extends all of them by their best
tokens and looks at the best 2 × num_beams of those: the ends of sentences among the first num_beams are finished hypotheses,
of which the num_beams best by normalised score are remembered; the best num_beams that go on are the next beginnings. As
each beginning has one end mark, there are always enough that go on. Nothing that one sentence does is seen by another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.decoding.banks import Demand
from regard.decoding.best import best_of, extensions, first_of, log_probs
from regard.decoding.constraints import Constraints
from regard.decoding.options import Hypothesis, Search
from regard.decoding.progress import Progress, Tell
from regard.decoding.sampling import Sampler, draws
from regard.decoding.watch import Cover, watching
from regard.errors import UserError
from regard.layout import Layout

DROP = 7 / 8
"""Finished sentences leave the batch when no more than this share of it is still open: each leaving copies the caches."""

BROKEN = (
    "the model answers with NaN (not a number): its weights are broken, or its precision is too small; float16 ends at"
    " 65,504, bfloat16 and float32 do not"
)
Choose = Callable[[Tensor, int, Tensor], Tensor]


@contextmanager
def _in_use(model: Any) -> Iterator[None]:
    """Without gradients and dropout; a model in training goes back to it."""
    training = bool(model.training)
    if training:
        model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        if training:
            model.train()


def search(
    model: Any,
    inputs: Tensor,
    layout: Layout,
    options: Search,
    bos: int,
    eos: int,
    prefix: Sequence[Sequence[int] | Demand] | None = None,
    numbers: Sequence[int] | None = None,
    tell: Tell | None = None,
) -> list[list[Hypothesis]]:
    """Answers to inputs Int[S T]: for each row the best first, at most options.num_return of them.

    An encoder-decoder reads `inputs` as its source and starts from `bos`. A decoder-only model reads them as its prompt
    (padded on the left or not at all) and goes on; the prompt counts neither in scores nor in lengths. prefix: tokens with
    which each answer must begin; they count in both; or a Demand, which names phrases besides. numbers: the sentences'
    numbers, for sampling (default: their rows). tell(row, ids): called with tokens of a row's first answer as they become
    certain; not where several are sampled.
    """
    rows = inputs.shape[0]
    if prefix is not None and len(prefix) != rows:
        raise ValueError(f"{len(prefix)} prefixes for {rows} sentences")
    if rows == 0:
        return []
    limits = limits_of(model, layout.lengths(rows).tolist(), options)
    constraints = Constraints.of(options, eos, prefix, limits, inputs.device)
    progress = None if tell is None else Progress(tell, rows, eos)
    with _in_use(model):
        reader = Reader(model, inputs, layout, bos)
        if options.method == "beam":
            return _beams(reader, layout.real.expand(rows, -1), limits, constraints, progress)
        if options.method == "greedy":
            reader.start(max(limits))
            return [[h] for h in _one_each(reader, _best, constraints, limits, range(rows), progress)]
        copies = options.num_return
        lines = [line for line in range(rows) for _ in range(copies)]
        names = [(line if numbers is None else numbers[line], n) for line in range(rows) for n in range(copies)]
        limits = [limits[line] for line in lines]
        constraints.spread(lines)
        reader.start(max(limits), copies)
        sampler = Sampler(options, draws(options.seed, names, limits).to(inputs.device))
        drawn = _one_each(reader, sampler, constraints, limits, lines, progress if copies == 1 else None)
        groups = [drawn[at : at + copies] for at in range(0, len(drawn), copies)]
        return [sorted(group, key=lambda h: -h.score) for group in groups]


def _beams(
    reader: Reader, real: Tensor, limits: list[int], constraints: Constraints, progress: Progress | None
) -> list[list[Hypothesis]]:
    """Beam search, in groups if there are several. real: Bool[S T] of the sources."""
    options = constraints.options
    run: Callable[..., list[list[Hypothesis]]] = _together
    if options.num_beam_groups > 1:
        from regard.decoding.groups import in_groups

        run = in_groups
    if not options.coverage_penalty:
        return run(reader, limits, constraints, progress, None)
    with watching(reader.model, "coverage_penalty") as watch:
        return run(reader, limits, constraints, progress, Cover(watch, real, options.coverage_penalty))


def _together(
    reader: Reader, limits: list[int], constraints: Constraints, progress: Progress | None, cover: Cover | None
) -> list[list[Hypothesis]]:
    reader.start(max(limits))
    beams = Beams(reader, constraints.options, limits, constraints)
    beams.progress, beams.cover = progress, cover
    return beams.run()


def limits_of(model: Any, lengths: Sequence[int], options: Search) -> list[int]:
    """Most tokens to write for sources or prompts of these lengths, the end mark counted."""
    limit = model.decoder.limit
    result = []
    for row, length in enumerate(lengths):
        wanted = 2 * length + 50 if options.max_length is None else options.max_length
        if limit is not None:
            room = limit if model.encoder is not None else limit - length + 1
            if room < 1:
                raise UserError(f"prompt {row + 1} has {length} tokens, the model has positions for {limit}: shorten it")
            wanted = min(wanted, room)
        result.append(wanted)
    return result


class Reader:
    """The model half way through its answers: what each row reads next, and where that stands."""

    def __init__(self, model: Any, inputs: Tensor, layout: Layout, bos: int) -> None:
        self.model, self.place, self.memory = model, None, None
        if model.encoder is not None:
            self.memory = model.encode(inputs, layout)
            self.tokens = torch.full((inputs.shape[0], 1), bos, dtype=torch.long, device=inputs.device)
        elif bool(layout.real[:, -1].all()):
            self.tokens, self.place = inputs, layout
        else:
            raise ValueError("prompts of unequal lengths must be padded on the left: Layout.padded(lengths, left=True)")

    def start(self, count: int, copies: int = 1) -> None:
        """Prepare to write up to `count` tokens, for `copies` answers a sentence."""
        if copies > 1:
            lines = torch.arange(len(self.tokens), device=self.tokens.device).repeat_interleave(copies)
            self.tokens = self.tokens[lines]
            self.memory = None if self.memory is None else self.memory.take(lines)
            self.place = None if self.place is None else self.place.take(lines)
        self.state = self.model.start(self.memory, self.tokens.shape[1] + count - 1)
        self.memory = None

    def logits(self, first: bool) -> Tensor:
        """Float[R V] for the token after those of each row, in single precision at least."""
        logits = self.model.step(self.tokens, self.state, self.place)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if first and bool(logits.isnan().any()):
            raise UserError(BROKEN)
        if self.place is not None:
            self.place = self.place.next()
        return logits

    def keep(self, sentences: Tensor, beams: int = 1) -> None:
        """Go on with the sentences chosen by index."""
        self.state.keep(sentences)
        if self.place is not None:
            rows = sentences[:, None] * beams + torch.arange(beams, device=sentences.device)
            place = self.place.take(rows.flatten())  # the longest may be gone, and with it the need for its positions
            self.place = place if place.whole else replace(place, longest=int(place.position.max()) + 1)

    def select(self, rows: Tensor) -> None:
        """Make row i a copy of row rows[i]."""
        self.state.select(rows)
        if self.place is not None:
            self.place = self.place.take(rows)


def _best(logits: Tensor, step: int, lines: Tensor) -> Tensor:
    return first_of(logits)


def _one_each(
    reader: Reader,
    choose: Choose,
    constraints: Constraints,
    limits: Sequence[int],
    sentences: Sequence[int],
    progress: Progress | None = None,
) -> list[Hypothesis]:
    """One answer a line. limits, sentences: the longest answer and the number of the sentence of each line."""
    device, eos = reader.tokens.device, constraints.eos
    lines = torch.arange(len(limits), device=device)
    sentence, bound = (torch.tensor(list(t), device=device) for t in (sentences, limits))
    ids = torch.zeros(len(limits), max(limits), dtype=torch.long, device=device)
    logs = torch.zeros(0)
    lengths = torch.zeros_like(lines)
    still = torch.ones_like(lines, dtype=torch.bool)
    for step in range(max(limits)):
        logits, norm = reader.logits(step == 0), None
        if constraints.acts(step):
            norm = logits.logsumexp(1)
            logits = constraints.apply(logits, norm, ids[lines, :step], sentence[lines])
        if step == 0:
            logs = torch.zeros(ids.shape, dtype=logits.dtype, device=device)
        token = choose(logits, step, lines)
        ids[lines, step] = token
        logs[lines, step] = log_probs(logits, norm, token[:, None])[:, 0]
        constraints.wrote(token)
        due = bound[lines] == step + 1
        if progress is not None:
            progress.tokens(lines, token, still)
        ended = still & (due | (token == eos))
        if bool((ended | due).any()):
            lengths[lines[ended]] = step + 1
            still &= ~ended
            kept = still.nonzero()[:, 0]
            if not len(kept):
                break
            if len(kept) <= DROP * len(still) or bool(due.any()):
                reader.keep(kept)
                constraints.take(kept)
                lines, token, still = lines[kept], token[kept], still[kept]
        reader.tokens = token[:, None]
    return [
        _hypothesis(its[:n], log[:n], sum(log[:n]), eos, constraints.options)
        for its, log, n in zip(ids.tolist(), logs.tolist(), lengths.tolist(), strict=True)
    ]


def _hypothesis(
    ids: list[int], logs: list[float], log_prob: float, eos: int, options: Search, more: float = 0.0
) -> Hypothesis:
    """ids, logs: the tokens written and their log-probabilities, the end mark among them if there is one. more: is added
    to the score."""
    if math.isnan(log_prob):  # what overflows in half precision may do so at any token
        raise UserError(BROKEN)
    finished = ids[-1] == eos
    return Hypothesis(ids[:-1] if finished else ids, options.score(log_prob, len(ids)) + more, log_prob, logs, finished)


class Beams:
    """Beam search over one batch. Tensors have a row a sentence (A of them are left) or a row a beam (A × w, the w
    beams of a sentence next to each other: one at the beginning, then num_beams)."""

    def __init__(self, reader: Reader, options: Search, limits: Sequence[int], constraints: Constraints) -> None:
        self.reader, self.options, self.eos, self.constraints = reader, options, constraints.eos, constraints
        device, count = reader.tokens.device, len(limits)
        self.steps, self.width = max(limits), 1
        self.bound = torch.tensor(limits, device=device)
        self.sentence = torch.arange(count, device=device)
        self.still = torch.ones(count, dtype=torch.bool, device=device)
        self.ids = torch.zeros(count, 0, dtype=torch.long, device=device)
        self.logs = torch.zeros(count, 0, device=device)
        self.total = self.worst = torch.zeros(0)
        self.pool: list[list[Hypothesis]] = [[] for _ in limits]
        self.cover: Cover | None = None
        self.progress: Progress | None = None

    def run(self) -> list[list[Hypothesis]]:
        """The finished hypotheses of each sentence, best first."""
        for step in range(self.steps):
            logits = self.reader.logits(step == 0)
            if self.cover is not None:
                self.cover.look()
            if step == 0:
                self.logs = self.logs.to(logits.dtype)
                self.total = logits.new_zeros(len(self.sentence), 1)
                self.worst = logits.new_full((len(self.sentence),), -math.inf)
            best, parent, token, log = self.candidates(logits, step)
            due = self.bound == step + 1
            ends = (token == self.eos) | due[:, None]
            alive = best > -math.inf
            places = torch.arange(best.shape[1], device=best.device)
            finish = ends & alive & (places < self.options.num_beams) & self.still[:, None]
            self._collect(finish, best, parent, token, log)
            go = alive & ~ends
            order = (~go).to(torch.uint8).sort(dim=1, stable=True).indices[:, : self.options.num_beams]
            self.total = best.masked_fill(~go, -math.inf).gather(1, order)
            parent, token, log = (t.gather(1, order) for t in (parent, token, log))
            if self._stop(step, due, parent, token):
                break
            self._advance(parent, token, log, due)
            if self.progress is not None:
                shape = (len(self.sentence), self.width, -1)
                self.progress.beams(self.ids.view(shape), self.total > -math.inf, self.sentence, self.pool)
        return [pool[: self.options.num_return] for pool in self.pool]

    def candidates(self, logits: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """For each sentence the 2 × num_beams best extensions, Float|Int[A 2K] each: log-probability of the whole, beam
        (from 0 in its sentence), token, log-probability of the token. Minus infinity where there are not so many."""
        norm = None
        if self.constraints.acts(step):
            logits = logits.log_softmax(1)  # faster than logsumexp, and what `extensions` would need anyhow
            norm = logits.new_zeros(len(logits))
            logits = self.constraints.apply(logits, norm, self.ids, self.sentence.repeat_interleave(self.width))
        found = extensions(logits, self.total, 2 * self.options.num_beams, norm)
        best, place, log = self._slowly(logits, norm) if found is None else found
        if bool(best[:, 0].isnan().any()):  # NaN counts as the largest
            raise UserError(BROKEN)
        if norm is not None and self.constraints.phrases is not None:
            self.constraints.phrases.choose(logits, norm, self.total, (best, place, log), step, self.sentence)
        return best, place // logits.shape[1], place % logits.shape[1], log

    def _slowly(self, logits: Tensor, norm: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """What `extensions` finds, from the best of each beam."""
        count = 2 * self.options.num_beams
        value, token = best_of(logits, count)
        log = log_probs(logits, norm, token) if norm is None else value - norm[:, None]
        whole = (self.total.flatten()[:, None] + log).view(len(self.sentence), -1)
        missing = max(0, count - whole.shape[1])
        if missing:
            whole = functional.pad(whole, (0, missing), value=-math.inf)
        best, at = best_of(whole, count)
        at = at.clamp(max=whole.shape[1] - missing - 1)
        token, log = (t.reshape(len(self.sentence), -1).gather(1, at) for t in (token, log))
        return best, at // value.shape[1] * logits.shape[1] + token, log

    def _collect(self, finish: Tensor, best: Tensor, parent: Tensor, token: Tensor, log: Tensor) -> None:
        """Take the candidates marked in Bool[A 2K] into the pools, in the order of their log-probability."""
        rows, places = finish.nonzero(as_tuple=True)
        if not len(rows):
            return
        beams = rows * self.width + parent[rows, places]
        ids = torch.cat([self.ids[beams], token[rows, places, None]], 1).tolist()
        logs = torch.cat([self.logs[beams], log[rows, places, None]], 1).tolist()
        totals, numbers = best[rows, places].tolist(), self.sentence[rows].tolist()
        phrases = self.constraints.phrases
        more = [0.0] * len(ids) if self.cover is None else self.cover.bonus(beams, self.sentence[rows])
        for at, (row, number) in enumerate(zip(rows.tolist(), numbers, strict=True)):
            pool = self.pool[number]
            pool.append(_hypothesis(ids[at], logs[at], totals[at], self.eos, self.options, more[at]))
            pool.sort(key=lambda h: -h.score)
            del pool[self.options.num_beams :]
            enough = self.options.num_beams if phrases is None else phrases.enough(number)
            if len(pool) >= enough:
                self.worst[row] = pool[enough - 1].score

    def _stop(self, step: int, due: Tensor, parent: Tensor, token: Tensor) -> bool:
        """Close the sentences that no running hypothesis can better (or that have none); whether all are closed. parent,
        token: Int[A w], what these go on from, and with."""
        its, phrases = self.options, self.constraints.phrases
        full, running = self.worst > -math.inf, self.total.amax(1)
        if its.stopping == "first":
            done = full
        else:
            far = its.stopping == "exhaustive" and its.length_penalty > 0
            length = self.bound.to(running.dtype) if far else step + 1
            hoped = running
            if phrases is not None and its.stopping == "standard" and bool(full.any()):
                asked = full.nonzero()[:, 0]
                rows = asked[:, None] * self.width + parent[asked]
                hoped = running.index_put((asked,), (self.total[asked] - phrases.price(rows, token[asked])).amax(1))
            done = full & (hoped / its.penalty(length) <= self.worst)
        self.still = self.still & ~(done | due | (running == -math.inf))
        return not bool(self.still.any())

    def _advance(self, parent: Tensor, token: Tensor, log: Tensor, due: Tensor) -> None:
        """Let the finished sentences go, when it is worth it, and read the new tokens on the beams they belong to."""
        kept = self.still.nonzero()[:, 0]
        if len(kept) <= DROP * len(self.still) or bool(due.any()):
            self.reader.keep(kept, self.width)
            beams = (kept[:, None] * self.width + torch.arange(self.width, device=kept.device)).flatten()
            self._take(beams)
            self.bound, self.sentence, self.still = self.bound[kept], self.sentence[kept], self.still[kept]
            self.total, self.worst = self.total[kept], self.worst[kept]
            parent, token, log = parent[kept], token[kept], log[kept]
        first = torch.arange(len(self.sentence), device=parent.device)[:, None] * self.width
        rows = (first + parent).flatten()
        if self.width != self.options.num_beams or not torch.equal(rows, torch.arange(len(rows), device=rows.device)):
            self.reader.select(rows)
            self._take(rows)
        self.width = self.options.num_beams
        self.ids = torch.cat([self.ids, token.flatten()[:, None]], 1)
        self.logs = torch.cat([self.logs, log.flatten()[:, None]], 1)
        self.constraints.wrote(token.flatten())
        self.reader.tokens = token.flatten()[:, None]

    def _take(self, rows: Tensor) -> None:
        self.constraints.take(rows)
        self.ids, self.logs = self.ids[rows], self.logs[rows]
        if self.cover is not None:
            self.cover.seen = self.cover.seen[rows]

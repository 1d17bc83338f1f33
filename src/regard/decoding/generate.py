"""Many sources, endless ones too, through search: in batches of like lengths, given back in the order they came in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from threading import Barrier
from typing import Any

import torch

from regard.decoding.banks import Demand
from regard.decoding.context import after_given
from regard.decoding.options import Hypothesis, Search
from regard.decoding.progress import Tell
from regard.decoding.search import search
from regard.decoding.shortlist import Shortening, Shortlist
from regard.errors import UserError
from regard.layers.memory import keep_memory
from regard.layout import Layout

BATCH_TOKENS = 4096
LONGEST = 1024
"""Most tokens of a source that are read, whatever the model's own limit: attention's memory grows with their square."""
WINDOW = 2048


@dataclass(frozen=True)
class Job:
    """What all batches of one call share. batch_tokens: source tokens of a batch, padding counted. first: the number of the
    first source, for sampling. tell(number, ids): called with tokens of an answer as they become certain (see `search`).
    shortlist: of the target vocabulary, or None. given: for each source of the call what its decoder reads before it begins
    (`regard.decoding.context`), () for nothing."""

    options: Search
    bos: int
    eos: int
    batch_tokens: int = BATCH_TOKENS
    first: int = 0
    tell: Tell | None = None
    shortlist: Shortlist | None = None
    given: Sequence[Sequence[int]] = ()

    def __post_init__(self) -> None:
        if self.batch_tokens < 1:
            raise UserError(f"batch_tokens must be at least 1, not {self.batch_tokens}")


def translate_ids(
    model: Any,
    sources: Sequence[Sequence[int]],
    options: Search,
    bos: int,
    eos: int,
    *,
    batch_tokens: int = BATCH_TOKENS,
    prefix: Sequence[Sequence[int] | Demand] | None = None,
    workers: int | Workers = 1,
    first: int = 0,
) -> list[list[Hypothesis]]:
    """Answers for each source (input ids as the model reads them, with their end mark), in the order of the sources.

    An empty source (nothing, or the end mark alone) has one empty answer of score 0 that the model is not asked for.
    Sources of more tokens than the model or LONGEST allows lose their end; their hypotheses say source_cut.
    workers: processes of one thread each, for models on the CPU, or those that are there already. first: the number of the
    first source, on which its samples depend.
    """
    return run_job(Job(options, bos, eos, batch_tokens, first), model, sources, prefix, workers)


def run_job(
    job: Job,
    model: Any,
    sources: Sequence[Sequence[int]],
    prefix: Sequence[Sequence[int] | Demand] | None = None,
    workers: int | Workers = 1,
) -> list[list[Hypothesis]]:
    """`translate_ids` of one job."""
    if job.tell is not None and workers != 1:
        raise UserError("answers cannot be followed as they are made in worker processes: leave workers at 1")
    if prefix is not None and len(prefix) != len(sources):
        raise UserError(f"{len(prefix)} prefixes were given for {len(sources)} sources: there must be one for each")
    pairs = zip(sources, prefix if prefix is not None else [()] * len(sources), strict=True)
    return list(_stream(model, pairs, job, max(1, len(sources)), workers))


def stream_translate(
    model: Any,
    sources: Iterable[Sequence[int]],
    options: Search,
    bos: int,
    eos: int,
    *,
    batch_tokens: int = BATCH_TOKENS,
    window: int = WINDOW,
    workers: int | Workers = 1,
) -> Iterator[list[Hypothesis]]:
    """translate_ids for any number of sources, endless ones too: `window` of them are read, answered, given back."""
    if window < 1:
        raise UserError(f"window must be at least 1, not {window}")
    pairs = ((source, ()) for source in sources)
    return _stream(model, pairs, Job(options, bos, eos, batch_tokens), window, workers)


def batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Numbers of the sources, longest first, in groups whose size times longest length stays within `batch_tokens`; a
    source that is longer is a group of its own. Equal lengths keep their order."""
    groups: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lambda n: -lengths[n]):
        if groups and (len(groups[-1]) + 1) * lengths[groups[-1][0]] <= batch_tokens:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups


Pair = tuple[Sequence[int], Sequence[int] | Demand]
Task = tuple[list[Sequence[int]], list[Sequence[int] | Demand], list[int]]


def _stream(model: Any, pairs: Iterable[Pair], job: Job, window: int, workers: int | Workers) -> Iterator[list[Hypothesis]]:
    with ExitStack() as stack:
        pool = workers if isinstance(workers, Workers) else None
        if not isinstance(workers, Workers) and workers > 1:
            pool = stack.enter_context(Workers(model, workers))
        pairs, done = iter(pairs), job.first
        while chunk := list(islice(pairs, window)):
            yield from _window(model, chunk, job, done, pool)
            done += len(chunk)


def _window(model: Any, chunk: list[Pair], job: Job, done: int, pool: Workers | None) -> list[list[Hypothesis]]:
    """Answers to some sources, the first of which is number `done`."""
    limit = None if model.encoder is None else model.encoder.limit
    most = LONGEST if limit is None else min(limit, LONGEST)
    answers: list[list[Hypothesis]] = [[Hypothesis([], 0.0, 0.0)] for _ in chunk]
    nothing = ([], [job.eos]) if model.encoder is not None else ([],)
    full = [n for n, (source, _) in enumerate(chunk) if list(source) not in nothing]
    groups = [[full[n] for n in group] for group in batches([min(len(chunk[n][0]), most) for n in full], job.batch_tokens)]
    groups = [part for group in groups for part in _alike(group, job, done)]
    tasks = [
        ([_cut(chunk[n][0], most, job.eos) for n in group], [chunk[n][1] for n in group], [done + n for n in group])
        for group in groups
    ]
    for group, result in zip(groups, _answers(model, job, tasks, pool), strict=True):
        for n, hypotheses in zip(group, result, strict=True):
            cut = len(chunk[n][0]) > most
            answers[n] = [replace(h, source_cut=True) for h in hypotheses] if cut else hypotheses
    return answers


def _answers(model: Any, job: Job, tasks: list[Task], pool: Workers | None) -> Iterable[list[list[Hypothesis]]]:
    """Those to each batch, in order. Where phrases are asked for, much of the time is Python's: two batches at once, each
    on half of the cores, fill it."""
    if pool is not None:
        return pool.answers(job, tasks)
    asked = any(isinstance(one, Demand) and one.rules for _, prefix, _ in tasks for one in prefix)
    if not asked or job.tell is not None or len(tasks) < 2 or model.device.type != "cpu" or torch.get_num_threads() < 2:
        return map(partial(_answer, model, job), tasks)
    with Workers(model, 2, inside=True) as lanes:
        return list(lanes.answers(job, tasks))


def _alike(group: list[int], job: Job, done: int) -> list[list[int]]:
    """The sources of a group whose decoders have read as much before, together."""
    if not job.given:
        return [group]
    parts: dict[int, list[int]] = {}
    for n in group:
        parts.setdefault(len(job.given[done + n - job.first]), []).append(n)
    return list(parts.values())


def _cut(source: Sequence[int], most: int, eos: int) -> Sequence[int]:
    if len(source) <= most:
        return source
    return [*source[: most - 1], eos] if source[-1] == eos else source[:most]


def _answer(model: Any, job: Job, task: Task) -> list[list[Hypothesis]]:
    sources, prefix, numbers = task
    fast = getattr(model, "compiled", None)
    if fast is not None and job.tell is None and not job.given and fast.takes(job.options, prefix):
        return fast.answers(sources, job.options, job.bos, job.eos, job.shortlist)
    lengths = [len(source) for source in sources]
    left = model.encoder is None
    ids = torch.full((len(sources), max(lengths)), job.eos, dtype=torch.long)
    for row, source in enumerate(sources):
        ids[row, ids.shape[1] - len(source) if left else 0 :][: len(source)] = torch.as_tensor(source)
    layout = Layout.padded(lengths, left=left, device=model.device)
    forced = prefix if any(prefix) else None
    given = [job.given[number - job.first] for number in numbers] if job.given else []
    model = after_given(model, given, job.options)
    tell, options, marks = job.tell, job.options, (job.bos, job.eos)
    short = None
    if job.shortlist is not None:
        short = Shortening.of(model, job.shortlist, ids, options, marks, forced)
    if short is not None:
        model, options, marks, forced = short.model, short.options, (short.bos, short.eos), short.prefix

    def heard(row: int, new: list[int]) -> None:
        if tell is not None:
            tell(numbers[row], new if short is None else short.ids(new))

    listens = None if tell is None else heard
    found = search(model, ids.to(model.device), layout, options, *marks, forced, numbers=numbers, tell=listens)
    return found if short is None else short.answers(found)


class Workers:
    """Processes of one thread each that answer batches of a model on the CPU: many narrow ones are faster than one wide.
    Each takes seconds to start, so they are kept until `close`. Compiled code needs no more than threads of this process.
    count: 0 for as many as there are cores. inside: threads of this process, which share torch's among them; until `close`
    the thread that made them has no more than one share either. UserError: the model is not on the CPU."""

    def __init__(self, model: Any, count: int = 0, inside: bool = False) -> None:
        if model.device.type != "cpu":
            raise UserError(f"workers are for models on the CPU, this one is on {model.device}: leave them at 1")
        self.count = count or cores()
        self.pool: Executor
        self.threads = torch.get_num_threads() if inside else None
        if inside or getattr(model, "compiled", None) is not None:
            self.pool = _threads(self.count) if inside else ThreadPoolExecutor(self.count)
            self._work = partial(_answer, model)
        else:
            spawn = torch.multiprocessing.get_context("spawn")
            self.pool, self._work = ProcessPoolExecutor(self.count, spawn, _begin, (model,)), _work
        self.started = [self.pool.submit(int) for _ in range(self.count)]  # all start now, not each when it is first needed

    def wait(self) -> None:
        """Until all processes are there."""
        for one in self.started:
            one.result()

    def answers(self, job: Job, tasks: Iterable[Task]) -> Iterator[list[list[Hypothesis]]]:
        """Those to each batch, in order."""
        return self.pool.map(partial(self._work, job), tasks)

    def close(self) -> None:
        """End the processes."""
        self.pool.shutdown(cancel_futures=True)
        if self.threads is not None:
            torch.set_num_threads(self.threads)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def cores() -> int:
    """How many of the machine's this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _threads(count: int) -> ThreadPoolExecutor:
    """Threads that have begun, each with its share of torch's: a setting of each thread, but for MKL, which has one for all
    and takes the last; so the thread that asks has no more."""
    share, begun = max(1, torch.get_num_threads() // count), Barrier(count + 1)

    def begin() -> None:
        torch.set_num_threads(share)
        begun.wait()

    pool = ThreadPoolExecutor(count, initializer=begin)
    for _ in range(count):
        pool.submit(int)
    begun.wait()
    torch.set_num_threads(share)
    return pool


_MODEL: Any = None


def _begin(model: Any) -> None:
    """Start of a worker process: the model is shared memory, each worker has one thread."""
    global _MODEL
    _MODEL = model
    keep_memory()
    torch.set_num_threads(1)


def _work(job: Job, task: Task) -> list[list[Hypothesis]]:
    return _answer(_MODEL, job, task)

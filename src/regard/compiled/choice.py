"""What a step of a search decides, in compiled code: the best extensions of each sentence, its answers, when it is over."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.compiled.kernels import ORDER, Floats, Ints, exponential, jit

BLOCK = 32
"""Logits that are looked at together: in most blocks none is large enough."""


class Aim(NamedTuple):
    """What is looked for. far: no bound is too far for an answer to be waited for. first_token: -1 for none."""

    beams: int
    penalty: float
    gnmt: bool
    first: bool
    far: bool
    min_length: int
    first_token: int
    eos: int


class Head(NamedTuple):
    """From hidden vectors to logits of `size` tokens; weight as `packed`, bias as `filled`. suppressed: ids that are never
    written."""

    size: int
    weight: Floats
    bias: Floats
    scale: float
    suppressed: Ints


class Found(NamedTuple):
    """Finished hypotheses of each sentence, best first: score and log-probability Float[S K], number of tokens Int[S K],
    the tokens and their log-probabilities [S K T], and how many there are Int[S]."""

    score: NDArray[np.float64]
    total: NDArray[np.float64]
    size: Ints
    ids: Ints
    logs: Floats
    done: Ints


class Rows(NamedTuple):
    """Running hypotheses, those of a sentence next to each other: sentence, log-probability, tokens written and their
    log-probabilities, slots of the cache that hold their past."""

    sentence: Ints
    total: NDArray[np.float64]
    ids: Ints
    logs: Floats
    past: Ints


class Best(NamedTuple):
    """The best extensions of a sentence, best first."""

    value: NDArray[np.float64]
    row: Ints
    token: Ints
    log: NDArray[np.float64]


def _largest(x: Floats, row: int) -> np.float32:
    """Of a row of numbers among which there is no NaN; else, any."""
    top = np.float32(-np.inf)
    for i in range(x.shape[1]):
        top = max(top, x[row, i])
    return top


largest = jit(_largest, ORDER | {"nnan"})


@jit
def norm_of(logits: Floats, row: int) -> float:
    """The logarithm of the sum of a row's exponentials; NaN if a logit is."""
    top, total, check = largest(logits, row), np.float32(0), np.float32(0)
    for i in range(logits.shape[1]):
        total += exponential(logits[row, i] - top)
        check += logits[row, i]
    return math.nan if math.isnan(check) else float(top) + math.log(float(total))


@jit
def narrow(logits: Floats, row: int, norm: float, step: int, head: Head, aim: Aim) -> None:
    """Take away what may not be written now; probabilities of the rest stay."""
    for one in head.suppressed:
        logits[row, one] = -np.inf
    if step < aim.min_length:
        logits[row, aim.eos] = -np.inf
    if step == 0 and aim.first_token >= 0:
        for i in range(logits.shape[1]):
            logits[row, i] = -np.inf
        logits[row, aim.first_token] = norm  # so that its log-probability is 0


@jit
def insert(best: Best, count: int, value: float, row: int, token: int, log: float) -> int:
    """Put an extension among the best, after its equals, if it is good enough; how many there are now."""
    most = len(best.value)
    if count == most and not value > best.value[most - 1]:
        return count
    place = min(count, most - 1)
    while place > 0 and value > best.value[place - 1]:
        best.value[place], best.row[place] = best.value[place - 1], best.row[place - 1]
        best.token[place], best.log[place] = best.token[place - 1], best.log[place - 1]
        place -= 1
    best.value[place], best.row[place], best.token[place], best.log[place] = value, row, token, log
    return min(count + 1, most)


@jit
def extend(logits: Floats, row: int, norm: float, total: float, best: Best, count: int) -> int:
    """Put the extensions of a row among the best of its sentence; how many there are now."""
    most, least, size = len(best.value), np.float32(-np.inf), logits.shape[1]
    for begin in range(0, size, BLOCK):
        end, hits = min(begin + BLOCK, size), np.int32(0)
        if count == most:  # a little less, as the sum is rounded
            least = np.float32(best.value[most - 1] - total + norm - 1e-4)
        for token in range(begin, end):
            hits += np.int32(logits[row, token] >= least)
        if hits:
            for token in range(begin, end):
                if logits[row, token] >= least and logits[row, token] > -np.inf:
                    log = logits[row, token] - norm
                    count = insert(best, count, total + log, row, token, log)
    return count


@jit
def penalty_of(length: int, aim: Aim) -> float:
    """What the log-probability of an answer of so many tokens is divided by."""
    return ((5 + length) / 6 if aim.gnmt else float(length)) ** aim.penalty


@jit
def collect(best: Best, place: int, rows: Rows, step: int, aim: Aim, found: Found, sentence: int) -> None:
    """An extension is an answer: among those of its sentence, if it is good enough."""
    score, most = best.value[place] / penalty_of(step + 1, aim), found.score.shape[1]
    count = found.done[sentence]
    if count == most and not score > found.score[sentence, most - 1]:
        return
    at = min(count, most - 1)
    while at > 0 and score > found.score[sentence, at - 1]:
        found.score[sentence, at], found.total[sentence, at] = found.score[sentence, at - 1], found.total[sentence, at - 1]
        found.size[sentence, at] = found.size[sentence, at - 1]
        for i in range(found.size[sentence, at]):
            found.ids[sentence, at, i] = found.ids[sentence, at - 1, i]
            found.logs[sentence, at, i] = found.logs[sentence, at - 1, i]
        at -= 1
    found.score[sentence, at], found.total[sentence, at] = score, best.value[place]
    found.size[sentence, at] = step + 1
    for i in range(step):
        found.ids[sentence, at, i] = rows.ids[best.row[place], i]
        found.logs[sentence, at, i] = rows.logs[best.row[place], i]
    found.ids[sentence, at, step], found.logs[sentence, at, step] = best.token[place], best.log[place]
    found.done[sentence] = min(count + 1, most)


@jit
def over(sentence: int, running: float, step: int, limit: int, aim: Aim, found: Found) -> bool:
    """Whether no running hypothesis, the best of which has this log-probability, can better the answers."""
    if found.done[sentence] < found.score.shape[1]:
        return False
    if aim.first:
        return True
    return running / penalty_of(limit if aim.far else step + 1, aim) <= found.score[sentence, found.score.shape[1] - 1]


@jit
def choose(rows: Rows, begin: int, end: int, logits: Floats, head: Head, step: int, aim: Aim, best: Best) -> int:
    """The best extensions of the rows of a sentence: how many; -1 if a logit is NaN."""
    count = 0
    for row in range(begin, end):
        norm = norm_of(logits, row)
        if math.isnan(norm):
            return -1
        narrow(logits, row, norm, step, head, aim)
        count = extend(logits, row, norm, rows.total[row], best, count)
    return count


@jit
def advance(rows: Rows, best: Best, place: int, new: Rows, at: int, step: int, columns: int) -> None:
    """Row `at` of the next step: an extension of one of this."""
    row = best.row[place]
    new.sentence[at], new.total[at] = rows.sentence[row], best.value[place]
    for i in range(step):
        new.ids[at, i], new.logs[at, i] = rows.ids[row, i], rows.logs[row, i]
    new.ids[at, step], new.logs[at, step] = best.token[place], best.log[place]
    for i in range(columns):
        new.past[at, i] = rows.past[row, i]

"""Minimum Bayes risk: of many candidates the one that is most like all the others (Kumar & Byrne 2004).

The utility of a candidate is its mean sentence chrF (Popović 2015) or BLEU (Papineni et al. 2002, smoothed as sacrebleu does
it by default) with every candidate as the reference. Samples count once each, as often as they were drawn (Eikema & Aziz
2020); answers of a beam count by their probability among those of the beam. The n-grams of a candidate are counted once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.decoding.options import MOST_BEAMS, Hypothesis, Search
from regard.errors import UserError

CANDIDATES = 32
UTILITIES = ("chrf", "bleu")
CHARACTERS, WORDS, BETA = 6, 4, 2.0
"""Longest n-grams of chrF and BLEU, and how much more chrF's recall counts than its precision."""
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


@dataclass(frozen=True)
class Mbr:
    """utility: one of UTILITIES, None for no MBR. candidates: how many are made of each sentence."""

    utility: str | None = None
    candidates: int = CANDIDATES

    def __post_init__(self) -> None:
        if self.utility not in (None, *UTILITIES):
            raise UserError(f"mbr must be one of {', '.join(UTILITIES)}, not {self.utility!r}")
        count = self.candidates
        if not isinstance(count, int) or isinstance(count, bool) or not 2 <= count <= MOST_BEAMS:
            raise UserError(f"candidates must be a whole number from 2 to {MOST_BEAMS:,}, not {count!r}")

    @classmethod
    def divided(cls, named: Mapping[str, Any]) -> tuple[Mbr, dict[str, Any]]:
        """What is said of MBR among named options (mbr, candidates), and the other options."""
        rest = dict(named)
        utility, count = rest.pop("mbr", None), rest.pop("candidates", None)
        if count is not None and utility is None:
            raise UserError(f"candidates are for MBR: say mbr as well, {' or '.join(UTILITIES)}")
        return cls(utility, CANDIDATES if count is None else count), rest

    def __bool__(self) -> bool:
        return self.utility is not None

    def widened(self, options: Search) -> Search:
        """The search that makes the candidates: samples where samples are asked for, else the answers of a beam."""
        if options.sample:
            return replace(options, num_return=self.candidates)
        return replace(options, num_return=self.candidates, num_beams=max(options.num_beams, self.candidates))

    def chosen(
        self, found: Sequence[Sequence[Hypothesis]], spell: Callable[[Any], list[str]], options: Search, count: int
    ) -> list[list[Hypothesis]]:
        """Of each sentence the `count` candidates of highest expected utility, which becomes their score (0 to 100). spell:
        the texts of ids. Of candidates with one text the likeliest is kept."""
        return [self._one(each, spell([one.ids for one in each]), options.sample)[:count] for each in found]

    def _one(self, candidates: Sequence[Hypothesis], texts: Sequence[str], sampled: bool) -> list[Hypothesis]:
        if len(candidates) < 2:
            return list(candidates)
        logs = np.array([0.0 if sampled else one.log_prob for one in candidates])
        shares = np.exp(logs - logs.max())
        weight: dict[str, float] = {}
        kept: dict[str, Hypothesis] = {}
        for one, text, share in zip(candidates, texts, shares.tolist()):
            weight[text] = weight.get(text, 0.0) + share
            if text not in kept or one.log_prob > kept[text].log_prob:
                kept[text] = one
        worth = expected(list(kept), np.array(list(weight.values())), self.utility or UTILITIES[0])
        order = sorted(range(len(kept)), key=lambda n: -worth[n])
        made = list(kept.values())
        return [replace(made[n], score=float(worth[n])) for n in order]


def expected(texts: Sequence[str], weights: np.ndarray, utility: str) -> np.ndarray:
    """Float[N]: the mean utility of each text with all as references, weighted by Float[N]."""
    return utilities(texts, utility) @ (weights / weights.sum())


def utilities(texts: Sequence[str], utility: str) -> np.ndarray:
    """Float[N N]: sentence chrF or BLEU (0 to 100) of text i with text j as its reference, sacrebleu's numbers."""
    if utility == "chrf":
        return _chrf(["".join(text.split()) for text in texts])
    return _bleu([text.split() for text in _tokenised(texts)])


def _tokenised(texts: Sequence[str]) -> list[str]:
    """Words between spaces as sacrebleu's BLEU has them: with its tokenizer for Chinese where there is Chinese."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize="zh" if any(map(_HAN.search, texts)) else "13a", effective_order=True)
    return [metric._preprocess_segment(text) for text in texts]


def _matches(texts: Sequence[Sequence[str]], length: int) -> tuple[np.ndarray, np.ndarray]:
    """How many n-grams of this length each text has, Int[N], and how many each two share, Int[N N]."""
    numbers: dict[Any, int] = {}
    counts = []
    for text in texts:
        grams = Counter(tuple(text[at : at + length]) for at in range(len(text) - length + 1))
        counts.append({numbers.setdefault(gram, len(numbers)): count for gram, count in grams.items()})
    table = np.zeros((len(texts), len(numbers)), dtype=np.int32)
    for row, its in enumerate(counts):
        table[row, list(its)] = list(its.values())
    shared = np.stack([np.minimum(row, table).sum(1) for row in table])
    return table.sum(1), shared


def _chrf(texts: Sequence[str]) -> np.ndarray:
    precision = recall = used = np.zeros((len(texts), len(texts)))
    for length in range(1, CHARACTERS + 1):
        total, shared = _matches(texts, length)
        given, wanted = np.maximum(total, 1)[:, None], np.maximum(total, 1)[None]
        both = (total[:, None] > 0) & (total[None] > 0)
        used = used + both
        precision, recall = precision + both * shared / given, recall + both * shared / wanted
    precision, recall = precision / np.maximum(used, 1), recall / np.maximum(used, 1)
    below = BETA**2 * precision + recall
    return 100 * (1 + BETA**2) * precision * recall / np.where(below > 0, below, 1)


def _bleu(texts: Sequence[Sequence[str]]) -> np.ndarray:
    """Brevity penalty times the geometric mean of the precisions of all lengths that text i has; the k-th length without a
    match counts as 1 / 2^k of one (NIST's smoothing)."""
    lengths = np.array([len(text) for text in texts])
    logs = np.zeros((len(texts), len(texts)))
    halves, any_match, orders = np.zeros_like(logs), np.zeros_like(logs, dtype=bool), np.zeros_like(logs)
    for length in range(1, WORDS + 1):
        total, shared = _matches(texts, length)
        there = (total > 0)[:, None]
        halves = halves + ((shared == 0) & there)
        hits = np.where(shared > 0, shared, 0.5**halves)
        logs = logs + np.where(there, np.log(hits / np.maximum(total, 1)[:, None]), 0.0)
        orders, any_match = orders + there, any_match | (shared > 0)
    short = 1 - lengths[None] / np.maximum(lengths, 1)[:, None]
    return np.where(any_match, 100 * np.exp(np.minimum(short, 0.0) + logs / np.maximum(orders, 1)), 0.0)

"""Reranking: of a translator's n best answers the one that several models like best together.

Noisy channel: how likely a reverse model finds the source given the answer, and a language model the answer itself (Yee et
al. 2019, Ng et al. 2019). Right to left: a model that writes the answer from its end (Liu et al. 2016). What counts is a
weighted sum of these, of the translator's own score and of the length; the weights are found on a development set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from regard.decoding.alignment import forced
from regard.decoding.generate import BATCH_TOKENS, batches
from regard.errors import UserError
from regard.evaluation.scores import SACREBLEU, References, Scoring, check_references

OWN = ("model", "length")
"""Features that need no further model: the translator's score, and tokens of the answer for a token of the source."""
KINDS = ("reverse", "language", "right_to_left")
"""Further models: of the source given the answer, of the answer, of the answer from its end."""
CANDIDATES = 10
STEPS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
STARTS = 4

Change = Callable[[str], str]


def _same(text: str) -> str:
    return text


@dataclass(frozen=True)
class Scorer:
    """A further model. kind: one of KINDS. loaded: a Translator, or for "language" a Generator. prepare: what is done to
    what it reads and to what it writes before it sees them."""

    kind: str
    loaded: Any
    prepare: tuple[Change, Change] = (_same, _same)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UserError(f"unknown kind of scorer {self.kind!r}: choose among {', '.join(KINDS)}")

    def __call__(self, sources: Sequence[str], answers: Sequence[str]) -> list[float]:
        """The mean log-probability of a token that this model gives each pair."""
        read, write = self.prepare
        if self.kind == "language":
            return of_texts(self.loaded, [write(text) for text in answers])
        given, wanted = (answers, sources) if self.kind == "reverse" else (sources, answers)
        return of_pairs(self.loaded, [read(text) for text in given], [write(text) for text in wanted])


def of_pairs(translator: Any, sources: Sequence[str], answers: Sequence[str]) -> list[float]:
    """The mean log-probability, in nats, of a token of each answer to its source, the end mark among them."""
    framed = [translator.frame(ids)[0][0] for ids in translator.tokenizer.encode_batch(list(sources))]
    wanted = [(ids, True) for ids in translator.tokenizers.target.encode_batch(list(answers))]
    limit = translator.model.decoder.limit
    if limit is not None:  # what has no position is not counted
        wanted = [(ids[: limit - 1], len(ids) < limit) for ids, _ in wanted]
    found = forced(translator.model, framed, wanted, *translator.marks())
    return [_mean(one.log_probs) for one in found]


def of_texts(generator: Any, texts: Sequence[str]) -> list[float]:
    """The mean log-probability, in nats, of a token of each text under a language model, its end mark among them."""
    start, ends = generator.prompt_ids(""), generator.ends[:1]
    rows = [[*start, *ids, *ends][: generator.limit] for ids in generator.tokenizer.encode_batch(list(texts))]

    found = []
    for group in batches([len(ids) for ids in rows], BATCH_TOKENS):  # so that no more than a batch's logits are kept
        framed = [(rows[n], [0] * len(rows[n])) for n in group]
        tables = generator.read(framed, lambda answer, row, length: answer.logits[row, len(start) - 1 : length - 1])
        for n, table in zip(group, tables):
            wanted = torch.tensor(rows[n][len(start) :], device=table.device)[:, None]
            found.append((n, _mean(table.float().log_softmax(-1).gather(1, wanted)[:, 0].tolist())))
    return [value for _, value in sorted(found)]


def _mean(logs: Sequence[float]) -> float:
    return sum(logs) / max(len(logs), 1)


class Reranker:
    """A translator whose answers are chosen by a weighted sum of features among its `candidates` best.

    weights: by name of the feature, "model" and those of `scorers` among them; those that are not there weigh nothing.
    """

    def __init__(
        self,
        translator: Any,
        scorers: Sequence[Scorer],
        weights: Mapping[str, float] | None = None,
        candidates: int = CANDIDATES,
    ) -> None:
        self.translator, self.scorers, self.candidates = translator, list(scorers), candidates
        self.names = [*OWN, *(scorer.kind for scorer in scorers)]
        if len(set(self.names)) < len(self.names):
            raise UserError("two models of one kind were given for reranking: give one")
        self.weights = dict.fromkeys(self.names, 0.0) | {"model": 1.0} | dict(weights or {})
        strange = [name for name in self.weights if name not in self.names]
        if strange:
            raise UserError(f"the weight of {strange[0]!r} has no model; there are {', '.join(self.names)}")
        if candidates < 2:
            raise UserError(f"reranking needs 2 candidates at least, not {candidates}")

    @property
    def meta(self) -> dict[str, Any]:
        """What the translator's folder knows."""
        return self.translator.meta

    @property
    def model(self) -> Any:
        """The translator's model."""
        return self.translator.model

    @property
    def tokenizers(self) -> Any:
        """The translator's tokenizers."""
        return self.translator.tokenizers

    @property
    def search(self) -> Any:
        """The translator's search."""
        return self.translator.search

    def fits(self, text: str) -> bool:
        """Whether the translator's model reads all of a text."""
        return self.translator.fits(text)

    def translate(self, texts: Sequence[str], *, details: bool = False, **options: Any) -> list[Any]:
        """As `Translator.translate`; scores are the weighted sums."""
        wanted = options.pop("num_return", None) or 1
        found = self.lists(texts, **options)
        weights = np.array([self.weights[name] for name in self.names])
        answers = [self._ordered(one, table @ weights, wanted) for one, table in zip(found, self.features(found))]
        return answers if details else [one.text for one in answers]

    def lists(self, texts: Sequence[str], **options: Any) -> list[Any]:
        """The candidates of each text: a Translation with the others as its alternatives."""
        count = max(self.candidates, options.get("num_beams") or self.translator.search.num_beams)
        named = options if options.get("sample") else options | {"num_beams": count}
        return self.translator.translate(list(texts), details=True, num_return=self.candidates, **named)

    def features(self, found: Sequence[Any]) -> list[np.ndarray]:
        """Float[K F] for each list of K candidates, in the order of `names`."""
        lists = [[one, *one.alternatives] for one in found]
        rows = [(first.source, one.text) for first, each in zip(found, lists) for one in each]
        sources, answers = [source for source, _ in rows], [text for _, text in rows]
        encoded = self.translator.tokenizer.encode_batch(sources)
        own = [one for each in lists for one in each]
        columns = [[one.score for one in own], [len(one.ids) / max(len(ids), 1) for one, ids in zip(own, encoded)]]
        columns += [scorer(sources, answers) for scorer in self.scorers]
        table = np.array(columns, dtype=float).T
        ends = np.cumsum([len(each) for each in lists])
        return np.split(table, ends[:-1])

    @staticmethod
    def _ordered(first: Any, worth: np.ndarray, count: int) -> Any:
        every = [first, *first.alternatives]
        first.alternatives = []
        order = sorted(range(len(every)), key=lambda n: -worth[n])
        for n, one in enumerate(every):
            one.score = float(worth[n])
        best = every[order[0]]
        best.alternatives = [every[n] for n in order[1:count]]
        return best


@dataclass(frozen=True)
class Tuned:
    """weights: by feature. before, after: the metric on the development set without and with them. first, held_out: what
    the translator says, and what weights that were found on the other half of the set choose."""

    weights: dict[str, float]
    before: float
    after: float
    first: list[str]
    held_out: list[str]


def tune(
    reranker: Reranker, sources: Sequence[str], references: References, metric: str = "bleu", seed: int = 1, **options: Any
) -> Tuned:
    """Find the weights that score best on a development set, by search along one weight after another from several starts.
    The weight of the translator's own score stays 1. UserError: unequal counts, an unknown metric."""
    if metric not in SACREBLEU:
        raise UserError(f"unknown metric {metric!r}: choose among {', '.join(SACREBLEU)}")
    sets = check_references(references, len(sources))
    found = reranker.lists(sources, **options)
    texts = [[one.text, *(each.text for each in one.alternatives)] for one in found]
    its = SACREBLEU[metric](Scoring(reranker.meta.get("target")))
    lists = _Lists(
        its, metric == "ter", reranker.features(found), [_statistics(its, sets, n, t) for n, t in enumerate(texts)]
    )
    everything = np.arange(len(texts))
    weights = lists.best(everything, seed)
    chosen = np.zeros(len(texts), dtype=int)
    for half in (0, 1):
        rows, others = everything[half::2], everything[1 - half :: 2]
        learned = lists.best(others if len(others) else rows, seed)
        chosen[rows] = lists.chosen(rows, learned)
    usual = lists.start()
    return Tuned(
        dict(zip(reranker.names, weights.tolist())),
        lists.score(everything, usual),
        lists.score(everything, weights),
        [each[0] for each in texts],
        [each[n] for each, n in zip(texts, chosen.tolist())],
    )


def _statistics(metric: Any, sets: list[list[str | None]], line: int, texts: Sequence[str]) -> np.ndarray:
    """Int[K S]: what each candidate adds to the statistics of the metric."""
    row = [[lines[line]] * len(texts) for lines in sets]
    return np.array(metric._extract_corpus_statistics(list(texts), row), dtype=float)


class _Lists:
    """Features and statistics of all candidates, filled up to equal counts."""

    def __init__(self, metric: Any, lower: bool, features: Sequence[np.ndarray], statistics: Sequence[np.ndarray]) -> None:
        self.metric, self.sign = metric, -1.0 if lower else 1.0
        most = max(map(len, features))
        self.features = np.stack([np.pad(one, ((0, most - len(one)), (0, 0)), mode="edge") for one in features])
        self.statistics = np.stack([np.pad(one, ((0, most - len(one)), (0, 0)), mode="edge") for one in statistics])
        within = np.concatenate([one - one.mean(0) for one in features])
        self.spread = np.maximum(within.std(0), 1e-9)

    def start(self) -> np.ndarray:
        """The weights that leave the translator's order as it is."""
        return np.eye(self.features.shape[2])[0]

    def chosen(self, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The best candidate of each of these sentences."""
        return (self.features[rows] @ weights).argmax(1)

    def score(self, rows: np.ndarray, weights: np.ndarray) -> float:
        """The metric of these sentences' best candidates."""
        total = self.statistics[rows, self.chosen(rows, weights)].sum(0)
        return float(self.metric._compute_score_from_stats(total.tolist()).score)

    def best(self, rows: np.ndarray, seed: int) -> np.ndarray:
        """The best weights that coordinate search finds from no others and from random ones; fewest others among equals."""
        random = np.random.default_rng(seed)
        unit = self.spread[0] / self.spread
        starts = [self.start(), *(self.start() + np.r_[0, random.normal(size=len(unit) - 1)] * unit for _ in range(STARTS))]
        found = [self._climb(rows, weights, unit) for weights in starts]
        return max(found, key=lambda pair: pair[0])[1]

    def _climb(self, rows: np.ndarray, weights: np.ndarray, unit: np.ndarray) -> tuple[float, np.ndarray]:
        best = self.sign * self.score(rows, weights)
        better = True
        while better:
            better = False
            for place in range(1, len(weights)):
                for step in (-weights[place], *(sign * size * unit[place] for size in STEPS for sign in (1, -1))):
                    tried = weights.copy()
                    tried[place] += step
                    worth = self.sign * self.score(rows, tried)
                    if worth > best + 1e-9:
                        best, weights, better = worth, tried, True
        return best, weights

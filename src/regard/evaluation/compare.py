"""Two systems against the same references: is the difference more than chance, and where does it lie."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from regard.errors import UserError
from regard.evaluation.breakdown import WordBucket, by_frequency, unknown_words
from regard.evaluation.comet import Comet
from regard.evaluation.cost import Cost
from regard.evaluation.resampling import Side, Test, of_sums
from regard.evaluation.scores import (
    CHINESE,
    COUNTED,
    LOWER_IS_BETTER,
    METRICS,
    SACREBLEU,
    References,
    Scoring,
    check_metrics,
    check_references,
    counted,
)


@dataclass(frozen=True)
class Comparing:
    """How to compare. metrics: those of `score`, and comet where `comet` is there. samples, seed: of the paired
    bootstrap and of approximate randomisation. buckets: last length of each bucket of source words. worst: how many
    sentences to show for each system. source_language: where it is Chinese or Japanese, lengths count characters.
    source_words: those of the text that was learned from; source sentences are parted by how many others they have.
    target_words: how often that text has each; None: how often the references do."""

    metrics: Sequence[str] = ("bleu", "chrf")
    samples: int = 1000
    seed: int = 12345
    buckets: Sequence[int] = (5, 10, 15, 20, 25, 30)
    worst: int = 5
    source_language: str | None = None
    scoring: Scoring = Scoring()
    source_words: Collection[str] | None = None
    target_words: Mapping[str, int] | None = None
    comet: Comet | None = None

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise UserError(f"samples must be 1 or more, not {self.samples}")
        if self.seed < 1:
            # sacrebleu takes seed 0 for no seed at all, and the result would change from run to run
            raise UserError(f"seed must be 1 or more, not {self.seed}")
        if list(self.buckets) != sorted(set(self.buckets)) or any(edge < 1 for edge in self.buckets):
            raise UserError(f"buckets must be growing lengths from 1 on, not {list(self.buckets)}")


@dataclass(frozen=True)
class Bucket:
    """BLEU of the sentences whose length, or count of unknown words, lies in a range."""

    lengths: str
    sentences: int
    first: float
    second: float


@dataclass(frozen=True)
class Sentence:
    """A sentence with each system's answer and sentence-level chrF."""

    line: int
    source: str | None
    reference: str
    first: str
    second: str
    first_chrf: float
    second_chrf: float


@dataclass(frozen=True)
class Comparison:
    """What `compare` found. measure: what the lengths of the buckets count. unknown: by source words that were never
    learned from; [] where they are not known. words: of the target, by frequency. counted: where the frequency comes from.
    costs: of systems that were run for it."""

    names: tuple[str, str]
    sentences: int
    tests: list[Test]
    buckets: list[Bucket]
    measure: str
    better_first: list[Sentence]
    better_second: list[Sentence]
    samples: int
    seed: int
    unknown: list[Bucket] = field(default_factory=list)
    words: list[WordBucket] = field(default_factory=list)
    counted: str = "references"
    costs: list[Cost] = field(default_factory=list)

    def lines(self) -> list[str]:
        """A table for the terminal."""
        from regard.evaluation.tables import comparison_lines

        return comparison_lines(self)

    def json(self) -> dict[str, Any]:
        """One JSON-able object."""
        from dataclasses import asdict

        return asdict(self)


def compare(
    references: References,
    first: Sequence[str],
    second: Sequence[str],
    sources: Sequence[str] | None = None,
    names: tuple[str, str] = ("A", "B"),
    options: Comparing | None = None,
) -> Comparison:
    """Compare two lists of translations of the same sentences.

    references: as for `score`. sources: their lengths make the buckets (without them the first reference's do). The
    paired bootstrap (Koehn 2004) is sacrebleu's own. UserError: unequal counts, empty references, wrong options.
    """
    options = options or Comparing()
    metrics = check_metrics(options.metrics, (*METRICS, *(["comet"] if options.comet else [])))
    if len(first) != len(second):
        raise UserError(f"{names[0]} has {len(first)} lines but {names[1]} has {len(second)}: they must be equal")
    sets = check_references(references, len(first), options.scoring.allow_empty)
    if sources is not None and len(sources) != len(first):
        raise UserError(f"{len(first)} translations but {len(sources)} source lines: they must be equal")
    tests = _tests(sets, first, second, [name for name in metrics if name in SACREBLEU], options)
    allowed = [[r for r in row if r is not None] for row in zip(*sets)]
    for name in (name for name in metrics if name in COUNTED):
        (one, signature), (two, _) = (counted(name, texts, allowed, options.scoring) for texts in (first, second))
        tests.append(of_sums(name, signature, (one, two), options.samples, options.seed))
    if options.comet is not None and "comet" in metrics:
        tests.append(_comet(options.comet, sources, sets, (first, second), options))
    measured, unit = _lengths(sources, sets, options)
    buckets = _buckets(sets, first, second, measured, options.buckets, options)
    unknown: list[Bucket] = []
    if sources is not None and options.source_words is not None:
        counts = unknown_words(sources, options.source_words, options.source_language)
        unknown = _buckets(sets, first, second, counts, (0, 1, 2), options)
    words = by_frequency(sets, first, second, options.target_words, options.scoring)
    better_first, better_second = _extremes(sets, first, second, sources, options)
    return Comparison(
        names, len(first), tests, buckets, f"{unit} of the {'source' if sources is not None else 'reference'}",
        better_first, better_second, options.samples, options.seed, unknown, words,
        "references" if options.target_words is None else "training text",
    )  # fmt: skip


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """sacrebleu reads its seed from the environment only."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = before


def _tests(
    sets: list[list[str | None]], first: Sequence[str], second: Sequence[str], metrics: list[str], options: Comparing
) -> list[Test]:
    from sacrebleu.significance import PairedTest

    tests = []
    systems = cast(Any, [("first", list(first)), ("second", list(second))])
    references = cast(Any, sets)
    for name in metrics:
        metric = _remembering(SACREBLEU[name](options.scoring))
        with _seeded(options.seed):
            signatures, table = PairedTest(systems, {name: metric}, references, "bs", options.samples)()
            _, randomised = PairedTest(systems, {name: metric}, references, "ar", options.samples)()
        own = next(key for key in table if key != "System")
        one, two = cast(Any, table[own])
        low, high = _interval(metric, systems, references, options)
        p_values = [float(cast(Any, found[own][1]).p_value) for found in (table, randomised)]
        sides = [Side(float(r.score), float(r.mean), float(r.ci)) for r in (one, two)]
        gap = sides[1].score - sides[0].score
        if gap == 0:  # which no resample can exceed or fall short of: sacrebleu would call it unlikely
            p_values = [1.0, 1.0]
        tests.append(Test(name, str(signatures[own]), sides[0], sides[1], gap, low, high, p_values[0], p_values[1]))
    return tests


def _remembering(metric: Any) -> Any:
    """The metric, which looks at each list of texts only once: TER takes its time."""
    extract, known = metric._extract_corpus_statistics, {}

    def remembered(hypotheses: list[str], references: Any) -> Any:
        if id(hypotheses) not in known:
            known[id(hypotheses)] = extract(hypotheses, references)
        return known[id(hypotheses)]

    metric._extract_corpus_statistics = remembered
    return metric


def _comet(
    comet: Comet, sources: Sequence[str] | None, sets: list[list[str | None]], sides: tuple[Sequence[str], Sequence[str]],
    options: Comparing,
) -> Test:  # fmt: skip
    """The mean of COMET's judgements of single sentences."""
    if sources is None:
        raise UserError("COMET reads the sources too: give --source FILE")
    references = [next(r for r in row if r is not None) for row in zip(*sets)]
    one, two = ([(value, 1.0) for value in comet.judge(sources, list(texts), references)] for texts in sides)
    return of_sums("comet", comet.signature, (one, two), options.samples, options.seed)


def _interval(metric: Any, systems: Any, references: Any, options: Comparing) -> tuple[float, float]:
    """95 % interval of the difference, over the resamples that sacrebleu draws from the same seed."""
    one, two = (np.array(metric._extract_corpus_statistics(text, references), dtype=float) for _, text in systems)
    random, count = np.random.default_rng(options.seed), len(one)
    rows = random.choice(count, size=(options.samples, count), replace=True)

    def value(stats: np.ndarray) -> float:
        return metric._compute_score_from_stats(list(stats.sum(0))).score

    differences = [value(two[row]) - value(one[row]) for row in rows]
    low, high = np.percentile(differences, [2.5, 97.5])
    return float(low), float(high)


def _lengths(sources: Sequence[str] | None, sets: list[list[str | None]], options: Comparing) -> tuple[list[int], str]:
    language = options.source_language if sources is not None else options.scoring.language
    texts = sources if sources is not None else [next(r for r in row if r is not None) for row in zip(*sets)]
    if (language or "").lower().replace("_", "-").split("-")[0] in CHINESE | {"ja", "jpn"}:
        return [len("".join(text.split())) for text in texts], "characters"
    return [len(text.split()) for text in texts], "words"


def _buckets(
    sets: list[list[str | None]],
    first: Sequence[str],
    second: Sequence[str],
    lengths: Sequence[int],
    edges: Sequence[int],
    options: Comparing,
) -> list[Bucket]:
    """BLEU of the sentences whose length lies up to each edge, from the one before on."""
    metric, least = SACREBLEU["bleu"](options.scoring), min(edges[0] if edges else 1, 1)
    buckets, low = [], least - 1
    for high in (*edges, None):
        rows = [i for i, length in enumerate(lengths) if low < max(length, least) and (high is None or length <= high)]
        label = f"over {low}" if high is None else f"{low + 1}-{high}" if high > low + 1 else str(high)
        if rows:
            chosen = [[lines[i] for i in rows] for lines in sets]
            scores = [float(metric.corpus_score([text[i] for i in rows], chosen).score) for text in (first, second)]
            buckets.append(Bucket(label, len(rows), *scores))
        low = low if high is None else high
    return buckets


def _extremes(
    sets: list[list[str | None]],
    first: Sequence[str],
    second: Sequence[str],
    sources: Sequence[str] | None,
    options: Comparing,
) -> tuple[list[Sentence], list[Sentence]]:
    """Where the first system is better by most, and where the second is: by sentence-level chrF."""
    sentences = sentences_of(sets, first, second, sources, options.scoring)
    sentences.sort(key=lambda s: s.second_chrf - s.first_chrf)
    better_first = [s for s in sentences[: options.worst] if s.first_chrf > s.second_chrf]
    better_second = [s for s in sentences[::-1][: options.worst] if s.second_chrf > s.first_chrf]
    return better_first, better_second


def sentences_of(
    sets: Sequence[Sequence[str | None]],
    first: Sequence[str],
    second: Sequence[str],
    sources: Sequence[str] | None,
    scoring: Scoring,
) -> list[Sentence]:
    """The sentences in which two systems differ, with the chrF of each, in order."""
    metric, found = SACREBLEU["chrf"](scoring), []
    for i, allowed in enumerate(zip(*sets)):
        if first[i] == second[i]:
            continue
        refs = [r for r in allowed if r is not None]
        one, two = (float(metric.sentence_score(text[i], refs).score) for text in (first, second))
        found.append(Sentence(i + 1, None if sources is None else sources[i], refs[0], first[i], second[i], one, two))
    return found


def verdict(test: Test, names: tuple[str, str], level: float = 0.05) -> str:
    """In words, whether the difference is more than chance at the given level."""
    if test.p_value >= level or test.difference == 0:
        return "no difference beyond chance"
    second = (test.difference > 0) != (test.metric in LOWER_IS_BETTER)
    return f"{names[second]} is better"

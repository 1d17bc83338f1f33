"""A comparison as lines for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.evaluation.compare import Comparison, Sentence
    from regard.evaluation.cost import Cost


def comparison_lines(found: Comparison) -> list[str]:
    """Scores with intervals, BLEU by length, and the sentences that differ most."""
    from regard.evaluation.compare import verdict

    a, b = found.names
    out = [
        f"A: {a}",
        f"B: {b}",
        f"{found.sentences:,} sentences; paired bootstrap (p), {found.samples} resamples, seed {found.seed};"
        " approximate randomisation (p AR), as many shuffles; 95 % intervals",
        "",
        f"{'':8} {'A':>18} {'B':>18} {'B - A':>26} {'p':>8} {'p AR':>8}",
    ]
    for t in found.tests:
        one, two = (f"{s.score:.2f} ({s.mean:.2f} ± {s.half_width:.2f})" for s in (t.first, t.second))
        gap = f"{t.difference:+.2f} [{t.low:+.2f}, {t.high:+.2f}]"
        out.append(
            f"{t.metric:8} {one:>18} {two:>18} {gap:>26} {t.p_value:8.4f} {t.p_randomised:8.4f}  {verdict(t, ('A', 'B'))}"
        )
    out += [f"  {t.metric}: {t.signature}" for t in found.tests]
    rows = [(row.lengths, row.sentences, row.first, row.second) for row in found.buckets]
    out += _rows(f"BLEU by {found.measure}", ("length", "sentences"), rows)
    if found.unknown:
        rows = [(row.lengths, row.sentences, row.first, row.second) for row in found.unknown]
        out += _rows("BLEU by source words that were never learned from", ("unknown", "sentences"), rows)
    rows = [(row.frequency, row.words, row.first, row.second) for row in found.words]
    out += _rows(f"F1 of words by their frequency in the {found.counted}", ("frequency", "words"), rows)
    if found.costs:
        out += ["", "what they cost"]
        out += [_cost(cost) for cost in found.costs]
    for name, sentences in (("A", found.better_first), ("B", found.better_second)):
        if sentences:
            out += ["", f"where {name} is better by most (sentence chrF)"]
            out += [line for sentence in sentences for line in _sentence(sentence)]
    return out


def _rows(title: str, names: tuple[str, str], rows: list[tuple[str, int, float, float]]) -> list[str]:
    head = f"{names[0]:>10} {names[1]:>10} {'A':>8} {'B':>8} {'B - A':>8}"
    return ["", title, head, *(f"{label:>10} {count:>10,} {a:8.2f} {b:8.2f} {b - a:+8.2f}" for label, count, a, b in rows)]


def _cost(cost: Cost) -> str:
    peak = "" if cost.peak is None else f", {cost.peak:,.0f} MB more while translating"
    speed = f"{cost.seconds:.1f} s, {cost.a_second:,.1f} sentences a second"
    return f"  {cost.name}: {cost.parameters:,} weights in {cost.megabytes:,.1f} MB; {speed}{peak}"


def _sentence(its: Sentence) -> list[str]:
    source = [] if its.source is None else [f"        source     {its.source}"]
    return [
        f"line {its.line}",
        *source,
        f"        reference  {its.reference}",
        f"  {its.first_chrf:5.1f} A       {its.first}",
        f"  {its.second_chrf:5.1f} B       {its.second}",
    ]

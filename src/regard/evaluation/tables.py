"""A comparison as lines for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.evaluation.compare import Comparison, Sentence


def comparison_lines(found: Comparison) -> list[str]:
    """Scores with intervals, BLEU by length, and the sentences that differ most."""
    from regard.evaluation.compare import verdict

    a, b = found.names
    out = [
        f"A: {a}",
        f"B: {b}",
        f"{found.sentences:,} sentences; paired bootstrap, {found.samples} resamples, seed {found.seed}; 95 % intervals",
        "",
        f"{'':8} {'A':>18} {'B':>18} {'B - A':>26} {'p':>8}",
    ]
    for t in found.tests:
        one, two = (f"{s.score:.2f} ({s.mean:.2f} ± {s.half_width:.2f})" for s in (t.first, t.second))
        gap = f"{t.difference:+.2f} [{t.low:+.2f}, {t.high:+.2f}]"
        out.append(f"{t.metric:8} {one:>18} {two:>18} {gap:>26} {t.p_value:8.4f}  {verdict(t, ('A', 'B'))}")
    out += [f"  {t.metric}: {t.signature}" for t in found.tests]
    out += ["", f"BLEU by {found.measure}", f"{'length':>10} {'sentences':>10} {'A':>8} {'B':>8} {'B - A':>8}"]
    out += [
        f"{row.lengths:>10} {row.sentences:>10,} {row.first:8.2f} {row.second:8.2f} {row.second - row.first:+8.2f}"
        for row in found.buckets
    ]
    for name, sentences in (("A", found.better_first), ("B", found.better_second)):
        if sentences:
            out += ["", f"where {name} is better by most (sentence chrF)"]
            out += [line for sentence in sentences for line in _sentence(sentence)]
    return out


def _sentence(its: Sentence) -> list[str]:
    source = [] if its.source is None else [f"        source     {its.source}"]
    return [
        f"line {its.line}",
        *source,
        f"        reference  {its.reference}",
        f"  {its.first_chrf:5.1f} A       {its.first}",
        f"  {its.second_chrf:5.1f} B       {its.second}",
    ]

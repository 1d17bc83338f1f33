"""Measures of classes: accuracy, F1, and F1 of the spans that tags mark."""

from __future__ import annotations

from collections.abc import Sequence


def accuracy(answers: Sequence[int], right: Sequence[int]) -> float:
    """Share (0 to 1) of answers that are right; ValueError for none."""
    if not right or len(answers) != len(right):
        raise ValueError(f"{len(answers)} answers to {len(right)} questions")
    return sum(one == other for one, other in zip(answers, right)) / len(right)


def macro_f1(answers: Sequence[int], right: Sequence[int]) -> float:
    """The mean over classes of 2PR / (P + R), 0 to 1; a class that is neither answered nor right does not count, one that
    is but never both counts 0 (as scikit-learn has it)."""
    scores = []
    for one in sorted({*answers, *right}):
        both = sum(a == r == one for a, r in zip(answers, right))
        scores.append(2 * both / (sum(a == one for a in answers) + sum(r == one for r in right)))
    return sum(scores) / len(scores)


def spans(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """The spans (kind, first, after) that IOB tags mark, as CoNLL's own script reads them: B- begins one, I- goes on with
    one of its kind, or begins one where none is before it."""
    found, kind, first = set(), "", 0
    for at, tag in enumerate([*tags, "O"]):
        head, _, name = tag.partition("-")
        if kind and (head in ("B", "O") or name != kind):
            found.add((kind, first, at))
            kind = ""
        if head in ("B", "I") and not kind:
            kind, first = name, at
    return found


def span_f1(answers: Sequence[Sequence[str]], right: Sequence[Sequence[str]]) -> float:
    """F1 (0 to 1) of whole spans over all sentences: a span counts where kind and both ends are right (Tjong Kim Sang and De
    Meulder 2003)."""
    both = made = wanted = 0
    for one, other in zip(answers, right, strict=True):
        ours, theirs = spans(one), spans(other)
        both, made, wanted = both + len(ours & theirs), made + len(ours), wanted + len(theirs)
    return 2 * both / (made + wanted) if made + wanted else 1.0

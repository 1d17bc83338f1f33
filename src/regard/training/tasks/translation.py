"""Text from another text: translation, and whatever else is said so (phonemes, inflection, summaries)."""

from __future__ import annotations

from regard.architecture import Model
from regard.training.prepare import Prepared, prepare_pairs
from regard.training.recipe import Recipe
from regard.training.validate import Verdict, judge, look

__all__ = ["look", "prepare", "test"]

prepare = prepare_pairs


def test(model: Model, recipe: Recipe, prepared: Prepared) -> Verdict | None:
    """Write the test pairs' targets by the recipe's search, and score them."""
    if not prepared.test_pairs:
        return None
    texts, found = judge(model, recipe, prepared, prepared.test_pairs, greedy=False)
    return Verdict({name: {"value": round(s.value, 3), "signature": s.signature} for name, s in found.items()}, texts)

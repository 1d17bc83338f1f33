"""Values of a trace refuse what they do not know."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from regard.inspection.values import Chance, Checks, Token


def test_unknown_keys_and_numbers_that_json_lacks_are_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        Chance(id=1, p=0.5, q=1)  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match="finite number"):
        Checks(row_sum=float("nan"), output=0.0, dtype="float32", kernel="sdpa")


def test_parts_are_pairs() -> None:
    token = Token(id=1, piece="x", start=0, end=1, word=0, special=False, part=(0, 2), bytes="e9")
    assert Token.model_validate_json(token.model_dump_json()) == token
    with pytest.raises(ValidationError):
        Token(id=1, piece="x", start=0, end=1, word=0, special=False, part=(0, 2, 3))  # type: ignore[arg-type]

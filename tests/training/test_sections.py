"""The schema: everything is documented, nothing is silently converted."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from regard.text.clean import Rules
from regard.training.recipe import Recipe
from regard.training.sections import Clean, Data, Tokens, Training


def sections(model: type[BaseModel]) -> list[type[BaseModel]]:
    inner = [info.annotation for info in model.model_fields.values()]
    below = [one for one in inner if isinstance(one, type) and issubclass(one, BaseModel)]
    return [model, *(found for one in below for found in sections(one))]


@pytest.mark.parametrize("section", sections(Recipe), ids=lambda one: one.__name__)
def test_every_key_says_what_it_means(section: type[BaseModel]) -> None:
    for name, info in section.model_fields.items():
        assert info.description, name
        assert not info.description.endswith("."), name


def test_whole_floats_are_whole_numbers_and_nothing_else_is() -> None:
    assert Training(max_steps=1e4).max_steps == 10_000
    for value in ("10", True, 1.5, None):
        with pytest.raises(ValidationError):
            Training(max_steps=3, seed=value)


def test_one_word_stands_for_a_list_of_one() -> None:
    assert Data(train="a", preprocess="no-stress").preprocess == ["no-stress"]


def test_what_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValidationError, match="named data set"):
        Data()
    with pytest.raises(ValidationError, match="shared"):
        Tokens(target_kind="words")
    with pytest.raises(ValidationError, match="kind: bpe"):
        Tokens(kind="unigram", dropout=0.1)
    assert Tokens(kind="bpe", dropout=0.1).dropout == 0.1
    with pytest.raises(ValidationError, match="betas"):
        Training(max_steps=1, betas=[0.9, 1.0])
    with pytest.raises(ValidationError):
        Clean(max_ratio=float("nan"))


def test_the_rules_of_cleaning_are_the_cleaners_own_with_its_defaults() -> None:
    assert Clean().model_dump() == vars(Rules())

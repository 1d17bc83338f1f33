"""Options of a search: both dialects, and one line for what makes no sense."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from regard.decoding import Search, search_options
from regard.decoding.options import ALIASES, canonical, read_options
from regard.errors import UserError


@pytest.mark.parametrize(("ours", "alias"), [(ours, alias) for ours, aliases in ALIASES.items() for alias in aliases])
def test_every_dialect_means_the_same(ours, alias) -> None:
    value = {"sample": True, "stopping": "first", "suppress_tokens": (0,), "top_p": 0.5, "num_beam_groups": 5}.get(ours, 3)
    assert search_options(**{alias: value}) == search_options(**{ours: value})
    assert canonical(alias.replace("_", "-")) == ours
    with pytest.raises(UserError, match="given twice"):
        search_options(**{alias: value, ours: value})


def test_none_keeps_what_was_there() -> None:
    base = Search(num_beams=7, length_penalty=0.6)
    assert search_options(base, num_beams=None, alpha=1.5) == Search(num_beams=7, length_penalty=1.5)
    assert search_options(base, n_best=9).num_beams == 9
    assert read_options({"beam_size": 2, "max_length": None}) == Search(num_beams=2)


@pytest.mark.parametrize(("early", "stopping"), [(True, "first"), (False, "standard"), ("never", "exhaustive")])
def test_early_stopping_in_the_other_dialect(early, stopping) -> None:
    assert search_options(early_stopping=early).stopping == stopping


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"num_beam": 3}, "did you mean num_beams"),
        ({"lenght_penalty": 3}, "did you mean length_penalty"),
        ({"zzz": 3}, "known: coverage_penalty"),
        ({"num_beams": 0}, "num_beams must be a whole number from 1 to 1,000, not 0"),
        ({"num_beams": 10000}, "from 1 to 1,000"),
        ({"num_beams": -1}, "not -1"),
        ({"n_best": "abc"}, "num_return must be a whole number"),
        ({"num_beams": True}, "not True"),
        ({"num_beams": 2.0}, "a whole number"),
        ({"length_penalty": math.nan}, "not nan"),
        ({"top_p": 1.5}, "top_p must be a number from 0 to 1"),
        ({"temperature": -0.1}, "of at least 0"),
        ({"seed": -1}, "seed"),
        ({"stopping": "soon"}, "standard, first, exhaustive"),
        ({"length_form": "wu"}, "power, gnmt"),
        ({"sample": 1}, "true or false"),
        ({"min_length": 5, "max_length": 5}, "at least 6"),
        ({"num_beams": 3, "num_return": 4}, "at least 4 beams"),
    ],
)
def test_mistakes_are_named_in_one_line_s_serve_04(wrong, says) -> None:
    with pytest.raises(UserError) as error:
        search_options(**wrong)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_method() -> None:
    assert Search().method == "beam"
    assert Search(num_beams=1).method == "greedy"
    assert Search(sample=True).method == "sample"
    assert Search(sample=True, temperature=0).method == "greedy"


def test_options_do_without_torch() -> None:
    code = "import sys, regard.decoding as d; d.Search(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)

"""Pictures without a browser: text stays text, equal traces give equal files, wide characters have their room."""

from __future__ import annotations

from typing import Any

import pytest

from regard.errors import UserError
from regard.inspection import inspect
from regard.inspection.picture import VIEWS, matrix, picture, table
from regard.inspection.trace import Trace

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def trace(made: Any) -> Trace:
    return inspect(made("translate"), "A dog 这是 $x_1$ runs", "Un chien", methods=())


@pytest.mark.parametrize("view", VIEWS)
def test_svgs_are_equal_and_keep_their_text(trace: Trace, view: str) -> None:
    one = picture(trace, view)
    assert view != "align" or one == picture(trace, view)
    text = one.decode("utf-8")
    assert "<text" in text
    if view != "grid":
        assert "这" in text
    assert "Un" in text or view == "grid"
    assert "http" not in text.partition("<defs>")[2].replace("http://www.w3.org", "")


@pytest.mark.parametrize("view", VIEWS)
def test_pngs_are_drawn(trace: Trace, view: str) -> None:
    assert picture(trace, view, "png").startswith(b"\x89PNG")


def test_one_matrix_stands_for_all(trace: Trace, made: Any) -> None:
    its = matrix(trace)
    assert its is not None
    assert its.cells.shape == (len(its.rows), len(its.columns))
    assert its.title == "decoder.blocks.1.cross.attend, mean of the heads"
    classes = matrix(inspect(made("classify"), "A dog"))
    assert classes is not None
    assert classes.title.startswith("encoder.blocks.1.")


def test_tables_in_a_terminal(trace: Trace) -> None:
    shown = table(trace, 60, True)
    assert "\n  Un" in shown
    assert any(shade in shown for shade in "░▒▓█")
    assert table(trace, 60, False) != shown


def test_nothing_to_draw(made: Any, trace: Trace) -> None:
    bare = inspect(made("no-attention"), "A dog")
    assert matrix(bare) is None
    assert "no attention in this model" in table(bare)
    with pytest.raises(UserError, match="no attention in this model"):
        picture(bare)
    with pytest.raises(UserError, match="no view is called 'pie'"):
        picture(trace, "pie")


def test_long_texts_are_drawn_by_their_overviews(made: Any) -> None:
    long = inspect(made("translate"), "near the sea " * 60, "Un chien", methods=())
    for view in VIEWS:
        assert picture(long, view).startswith(b"<?xml")

"""The side of transformers."""

from __future__ import annotations

import sys
import warnings

import pytest
import torch

from regard.checkpoints.reference import Case, Reference, _before, quiet
from regard.errors import UserError
from regard.layout import Layout


def test_without_transformers_the_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UserError, match=r'which is not installed: pip install "transformers>=5') as error, quiet():
        pass
    assert "\n" not in str(error.value)


def test_warnings_and_bars_stay_away():
    transformers = pytest.importorskip("transformers")
    logging = transformers.utils.logging
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    with quiet():
        warnings.warn("advice", stacklevel=1)
        assert not logging.is_progress_bar_enabled()
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_a_row_of_a_case_has_no_padding():
    ids, outputs = torch.tensor([[5, 6, 7], [0, 0, 8]]), torch.tensor([[2, 9, 0], [2, 9, 4]])
    case = Case("x", ids, Layout.of_ids(ids, 0), outputs, Layout.of_ids(outputs, 0, "right"))
    assert not case.whole
    row = case.row(1)
    assert row.whole
    assert (row.inputs.tolist(), row.outputs.tolist()) == ([[8]], [[2, 9, 4]])
    assert case.row(0).outputs.tolist() == [[2, 9]]


def test_what_was_written_ends_at_the_end_mark():
    assert _before([5, 6, 3, 0, 0], 3) == [5, 6]
    assert _before([5, 6], 3) == [5, 6]


def test_what_transformers_cannot_open_is_said_in_one_line(tmp_path):
    pytest.importorskip("transformers")
    with pytest.raises(UserError, match="has no class NobodysModel"):
        Reference(tmp_path, "NobodysModel")
    with pytest.raises(UserError, match="transformers does not open it") as error:
        Reference(tmp_path, "BertModel")
    assert "\n" not in str(error.value)

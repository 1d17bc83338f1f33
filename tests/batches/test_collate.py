from __future__ import annotations

import numpy as np
import torch

from regard.batches import collate
from regard.layers.heads import IGNORED


def _arrays(*pairs):
    return [(np.array(a, dtype=np.uint16), np.array(b, dtype=np.uint16)) for a, b in pairs]


def test_ids_stand_where_they_belong():
    batch = collate(_arrays(([10, 11, 12], [20]), ([13], [21, 22])), [7, 4], pad=0, bos=2, eos=3)
    assert batch.inputs.tolist() == [[10, 11, 12, 3], [13, 3, 0, 0]]
    assert batch.outputs.tolist() == [[2, 20, 0], [2, 21, 22]]
    assert batch.targets.tolist() == [[20, 3, IGNORED], [21, 22, 3]]
    assert batch.inputs.dtype == batch.outputs.dtype == batch.targets.dtype == torch.int64
    assert batch.layout.lengths(2).tolist() == [4, 2]
    assert batch.output_layout.lengths(2).tolist() == [2, 3]
    assert (batch.examples, batch.source_tokens, batch.target_tokens) == ([7, 4], 6, 5)
    assert (len(batch), batch.columns) == (2, 14)


def test_equal_lengths_make_a_whole_layout():
    batch = collate(_arrays(([5, 6], [7]), ([8, 9], [4, 5])), [0, 1], pad=0, bos=2, eos=3)
    assert batch.layout.whole
    assert not batch.output_layout.whole


def test_an_empty_side_is_its_end_alone():
    batch = collate(_arrays(([], []), ([5], [6])), [0, 1], pad=0, bos=2, eos=3)
    assert batch.inputs.tolist() == [[3, 0], [5, 3]]
    assert batch.outputs.tolist() == [[2, 0], [2, 6]]
    assert batch.targets.tolist() == [[3, IGNORED], [6, 3]]
    alone = collate(_arrays(([], [])), [0], pad=0, bos=2, eos=3)
    assert (alone.inputs.tolist(), alone.targets.tolist(), alone.output_layout.whole) == ([[3]], [[3]], True)


def test_s_loss_04_the_end_is_learned_where_pad_and_eos_are_one_id():
    """S-LOSS-04: padding is known by length, so the eos stays a target although pad has the same id."""
    batch = collate(_arrays(([5], [5, 6]), ([7], [7, 8, 9, 10])), [0, 1], pad=2, bos=1, eos=2)
    assert batch.targets[0].tolist() == [5, 6, 2, IGNORED, IGNORED]
    assert int((batch.targets != IGNORED).sum()) == batch.target_tokens == 8
    assert batch.output_layout.real[0].tolist() == [True, True, True, False, False]


def test_to_moves_all_tensors_and_keeps_the_counts():
    batch = collate(_arrays(([5], [5, 6]), ([7, 8], [7])), [3, 1], pad=0, bos=2, eos=3)
    moved = batch.to("meta")
    tensors = moved.inputs, moved.outputs, moved.targets, moved.layout.position, moved.output_layout.document
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert moved.segments is None
    assert (moved.examples, moved.source_tokens, moved.target_tokens) == ([3, 1], 5, 5)

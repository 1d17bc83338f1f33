from __future__ import annotations

import pytest
import torch

from regard.layers.state import BlockState, Cache, Memory
from regard.layout import Layout


def filled(room: int, rows: int = 2, steps: int = 3) -> tuple[Cache, torch.Tensor]:
    """A cache of so many steps of random keys, and those keys; values are their negatives."""
    keys, cache = torch.randn(rows, 1, steps, 4), Cache(room)
    for t in range(steps):
        cache.extend(keys[:, :, t : t + 1], -keys[:, :, t : t + 1])
    return cache, keys


@pytest.mark.parametrize("room", [0, 1, 3, 100])
def test_a_cache_gives_back_what_it_was_given(room):
    cache, keys = filled(room)
    more = torch.randn(2, 1, 2, 4)
    got = cache.extend(more, -more)
    assert torch.equal(got[0], torch.cat([keys, more], 2))
    assert torch.equal(got[1], -got[0])
    assert cache.length == 5


def test_rows_are_chosen_in_order_and_room_stays():
    cache, keys = filled(8)
    rows = torch.tensor([1, 1, 0])
    cache.select(rows)
    assert cache.keys.shape == (3, 1, 8, 4)
    new = torch.zeros(3, 1, 1, 4)
    assert torch.equal(cache.extend(new, new)[0][:, :, :3], keys[rows])
    Cache(4).select(rows)


def test_buffers_take_turns_unless_somebody_looks_on():
    for shown in (False, True):
        cache, keys = filled(8)
        held = cache.extend(keys[:, :, :1], keys[:, :, :1])[0]
        before, rows = held.clone(), torch.tensor([1, 0])
        if shown:
            cache.show()
        first = cache.pair
        cache.select(rows)
        cache.select(rows)
        assert (cache.pair.data_ptr() == first.data_ptr()) != shown
        assert torch.equal(cache.keys[:, :, :4], before)
        cache.select(rows)
        cache.extend(torch.ones(2, 1, 1, 4), torch.ones(2, 1, 1, 4))
        assert not shown or torch.equal(held, before)


def test_a_cache_without_a_memory_says_so():
    with pytest.raises(RuntimeError, match="without a memory"):
        _ = Cache(3).across


def test_a_memory_takes_rows_with_all_that_is_theirs():
    memory = Memory(torch.randn(3, 4, 2), Layout.padded([4, 1, 2]), (torch.randn(3, 1, 2),))
    rows = torch.tensor([2, 0])
    part = memory.take(rows)
    assert torch.equal(part.states, memory.states[rows])
    assert part.layout.lengths(2).tolist() == [2, 4]
    assert torch.equal(part.final[0], memory.final[0][rows])
    assert Memory(memory.states, memory.layout).take(rows).final is None


def test_sentences_are_dropped_with_their_beams_and_their_memory():
    memory, keys = Memory(torch.randn(3, 4, 2), Layout.padded([4, 1, 2])), torch.randn(3, 1, 4, 2)
    state = BlockState([Cache(4, (keys, -keys))], memory, Layout.unpadded(0))
    state.read(Layout.unpadded(1), 3)
    state.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    own = torch.arange(6.0).view(6, 1, 1, 1)
    state.caches[0].extend(own, own)
    state.keep(torch.tensor([2, 0]))
    assert state.caches[0].keys[:, 0, 0, 0].tolist() == [4, 5, 0, 1]
    assert torch.equal(state.caches[0].across[0], keys[[2, 0]])
    assert state.memory.layout.lengths(2).tolist() == [2, 4]
    assert (state.rows, state.sentences) == (4, 2)


def test_a_state_counts_its_columns_and_its_rows():
    state = BlockState([], None, Layout.unpadded(0))
    state.read(Layout.unpadded(2), 3)
    state.read(Layout.unpadded(1, 2), 3)
    assert (state.length, state.rows) == (3, 3)
    with pytest.raises(ValueError, match="2 rows of tokens for a state of 3"):
        state.read(Layout.unpadded(1, 3), 2)
    state.rewind(1)
    assert state.length == 1


def test_states_join_and_empty_columns_go():
    states = []
    for rows, columns in ((2, 3), (1, 5)):
        state, own = BlockState([Cache(6)], None, Layout.unpadded(0)), torch.ones(rows, 1, columns, 2) * columns
        state.read(Layout.unpadded(columns), rows)
        state.caches[0].extend(own, -own)
        states.append(state)
    state, other = states
    state.join(other)
    cache = state.caches[0]
    assert (state.rows, state.sentences, state.length, cache.length) == (3, 3, 5, 5)
    assert cache.keys[:, 0, :5, 0].tolist() == [[0, 0, 3, 3, 3]] * 2 + [[5] * 5]
    assert torch.equal(cache.values[:, :, :5], -cache.keys[:, :, :5])
    state.keep(torch.tensor([0, 1]))
    state.trim(3)
    assert state.length == 5
    state.trim()
    assert (state.length, cache.length) == (3, 3)
    assert cache.keys[:, 0, :3, 0].tolist() == [[3, 3, 3]] * 2
    with pytest.raises(ValueError, match="memory"):
        state.join(BlockState([], Memory(torch.randn(1, 2, 2), Layout.unpadded(2)), Layout.unpadded(0)))

"""Corpora larger than memory: every example once, mixed as asked, found again at any place."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from regard.batches import Share, Stream
from regard.batches.data import TokenisedPairs, write_shard
from regard.batches.shards import Corpus, Shards, ragged, shard_path, shares_of
from regard.errors import UserError


def corpus(folder: Path, key: str, counts: list[int], base: int = 0, weight: float = 1.0) -> Corpus:
    """Examples whose only source token is their number, from `base` on; targets of unequal lengths."""
    folder.mkdir()
    number, tokens = base, [0, 0]
    for shard, count in enumerate(counts):
        sources = [[number + i] for i in range(count)]
        targets = [[7] * (1 + (number + i) % 3) for i in range(count)]
        made = TokenisedPairs.from_ids(sources, targets, lines=list(range(number, number + count)))
        arrays = {name: getattr(made, name) for name in ("source", "source_offsets", "target", "target_offsets", "lines")}
        write_shard(shard_path(folder, shard), key, arrays)
        number += count
        tokens = [tokens[0] + len(made.source), tokens[1] + len(made.target)]
    return Corpus(folder, key, tuple(counts), (tokens[0], tokens[1]), weight)


def seen(shards: Shards, epoch: int) -> list[int]:
    return [int(one) for number in range(shards.windows(epoch)) for one in shards.window(epoch, number).source]


def test_an_epoch_has_every_example_once_in_windows_of_the_buffer(tmp_path: Path) -> None:
    shards = Shards([corpus(tmp_path / "a", "a", [10] * 7 + [3])], seed=1, buffer=25)
    assert (len(shards), shards.windows(0)) == (73, 3)
    for epoch in range(3):
        assert sorted(seen(shards, epoch)) == list(range(73))
    assert seen(shards, 0) != seen(shards, 1)
    assert all(sum(s.after - s.first for s in window) >= 25 for window in shards.planned(0)[:-1])
    window = shards.window(0, 1)
    for row in range(len(window)):
        source, target = window.pair(row)
        assert window.lines[row] == source[0]
        assert len(target) == 1 + source[0] % 3


def test_corpora_are_mixed_by_weight_within_each_window_and_none_starts_anew(tmp_path: Path) -> None:
    large, small = corpus(tmp_path / "a", "a", [10] * 9, 0, 2 / 3), corpus(tmp_path / "b", "b", [10] * 3, 1000, 1 / 3)
    shards = Shards([large, small], seed=1, buffer=30)
    counts: Counter[int] = Counter()
    for epoch in range(3):
        numbers = seen(shards, epoch)
        assert len(numbers) == 120
        assert sum(number >= 1000 for number in numbers) == 40
        counts.update(numbers)
        for number in range(shards.windows(epoch)):
            window = shards.window(epoch, number).source
            assert 0 < sum(window >= 1000) < len(window)
    # 240 of 90 large ones, 120 of 30 small ones: whole passes, and a part of one
    assert {counts[number] for number in range(90)} == {2, 3}
    assert {counts[number] for number in range(1000, 1030)} == {4}


def test_a_place_is_found_again_and_shared_s_res_03(tmp_path: Path) -> None:
    """S-RES-03, streamed: a stopped stream goes on at the exact place, for another number of ranks too."""
    shards = Shards([corpus(tmp_path / "a", "a", [10] * 6)], seed=2, buffer=20)
    alone = Stream(shards, 20, 5, Share(0, 1, 2), prefetch=1)
    wanted, states = [], []
    while alone.epoch < 2:
        states.append(json.loads(json.dumps(alone.state_dict())))
        wanted.append(sorted(number for batch in alone.update() for number in batch.inputs[:, 0].tolist()))
    assert {state["window"] for state in states} == {0, 1, 2}
    assert sorted(number for update in wanted for number in update) == sorted([*range(60)] * 2)
    for at in range(0, len(states), 3):
        ranks = [Stream(shards, 20, 5, Share(rank, 2, 2)) for rank in range(2)]
        for stream in ranks:
            stream.load_state_dict(states[at])
        batches = [batch for stream in ranks for batch in stream.update() if batch.examples]
        assert sorted(number for batch in batches for number in batch.inputs[:, 0].tolist()) == wanted[at]


def test_batches_know_their_lines(tmp_path: Path) -> None:
    stream = Stream(Shards([corpus(tmp_path / "a", "a", [10, 10], base=50)], 1, 10), 12, 1)
    update = stream.update()
    assert stream.lines(update) == sorted(number for batch in update for number in batch.inputs[:, 0].tolist())
    assert stream.batches >= stream.source.count(0)


def test_shares_follow_weights_or_the_temperature() -> None:
    assert shares_of([100, 1], [1.0, 3.0], 1.0) == [0.25, 0.75]
    assert shares_of([100, 300], [None, None], 1.0) == [0.25, 0.75]
    assert shares_of([100, 400], [None, None], 2.0) == pytest.approx([1 / 3, 2 / 3])
    with pytest.raises(ValueError, match="all corpora have a weight"):
        shares_of([1, 2], [None, 1.0], 1.0)


def test_other_corpora_weights_and_buffers_are_other_orders(tmp_path: Path) -> None:
    one, two = corpus(tmp_path / "a", "a", [10]), corpus(tmp_path / "b", "b", [10])
    orders = [Shards([one], 1, 5), Shards([two], 1, 5), Shards([one], 2, 5), Shards([one], 1, 6), Shards([one, two], 1, 5)]
    assert len({shards.key for shards in orders}) == 5
    assert Shards([one], 1, 5).key == orders[0].key
    with pytest.raises(ValueError, match="without examples"):
        Shards([], 1, 5)


def test_a_damaged_shard_is_told(tmp_path: Path) -> None:
    made = corpus(tmp_path / "a", "a", [10])
    path = shard_path(made.folder, 0)
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(raw)
    with pytest.raises(UserError, match="missing or damaged"):
        Shards([made], 1, 5).window(0, 0)


def test_ragged_rows() -> None:
    flat, offsets = np.array([1, 2, 3, 4, 5]), np.array([0, 2, 2, 5])
    found, lengths = ragged(flat, offsets, np.array([2, 0, 1, 2]))
    assert found.tolist() == [3, 4, 5, 1, 2, 3, 4, 5]
    assert lengths.tolist() == [3, 2, 0, 3]
    assert all(a <= b for a, b in pairwise(np.cumsum(lengths)))

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import make_dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.batches import Limits, ResampledPairs, Share, Stream, TokenisedPairs, ordered
from regard.batches.stream import cut_batches
from regard.errors import UserError


def _random(count, seed=0, longest=12):
    draw = np.random.default_rng(seed)
    sides = [[[4 + i] * draw.integers(1, longest) for i in range(count)] for _ in range(2)]
    return TokenisedPairs.from_ids(*sides)


def _equal(count, length=4):
    return TokenisedPairs.from_ids([[4 + i] * length for i in range(count)], [[4 + i] * length for i in range(count)])


def _epoch(stream):
    """This rank's batches of an epoch."""
    epoch, found = stream.epoch, []
    while stream.epoch == epoch:
        found += stream.update()
    return found


def _numbers(batches):
    return [number for batch in batches for number in batch.examples]


def _same(one, two):
    fields = "inputs", "outputs", "targets"
    return one.examples == two.examples and all(getattr(one, name).equal(getattr(two, name)) for name in fields)


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=4, max_size=60),
    budget=st.integers(31, 200),
    world=st.integers(1, 4),
    accumulate=st.integers(1, 5),
    seed=st.integers(-3, 10),
)
def test_every_batch_keeps_the_budget_and_every_example_comes_once(lengths, budget, world, accumulate, seed):
    data = TokenisedPairs.from_ids([[5] * a for a, _ in lengths], [[6] * b for _, b in lengths])
    streams = [Stream(data, budget, seed, Share(rank, world, accumulate)) for rank in range(world)]
    assert len({stream.batches for stream in streams}) == 1
    first = [_epoch(stream) for stream in streams]
    assert len({len(share) for share in first}) == 1
    states = [stream.state_dict() for stream in streams]
    assert all(state == states[0] for state in states)
    batches = [batch for share in first for batch in share]
    for batch in batches:
        assert len(batch) >= 1
        assert len(batch) * max(batch.inputs.shape[1], batch.outputs.shape[1]) <= budget
    assert sorted(_numbers(batches)) == list(range(len(lengths)))
    assert sum(batch.target_tokens for batch in batches) == sum(b + 1 for _, b in lengths)
    for batch in batches:
        for row, number in enumerate(batch.examples):
            assert batch.layout.lengths(len(batch))[row] == lengths[number][0] + 1
            assert batch.output_layout.lengths(len(batch))[row] == lengths[number][1] + 1


@pytest.mark.parametrize(("world", "prefetch"), [(2, 2), (3, 0), (3, 1), (1, 0), (10, 0)])
def test_s_dist_01_ranks_share_the_lines_without_repetition(words, numbered, world, prefetch):
    """S-DIST-01: 10 numbered lines over the processes, with and without a loading thread: exactly the 10 lines, and
    equally many batches on every rank."""
    data = TokenisedPairs.build(numbered(10), words)
    streams = [Stream(data, 14, 1, Share(rank, world), prefetch=prefetch) for rank in range(world)]
    for _ in range(3):
        shares = [_epoch(stream) for stream in streams]
        assert len({len(share) for share in shares}) == 1
        lines = [int(data.lines[number]) for share in shares for number in _numbers(share)]
        assert sorted(lines) == list(range(1, 11))


@pytest.mark.parametrize("accumulate", [1, 2, 3, 4])
@pytest.mark.parametrize("world", [2, 3, 4, 7])
def test_an_update_is_the_same_on_any_number_of_ranks(world, accumulate):
    """What all ranks read together is what one reads alone, also after a place that one rank alone came to."""
    alone = Stream(_random(60), 60, 3, Share(0, 1, accumulate))
    for _ in range(3):
        alone.update()
    state = json.loads(json.dumps(alone.state_dict()))
    streams = [Stream(_random(60), 60, 3, Share(rank, world, accumulate)) for rank in range(world)]
    for stream in streams:
        stream.load_state_dict(state)
    for _ in range(12):
        whole, shares = alone.update(), [stream.update() for stream in streams]
        assert len({len(share) for share in shares}) == 1
        parts = [batch for share in shares for batch in share]
        assert sorted(_numbers(parts)) == sorted(_numbers(whole))
        assert sum(part.target_tokens for part in parts) == sum(batch.target_tokens for batch in whole)
        assert streams[0].state_dict() == alone.state_dict()


def test_whole_batches_are_shared_where_they_divide():
    assert Share(1, 2, 4).of(4) == [(2, 0, 1), (3, 0, 1)]
    assert Share(1, 2, 3).of(3) == [(1, 1, 2), (2, 0, 2), (2, 1, 2)]
    assert Share(5, 8, 1).of(1) == [(0, 5, 8)]


def test_more_ranks_than_rows_read_what_counts_nothing():
    streams = [Stream(_equal(2), 5, 1, Share(rank, 3)) for rank in range(3)]
    found = [stream.update()[0] for stream in streams]
    assert sorted(len(batch.examples) for batch in found) == [0, 0, 1]
    assert all(len(batch) == 1 for batch in found)
    assert [batch.target_tokens for batch in found] == [5 * len(batch.examples) for batch in found]


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_s_dist_02_validation_sees_every_sentence_once(world):
    """S-DIST-02: per-sentence losses [1, 1, 1, 1, 6] have the mean 2.0 for any number of processes."""
    data = TokenisedPairs.from_ids([[5]] * 5, [[6]] * 4 + [[6] * 3])
    losses = [1.0, 1.0, 1.0, 1.0, 6.0]
    shares = [ordered(data, 4, rank=rank, world=world) for rank in range(world)]
    seen = [number for share in shares for batch in share for number in batch.examples]
    assert sorted(seen) == [0, 1, 2, 3, 4]
    assert sum(losses[number] for number in seen) / len(seen) == 2.0
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_ordered_is_longest_first_and_the_same_again():
    batches = ordered(_random(60), 50)
    first, second = list(batches), list(batches)
    assert len(first) == len(batches)
    assert all(_same(one, two) for one, two in zip(first, second, strict=True))
    assert sorted(_numbers(first)) == list(range(60))
    assert first[0].outputs.shape[1] == max(batch.outputs.shape[1] for batch in first)
    assert first[-1].outputs.shape[1] < first[0].outputs.shape[1]


def test_ordered_takes_an_example_wider_than_the_budget_alone():
    data = TokenisedPairs.from_ids([[5] * 50, [5], [5]], [[6] * 2] * 3)
    shapes = [tuple(batch.inputs.shape) for batch in ordered(data, 10)]
    assert sorted(shapes) == [(1, 51), (2, 2)]


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("stop", [1, 9, 10, 13, 20])
def test_s_res_03_a_stopped_order_goes_on_at_the_exact_place(prefetch, stop):
    """S-RES-03 (order): 20 sentences, batches of 2, 3 epochs, stopped at update 13 and elsewhere, also with a loading
    thread: the rest is that of an unbroken run, and every sentence is seen 3 times."""
    unbroken = [next(stream) for stream in [Stream(_equal(20), 10, 7)] for _ in range(30)]
    assert {len(batch) for batch in unbroken} == {2}
    first = Stream(_equal(20), 10, 7, prefetch=prefetch)
    seen = [next(first) for _ in range(stop)]
    state = json.loads(json.dumps(first.state_dict()))
    assert (state["epoch"], state["batch"]) == divmod(stop, 10)
    second = Stream(_equal(20), 10, 7, prefetch=prefetch)
    second.load_state_dict(state)
    seen += [next(second) for _ in range(30 - stop)]
    assert all(_same(one, two) for one, two in zip(seen, unbroken, strict=True))
    assert Counter(_numbers(seen)) == dict.fromkeys(range(20), 3)
    assert second.epoch == 3


def test_s_res_04_a_place_at_the_end_of_an_epoch_is_the_beginning_of_the_next():
    """S-RES-04 (order): stopped exactly at the end of epoch 1, the order of epoch 2 equals the unbroken run's."""
    unbroken = Stream(_random(40), 60, 3)
    first = _epoch(unbroken)
    state = unbroken.state_dict()
    assert (state["epoch"], state["batch"], unbroken.epoch) == (1, 0, 1)
    second = _epoch(unbroken)
    resumed = Stream(_random(40), 60, 3)
    resumed.load_state_dict(state)
    assert all(_same(one, two) for one, two in zip(_epoch(resumed), second, strict=True))
    assert _numbers(first) != _numbers(second)
    assert resumed.state_dict() == unbroken.state_dict()


def test_the_order_does_not_depend_on_how_often_it_was_stopped(words, numbered):
    def stream(prefetch):
        return Stream(ResampledPairs(numbered(30), words, seed=4), 40, 9, prefetch=prefetch)

    unbroken = stream(0)
    wanted = [next(unbroken) for _ in range(25)]
    state, found = stream(0).state_dict(), []
    for at in range(25):
        once = stream(at % 3)
        once.load_state_dict(state)
        found.append(next(once))
        state = once.state_dict()
    assert all(_same(one, two) for one, two in zip(found, wanted, strict=True))
    assert state == unbroken.state_dict()
    assert state["epoch"] >= 2


def test_one_stream_can_go_back_to_a_place():
    stream = Stream(_random(40), 60, 3, prefetch=3)
    next(stream)
    state = stream.state_dict()
    wanted = [next(stream) for _ in range(5)]
    stream.load_state_dict(state)
    assert all(_same(one, next(stream)) for one in wanted)


def test_an_interrupt_while_waiting_loses_no_batch(monkeypatch):
    stream, plain = Stream(_random(40), 60, 3, prefetch=2), Stream(_random(40), 60, 3)
    found = [next(stream)]

    class Interrupted:
        def result(self):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        held = list(stream._ahead)
        patch.setattr(stream, "_ahead", type(stream._ahead)([Interrupted(), *held[1:]]))
        with pytest.raises(KeyboardInterrupt):
            next(stream)
    found += [next(stream) for _ in range(6)]
    assert all(_same(one, next(plain)) for one in found)


def test_an_error_in_the_thread_comes_out():
    def broken(examples, numbers, noise):
        raise RuntimeError("bad example")

    objective = type("Broken", (), {"widths": lambda self, a, b: (a, b), "__call__": staticmethod(broken)})()
    with pytest.raises(RuntimeError, match="bad example"):
        next(Stream(_equal(4), 20, 1, objective=objective, prefetch=2))


def test_what_an_objective_draws_is_the_same_after_a_resumption():
    class Drawing:
        def widths(self, source, target):
            return source, target

        def __call__(self, examples, numbers, noise):
            return float(noise.random())

    stream = Stream(_equal(20), 10, 7, objective=Drawing())
    drawn = [next(stream) for _ in range(15)]
    state = stream.state_dict()
    drawn += [next(stream) for _ in range(5)]
    assert len(set(drawn)) == 20
    again = Stream(_equal(20), 10, 7, objective=Drawing())
    again.load_state_dict(state)
    assert [next(again) for _ in range(5)] == drawn[15:]


def test_s_data_10_the_rest_smaller_than_a_batch_is_a_short_batch():
    """S-DATA-10: 2 full batches of 16 and 5 more: the rest is kept as a short batch, as documented, in every epoch."""
    stream = Stream(_equal(37), 16 * 5, 2)
    for _ in range(3):
        batches = _epoch(stream)
        assert sorted(len(batch) for batch in batches) == [5, 16, 16]
        assert sorted(_numbers(batches)) == list(range(37))


def test_epochs_and_seeds_differ():
    stream = Stream(_random(80), 100, 1)
    orders = [_numbers(_epoch(stream)) for _ in range(3)] + [_numbers(_epoch(Stream(_random(80), 100, 2)))]
    assert len({tuple(order) for order in orders}) == 4
    groups = [{frozenset(batch.examples) for batch in _epoch(stream)} for _ in range(2)]
    assert groups[0] != groups[1]
    widths = [batch.outputs.shape[1] for batch in _epoch(stream)]
    assert widths not in (sorted(widths), sorted(widths)[::-1])


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"seed": 8}, "seed"),
        ({"budget": 90}, "budget"),
        ({"limits": Limits(source=9)}, "limits"),
        ({"data": _random(41)}, "data"),
    ],
)
def test_a_place_in_another_order_is_refused(changed, name):
    given = {"data": _random(40), "budget": 60, "seed": 3, "limits": Limits()}
    state = Stream(**given).state_dict()
    Stream(**given).load_state_dict(state)
    with pytest.raises(UserError, match=f"{name} was"):
        Stream(**given | changed).load_state_dict(state)


def test_what_is_wider_than_the_budget_is_too_long():
    data = TokenisedPairs.from_ids([[5] * 30, [5], [5]], [[6]] * 3)
    stream = Stream(data, 20, 1)
    assert stream.report.source == (1,)
    assert stream.examples == 2
    cut = Stream(data, 20, 1, limits=Limits(action="cut"))
    assert sorted(tuple(batch.inputs.shape) for batch in _epoch(cut)) == [(1, 20), (2, 2)]
    with pytest.raises(UserError, match="budget of a batch is 1"):
        Stream(data, 1, 1)
    with pytest.raises(ValueError, match="rank 2 of 2"):
        Share(2, 2)


def test_batches_end_where_targets_change_if_it_costs_little():
    target = np.array([4] * 9 + [5] * 11)
    assert cut_batches(target, target, 40) == [(0, 9), (9, 17), (17, 20)]
    target = np.array([4] * 2 + [5] * 8)
    assert cut_batches(target, target, 40) == [(0, 8), (8, 10)]


def test_padding_on_multi30k_is_under_five_percent(data_root, words):
    line = make_dataclass("Line", ["source", "target", "line"])
    sides = []
    for language in ("en", "fr"):
        with gzip.open(data_root / "multi30k" / f"train.{language}.gz", "rt", encoding="utf-8", newline="\n") as file:
            sides.append(list(file))
    pairs = [line(source, target, i) for i, (source, target) in enumerate(zip(*sides, strict=True), 1)]
    data = TokenisedPairs.build(pairs, words)
    for budget in (2500, 4096):
        stream = Stream(data, budget, 1)
        fill, batches = stream.fill, _epoch(stream)
        assert len(_numbers(batches)) == 29_000
        real = sum(batch.source_tokens + batch.target_tokens for batch in batches)
        assert fill == pytest.approx(real / sum(batch.columns for batch in batches))
        assert fill > 0.95
        assert sum(batch.output_layout.whole for batch in batches) > len(batches) / 2

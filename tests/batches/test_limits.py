from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from regard.batches import Fitted, Limits, ResampledPairs, Stream, TokenisedPairs, Translation, ordered
from regard.errors import UserError


def _corpus(lengths, lines=None, name="train.tsv"):
    sources = [[5] * source for source, _ in lengths]
    targets = [[6] * target for _, target in lengths]
    return TokenisedPairs.from_ids(sources, targets, lines=lines, name=name)


LONG = [(4, 4)] * 6 + [(600, 5)] + [(4, 4)] * 3


def test_s_pos_02_a_too_long_pair_is_skipped_and_named():
    """S-POS-02: pair 7 has 600 subwords, the limit is 512: skipped, counted, line 7 named; training goes on."""
    stream = Stream(_corpus(LONG), 4096, seed=1, limits=Limits(source=512, target=512))
    assert stream.report.lines() == [
        "train.tsv: 1 of 10 examples skipped, source longer than 512 tokens: line 7",
    ]
    seen = [number for _ in range(3 * stream.batches) for number in next(stream).examples]
    assert sorted(set(seen)) == [0, 1, 2, 3, 4, 5, 7, 8, 9]


def test_s_data_07_the_limit_counts_subwords_not_words(words):
    """S-DATA-07: a line of 40 words that becomes 600 subwords is caught before the model sees it."""

    class Bursting:
        vocab_size, hash = 100, "bursting"

        def encode_batch(self, texts, sample=None):
            return [[4] * (15 * len(text.split())) for text in texts]

    both = replace(words, source=Bursting())
    line = type("Line", (), {"source": "w " * 40, "target": "t", "line": 1})
    short = type("Line", (), {"source": "w", "target": "t", "line": 2})
    data = TokenisedPairs.build([line, short], both)
    skipped = Stream(data, 5000, seed=0, limits=Limits(source=512))
    assert skipped.report.json()["source_lines"] == [1]
    assert next(skipped).examples == [1]
    cut = Stream(data, 5000, seed=0, limits=Limits(source=512, action="cut"))
    assert cut.report.count == 1
    assert max(batch.inputs.shape[1] for batch in (next(cut) for _ in range(cut.batches))) == 512


@pytest.mark.parametrize("action", ["skip", "cut"])
def test_s_data_08_a_too_long_validation_sentence_ends_nothing(action):
    """S-DATA-08: found at construction, not at the first validation, and the validation runs."""
    batches = ordered(_corpus(LONG, name="valid"), 1000, limits=Limits(source=512, action=action))
    assert batches.report.source == (7,)
    widest = max(batch.inputs.shape[1] for batch in batches)
    assert widest == (512 if action == "cut" else 5)
    assert sum(len(batch) for batch in batches) == (10 if action == "cut" else 9)


def test_error_names_corpus_and_line_before_anything_is_trained():
    with pytest.raises(UserError, match=r"train\.tsv: 1 of 10 .* line 7; shorten"):
        Stream(_corpus(LONG), 4096, seed=1, limits=Limits(source=512, action="error"))
    Stream(_corpus(LONG), 4096, seed=1, limits=Limits(source=601, action="error"))


def test_the_limit_counts_the_end_and_both_sides_count_once():
    data = _corpus([(9, 9), (10, 9), (9, 10), (10, 10)], lines=[2, 4, 6, 8])
    report = Fitted(data, Translation(), Limits(source=10, target=10)).report
    assert (report.source, report.target, report.count) == ((4, 8), (6, 8), 3)
    assert report.json() == {
        "name": "train.tsv",
        "examples": 4,
        "action": "skip",
        "too_long": 3,
        "limit_source": 10,
        "limit_target": 10,
        "source_lines": [4, 8],
        "target_lines": [6, 8],
    }
    assert Fitted(data, Translation(), Limits()).report.lines() == []


def test_many_lines_are_not_all_printed():
    report = Fitted(_corpus([(30, 2)] * 12 + [(2, 2)]), Translation(), Limits(source=9)).report
    assert report.lines(shown=3) == ["train.tsv: 12 of 13 examples skipped, source longer than 9 tokens: lines 1, 2, 3, …"]


def test_cut_keeps_the_beginning_of_each_side():
    data = TokenisedPairs.from_ids([[10, 11, 12, 13], [14]], [[20], [21, 22, 23]])
    (batch,) = ordered(data, 100, limits=Limits(source=3, target=3, action="cut"))
    rows = {number: row for row, number in enumerate(batch.examples)}
    assert batch.inputs[rows[0]].tolist() == [10, 11, 3]
    assert batch.targets[rows[1]].tolist() == [21, 22, 3]
    assert batch.source_tokens == 5
    assert batch.target_tokens == 5


def test_sampling_does_not_push_an_example_over_the_limit(words, numbered):
    pairs = numbered(40)
    data = ResampledPairs(pairs, words, seed=3)
    assert data.at(0).source_lengths.max() > data.plain.source_lengths.max()
    limit = int(data.plain.source_lengths.max()) + 1
    stream = Stream(data, 200, seed=1, limits=Limits(source=limit, action="error"))
    batches = [next(stream) for _ in range(stream.batches)]
    assert max(batch.inputs.shape[1] for batch in batches) <= limit
    by_plain = {number: row for batch in batches for number, row in zip(batch.examples, batch.inputs.tolist())}
    over = np.flatnonzero(data.at(0).source_lengths + 1 > limit)
    for i in over.tolist():
        assert by_plain[i][: data.plain.source_lengths[i]] == data.plain.pair(i)[0].tolist()
    kept = np.flatnonzero((data.at(0).source_lengths + 1 <= limit) & (data.at(0).source_lengths > data.plain.source_lengths))
    assert len(kept)
    for i in kept.tolist():
        assert by_plain[i][: data.at(0).source_lengths[i]] == data.at(0).pair(i)[0].tolist()


def test_nothing_left_is_told():
    with pytest.raises(UserError, match="no example to train on, 2 read, 2 too long"):
        Fitted(_corpus([(9, 9), (8, 8)]), Translation(), Limits(source=4))
    with pytest.raises(UserError, match="no example to train on, 0 read"):
        Fitted(_corpus([]), Translation(), Limits())


def test_senseless_limits_are_refused():
    with pytest.raises(UserError, match="'drop'"):
        Limits(action="drop")
    with pytest.raises(UserError, match="target length limit is 1"):
        Limits(target=1)

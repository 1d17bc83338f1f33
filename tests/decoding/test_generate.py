"""Many sources: order, batches, empty ones, too long ones, endless ones, worker processes."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
import torch

from regard.decoding import Hypothesis, Search, generate, stream_translate, translate_ids
from regard.decoding.generate import batches
from regard.errors import UserError
from regard.models import transformer

BOS, EOS = 2, 3
GREEDY = Search(num_beams=1)


def echo(source, read):
    """Writes its source again."""
    return {source[len(read)] if len(read) < len(source) else EOS: 0.9, 7: 0.1}


@pytest.fixture
def model(table):
    return table(echo, 40)


def texts(answers):
    return [answer[0].ids for answer in answers]


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("batch_tokens", [1, 7, 1000])
def test_answers_come_in_the_order_of_the_sources_s_data_11(model, beams, batch_tokens) -> None:
    sources = [[10 + n + j for j in range(n)] + [EOS] for n in (9, 1, 5, 1, 9, 2)]
    found = translate_ids(model, sources, Search(num_beams=beams), BOS, EOS, batch_tokens=batch_tokens)
    assert texts(found) == [source[:-1] for source in sources]


def test_empty_sources_do_not_reach_the_model_s_data_02_s_beam_09(model) -> None:
    a, b = [10, 11, EOS], [12, EOS]
    found = translate_ids(model, [a, [EOS], [], b], Search(num_beams=4), BOS, EOS)
    assert texts(found) == [[10, 11], [], [], [12]]
    assert found[1] == found[2] == [Hypothesis([], 0.0, 0.0)]
    assert found[0] == translate_ids(model, [a], Search(num_beams=4), BOS, EOS)[0]
    model.rows_seen.clear()
    assert texts(translate_ids(model, [[EOS]] * 3, Search(), BOS, EOS)) == [[], [], []]
    assert translate_ids(model, [], Search(), BOS, EOS) == []
    assert model.rows_seen == []


@pytest.mark.parametrize("count", [9, 10, 11])
def test_no_rest_is_left_out_s_data_03(model, count) -> None:
    sources = [[10 + n, EOS] for n in range(count)]
    assert texts(stream_translate(model, sources, GREEDY, BOS, EOS, window=3)) == [[10 + n] for n in range(count)]


def test_endless_input_is_read_in_windows_s_data_03(model) -> None:
    read = itertools.count()
    sources = ([10 + n % 20, EOS] for n in read)
    answers = stream_translate(model, sources, GREEDY, BOS, EOS, window=4)
    assert texts(itertools.islice(answers, 9)) == [[10 + n] for n in range(9)]
    assert next(read) == 12
    with pytest.raises(UserError, match="window"):
        stream_translate(model, [], GREEDY, BOS, EOS, window=0)


def test_samples_in_pieces_equal_samples_at_once(model) -> None:
    sources, options = [[10 + n, 11, EOS] for n in range(7)], Search(sample=True, temperature=3.0, max_length=20)
    whole = translate_ids(model, sources, options, BOS, EOS)
    pieces = [translate_ids(model, sources[at : at + 2], options, BOS, EOS, first=at) for at in range(0, 7, 2)]
    assert list(itertools.chain(*pieces)) == whole == list(stream_translate(model, sources, options, BOS, EOS, window=3))
    assert translate_ids(model, sources, options, BOS, EOS, first=1) != whole


def test_one_large_request_equals_many_small_ones_s_serve_03() -> None:
    torch.manual_seed(1)
    model = transformer.describe(vocab_size=20, num_layers=1, d_model=16, d_ff=32, num_heads=2).build().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    kinds = [[4 + n % 16, 4 + n * 7 % 16, EOS] for n in range(30)]
    options = Search(num_beams=2, max_length=8)
    alone = [translate_ids(model, [kind], options, BOS, EOS)[0][0] for kind in kinds]
    found = translate_ids(model, kinds * 50, options, BOS, EOS)
    assert len(found) == 1500
    assert texts(found) == [alone[n % 30].ids for n in range(1500)]
    assert [answer[0].score for answer in found] == pytest.approx([alone[n % 30].score for n in range(1500)], abs=1e-4)


def test_too_long_sources_lose_their_end_and_say_so(table, monkeypatch) -> None:
    model = table(echo, 40)
    sources = [[10, 11, 12, 13, EOS], [10, EOS], [10, 11, 12, 13]]
    with monkeypatch.context() as patch:
        patch.setattr(generate, "LONGEST", 3)
        found = translate_ids(model, sources, GREEDY, BOS, EOS)
    assert texts(found) == [[10, 11], [10], [10, 11, 12]]
    assert [answer[0].source_cut for answer in found] == [True, False, True]
    model.encoder = SimpleNamespace(limit=4)
    assert texts(translate_ids(model, sources, GREEDY, BOS, EOS)) == [[10, 11, 12], [10], [10, 11, 12, 13]]


def test_batches_fill_their_budget() -> None:
    lengths = [3, 9, 1, 3, 12, 2]
    assert batches(lengths, 9) == [[4], [1], [0, 3, 5], [2]]
    assert batches(lengths, 1) == [[4], [1], [0], [3], [5], [2]]
    assert batches([], 9) == []


def test_wrong_numbers_are_named(model) -> None:
    with pytest.raises(UserError, match="batch_tokens must be at least 1"):
        translate_ids(model, [[10, EOS]], GREEDY, BOS, EOS, batch_tokens=0)
    model.device = torch.device("meta")
    with pytest.raises(UserError, match="workers"):
        translate_ids(model, [[10, EOS]], GREEDY, BOS, EOS, workers=2)


def test_what_a_worker_does(model, monkeypatch) -> None:
    monkeypatch.setattr(generate, "_MODEL", None)
    generate._begin(model)
    found = generate._work(generate.Job(GREEDY, BOS, EOS), ([[10, EOS], [11, 12, EOS]], [(), ()], [0, 1]))
    assert texts(found) == [[10], [11, 12]]
    assert torch.get_num_threads() == 1


@pytest.mark.slow
def test_worker_processes_give_the_same() -> None:
    torch.manual_seed(0)
    model = transformer.describe(vocab_size=20, num_layers=1, d_model=16, d_ff=32, num_heads=2).build().double().eval()
    sources = [[4 + n, 5, EOS] for n in range(6)]
    options = Search(sample=True, num_return=2, max_length=6)
    alone = translate_ids(model, sources, options, BOS, EOS, batch_tokens=6)
    assert translate_ids(model, sources, options, BOS, EOS, batch_tokens=6, workers=2) == alone

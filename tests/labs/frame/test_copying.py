"""The task of writing down what was read."""

from __future__ import annotations

import torch

from regard.decoding.options import Search
from regard.decoding.search import search
from regard.labs.frame.build import built, writer
from regard.labs.frame.copying import START, VOCAB, copied, copying
from regard.labs.frame.train import answers, train
from regard.layers.scores import Dot
from regard.layout import Layout


def test_the_decoder_reads_what_it_should_have_written():
    its = copying(torch.Generator().manual_seed(0), 5, 3)
    assert its["inputs"].shape == its["outputs"].shape == (3, 5)
    assert (its["outputs"][:, 0] == START).all()
    assert torch.equal(its["outputs"][:, 1:], its["inputs"][:, :-1])
    assert torch.equal(its["targets"].ids, its["inputs"])
    assert int(its["inputs"].min()) > START


def test_a_whole_text_is_right_if_and_only_if_greedy_search_writes_it():
    model = built(writer(24, VOCAB, Dot()), torch.float32)
    train(model, lambda source: copying(source, 3), 150, rate=1e-2)
    given = copying(torch.Generator().manual_seed(2), 3, 40)
    said, wanted = answers(model, given)
    forced = (said == wanted).all(1)
    options = Search(num_beams=1, max_length=3, min_length=2)
    with torch.no_grad():
        found = search(model, given["inputs"], Layout.unpadded(3), options, START, START)
    free = torch.tensor([list(each[0].ids) == ids.tolist() for each, ids in zip(found, given["inputs"], strict=True)])
    assert torch.equal(forced, free)
    assert int(forced.sum()) > 0


def test_shares_of_symbols_and_texts():
    symbols, texts = copied(built(writer(8, VOCAB), torch.float32), 6, seed=0, rows=64)
    assert 0 <= texts <= symbols < 0.3

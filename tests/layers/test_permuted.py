from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense
from regard.layers.masks import Causal
from regard.layers.permuted import RelativeAttention, Streams, distances
from regard.layout import Layout


def stack(**more) -> Streams:
    block = Block(RelativeAttention(2, **more), Dense(12))
    return Streams(8, Tokens(11), (block,) * 2)


def test_scores_are_the_published_sum():
    """Yang et al. 2019 with the shifts of Dai et al. 2019: (q+u)·k + (q+v)·R + (q+s)·segment, over sqrt(d), by hand."""
    torch.manual_seed(1)
    encoder = stack().build_encoder().double()
    attention, x = encoder.blocks[0].attention, torch.randn(1, 5, 8, dtype=torch.float64)
    layout, segments = Layout.unpadded(5), torch.tensor([[0, 0, 1, 1, 1]])
    frame = encoder.frame(layout, layout, 5, segments[:, :, None] != segments[:, None, :])
    got = attention(x, frame)
    k, v = attention.kv(x[0]).chunk(2, -1)
    q, wave = attention.q(x[0]), distances(5, 8, torch.device("cpu")).double()
    heads = []
    for head, part in enumerate((slice(0, 4), slice(4, 8))):
        rows = []
        for i in range(5):
            scores = []
            for j in range(5):
                place = attention.place(wave[i - j + 5])[part]
                segment = attention.segments[int(segments[0, i] != segments[0, j]), head]
                one = q[i, part]
                score = (one + attention.content_shift[head]) @ k[j, part] + (one + attention.place_shift[head]) @ place
                scores.append((score + (one + attention.segment_shift[head]) @ segment) / 2)
            rows.append(torch.stack(scores).softmax(0) @ v[:, part])
        heads.append(torch.stack(rows))
    torch.testing.assert_close(got[0], attention.output(torch.cat(heads, -1)), rtol=0, atol=1e-10)


def test_distances_are_waves():
    table = distances(3, 4, torch.device("cpu"))
    assert table.shape == (7, 4)
    assert table[3].tolist() == [0, 0, 1, 1]
    angle = torch.tensor([2.0, 0.02])
    torch.testing.assert_close(table[5], torch.cat([angle.sin(), angle.cos()]))


def test_segments_matter_only_as_equal_or_not():
    torch.manual_seed(1)
    encoder, ids, layout = stack().build_encoder(), torch.randint(0, 11, (2, 6)), Layout.unpadded(6)
    one, two = torch.tensor([[0, 0, 0, 1, 1, 2]] * 2), torch.tensor([[7, 7, 7, 4, 4, 0]] * 2)
    states = encoder(ids, layout, one).states
    assert torch.equal(states, encoder(ids, layout, two).states)
    assert not torch.allclose(states, encoder(ids, layout).states, atol=1e-4)
    torch.testing.assert_close(encoder(ids, layout).states, encoder(ids, layout, one * 0).states)


def test_far_distances_may_count_as_one():
    encoder = replace(stack(), farthest=2).build_encoder()
    layout = Layout.unpadded(6)
    frame = encoder.frame(layout, layout, 6)
    assert frame.table.shape == (5, 8)
    assert frame.distance[0, 0].tolist() == [2, 1, 0, 0, 0, 0]
    assert frame.distance[0, 5].tolist() == [4, 4, 4, 4, 3, 2]


def test_an_encoder_looks_at_no_marks_and_a_causal_one_not_ahead():
    torch.manual_seed(1)
    ids, layout = torch.randint(0, 11, (1, 6)), Layout.unpadded(6)
    encoder = stack().build_encoder()
    marked = replace(layout, mark=torch.arange(6)[None])
    assert torch.equal(encoder(ids, layout).states, encoder(ids, marked).states)
    causal, other = stack(mask=Causal()).build_encoder(), ids.clone()
    other[0, 3:] = 10 - other[0, 3:]
    torch.testing.assert_close(causal(ids, layout).states[:, :3], causal(other, layout).states[:, :3])


@pytest.mark.parametrize("room", [0, 9])
def test_a_prediction_is_one_pass_over_what_is_known(room):
    """Left to right is the order in which only the next place is asked for."""
    torch.manual_seed(1)
    decoder, ids = stack().build_decoder(), torch.randint(0, 11, (2, 5))
    got = decoder(ids, decoder.start(None, room), Layout.unpadded(5))
    assert got.shape[1] == (1 if room else 5)
    for length in range(5, 0, -1):
        asked = torch.cat([ids[:, :length], torch.zeros(2, 1, dtype=torch.long)], 1)
        mark = torch.tensor([[0] * length + [1]])
        want = decoder(asked, decoder.start(None), replace(Layout.unpadded(length + 1), mark=mark))
        torch.testing.assert_close(got[:, length - 1 if not room else -1], want[:, -1])
        if room:
            break


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="multiple"):
        RelativeAttention(3).build(8)

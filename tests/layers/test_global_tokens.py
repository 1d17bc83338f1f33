from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard.layers.frame import Frame
from regard.layers.global_tokens import WindowedAttention
from regard.layers.state import Cache
from regard.layout import Layout


def frame(its: WindowedAttention, layout: Layout) -> Frame:
    return Frame.of([its.mask], layout, layout)


def test_global_rows_have_projections_of_their_own():
    """By the definition, token by token: who is global sees all of its document with its own products."""
    torch.manual_seed(1)
    its = WindowedAttention(2, 4)
    module, x = its.build(8).double(), torch.randn(2, 9, 8, dtype=torch.float64)
    layout = Layout.packed([[5, 4], [7]], 9)
    mark = torch.zeros(2, 9, dtype=torch.long)
    mark[0, 1], mark[0, 6], mark[1, 6] = 1, 1, 1
    got = module(x, frame(its, replace(layout, mark=mark)))
    sides = module.qkv(x).chunk(3, -1), (module.everywhere.q(x), *module.everywhere.kv(x).chunk(2, -1))
    for row in range(2):
        for at in range(9):
            document = layout.document[row, at]
            if document < 0:
                continue
            q, k, v = sides[int(mark[row, at])]
            same = [j for j in range(9) if layout.document[row, j] == document]
            seen = [j for j in same if mark[row, at] or mark[row, j] or abs(at - j) <= 2]
            heads = []
            for head in (slice(0, 4), slice(4, 8)):
                weights = (k[row, seen, head] @ q[row, at, head] / 2).softmax(0)
                heads.append(weights @ v[row, seen, head])
            torch.testing.assert_close(got[row, at], module.output(torch.cat(heads)), rtol=0, atol=1e-10)


def test_without_marks_the_first_tokens_are_global():
    torch.manual_seed(1)
    its, layout, x = WindowedAttention(2, 2, first=2), Layout.padded([6, 4], left=True), torch.randn(2, 6, 8)
    module = its.build(8)
    marked = replace(layout, mark=((layout.position < 2) & layout.real).long())
    assert torch.equal(module(x, frame(its, layout)), module(x, frame(its, marked)))
    none = replace(layout, mark=torch.zeros_like(marked.mark))
    assert not torch.equal(module(x, frame(its, layout)), module(x, frame(its, none)))


def test_it_cannot_be_read_token_by_token():
    its, layout = WindowedAttention(2, 2), Layout.unpadded(3)
    with pytest.raises(ValueError, match="token by token"):
        its.build(8)(torch.randn(1, 3, 8), frame(its, layout), Cache(4))

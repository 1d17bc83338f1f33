"""The tree of a description."""

from __future__ import annotations

import pytest

from regard.inspection.flops import flops
from regard.inspection.outline import _short, lines, outline
from regard.models import mixtral, rnn, transformer

SIZES = {"vocab_size": 23, "num_layers": 3, "d_model": 16, "d_ff": 32, "num_heads": 4}


def nodes(tree):
    yield tree
    for child in tree.children:
        yield from nodes(child)


@pytest.mark.parametrize(
    "description",
    [
        transformer.describe(**SIZES),
        transformer.describe(**SIZES, target_vocab_size=19, tied="no", placement="pre"),
        rnn.describe(vocab_size=13, d_model=8, num_layers=2, attention="additive"),
        mixtral.describe(vocab_size=13, num_layers=2, d_model=8, d_ff=6, num_heads=2, experts=3, active=2),
    ],
    ids=["tied", "untied", "rnn", "mixtral"],
)
def test_sums_are_the_models(description):
    """Parameters are the model's, tied ones once; FLOPs are those of `flops`; a node has its children's and its own."""
    tree = outline(description, 10)
    assert tree.parameters == sum(weight.numel() for weight in description.build().parameters())
    assert tree.flops == sum(flops(description, 10).values())
    assert all(node.parameters >= sum(child.parameters for child in node.children) for node in nodes(tree))


def test_blocks_that_are_alike_share_a_line():
    tree = outline(transformer.describe(**SIZES), 10)
    encoder = tree.children[0]
    assert [child.name for child in encoder.children] == ["embed", "blocks × 3"]
    block = encoder.children[1]
    assert block.parameters == sum(child.parameters for child in block.children)
    assert [child.name for child in block.children] == ["attention", "attention_norm", "feedforward", "feedforward_norm"]
    qkv = block.children[0].children[0]
    assert (qkv.name, qkv.shapes, qkv.parameters) == ("qkv", "48×16 + 48", 3 * (48 * 16 + 48))
    assert tree.json()["children"][0]["children"][1]["name"] == "blocks × 3"


def test_tied_weights_are_counted_where_they_first_stand():
    tree = outline(transformer.describe(**SIZES), 10)
    head = tree.children[-1].children[0]
    assert (head.name, head.shapes, head.parameters) == ("project", "23×16 (tied)", 0)
    assert head.flops == 2 * 23 * 16 * 10


def test_usual_settings_are_left_out():
    tree = outline(transformer.describe(**SIZES, positions="learned", max_positions=99), 10)
    encoder = tree.children[0]
    assert encoder.label == "Stack d_model=16"
    decoder = tree.children[1].children[1].children[0]
    assert decoder.label == "Attention num_heads=4 mask=Causal()"


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_lines_fit_the_terminal(width):
    tree = outline(transformer.describe(**SIZES, positions="learned"), 10)
    shown = lines(tree, 10, width)
    assert max(map(len, shown)) <= width
    assert any("blocks × 3: Block" in line for line in shown)
    assert sum("100.0%" in line for line in shown) == 1
    assert ("FLOPs/token" in shown[0]) == (width >= 76)


def test_numbers_are_short():
    assert [_short(n) for n in (0, 12, 1_234, 5_600_000, 7.8e9, 1.5e13)] == ["0", "12", "1.2 k", "5.6 M", "7.8 G", "15.0 T"]

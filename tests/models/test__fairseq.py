"""What the tables of Marian, Pegasus, BART and mBART share: ties, and the bias of the logits."""

from __future__ import annotations

import pytest
import torch

from regard.checkpoints.formats import Format
from regard.checkpoints.rules import give
from regard.models import _fairseq, transformer

SIZES = {"vocab_size": 9, "num_layers": 2, "d_model": 8, "d_ff": 12, "num_heads": 2}


@pytest.mark.parametrize(
    ("arguments", "matrices"),
    [
        ({}, {"model.shared.weight"}),
        ({"target_vocab_size": 7}, {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"}),
        (
            {"tied": "no"},
            {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"},
        ),
    ],
)
@pytest.mark.parametrize("head_bias", [False, True])
def test_every_tensor_has_one_name(arguments, matrices, head_bias):
    description = transformer.describe(**SIZES, head_bias=head_bias, **arguments)
    tensors = dict(description.build().named_parameters())
    given = give(_fairseq.weights(**transformer.arguments(description)), tensors)
    both = [f"model.{half}.layers.{n}.self_attn.q_proj.weight" for half in ("encoder", "decoder") for n in (0, 1)]
    assert set(both) < given.keys()
    assert {name for name in given if name.endswith(("shared.weight", "embed_tokens.weight", "lm_head.weight"))} == matrices
    assert given["final_logits_bias"].shape == (1, arguments.get("target_vocab_size", 9))
    assert bool(given["final_logits_bias"].any()) is head_bias


def test_a_bias_that_is_zero_says_nothing():
    shapes = {"final_logits_bias": (1, 4)}
    assert _fairseq.peek(shapes, {"final_logits_bias": torch.ones(1, 4)}.__getitem__) == {"head_bias": True}
    assert _fairseq.peek(shapes, {"final_logits_bias": torch.zeros(1, 4)}.__getitem__) == {"head_bias": False}
    assert _fairseq.peek({}, {}.__getitem__) == {"head_bias": False}


def test_a_class_has_its_norms_in_one_place():
    form = _fairseq.placed(Format("kind", "Class", {}, _fairseq.weights, arguments={"gated": False}), "pre")
    assert form.arguments == {"gated": False, "placement": "pre"}
    assert form.fixed == {"normalize_before": (True,), "add_final_layer_norm": (True,)}

from __future__ import annotations

import pytest
import torch

from regard.checkpoints.folders import named_tensors, save_model
from regard.checkpoints.fresh import load_with_head, with_head
from regard.checkpoints.tensors import TensorFiles, write_tensors
from regard.errors import UserError
from regard.layers.heads import Classify, NextToken
from regard.models import bert, rnn, transformer

SMALL = {"vocab_size": 13, "num_layers": 2, "d_model": 8, "d_ff": 12, "num_heads": 2, "max_positions": 20}
IDS = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 0, 0, 0]])


def made(**arguments):
    torch.manual_seed(3)
    model = bert.describe(**SMALL | arguments).build().double().eval()
    for tensor in model.parameters():
        tensor.data.normal_(0.0, 0.3)
    return model


def test_the_body_is_kept_and_the_head_is_new():
    old = made()
    before = {name: tensor.clone() for name, tensor in named_tensors(old).items()}
    new, fresh = with_head(old, "class", 3)
    assert new.description == bert.describe(**SMALL, head="class", classes=3)
    assert fresh == ["head.between.weight", "head.between.bias", "head.project.weight", "head.project.bias"]
    assert torch.equal(new.encode(IDS).states, old.encode(IDS).states)
    assert new(IDS).logits.shape == (2, 3)
    assert next(new.parameters()).dtype == torch.float64
    assert not new.training
    for name, tensor in named_tensors(new).items():
        if name not in fresh:
            assert torch.equal(tensor, before[name])
            assert tensor.data_ptr() != dict(named_tensors(old))[name].data_ptr()


def test_a_fresh_head_is_drawn_as_the_family_draws_it():
    """BERT's: normal with 0.02, biases zero; and anew for each seed."""
    old, drawn = made(d_model=64, d_ff=64), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        new, _ = with_head(old, "class", 40)
        assert new.head.project.weight.std().item() == pytest.approx(0.02, rel=0.1)
        assert new.head.between.weight.std().item() == pytest.approx(0.02, rel=0.1)
        assert not new.head.project.bias.any()
        drawn.append(new.head.project.weight.detach())
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_a_masked_head_is_tied_to_the_body_again():
    """Its matrix is the body's embedding, so only the rest of the head is fresh."""
    new, fresh = with_head(made(head="vector"), "masked")
    assert new.description == bert.describe(**SMALL)
    assert new.head.project.weight is new.encoder.embed.tokens.weight
    assert "head.project.weight" not in fresh
    assert {"head.project.bias", "head.transform.weight", "head.norm.weight"} <= set(fresh)
    assert new(IDS).logits.shape == (2, 5, 13)


def test_any_head_can_be_described():
    old = made()
    new, fresh = with_head(old, Classify(4, "mean"))
    assert fresh == ["head.project.weight", "head.project.bias"]
    assert torch.equal(new.encode(IDS).states, old.encode(IDS).states)
    assert new(IDS).logits.shape == (2, 4)
    with pytest.raises(UserError, match="no architecture that describes this model has a choice of heads"):
        with_head(new, "class", 3)


@pytest.mark.parametrize(
    "model",
    [
        transformer.describe(vocab_size=9, num_layers=1, d_model=8, d_ff=8, num_heads=2),
        rnn.describe(vocab_size=9, d_model=8),
    ],
)
def test_families_with_one_head(model):
    old = model.build()
    with pytest.raises(UserError, match="choice of heads"):
        with_head(old, "class", 3)
    new, fresh = with_head(old, NextToken(9, bias=True))
    assert fresh == ["head.project.weight", "head.project.bias"]
    assert not new.head.project.bias.any()
    assert torch.equal(new.decoder.embed.tokens.weight, old.decoder.embed.tokens.weight)


@pytest.mark.parametrize(
    ("head", "classes", "words"),
    [("next", None, "'next'.*must be 'masked', 'class', 'tokens' or 'vector'"), ("class", None, "needs the number")],
)
def test_refusals_name_the_head(head, classes, words):
    with pytest.raises(UserError, match=words):
        with_head(made(), head, classes)


@pytest.mark.parametrize(("head", "name"), [("masked", "bert.pooler.dense"), ("vector", "pooler.dense")])
def test_a_stored_pooler_is_taken_for_a_head_of_classes(tmp_path, head, name):
    """As transformers does: the pooler that a folder holds, unused, is no fresh tensor of a head that reads it."""
    old = made(head=head)
    save_model(tmp_path, old, meta={"labels": ["a", "b"]})
    files = TensorFiles(tmp_path)
    stored = {key: files.read(key) for key in files.shapes}
    pooler = {f"{name}.weight": torch.randn(8, 8).double(), f"{name}.bias": torch.randn(8).double()}
    write_tensors(tmp_path, stored | pooler)
    new, fresh, meta = load_with_head(tmp_path, "class", 3)
    assert fresh == ["head.project.weight", "head.project.bias"]
    assert torch.equal(new.head.between.weight, pooler[f"{name}.weight"])
    assert torch.equal(new.head.between.bias, pooler[f"{name}.bias"])
    assert torch.equal(new.encode(IDS).states, old.encode(IDS).states)
    assert "labels" not in meta
    assert meta["ids"]["pad"] == 0


def test_without_a_stored_pooler_all_of_the_head_is_fresh(tmp_path):
    save_model(tmp_path, made(head="class", classes=2))
    new, fresh, _ = load_with_head(tmp_path, "class", 3, dtype="float32")
    assert len(fresh) == 4
    assert new.head.project.weight.dtype == torch.float32

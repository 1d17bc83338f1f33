"""Low-rank updates: nothing at first, the product of two small matrices later, merged and taken out again."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.errors import UserError
from regard.layers import lora
from regard.models import llama, transformer


def tiny(**more: object) -> nn.Module:
    torch.manual_seed(0)
    arguments = {"vocab_size": 13, "num_layers": 2, "d_model": 8, "d_ff": 12, "num_heads": 2} | more
    return llama.describe(**arguments).build().eval()  # type: ignore[arg-type]


def shaken(model: nn.Module) -> None:
    """Make the updates something."""
    with torch.no_grad():
        for layer in lora.adapted(model).values():
            for _, update in layer.parts:
                update.b.normal_(std=0.3)


IDS = torch.arange(12).reshape(2, 6)


def test_an_update_is_nothing_at_first_and_only_it_learns() -> None:
    model = tiny()
    before = model(IDS).logits
    found = lora.adapt(model, ["q", "v", "output"], 2, 4.0)
    assert found[:3] == [f"decoder.blocks.0.attention.{name}" for name in ("qkv.q", "qkv.v", "output")]
    assert torch.equal(model(IDS).logits, before)
    learned = [name for name, p in model.named_parameters() if p.requires_grad]
    assert learned
    assert all(".updates." in name for name in learned)
    model(IDS).logits.square().sum().backward()
    assert all(p.grad is None for name, p in model.named_parameters() if ".updates." not in name)
    assert all(p.grad is not None for name, p in model.named_parameters() if ".updates." in name)


def test_an_update_adds_its_product_to_its_rows_alone() -> None:
    torch.manual_seed(1)
    layer = lora.Adapted(nn.Linear(5, 6).double())
    layer.updates["k"] = lora.Update(5, 2, 4, 3, 6.0).double()
    with torch.no_grad():
        layer.parts[0][1].b.normal_()
    x = torch.randn(4, 5, dtype=torch.double)
    update = layer.parts[0][1]
    expected = layer.weight.clone()
    expected[2:4] += 6.0 / 3 * update.b @ update.a
    torch.testing.assert_close(layer(x), x @ expected.T + layer.bias)
    torch.testing.assert_close(layer.merged_weight(), expected.detach())


@pytest.mark.parametrize("grouped", [None, 1])
def test_merging_changes_no_answer_and_unmerging_no_bit(grouped: int | None) -> None:
    model = tiny(num_kv_heads=grouped)
    lora.adapt(model, ["q", "k", "v", "expand"], 2, 4.0)
    shaken(model)
    answer, weights = model(IDS).logits, {k: v.clone() for k, v in model.state_dict().items()}
    lora.merge(model)
    lora.merge(model)  # twice is once
    torch.testing.assert_close(model(IDS).logits, answer, rtol=1e-5, atol=1e-5)
    assert not torch.equal(
        model.state_dict()["decoder.blocks.0.attention.qkv.weight"], weights["decoder.blocks.0.attention.qkv.weight"]
    )
    lora.unmerge(model)
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert torch.equal(model(IDS).logits, answer)


def test_rows_of_grouped_and_of_cross_attention() -> None:
    model = tiny(num_kv_heads=1)
    assert lora.rows_of(model, "decoder.blocks.0.attention.qkv") == {
        "qkv": (0, 16),
        "q": (0, 8),
        "k": (8, 12),
        "v": (12, 16),
    }
    other = transformer.describe(vocab_size=13, num_layers=1, d_model=8, d_ff=12, num_heads=2).build()
    assert lora.rows_of(other, "decoder.blocks.0.cross.kv") == {"kv": (0, 16), "k": (0, 8), "v": (8, 16)}
    found = lora.adapt(other, ["q"], 2, 4.0)
    assert found == ["encoder.blocks.0.attention.qkv.q", "decoder.blocks.0.attention.qkv.q", "decoder.blocks.0.cross.q"]


def test_dropout_is_for_training_alone() -> None:
    model = tiny()
    lora.adapt(model, ["qkv"], 2, 4.0, dropout=0.5)
    shaken(model)
    assert torch.equal(model(IDS).logits, model(IDS).logits)
    model.train()
    assert not torch.equal(model(IDS).logits, model(IDS).logits)


def test_what_cannot_be_adapted_is_named() -> None:
    with pytest.raises(UserError, match=r"no matrix is called qq; there are .*qkv"):
        lora.adapt(tiny(), ["q", "qq"], 2, 4.0)
    with pytest.raises(UserError, match="no matrix is called project"):
        lora.adapt(tiny(tied=True), ["project"], 2, 4.0)  # its matrix is the embedding

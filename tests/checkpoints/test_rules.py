"""Two-way tables."""

from __future__ import annotations

import pytest
import torch

from regard.checkpoints.rules import Derived, Headed, Joined, Row, Rule, Stacked, Twice, Weights, give, table, take
from regard.errors import UserError

TABLE = Weights(
    (
        Rule(("h.#.q.weight", "h.#.k.weight", "h.#.v.weight"), "blocks.#.qkv.weight", Joined((4, 2, 2))),
        Rule("h.#.proj.weight", "blocks.#.out.weight", Joined(turned=True)),
        Rule("wte", "embed.weight", also=("lm_head",)),
        Rule("bias", "head.bias", Row()),
    ),
    (Derived("steps", lambda shape: torch.arange(shape[0]).float()[:, None].expand(*shape), (5, 2)),),
    frozenset({"noise"}),
)


def ours() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    tensors = {f"blocks.{n}.qkv.weight": torch.randn(8, 4) for n in (0, 1, 10)}
    tensors |= {f"blocks.{n}.out.weight": torch.randn(4, 4) for n in (0, 1, 10)}
    return tensors | {"embed.weight": torch.randn(6, 4), "head.bias": torch.randn(6)}


def taken(given, table=TABLE):
    return take(table, ours(), {k: tuple(t.shape) for k, t in given.items()}, given.__getitem__, "FILE")


def test_both_ways_give_the_same_bits():
    mine = ours()
    given = give(TABLE, mine)
    assert set(given) == {f"h.{n}.{p}.weight" for n in (0, 1, 10) for p in ("q", "k", "v", "proj")} | {
        "wte",
        "bias",
        "steps",
    }
    assert given["h.10.k.weight"].equal(mine["blocks.10.qkv.weight"][4:6])
    assert given["bias"].shape == (1, 6)
    back = taken(given)
    assert back.keys() == mine.keys()
    assert all(back[name].equal(mine[name]) for name in mine)


def test_ckpt_01_a_square_matrix_is_turned():
    """S-CKPT-01: the stored square matrix is the transpose of ours, though no shape tells."""
    mine = ours()
    assert give(TABLE, mine)["h.0.proj.weight"].equal(mine["blocks.0.out.weight"].T)


def test_ckpt_08_missing_unexpected_and_misshapen_in_one_error():
    """S-CKPT-08: a renamed, a removed and a misshapen tensor are all named at once."""
    given = give(TABLE, ours()) | {"noise": torch.zeros(3)}
    given["h.0.query.weight"] = given.pop("h.0.q.weight")
    del given["h.1.proj.weight"]
    given["h.10.v.weight"] = torch.zeros(3, 4)
    with pytest.raises(UserError) as error:
        taken(given)
    assert str(error.value) == (
        "FILE: the weights do not fit the configuration; missing: h.0.q.weight, h.1.proj.weight; "
        "unexpected: h.0.query.weight; misshapen: h.10.v.weight (3×4, should be 2×4)"
    )


def test_ckpt_08_what_is_tied_wrongly_stands_in_the_same_error():
    """S-CKPT-08: names that are missing, and tied or derived tensors that are not what they should be, all at once."""
    given = give(TABLE, ours())
    given |= {"lm_head": given["wte"] + 1, "steps": torch.ones(5, 2)}
    del given["bias"]
    with pytest.raises(UserError) as error:
        taken(given)
    assert str(error.value) == (
        "FILE: the weights do not fit the configuration; missing: bias; wrong: lm_head and wte should be one tied"
        " tensor, but their values differ, steps is not what the configuration says (it differs by up to 3)"
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_derived_tensors_are_compared_as_exactly_as_they_are_stored(dtype):
    sines = torch.linspace(0.0, 1.0, 99)[:, None].sin()
    table = Weights((Rule("w", "w"),), (Derived("sines", lambda shape: sines, (99, 1)),))
    tensors = {"w": torch.ones(1), "sines": sines.to(dtype)}
    shapes = {"w": (1,), "sines": (99, 1)}
    assert take(table, {"w": torch.ones(1)}, shapes, tensors.__getitem__, "FILE").keys() == {"w"}
    tensors["sines"] = (sines * 1.02).to(dtype)
    with pytest.raises(UserError, match="sines is not what the configuration says"):
        take(table, {"w": torch.ones(1)}, shapes, tensors.__getitem__, "FILE")


def test_tied_tensors_may_stand_under_another_name():
    given = give(TABLE, ours())
    given["lm_head"] = given["wte"].clone()
    assert taken(given)["embed.weight"].equal(given["wte"])
    given["lm_head"][0] += 1
    with pytest.raises(UserError, match="lm_head and wte should be one tied tensor"):
        taken(given)
    del given["wte"]
    assert taken(given)["embed.weight"].equal(given["lm_head"])


def test_derived_tensors_are_optional_and_compared():
    given = give(TABLE, ours())
    del given["steps"]
    taken(given)
    taken(given | {"steps": torch.arange(9).float()[:, None].expand(9, 2)})
    with pytest.raises(UserError, match="steps is not what the configuration says"):
        taken(given | {"steps": torch.ones(5, 2)})
    with pytest.raises(UserError, match="steps has shape 5×3, should be 5×2"):
        taken(given | {"steps": torch.ones(5, 3)})


def test_a_tensor_without_a_rule_is_our_own_fault():
    with pytest.raises(RuntimeError, match=r"no rule gives extra\.weight"):
        give(TABLE, ours() | {"extra.weight": torch.zeros(1)})


def test_twice_stored_is_written_twice_and_read_once():
    """Either name alone will do; of two that differ the first is what the class computes with."""
    rule = Rule(("decoder.bias", "bias"), "head.bias", Twice(), also=("bias", "decoder.bias"))
    table, mine = Weights((rule,), ignored=frozenset({"bias", "decoder.bias"})), {"head.bias": torch.arange(3.0)}
    given = give(table, mine)
    assert set(given) == {"decoder.bias", "bias"}
    for names in (("decoder.bias", "bias"), ("decoder.bias",), ("bias",)):
        stored = {name: given[name] for name in names}
        if len(names) == 2:
            stored["bias"] = torch.zeros(3)
        read = take(table, mine, dict.fromkeys(stored, (3,)), stored.__getitem__, "FILE")
        assert read["head.bias"].equal(mine["head.bias"])


def test_a_table_names_the_weights_and_biases_of_layers():
    """One layer, several that are one of ours, of unequal rows if told so, and a norm that an old file names otherwise."""
    made = table("blocks.#.", "h.#.", {"qkv": "attn q k", "out": "attn.out", "norm": "out.LayerNorm"}, {"qkv": (4, 2)})
    assert made[:2] == [
        Rule(("h.#.attn.q.weight", "h.#.attn.k.weight"), "blocks.#.qkv.weight", Joined((4, 2))),
        Rule(("h.#.attn.q.bias", "h.#.attn.k.bias"), "blocks.#.qkv.bias", Joined((4, 2))),
    ]
    assert made[2:4] == [Rule(f"h.#.attn.out.{kind}", f"blocks.#.out.{kind}") for kind in ("weight", "bias")]
    assert made[4] == Rule("h.#.out.LayerNorm.weight", "blocks.#.norm.weight", also=("h.#.out.LayerNorm.gamma",))
    assert made[5].also == ("h.#.out.LayerNorm.beta",)
    assert table("", "", {"qkv": "attn q k"})[0].change == Joined()
    found = give(Weights(tuple(made)), {"blocks.1.out.weight": torch.ones(2, 2)})
    assert set(found) == {"h.1.attn.out.weight"}


def test_tensors_with_an_axis_of_heads_are_flattened():
    """Three heads of two numbers, width 5: keys and values side by side, and the product that puts heads together."""
    keys, values, out = torch.randn(5, 3, 2), torch.randn(5, 3, 2), torch.randn(4, 3, 2)
    joined = Headed(3).take([keys, values])
    assert joined.shape == (12, 5)
    x = torch.randn(5)
    torch.testing.assert_close((joined @ x)[6:].view(3, 2), torch.einsum("d,dhk->hk", x, values))
    assert all(torch.equal(a, b) for a, b in zip(Headed(3).give(joined, 2), (keys, values), strict=True))
    flat = Headed(3, turned=False).take([out])
    torch.testing.assert_close(flat @ torch.arange(6.0), torch.einsum("hk,dhk->d", torch.arange(6.0).view(3, 2), out))
    assert torch.equal(Headed(3, turned=False).give(flat, 1)[0], out)


def test_matrices_of_experts_are_stacked_and_may_stand_in_another_form():
    """Two kinds of three experts each; or all of them in one tensor, as it is here; under an older name too."""
    kinds = tuple(f"h.#.{kind}.{number}" for kind in ("w1", "w3") for number in range(3))
    rule = Rule(kinds, "blocks.#.expand", Stacked(3), instead=Rule("h.#.fused", "blocks.#.expand"))
    table = Weights((rule, Rule("h.#.gate", "blocks.#.router", also=("old.#.gate",))))
    shapes = {"expand": (3, 4, 5), "router": (3, 5)}
    mine = {f"blocks.{n}.{name}": torch.randn(*shape) for n in (0, 1) for name, shape in shapes.items()}
    given = give(table, mine)
    assert torch.equal(given["h.1.w1.2"], mine["blocks.1.expand"][2, :2])
    assert torch.equal(given["h.1.w3.0"], mine["blocks.1.expand"][0, 2:])
    fused = {f"h.{n}.fused": mine[f"blocks.{n}.expand"] for n in (0, 1)}
    fused |= {f"old.{n}.gate": given[f"h.{n}.gate"] for n in (0, 1)}
    for theirs in (given, fused):
        found = take(table, mine, {k: tuple(t.shape) for k, t in theirs.items()}, theirs.__getitem__, "FILE")
        assert found.keys() == mine.keys()
        assert all(torch.equal(found[name], mine[name]) for name in mine)
    wrong = fused | {"h.0.fused": torch.zeros(3, 4, 7)}
    with pytest.raises(UserError, match=r"misshapen: h\.0\.fused \(3×4×7, should be 3×4×5\)"):
        take(table, mine, {k: tuple(t.shape) for k, t in wrong.items()}, wrong.__getitem__, "FILE")

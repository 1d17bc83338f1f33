"""Two-way tables."""

from __future__ import annotations

import pytest
import torch

from regard.checkpoints.rules import (
    ACTIVATION_NAMES,
    Choice,
    Derived,
    Format,
    Joined,
    Row,
    Rule,
    Stacked,
    Twice,
    Weights,
    both,
    give,
    read_classes,
    read_config,
    take,
    words,
    write_classes,
    write_config,
)
from regard.errors import UserError
from regard.layers.feedforward import activation

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


FORMAT = Format(
    "toy",
    "ToyModel",
    {"width": "d_model", "act": Choice("activation", ACTIVATION_NAMES)},
    lambda **arguments: TABLE,
    defaults={"act": "gelu"},
    fixed={"norm_first": (False,)},
    harmless=words("seed colour"),
    arguments={"placement": "post"},
    write=lambda arguments: None if arguments.get("odd") else {"norm_first": False},
)


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


def test_weight_and_bias_of_one_layer_or_several():
    assert both("a", "b") == [Rule("a.weight", "b.weight"), Rule("a.bias", "b.bias")]
    joined = both("a", "b", "q", "k")
    assert joined[1] == Rule(("a.q.bias", "a.k.bias"), "b.bias", Joined())


def test_configuration_both_ways():
    arguments = read_config(FORMAT, {"width": 8, "colour": "red", "torch_dtype": "float32"}, "FILE")
    assert arguments == {"d_model": 8, "activation": "gelu", "placement": "post"}
    config = write_config(FORMAT, arguments)
    assert config == {
        "model_type": "toy",
        "architectures": ["ToyModel"],
        "width": 8,
        "act": "gelu",
        "norm_first": False,
    }
    assert read_config(FORMAT, config, "FILE") == arguments
    assert write_config(FORMAT, arguments | {"placement": "pre"}) is None
    assert write_config(FORMAT, arguments | {"odd": True}) is None
    assert write_config(FORMAT, arguments | {"activation": "sine"}) is None


def test_configuration_errors_stand_in_one_line():
    with pytest.raises(UserError) as error:
        read_config(FORMAT, {"act": ["gelu"], "norm_first": True, "quantization_config": {"bits": 4}}, "FILE")
    for part in ("width is missing", "act is ['gelu']", "norm_first is True, must be False", "quantization_config"):
        assert part in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.warns(UserWarning, match="does not know: moon, sun") as seen:
        read_config(FORMAT, {"width": 8, "moon": 1, "sun": 2}, "FILE")
    assert len(seen) == 1


def test_ckpt_06_forms_of_gelu():
    """S-CKPT-06: gelu is the exact form, gelu_new and gelu_pytorch_tanh the approximation."""
    one = torch.ones(1)
    values = {name: round(activation(ours)(one).item(), 6) for name, ours in ACTIVATION_NAMES.items()}
    assert values["gelu"] == 0.841345
    assert values["gelu_new"] == values["gelu_pytorch_tanh"] == 0.841192
    assert values["swish"] == values["silu"]


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


def test_number_of_classes_is_read_and_written():
    assert read_classes({}) == read_classes({"id2label": None}) == 2
    assert read_classes({"num_labels": 5}) == 5
    assert read_classes(write_classes(3)) == 3
    assert write_classes(2)["label2id"] == {"LABEL_0": 0, "LABEL_1": 1}


def test_what_a_format_refuses_while_reading_is_the_user_s_mistake():
    def read(config):
        raise ValueError("the tide is out")

    with pytest.raises(UserError, match=r"^FILE: the tide is out$"):
        read_config(Format("kind", "Class", {}, lambda: Weights(()), read=read), {}, "FILE")

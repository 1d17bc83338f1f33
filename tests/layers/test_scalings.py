"""Scalings of rotary rates against the functions of transformers that read released configurations."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from regard.layers.positions import Rotary
from regard.layers.scalings import ByWavelength, Interpolated, Yarn, read_rope, write_rope, yarn_gain
from regard.layout import Layout

transformers = pytest.importorskip("transformers")

WAVES = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
CASES = [
    (Interpolated(4.0), {"rope_type": "linear", "factor": 4.0}),
    (ByWavelength(8.0, 8192), WAVES | {"factor": 8.0, "original_max_position_embeddings": 8192}),
    (
        ByWavelength(32.0, 64, 2.0, 3.0),
        WAVES | {"factor": 32.0, "original_max_position_embeddings": 64} | {"low_freq_factor": 2.0, "high_freq_factor": 3.0},
    ),
    (Yarn(4.0, 32768), {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}),
    (
        Yarn(16.0, 4096, 16.0, 2.0, 1.25),
        {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096}
        | {"beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 1.25},
    ),
    (
        Yarn(40.0, 4096, whole=False),
        {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096} | {"truncate": False},
    ),
]


@pytest.mark.parametrize(("scaling", "rope"), CASES)
@pytest.mark.parametrize(("head_dim", "base"), [(128, 500000.0), (64, 10000.0), (8, 1e6)])
def test_rates_and_gain_equal_the_reference(scaling, rope, head_dim, base):
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    original = rope.get("original_max_position_embeddings", 2048)
    longest = int(original * rope["factor"])
    config = transformers.LlamaConfig(
        hidden_size=4 * head_dim,
        num_attention_heads=4,
        max_position_embeddings=longest,
        rope_parameters=rope | {"rope_theta": base},
    )
    want, gain = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, torch.device("cpu"))
    plain = 1.0 / base ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    torch.testing.assert_close(scaling.rates(plain), want, rtol=1e-6, atol=1e-9)
    assert scaling.gain == pytest.approx(gain)
    layout = Layout.unpadded(1, start=100)
    (cosine, _), _ = Rotary(base, scaling=scaling).build(4, head_dim)(layout, layout)
    torch.testing.assert_close(cosine[0, 0, 0, : head_dim // 2], (100 * want).cos() * gain, rtol=0, atol=1e-4)
    assert (scaling.rates(plain) - plain).abs().max() > 1e-6


def test_yarn_takes_its_gain_from_the_factor_and_needs_two_pairs():
    assert Yarn(1.0, 64).gain == 1.0
    assert Yarn(4.0, 64).gain == yarn_gain(4.0) == pytest.approx(0.1 * math.log(4.0) + 1.0)
    assert yarn_gain(4.0, 0.707) == pytest.approx(0.0707 * math.log(4.0) + 1.0)
    with pytest.raises(ValueError, match="heads of at least 4 numbers"):
        Yarn(4.0, 64).rates(torch.ones(1))


def theirs(**config) -> tuple[torch.Tensor, float, float]:
    """Rates, gain and base of transformers for a configuration in any spelling."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    its = transformers.LlamaConfig(hidden_size=64, num_attention_heads=4, **config)
    rope = its.rope_parameters
    return *ROPE_INIT_FUNCTIONS[rope["rope_type"]](its, torch.device("cpu")), rope["rope_theta"]


@pytest.mark.parametrize(
    "config",
    [
        {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_theta": 1e6},
        {"rope_scaling": {"type": "yarn", "factor": 4.0}, "max_position_embeddings": 128},
        {"rope_parameters": WAVES | {"factor": 8.0, "rope_theta": 5e5}, "max_position_embeddings": 64},
        {"rope_parameters": {"rope_type": "yarn", "factor": 40.0, "mscale": 0.7, "mscale_all_dim": 1.0}}
        | {"original_max_position_embeddings": 64, "rope_theta": 5e4, "max_position_embeddings": 2560},
    ],
)
def test_configurations_in_any_spelling_mean_what_they_mean_there(config):
    """Also where the length of training, the factor or the gain has to be worked out."""
    found = read_rope({"max_position_embeddings": 2048} | copy.deepcopy(config))
    want, gain, base = theirs(**({"max_position_embeddings": 2048} | copy.deepcopy(config)))
    plain = 1.0 / base ** (torch.arange(0, 16, 2, dtype=torch.float32) / 16)
    assert found["base"] == base
    torch.testing.assert_close(found["scaling"].rates(plain), want, rtol=1e-6, atol=1e-9)
    assert found["scaling"].gain == pytest.approx(gain)


@pytest.mark.parametrize(("scaling", "rope"), [(None, {"rope_type": "default"}), *CASES])
def test_what_is_written_is_read(scaling, rope):
    written = write_rope(5e5, scaling)
    assert read_rope(written | {"max_position_embeddings": 77}) == {"base": 5e5, "scaling": scaling}
    for spelling in ("rope_parameters", "rope_scaling"):
        its = {key: value for key, value in written.items() if key in (spelling, "rope_theta")}
        if scaling is None or spelling in its:
            assert read_rope(its) == {"base": 5e5, "scaling": scaling}
    assert rope.items() <= written["rope_parameters"].items()


def test_nothing_said_is_the_base_of_the_class_and_unknown_parts_are_not_written():
    assert read_rope({}) == {"base": 10000.0, "scaling": None}
    assert read_rope({"rope_parameters": None, "rope_theta": None}, 1e6) == {"base": 1e6, "scaling": None}
    assert write_rope(1e4, object()) == {}
    with pytest.raises(ValueError, match="yarn has no original_max_position_embeddings"):
        read_rope({"rope_scaling": {"type": "yarn", "factor": 4.0}})

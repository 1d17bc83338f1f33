"""Mixtral (Jiang et al. 2024, "Mixtral of experts"): Mistral whose feed-forward layers are mixtures of experts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from regard.architecture import Description, inverse
from regard.checkpoints.formats import Format, Key, each
from regard.checkpoints.rules import Rule, Stacked, Weights
from regard.layers.experts import Experts
from regard.layers.feedforward import Gated
from regard.layers.initial import normal_
from regard.layers.positions import Scaling
from regard.layers.scalings import read_rope
from regard.models import llama, mistral

SIZES: dict[str, dict[str, Any]] = {
    "nano": {"num_layers": 4, "d_model": 128, "d_ff": 172, "num_heads": 4, "max_positions": 64, "base": 1e4},
    "8x7b": {"num_layers": 32, "d_model": 4096, "d_ff": 14336, "num_heads": 32, "num_kv_heads": 8, "max_positions": 32768},
    "8x22b": {"num_layers": 56, "d_model": 6144, "d_ff": 16384, "num_heads": 48, "num_kv_heads": 8, "max_positions": 65536},
}


def describe(
    *,
    vocab_size: int,
    num_layers: int = 4,
    d_model: int = 128,
    d_ff: int = 172,
    num_heads: int = 4,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
    experts: int = 8,
    active: int = 2,
    imbalance: float = 0.02,
    window: int | None = None,
    max_positions: int = 32768,
    base: float = 1e6,
    scaling: Scaling | Mapping[str, Any] | None = None,
    activation: str = "silu",
    eps: float = 1e-5,
    dropout: float = 0.0,
    attention_dropout: float = 0.0,
    tied: bool = False,
    head: Literal["next", "class"] = "next",
    classes: int | None = None,
    pad: int | None = None,
) -> Description:
    """A decoder alone, as Mistral. experts: in each layer, each of width d_ff, of which `active` serve a token. imbalance:
    the weight of their uneven use in training. The size "nano" has the active weights of LLaMA's. The rest as in Mistral.
    """
    given = {name: value for name, value in locals().items() if name not in ("experts", "active", "imbalance", "window")}
    mixture = Experts(Gated(d_ff, activation), experts, active, imbalance)
    return llama.describe(**given, mask=mistral.masked(window), feedforward=mixture)


initialise = normal_


def _more(description: Description) -> dict[str, Any]:
    its = description.decoder.blocks[0].feedforward
    return mistral.more(description) | {"experts": its.count, "active": its.active, "imbalance": its.imbalance}


arguments = inverse(describe, _more)

CONFIG: dict[str, str | Key] = mistral.CONFIG | {
    "rms_norm_eps": Key("eps", 1e-5),
    "sliding_window": Key("window", None),
    "num_local_experts": Key("experts", 8),
    "num_experts_per_tok": Key("active", 2),
    "router_aux_loss_coef": Key("imbalance", 0.001),
}


def weights(*, experts: int, **arguments: Any) -> Weights:
    """The tensors of MixtralForCausalLM and MixtralForSequenceClassification for these arguments of `describe`: an expert's
    as released, w1 and w3 before w2, or all of them stacked, as transformers 5 keeps them in memory."""
    plain = llama.weights(**arguments)
    theirs, ours = "model.layers.#.block_sparse_moe", "decoder.blocks.#.feedforward"
    rules = [rule for rule in plain.rules if not rule.ours.startswith(ours + ".")]
    rules.append(Rule(f"{theirs}.gate.weight", f"{ours}.router.weight", also=("model.layers.#.mlp.gate.weight",)))
    for name, parts, fused in (("expand", ("w1", "w3"), "gate_up_proj"), ("contract", ("w2",), "down_proj")):
        them = tuple(f"{theirs}.experts.{number}.{part}.weight" for part in parts for number in range(experts))
        other = Rule(f"model.layers.#.mlp.experts.{fused}", f"{ours}.{name}")
        rules.append(Rule(them, f"{ours}.{name}", Stacked(experts), instead=other))
    return Weights(tuple(rules), ignored=plain.ignored)


_FORM = Format(
    "mixtral",
    "Mixtral",
    CONFIG,
    weights,
    fixed=llama.FIXED | {"router_jitter_noise": (None, 0.0)},
    harmless=llama.HARMLESS | {"output_router_logits"},
    read=partial(read_rope, base=1e6),
    write=llama.FORM.write,
)
FORMATS = each(_FORM, llama.HEADS)

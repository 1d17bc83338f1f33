"""What the classes of transformers that come from fairseq say alike: Marian's, Pegasus's, BART's and mBART's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.checkpoints.formats import ACTIVATION_NAMES, Format, Key, words
from regard.checkpoints.rules import Derived, Row, Rule, Weights, table

CONFIG: dict[str, str | Key] = {
    "vocab_size": "vocab_size",
    "d_model": "d_model",
    "encoder_layers": "num_layers",
    "decoder_layers": "decoder_layers",
    "encoder_ffn_dim": "d_ff",
    "decoder_ffn_dim": "decoder_d_ff",
    "encoder_attention_heads": "num_heads",
    "decoder_attention_heads": "decoder_heads",
    "dropout": Key("dropout", 0.1),
    "attention_dropout": Key("attention_dropout", 0.0),
    "activation_dropout": Key("activation_dropout", 0.0),
    "activation_function": Key("activation", "gelu", ACTIVATION_NAMES),
    "scale_embedding": Key("scaled", False),
    "pad_token_id": "pad",
}
TIED = {"tie_word_embeddings": Key("tied", True, {True: "all", False: "no"})}
FIXED: dict[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (True,),
    "tie_word_embeddings": (True, False),
    "layer_norm_eps": (1e-5,),
    "add_bias_logits": (False,),
}
HARMLESS = words(
    "encoder_layerdrop decoder_layerdrop init_std num_hidden_layers classif_dropout classifier_dropout extra_pos_embeddings"
    " force_bos_token_to_be_generated decoder_vocab_size max_position_embeddings"
)
HALF = {"embed.position.table": "embed_positions", "embed.norm": "layernorm_embedding", "last_norm": "layer_norm"}
BLOCK = {
    "attention.qkv": "self_attn q_proj k_proj v_proj",
    "attention.output": "self_attn.out_proj",
    "attention_norm": "self_attn_layer_norm",
    "cross.q": "encoder_attn.q_proj",
    "cross.kv": "encoder_attn k_proj v_proj",
    "cross.output": "encoder_attn.out_proj",
    "cross_norm": "encoder_attn_layer_norm",
    "feedforward.expand": "fc1",
    "feedforward.contract": "fc2",
    "feedforward_norm": "final_layer_norm",
}


def weights(*, vocab_size: int, tied: str, head_bias: bool, **arguments: Any) -> Weights:
    """The tensors of these classes but for tables that are computed, for these arguments of `describe`."""
    rules, derived = [], []
    for half in ("encoder", "decoder"):
        rules += table(f"{half}.", f"model.{half}.", HALF)
        rules += table(f"{half}.blocks.#.", f"model.{half}.layers.#.", BLOCK)
    one, two = (f"model.{half}.embed_tokens.weight" for half in ("encoder", "decoder"))
    if tied == "all":
        rules.append(Rule("model.shared.weight", "encoder.embed.tokens.weight", also=(one, two, "lm_head.weight")))
    else:  # an old file may have one matrix for both sides, which "no" here means to part from now on
        shared = ("model.shared.weight",) if tied == "no" else ()
        rules.append(Rule(one, "encoder.embed.tokens.weight", also=shared))
        rules.append(Rule(two, "decoder.embed.tokens.weight", also=shared if shared else ("lm_head.weight",)))
        rules.append(Rule("lm_head.weight", "head.project.weight"))
    if head_bias:
        rules.append(Rule("final_logits_bias", "head.project.bias", Row()))
    else:
        derived.append(Derived("final_logits_bias", torch.zeros, (1, arguments.get("target_vocab_size") or vocab_size)))
    return Weights(tuple(rules), tuple(derived), frozenset({"model.shared.weight"} if tied == "no" else ()))


def peek(shapes: Mapping[str, Sequence[int]], read: Callable[[str], Tensor]) -> dict[str, Any]:
    """Whether the stored bias of the logits says anything."""
    return {"head_bias": "final_logits_bias" in shapes and bool(read("final_logits_bias").any())}


def write(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What these configurations say whatever the arguments are."""
    return {"is_encoder_decoder": True}


def placed(form: Format, placement: str) -> Format:
    """The format with norms where `placement` says, which a class has fixed."""
    pre = (placement == "pre",)
    fixed = {**form.fixed, "normalize_before": pre, "add_final_layer_norm": pre}
    return replace(form, fixed=fixed, arguments={**form.arguments, "placement": placement})

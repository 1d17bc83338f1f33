"""Models for other programs: folders of CTranslate2, written through its public specifications.

Nothing here knows families of models: the parts of a description are read, each is something that CTranslate2 computes or is
refused by its name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from regard.architecture import Description
from regard.checkpoints.convert import ACTIVATIONS
from regard.decoding.generate import LONGEST
from regard.errors import UserError
from regard.layers.attention import Attention, ScaledDot
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense, Gated
from regard.layers.heads import NextToken
from regard.layers.masks import Causal, Everything
from regard.layers.norms import LayerNorm, RMSNorm
from regard.layers.positions import Buckets, Learned, NoPositions, Rotary, Sinusoidal, sinusoids
from regard.layers.scalings import ByWavelength, Interpolated
from regard.layers.stack import Stack
from regard.serving.onnx import export_onnx
from regard.text.tokenizer import Tokenizer

INSTALL = "pip install 'regard[ctranslate2]'"
QUANTIZATIONS = ("int8", "int16", "float16")
POSITIONS = 2 * LONGEST + 64
"""Rows of a table of positions that has no end in regard: as long as answers to the longest sources may become."""
CODES = {name: code for code, name in ACTIVATIONS.items()}
OPENNMT = Sinusoidal(first=1, closed=True)
"""The sinusoids that CTranslate2 makes by itself."""


def ctranslate2() -> Any:
    """The module ctranslate2; UserError with the command that installs it."""
    try:
        import ctranslate2 as found  # pyright: ignore
    except ImportError:
        raise UserError(f"this needs CTranslate2, which is not installed: {INSTALL}") from None
    return found


def export_folder(model: str | Path, output: str | Path, to: str = "ctranslate2", quantization: str | None = None) -> Path:
    """Write the model of a folder (or of the Hub) for another program; gives the new folder's path.
    to: a name in WRITERS. UserError: it is unknown, or that program does not compute some part of the model."""
    from regard.loading import load

    if to not in WRITERS:
        raise UserError(f"--to {to}: is not known; known: {', '.join(WRITERS)}")
    return WRITERS[to](load(model, device="cpu", dtype="float32"), output, quantization)


def export_ctranslate2(its: Any, output: str | Path, quantization: str | None = None) -> Path:
    """Write what `regard.load` gave as a folder of CTranslate2: model.bin, config.json, vocabularies in the order of the
    model's rows, and the tokenizer's own files beside them. quantization: one of QUANTIZATIONS, None for float32.

    The folder is new or empty, and is there whole or not at all. UserError names the first part of the model that
    CTranslate2 does not compute.
    """
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise UserError(f"quantization {quantization}: is not known; known: {', '.join(QUANTIZATIONS)}")
    output = Path(output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UserError(f"{output}: is not empty; name a new folder")
    spec = Writer(its.model, ctranslate2()).spec(its)
    spec.validate()
    spec.optimize(quantization=quantization)
    aside = output.with_name(f".{output.name}.{os.getpid()}.part")
    aside.mkdir(parents=True)
    try:
        its.tokenizers.save(aside)
        spec.save(str(aside))
        os.replace(aside, output)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return output


WRITERS: dict[str, Callable[[Any, str | Path, str | None], Path]] = {
    "ctranslate2": export_ctranslate2,
    "onnx": export_onnx,
}


def vocabulary(tokenizer: Tokenizer, size: int) -> list[str]:
    """The names of a model's rows, in their order: the tokenizer's, and made-up ones for rows that it has no token for."""
    names: list[str] = []
    known: set[str] = set()
    for number in range(size):
        name = tokenizer.piece(number) if number < tokenizer.vocab_size else ""
        while not name or name in known:
            name += f"<unused{number}>"
        known.add(name)
        names.append(name)
    return names


def _refuse(what: str) -> NoReturn:
    raise UserError(f"CTranslate2 does not compute this model: it has no {what}")


def _one_of(part: Any, known: Iterable[type], what: str) -> None:
    if type(part) not in known:
        _refuse(f"{what} {type(part).__name__}")


def _plain(block: Any) -> Any:
    """A block without its dropouts, which are nothing when a model is used."""
    heads, inner = (replace(part, dropout=0.0) for part in (block.attention, block.feedforward))
    cross = None if block.cross is None else replace(block.cross, dropout=0.0)
    return replace(block, attention=heads, cross=cross, feedforward=inner, dropout=0.0)


def _check(stack: Any, mask: Any) -> None:
    """Refuse what one half of a model has and CTranslate2 lacks. mask: of its self-attention."""
    _one_of(stack, (Stack,), "stack such as")
    _one_of(stack.embed, (Tokens,), "embeddings such as")
    _one_of(stack.embed.position, (NoPositions, Learned, Sinusoidal), "positions such as")
    if stack.embed.segments:
        _refuse("embeddings of segments (it has them in encoders that stand alone)")
    if stack.position is not None:
        _one_of(stack.position, (Rotary, Buckets), "positions such as")
        _one_of(stack.embed.position, (NoPositions,), f"{type(stack.position).__name__} together with")
    for block in stack.blocks:
        _one_of(block, (Block,), "block such as")
        _one_of(block.norm, (LayerNorm, RMSNorm), "norm such as")
        _one_of(block.feedforward, (Dense, Gated), "feed-forward such as")
        for heads in filter(None, (block.attention, block.cross)):
            _one_of(heads, (Attention,), "attention such as")
            _one_of(heads.attend, (ScaledDot,), "score such as")
        if block.attention.mask != mask:
            _refuse(f"mask {block.attention.mask} (only {mask})")
        if block.feedforward.activation not in CODES:
            _refuse(f"activation {block.feedforward.activation}")
    if len({_plain(block) for block in stack.blocks}) != 1:
        _refuse("blocks that differ from each other within one half")
    norms = [norm for norm in (stack.blocks[0].norm, stack.last_norm, stack.embed.norm) if norm is not None]
    if len({type(norm) for norm in norms}) != 1:
        _refuse("LayerNorm beside RMSNorm")
    if stack.last_norm is not None and stack.blocks[0].placement == "post":
        _refuse("last norm after post-norm blocks")


def _epsilon(halves: Sequence[Any]) -> float:
    """The one eps of all norms; UserError if there are several."""
    norms = [norm for its in halves for norm in (its.blocks[0].norm, its.last_norm, its.embed.norm) if norm is not None]
    found = {norm.eps for norm in norms}
    if len(found) > 1:
        _refuse(f"norms with different eps ({', '.join(f'{eps:g}' for eps in sorted(found))})")
    return found.pop()


class Writer:
    """One model on its way into a specification of CTranslate2. UserError where it has a part that CTranslate2 lacks."""

    def __init__(self, model: Any, module: Any) -> None:
        self.model, self.specs = model, module.specs
        self.its: Description = model.description
        _one_of(self.its.head, (NextToken,), "head such as")
        if self.its.decoder is None:
            _refuse("head of next tokens without a decoder")
        self.halves = [half for half in (self.its.encoder, self.its.decoder) if half is not None]
        for half in self.halves:
            _check(half, Causal() if half is self.its.decoder else Everything())
        if self.its.head.vocab_size != self.its.decoder.embed.vocab_size:
            _refuse("head with other tokens than the decoder's embeddings")

    def spec(self, its: Any) -> Any:
        """The filled specification, with vocabularies and marks. its: what `regard.load` gives."""
        decoder = self._half(
            self.specs.TransformerDecoderSpec, self.its.decoder, with_encoder_attention=bool(self.its.encoder)
        )
        self._fill(decoder, self.its.decoder, self.model.decoder)
        _linear(decoder.projection, self.model.head.project)
        if self.its.head.scale != 1.0:
            decoder.scale_outputs = float(self.its.head.scale)
        tokens = vocabulary(its.tokenizers.target, self.its.head.vocab_size)
        if self.its.encoder is None:
            spec = self.specs.TransformerDecoderModelSpec(decoder)
            spec.register_vocabulary(tokens)
            eos = next(iter(its.ends), None) if its.tokenizer.eos is None else its.tokenizer.eos
            if eos is None:
                raise UserError("neither the folder nor the tokenizer says what the model ends a text with")
            bos = eos if its.tokenizer.bos is None else its.tokenizer.bos
        else:
            encoder = self._half(self.specs.TransformerEncoderSpec, self.its.encoder)
            self._fill(encoder, self.its.encoder, self.model.encoder)
            spec = self.specs.TransformerSpec(encoder, decoder)
            spec.register_source_vocabulary(vocabulary(its.tokenizers.source, self.its.encoder.embed.vocab_size))
            spec.register_target_vocabulary(tokens)
            start, eos = its.marks()
            spec.config.decoder_start_token = tokens[start]
            bos = start if its.tokenizers.target.bos is None else its.tokenizers.target.bos
        unk = its.tokenizers.target.unk
        spec.config.bos_token, spec.config.eos_token = tokens[bos], tokens[eos]
        spec.config.unk_token = tokens[eos if unk is None else unk]
        spec.config.layer_norm_epsilon = _epsilon(self.halves)
        return spec

    def _half(self, kind: Any, stack: Any, **more: Any) -> Any:
        block, its = stack.blocks[0], stack.blocks[0].attention
        if its.num_kv_heads not in (None, its.num_heads):
            more["num_heads_kv"] = its.num_kv_heads
        width = its.head_dim or stack.d_model // its.num_heads
        if width != stack.d_model // its.num_heads:
            more["head_dim"] = width
        if type(stack.position) is Rotary:
            more |= self._rotary(stack.position, width)
        return kind(
            len(stack.blocks),
            its.num_heads,
            pre_norm=block.placement == "pre",
            no_final_norm=stack.last_norm is None,
            activation=self.specs.Activation(CODES[block.feedforward.activation]),
            layernorm_embedding=stack.embed.norm is not None,
            relative_attention_bias=type(stack.position) is Buckets,
            ffn_glu=type(block.feedforward) is Gated,
            rms_norm=type(block.norm) is RMSNorm,
            **more,
        )

    def _rotary(self, its: Any, width: int) -> dict[str, Any]:
        found = {"rotary_dim": its.width or width, "rotary_interleave": False, "rotary_base": its.base}
        if its.scaling is None:
            return found
        _one_of(its.scaling, (Interpolated, ByWavelength), "scaling of rotary positions such as")
        kinds = self.specs.RotaryScalingType
        found["rotary_scaling_factor"] = its.scaling.factor
        if type(its.scaling) is Interpolated:
            return found | {"rotary_scaling_type": kinds.Linear}
        return found | {
            "rotary_scaling_type": kinds.Llama3,
            "original_max_position_embeddings": its.scaling.original,
        }

    def _fill(self, spec: Any, stack: Any, half: Any) -> None:
        embeddings = spec.embeddings[0] if type(spec.embeddings) is list else spec.embeddings
        embeddings.weight = _tensor(half.embed.tokens.weight)
        spec.scale_embeddings = stack.embed.scaled
        if hasattr(spec, "position_encodings") and stack.embed.position != OPENNMT:
            spec.position_encodings.encodings = _table(stack, half)
        if half.embed.norm is not None:
            _norm(spec.layernorm_embedding, half.embed.norm)
        if half.last_norm is not None:
            _norm(spec.layer_norm, half.last_norm)
        for to, block, its in zip(spec.layer, half.blocks, stack.blocks, strict=True):
            _attention(to.self_attention, (block.attention.qkv, block.attention.output), block.attention_norm, its.attention)
            if its.cross is not None:
                _attention(to.attention, (block.cross.q, block.cross.kv, block.cross.output), block.cross_norm, its.cross)
            if type(stack.position) is Buckets:
                to.self_attention.relative_attention_bias = _tensor(half.position.table.weight)
                to.self_attention.relative_attention_max_distance = torch.tensor(stack.position.farthest, dtype=torch.int32)
            scaling = getattr(stack.position, "scaling", None)
            if type(scaling) is ByWavelength:
                _wavelengths(to.self_attention, scaling)
            gated = type(its.feedforward) is Gated
            expand = (to.ffn.linear_0, to.ffn.linear_0_noact) if gated else (to.ffn.linear_0,)
            _linears(expand, block.feedforward.expand)
            _linear(to.ffn.linear_1, block.feedforward.contract)
            _norm(to.ffn.layer_norm, block.feedforward_norm)


def _wavelengths(spec: Any, its: ByWavelength) -> None:
    numbers = {"low_freq": its.low, "high_freq": its.high, "scaling": its.factor}
    # vars, for the specification does not know of the factor, which the program reads all the same (and takes 1 without it).
    vars(spec).update({f"rotary_{name}_factor": np.float32(value) for name, value in numbers.items()})


def _tensor(weight: Tensor) -> Tensor:
    """A copy: CTranslate2 rounds to small weights in place."""
    return weight.detach().to("cpu", torch.float32, copy=True).contiguous()


def _table(stack: Any, half: Any) -> Tensor:
    """Vectors of the positions, from the first token's on: zeros where a model has none."""
    its = stack.embed.position
    if type(its) is Learned:
        return _tensor(half.embed.position.table.weight[its.offset :])
    if type(its) is Sinusoidal:
        return sinusoids(POSITIONS, stack.d_model, its.interleaved, its.first, its.closed)
    return torch.zeros(POSITIONS, stack.d_model)


def _norm(spec: Any, norm: Any) -> None:
    spec.gamma = _tensor(norm.weight)
    if hasattr(spec, "beta"):
        spec.beta = _tensor(norm.bias)


def _linear(spec: Any, layer: Any) -> None:
    _linears((spec,), layer)


def _linears(specs: Sequence[Any], layer: Any) -> None:
    """One fused product into as many as there are specifications; updates of adapters are in it."""
    weight = layer.merged_weight() if hasattr(layer, "merged_weight") else layer.weight
    for number, spec in enumerate(specs):
        spec.weight = _tensor(weight.chunk(len(specs))[number])
        if layer.bias is not None:
            spec.bias = _tensor(layer.bias.chunk(len(specs))[number])


def _attention(spec: Any, layers: Sequence[Any], norm: Any, its: Attention) -> None:
    for to, layer in zip(spec.linear, layers, strict=True):
        _linear(to, layer)
    _norm(spec.layer_norm, norm)
    scale = getattr(its.attend, "scale", None)
    if scale is not None:
        spec.queries_scale = float(scale)

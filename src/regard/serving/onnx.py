"""Encoders as ONNX: classifiers, embedders and masked-token models for other programs.

The graph is written part by part from the model's description, so it needs no tracing and has free batch and length. What a
part computes stands in its own file in `layers/`; a part that is not known here is refused by its name.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from regard.errors import UserError
from regard.layers.attention import Attention, ScaledDot
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense, Gated
from regard.layers.heads import Classify, Embedding, MaskedToken
from regard.layers.masks import Everything
from regard.layers.norms import LayerNorm, RMSNorm
from regard.layers.positions import Learned, NoPositions, Sinusoidal, sinusoids
from regard.layers.stack import Stack

INSTALL = "pip install 'regard[onnx]'"
OPSET, FILE = 20, "model.onnx"
LARGE = 1_900_000_000
"""Bytes of weights above which they go into a file of their own: a protocol buffer holds two gigabytes."""
ROOM = 4096
"""Rows of a table of sinusoids, which have no end in regard."""


def package() -> Any:
    """The module onnx; UserError with the command that installs it."""
    try:
        import onnx as found  # pyright: ignore
    except ImportError:
        raise UserError(f"this needs ONNX, which is not installed: {INSTALL}") from None
    return found


def export_onnx(its: Any, output: str | Path, quantization: str | None = None) -> Path:
    """Write what `regard.load` gave as a folder with model.onnx, the tokenizer's own files and onnx.json, which names
    inputs, output and labels. Inputs Int64[B T]: input_ids, attention_mask (0 at padding, on the right), and token_type_ids
    where the model has segments. Output: logits Float[B C] (or [B T C], [B T V]), or vectors Float[B D].

    The folder is new or empty, and is there whole or not at all. UserError: quantization is asked for, or the model has a
    part that cannot be written.
    """
    if quantization is not None:
        raise UserError(f"quantization {quantization}: ONNX is written in float32; quantise it with onnxruntime's own tools")
    onnx, output = package(), Path(output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UserError(f"{output}: is not empty; name a new folder")
    writer = Writer(its.model)
    made = writer.model(onnx)
    aside = output.with_name(f".{output.name}.{os.getpid()}.part")
    aside.mkdir(parents=True)
    try:
        its.tokenizers.save(aside)
        size = sum(array.nbytes for array in writer.weights.values())
        onnx.save_model(made, str(aside / FILE), save_as_external_data=size > LARGE, location="model.onnx.data")
        about = {"inputs": writer.inputs, "output": writer.output, "labels": list(getattr(its, "labels", ()))}
        (aside / "onnx.json").write_text(json.dumps(about, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        os.replace(aside, output)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return output


def _refuse(what: str) -> NoReturn:
    raise UserError(f"ONNX: this model cannot be written, for its {what}")


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().to("cpu", torch.float32).contiguous().numpy()


class Writer:
    """One encoder on its way into a graph."""

    def __init__(self, model: Any) -> None:
        description = model.description
        if description.decoder is not None or type(description.encoder) is not Stack:
            _refuse("decoder (encoders alone are written)" if description.decoder is not None else "encoder")
        self.stack: Any = description.encoder
        self.encoder, self.head, self.kind = model.encoder, model.head, description.head
        self.nodes: list[tuple[str, list[str], str, dict[str, Any]]] = []
        self.weights: dict[str, np.ndarray] = {}
        self.inputs = ["input_ids", "attention_mask"]
        self._check()
        self.output = "vectors" if type(self.kind) is Embedding else "logits"
        self._answer(self._encode())

    def model(self, onnx: Any) -> Any:
        """The finished ModelProto, checked by onnx."""
        helper, kinds = onnx.helper, onnx.TensorProto
        nodes = [helper.make_node(op, inputs, [out], **more) for op, inputs, out, more in self.nodes]
        inputs = [helper.make_tensor_value_info(name, kinds.INT64, ["batch", "length"]) for name in self.inputs]
        output = helper.make_tensor_value_info(self.output, kinds.FLOAT, self._shape())
        weights = [onnx.numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(nodes, "regard", inputs, [output], weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        if sum(array.nbytes for array in self.weights.values()) <= LARGE:
            onnx.checker.check_model(made)
        return made

    def _shape(self) -> list[str | int]:
        """Of the output."""
        if type(self.kind) is MaskedToken:
            return ["batch", "length", self.kind.vocab_size]
        width = self.stack.d_model if type(self.kind) is Embedding else self.kind.classes
        return ["batch", "length", width] if self.kind.pool == "tokens" else ["batch", width]

    def _check(self) -> None:
        embed, known = self.stack.embed, (NoPositions, Learned, Sinusoidal)
        if type(embed) is not Tokens or type(embed.position) not in known:
            _refuse(f"embeddings {type(embed).__name__}")
        if self.stack.position is not None:
            _refuse(f"positions {type(self.stack.position).__name__}")
        if type(self.kind) not in (Classify, Embedding, MaskedToken):
            _refuse(f"head {type(self.kind).__name__}")
        for block in self.stack.blocks:
            its = block.attention
            if type(block) is not Block or type(its) is not Attention or type(its.attend) is not ScaledDot:
                _refuse(f"block {type(block).__name__} or its attention {type(its).__name__}")
            if its.mask != Everything() or its.num_kv_heads not in (None, its.num_heads):
                _refuse(f"mask {its.mask}" if its.mask != Everything() else "grouped keys and values")
            if type(block.feedforward) not in (Dense, Gated) or type(block.norm) not in (LayerNorm, RMSNorm):
                _refuse(f"feed-forward {type(block.feedforward).__name__} or norm {type(block.norm).__name__}")

    def add(self, op: str, *inputs: str, out: str | None = None, **more: Any) -> str:
        """A node; gives the name of what it computes."""
        name = out or f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append((op, list(inputs), name, more))
        return name

    def hold(self, value: Tensor | np.ndarray | Sequence[int] | float, name: str = "constant") -> str:
        """A weight or constant; gives its name."""
        array = _array(value) if isinstance(value, Tensor) else np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = f"{name}_{len(self.weights)}"
        self.weights[name] = array
        return name

    def linear(self, x: str, layer: Any) -> str:
        """x W^T + b."""
        weight = layer.merged_weight() if hasattr(layer, "merged_weight") else layer.weight
        y = self.add("MatMul", x, self.hold(weight.T, "weight"))
        return y if layer.bias is None else self.add("Add", y, self.hold(layer.bias, "bias"))

    def norm(self, x: str, its: Any, module: Any) -> str:
        """LayerNorm or RMSNorm."""
        gain = self.hold(module.weight, "gain")
        if type(its) is LayerNorm:
            return self.add("LayerNormalization", x, gain, self.hold(module.bias, "shift"), axis=-1, epsilon=its.eps)
        square = self.add("ReduceMean", self.add("Mul", x, x), self.hold(np.array([-1])), keepdims=1)
        size = self.add("Sqrt", self.add("Add", square, self.hold(its.eps)))
        return self.add("Mul", self.add("Div", x, size), gain)

    def activate(self, x: str, name: str) -> str:
        """One of `regard.layers.feedforward.ACTIVATIONS`."""
        if name == "silu":
            return self.add("Mul", x, self.add("Sigmoid", x))
        if name in ("gelu", "gelu_tanh"):
            return self.add("Gelu", x, approximate="tanh" if name == "gelu_tanh" else "none")
        return self.add({"relu": "Relu", "tanh": "Tanh"}.get(name) or _refuse(f"activation {name}"), x)

    def _encode(self) -> str:
        embed, its = self.encoder.embed, self.stack.embed
        x = self.add("Gather", self.hold(embed.tokens.weight, "tokens"), "input_ids")
        if embed.scale != 1.0:
            x = self.add("Mul", x, self.hold(embed.scale))
        if its.segments == 1:
            x = self.add("Add", x, self.hold(embed.segments.weight[0], "segment"))
        elif its.segments:
            self.inputs.append("token_type_ids")
            x = self.add("Add", x, self.add("Gather", self.hold(embed.segments.weight, "segments"), "token_type_ids"))
        table = self._table()
        if table is not None:
            length = self.add("Shape", "input_ids", start=1, end=2)
            x = self.add("Add", x, self.add("Slice", self.hold(table, "positions"), self.hold([0]), length, self.hold([0])))
        x = x if embed.norm is None else self.norm(x, its.norm, embed.norm)
        real = self.add("Cast", "attention_mask", to=1)
        away = self.add("Mul", self.add("Sub", self.hold(1.0), real), self.hold(-1e30))
        away = self.add("Unsqueeze", away, self.hold([1, 2]))
        for part, block in zip(self.stack.blocks, self.encoder.blocks, strict=True):
            x = self._block(x, part, block, away)
        return x if self.stack.last_norm is None else self.norm(x, self.stack.last_norm, self.encoder.last_norm)

    def _table(self) -> Tensor | None:
        its = self.stack.embed.position
        if type(its) is Learned:
            return self.encoder.embed.position.table.weight[its.offset :]
        if type(its) is Sinusoidal:
            return sinusoids(ROOM, self.stack.d_model, its.interleaved, its.first, its.closed)
        return None

    def _block(self, x: str, its: Any, block: Any, away: str) -> str:
        if its.placement == "post":
            x = self.norm(self.add("Add", x, self._attend(x, block.attention, away)), its.norm, block.attention_norm)
            y = self.add("Add", x, self._feedforward(x, its.feedforward, block.feedforward))
            return self.norm(y, its.norm, block.feedforward_norm)
        x = self.add("Add", x, self._attend(self.norm(x, its.norm, block.attention_norm), block.attention, away))
        inner = self.norm(x, its.norm, block.feedforward_norm)
        return self.add("Add", x, self._feedforward(inner, its.feedforward, block.feedforward))

    def _attend(self, x: str, layer: Any, away: str) -> str:
        heads, width = layer.num_heads, layer.head_dim
        shape = self.hold([0, 0, 3, heads, width])
        fused = self.add("Transpose", self.add("Reshape", self.linear(x, layer.qkv), shape), perm=[2, 0, 3, 1, 4])
        q, k, v = (self.add("Gather", fused, self.hold(np.array(n)), axis=0) for n in range(3))
        scores = self.add("MatMul", q, self.add("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.add("Add", self.add("Mul", scores, self.hold(layer.attend.scale)), away)
        y = self.add("MatMul", self.add("Softmax", scores, axis=-1), v)
        y = self.add("Reshape", self.add("Transpose", y, perm=[0, 2, 1, 3]), self.hold([0, 0, heads * width]))
        return self.linear(y, layer.output)

    def _feedforward(self, x: str, its: Any, layer: Any) -> str:
        y = self.linear(x, layer.expand)
        if type(its) is Dense:
            return self.linear(self.activate(y, its.activation), layer.contract)
        gate, value = (
            self.add("Slice", y, self.hold([first]), self.hold([first + its.d_ff]), self.hold([-1]))
            for first in (0, its.d_ff)
        )
        return self.linear(self.add("Mul", self.activate(gate, its.activation), value), layer.contract)

    def _answer(self, x: str) -> None:
        its, head = self.kind, self.head
        if type(its) is MaskedToken:
            y = self.norm(self.activate(self.linear(x, head.transform), its.activation), its.norm, head.norm)
            y = self.linear(y, head.project)
        else:
            y = self._pooled(x, its.pool)
            if type(its) is Classify:
                y = y if its.between is None else self.activate(self.linear(y, head.between), its.between)
                y = self.linear(y, head.project)
            elif its.normalise:
                y = self.add("LpNormalization", y, axis=-1, p=2)
        self.add("Identity", y, out=self.output)

    def _pooled(self, x: str, pool: str) -> str:
        if pool == "tokens":
            return x
        if pool == "first":
            return self.add("Gather", x, self.hold(np.array(0)), axis=1)
        real = self.add("Cast", "attention_mask", to=1)
        if pool == "last":  # a token is the last where the real ones up to it are all there are
            count = self.add("ReduceSum", real, self.hold([1]), keepdims=1)
            upto = self.add("CumSum", real, self.hold(np.array(1)))
            real = self.add("Mul", real, self.add("Cast", self.add("Equal", upto, count), to=1))
        chosen = self.add("Mul", x, self.add("Unsqueeze", real, self.hold([2])))
        total = self.add("ReduceSum", chosen, self.hold([1]), keepdims=0)
        return self.add("Div", total, self.add("ReduceSum", real, self.hold([1]), keepdims=1))

"""Linear layers whose weights have eight bits, for use on a CPU: a quarter of the memory, products up to twice as fast.

Each row of a weight (one output) has a scale of its own. Inputs are rounded at every product, between their least and their
greatest number (dynamic quantisation as in FBGEMM, Khudia et al. 2021). Biases and all that is no product of a linear layer
stay in single precision. Since one product rounds all of its rows alike, what stands beside a sentence in its batch may
change the last digits of its scores.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import UserError

LARGEST, STEPS = 63, 255
"""Weights take seven bits, inputs eight: AVX2 adds pairs of their products in 16 bits, which 2 × 63 × 255 fits and
2 × 127 × 255 does not. The other way round (FBGEMM's own) costs more, for it is the inputs that share one scale."""


def rounded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Float[F D] -> Int8[F D] and the scale of each row, Float[F]: values × scale is as near to the weight as it gets."""
    weight = weight.detach().to("cpu", torch.float32)
    scales = weight.abs().amax(1).clamp(min=1e-12) / LARGEST
    return (weight / scales[:, None]).round().clamp(-LARGEST, LARGEST).to(torch.int8), scales


def stepped(x: Tensor) -> Tensor:
    """x rounded to 256 even steps between its least and its greatest number, one of which is zero."""
    low, high = float(x.amin().clamp(max=0.0)), float(x.amax().clamp(min=0.0))
    size = (high - low) / STEPS or 1.0
    zero = min(max(round(-low / size), 0), STEPS)
    return ((x / size).round() + zero).clamp(0, STEPS).sub(zero).mul(size)


def slow_int8_linear(x: Tensor, values: Tensor, scales: Tensor, bias: Tensor | None) -> Tensor:
    """The definition: x Float[… D], rounded to 256 steps, times values × scales, Int8[F D] and Float[F], plus the bias."""
    return F.linear(stepped(x), values.float() * scales[:, None], bias)


def packed(values: Tensor, scales: Tensor, bias: Tensor | None) -> Any:
    """What FBGEMM wants, None where torch has it no more: it is told to leave (torch 2.13 warns), and there is no other fast
    product of eight bits on CPUs without VNNI."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zeros = torch.zeros(len(scales), dtype=torch.long)
            exact = torch.quantize_per_channel(values.float() * scales[:, None], scales, zeros, 0, torch.qint8)
            return torch.ops.quantized.linear_prepack(exact, bias)
    except (AttributeError, RuntimeError, NotImplementedError):
        return None


class Int8Linear(nn.Module):
    """Stands in for a linear layer. It has no parameters: it cannot be trained or saved."""

    def __init__(self, values: Tensor, scales: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = values.shape
        self.values, self.scales = values, scales
        self.bias = None if bias is None else bias.detach().to("cpu", torch.float32)
        self.packed = packed(values, scales, self.bias)
        self.product: Any = None if self.packed is None else torch.ops.quantized.linear_dynamic.default

    @classmethod
    def of(cls, layer: Any) -> Int8Linear:
        """A linear layer's twin; updates of adapters are in it."""
        weight = layer.merged_weight() if hasattr(layer, "merged_weight") else layer.weight
        return cls(*rounded(weight), layer.bias)

    @property
    def weight(self) -> Tensor:
        """Float[F D], made anew each time."""
        return self.values.float() * self.scales[:, None]

    def narrowed(self, rows: Tensor) -> Int8Linear:
        """The layer that gives these outputs alone."""
        return Int8Linear(self.values[rows], self.scales[rows], None if self.bias is None else self.bias[rows])

    def forward(self, x: Tensor) -> Tensor:
        """Float[… D] -> Float[… F]."""
        if self.packed is None:
            return slow_int8_linear(x, self.values, self.scales, self.bias)
        return self.product(x, self.packed, False)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"

    def __getstate__(self) -> dict[str, Any]:
        """What goes to a worker process: the packed form belongs to this one."""
        return {"parts": (self.values, self.scales, self.bias)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(*state["parts"])

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        raise UserError("weights of eight bits are for use alone: save, export or train the model as it was loaded")


def quantize(model: Any) -> Any:
    """Put weights of eight bits in the place of every linear layer's of a model on the CPU, for good, and give the model.
    What is no `nn.Linear` (embeddings, recurrent cells, experts) stays. UserError on another device."""
    if model.device.type != "cpu":
        raise UserError(f"dtype int8: is for models on the CPU, this one is on {model.device}; choose bfloat16 or float16")
    model.eval()
    for name, layer in list(model.named_modules()):
        if isinstance(layer, nn.Linear):
            path, _, last = name.rpartition(".")
            setattr(model.get_submodule(path), last, Int8Linear.of(layer))
    return model

"""Fast bodies, each with the slow twin that defines it. The only file that looks at hardware.

`Dropout`, `gelu_tanh`, `linear` and `prepared_linear` beside torch's, `linear_cross_entropy` beside
`slow_linear_cross_entropy`, `grouped_linear` likewise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version
from torch.nn import functional as F
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.weak import WeakIdKeyDictionary

CHUNK = {"cpu": 512, "cuda": 4096}
"""Rows of logits alive at once: on a CPU 512 x 8,000 floats stay within the last cache."""


LARGE = 1 << 24
"""Multiplications from which on oneDNN's products of single precision are the faster ones on a CPU: by a fifth on AMD."""
_PLAIN = (Tensor, nn.Parameter)


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN makes the product of x Float[… D] with the transpose of weight Float[V D]."""
    return (
        x.dtype is weight.dtype is torch.float32
        and x.device.type == "cpu"
        and x.numel() * weight.shape[0] >= LARGE
        and type(x) in _PLAIN
        and type(weight) in _PLAIN
        and torch.backends.mkldnn.is_available()
        and not (torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling())
    )


class _Linear(torch.autograd.Function):
    """x W^T + b by oneDNN. The gradients are `linear` again, so they have gradients of their own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), grad, (wants_x, wants_weight, wants_bias) = ctx.saved_tensors, grads[0], ctx.needs_input_grad
        rows, errors = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
        to_weight = errors.t() @ rows if wants_weight else None  # oneDNN would copy `errors`, turned round
        return linear(grad, weight.t()) if wants_x else None, to_weight, errors.sum(0) if wants_bias else None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Float[… D], weight [V D], bias [V] -> Float[… V]: `F.linear`, large products on a CPU by oneDNN, and so their
    gradients. The last digits may differ."""
    if not _by_onednn(x, weight):
        return F.linear(x, weight, bias)
    return _Linear.apply(x, weight, bias)


class Linear(nn.Linear):
    """nn.Linear by `linear`."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
SLICE = 1 << 18
"""Elements whose masks are alive at once: they stay within the cache, as whole masks of four bytes an element would not."""


def _draws(count: int, p: float) -> tuple[Tensor, int]:
    """A random byte for each element, and the bound below which it is kept. numpy's generator, which torch's seeds, draws
    eight of them in half the time of torch's."""
    raw = np.random.SFC64(int(torch.randint(2**63 - 1, ()))).random_raw((count + 7) // 8)
    # A byte has 256 steps: p lies between two of them, and which one serves is drawn anew for each call, so that every
    # element is dropped with probability p exactly.
    return torch.from_numpy(raw.view(np.uint8)[:count]), 256 - int(p * 256 + float(torch.rand(())))


def _keep(x: Tensor, draws: Tensor, bound: int) -> Tensor:
    """x, contiguous, with zeros where a draw reaches the bound; in place. Masks of all ones or none, made by a shift of the
    sign, are several times as fast as torch's `where`, and clear NaN and infinity too."""
    bits = x.view(_BITS[x.element_size()]).view(-1)
    for at in range(0, len(bits), SLICE):
        mask = draws[at : at + SLICE].to(bits.dtype).sub_(bound).bitwise_right_shift_(8 * x.element_size() - 1)
        bits[at : at + SLICE].bitwise_and_(mask)
    return x


class _Dropout(torch.autograd.Function):
    """x × scale, and zeros where a draw reaches the bound; its gradient is the same of the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, draws: Tensor, bound: int, scale: float) -> Tensor:
        ctx.save_for_backward(draws)
        ctx.rest = bound, scale
        return _keep((x * scale).contiguous(), draws, bound)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _Dropout.apply(grads[0], *ctx.saved_tensors, *ctx.rest), None, None, None


class _ReluDropout(torch.autograd.Function):
    """The same of relu(x). What it gives is its own mask: zero where nothing came through."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, draws: Tensor, bound: int, scale: float) -> Tensor:
        out = _keep(x.relu().contiguous(), draws, bound).mul_(scale)
        ctx.save_for_backward(out)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (out,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(grads[0], out, 0.0).mul_(ctx.scale), None, None, None


class Dropout(nn.Module):
    """Dropout (Srivastava et al. 2014): each element is zero with probability p in training, the others are × 1/(1-p).

    On a CPU torch draws masks one number at a time, which costs more than the matrix products around it.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise ValueError(f"dropout must lie in [0, 1), not {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape -> the same shape."""
        return self._applied(x, _Dropout) if self.cheap(x) else F.dropout(x, self.p) if self.active else x

    def relu(self, x: Tensor) -> Tensor:
        """The same of relu(x), in fewer passes."""
        return self._applied(x, _ReluDropout) if self.cheap(x) else self(x.relu())

    @property
    def active(self) -> bool:
        """Whether anything is dropped."""
        return self.training and self.p > 0.0

    def cheap(self, x: Tensor) -> bool:
        """Whether anything of x is dropped, and by the masks of this file."""
        return self.active and x.device.type == "cpu" and not torch.compiler.is_compiling()

    def _applied(self, x: Tensor, body: type[torch.autograd.Function]) -> Tensor:
        return body.apply(x, *_draws(x.numel(), self.p), 1.0 / (1.0 - self.p))

    def extra_repr(self) -> str:
        return f"p={self.p}"


_TWICE, _CUBE = 2.0 * math.sqrt(2.0 / math.pi), 0.044715


class _GeluTanh(torch.autograd.Function):
    """x·sigmoid(2u) with u = sqrt(2/pi)·(x + 0.044715 x³), which is x/2·(1 + tanh u)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        share = (x * x).mul_(_TWICE * _CUBE).add_(_TWICE).mul_(x).sigmoid_()
        ctx.save_for_backward(x, share)
        return x * share

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        x, share = ctx.saved_tensors
        slope = (x * x).mul_(3.0 * _TWICE * _CUBE).add_(_TWICE).mul_(x)
        return slope.mul_(torch.addcmul(share, share, share, value=-1.0)).add_(share).mul_(grads[0])


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU by its tanh form (Hendrycks & Gimpel 2016), x of any shape -> the same shape; equal to torch's.

    On a CPU torch's tanh takes three times as long as its sigmoid, forward and again backward.
    """
    if x.device.type != "cpu" or x.dtype != torch.float32 or torch.compiler.is_compiling():
        return F.gelu(x, approximate="tanh")
    return _GeluTanh.apply(x)


def slow_linear_cross_entropy(x: Tensor, weight: Tensor, bias: Tensor | None, ids: Tensor, smoothing: float) -> Tensor:
    """Sum over rows of the cross entropy of softmax(x W^T + b) against (1-e)·one-hot(ids) + e/V on every class."""
    logits = F.linear(x, weight, bias)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(logits, ids, reduction="sum", label_smoothing=smoothing)


class _LinearCrossEntropy(torch.autograd.Function):
    """The same in chunks of rows, with the gradients made on the way: the logits never exist as a whole."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, ids: Tensor, smoothing: float) -> Tensor:
        narrow, classes = weight.to(x.dtype), weight.shape[0]
        wants = x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
        rows_grad = torch.empty_like(x, dtype=torch.float32) if wants else None
        weight_grad = torch.zeros_like(weight, dtype=torch.float32) if wants else None
        bias_grad = torch.zeros_like(bias, dtype=torch.float32) if wants and bias is not None else None
        total = x.new_zeros((), dtype=torch.float32)
        even = smoothing / classes
        step = CHUNK.get(x.device.type, 4096)
        for at in range(0, x.shape[0], step):
            rows, target = x[at : at + step], ids[at : at + step, None]
            logits = linear(rows, narrow, None if bias is None else bias.to(x.dtype)).float()
            odds = logits.softmax(1)
            norm = logits.amax(1) - odds.amax(1).log()  # the best has at least 1/V: its logarithm is exact enough
            total += (norm - (1.0 - smoothing) * logits.gather(1, target)[:, 0]).sum()
            if smoothing:
                total -= even * logits.sum()
            if rows_grad is not None and weight_grad is not None:
                error = odds.sub_(even) if smoothing else odds
                error.scatter_add_(1, target, torch.full_like(target, smoothing - 1.0, dtype=error.dtype))
                same = error.to(x.dtype)
                rows_grad[at : at + step] = linear(same, narrow.t())
                if bias_grad is not None:
                    bias_grad += error.sum(0)
                if x.dtype == torch.float32:
                    weight_grad.addmm_(same.t(), rows)
                else:
                    weight_grad += (same.t() @ rows).float()
        ctx.save_for_backward(rows_grad, weight_grad, bias_grad)
        ctx.types = (x.dtype, weight.dtype, None if bias is None else bias.dtype)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (
            None if t is None else (t * grads[0]).to(kind) for t, kind in zip(ctx.saved_tensors, ctx.types, strict=True)
        )
        return (*scaled, None, None)


def linear_cross_entropy(x: Tensor, weight: Tensor, bias: Tensor | None, ids: Tensor, smoothing: float = 0.0) -> Tensor:
    """Sum of the label-smoothed cross entropy of a linear layer over x: Float[N D], weight [V D], ids Int[N] -> Float[].

    Equal to `slow_linear_cross_entropy`; torch's float64 takes that one.
    """
    with torch.autocast(x.device.type, enabled=False):
        if x.dtype == torch.float64:
            return slow_linear_cross_entropy(x, weight, bias, ids, smoothing)
        return _LinearCrossEntropy.apply(x, weight, bias, ids, smoothing)


def _count_update(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Torch's fused optimisers change weights and do not count it in their version, by which a copy tells that it is old."""
    for group in optimizer.param_groups:
        for weight in group["params"]:
            if not weight.is_inference():
                increment_version(weight)


register_optimizer_step_post_hook(_count_update)

LINEAR = (nn.Linear, Linear)
"""Layers of which others may take weight and bias and do as they do."""
_PREPARED: Any = WeakIdKeyDictionary()
OUTPUTS = 2048
"""A weight of fewer outputs is not worth preparing."""


def prepared_linear(x: Tensor, layer: nn.Linear) -> Tensor:
    """`layer(x)` for few rows Float[R D] at a time, many times over: a wide weight on a CPU is brought once into the order
    in which oneDNN reads it, and anew when it was changed. Without gradients; the last digits may differ."""
    weight = layer.weight
    plain = type(layer) in LINEAR and type(weight) is nn.Parameter and not weight.is_inference()
    narrow = len(weight) < OUTPUTS or weight.device.type != "cpu" or not weight.dtype == x.dtype == torch.float32
    if not plain or narrow or torch.is_grad_enabled() or not torch.backends.mkldnn.is_available():
        return layer(x)
    known, mark = _PREPARED.get(weight), (weight.data_ptr(), weight._version)
    if known is None or known[0] != mark:
        known = mark, torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)
        _PREPARED[weight] = known
    return torch.ops.mkldnn._linear_pointwise(x, known[1], layer.bias, "none", [], "")


def slow_grouped_linear(x: Tensor, weight: Tensor, counts: Tensor) -> Tensor:
    """Rows Float[N D], of which the first counts[0] belong to the matrix weight[0], the next counts[1] to weight[1] and so
    on: each times the transpose of its own matrix. weight: Float[E F D], counts: Int[E] -> Float[N F]."""
    pieces = zip(x.split(counts.tolist()), weight, strict=True)
    return torch.cat([F.linear(rows, its) for rows, its in pieces if len(rows) or not len(x)])


def fast_grouped_linear(x: Tensor, weight: Tensor, counts: Tensor) -> Tensor:
    """The same in one product, without asking the device for the counts."""
    return F.grouped_mm(x, weight.transpose(1, 2), offs=counts.cumsum(0).to(torch.int32))


def grouped_linear(x: Tensor, weight: Tensor, counts: Tensor) -> Tensor:
    """`slow_grouped_linear` by the faster body: torch's grouped product takes half precision on GPUs, with rows of whole
    16 bytes; on a CPU it is a loop as well, and knows no double precision."""
    if x.device.type == "cuda" and hasattr(F, "grouped_mm"):
        narrow = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else x.dtype
        if narrow in (torch.bfloat16, torch.float16) and weight.shape[1] % 8 == 0 == weight.shape[2] % 8:
            return fast_grouped_linear(x.to(narrow), weight.to(narrow), counts)
    return slow_grouped_linear(x, weight, counts)

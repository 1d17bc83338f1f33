"""Arrays inside a trace: named blocks of little-endian bytes, each with its shape, number type and code."""

from __future__ import annotations

import base64
import math
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict

TYPES = {"uint8": "<u1", "int32": "<i4", "float16": "<f2", "float32": "<f4"}

Kind = Literal["uint8", "int32", "float16", "float32"]


class Value(BaseModel):
    """A value of a trace; unknown keys are refused, and so are numbers that JSON does not have."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


def _short(digits: int) -> AfterValidator:
    return AfterValidator(lambda value: float(f"{value:.{digits}g}"))


Number = Annotated[float, _short(7)]
"""A number as exact as single precision is, and no longer than that."""
Share = Annotated[float, _short(5)]
"""A probability that is shown and not reckoned with."""


class Block(Value):
    """An array in C order. code: "plain", or "sqrt": a weight from 0 to 1 is (byte / 255)². data: base64; None where the
    bytes are fetched apart."""

    shape: list[int]
    dtype: Kind
    code: Literal["plain", "sqrt"] = "plain"
    data: str | None = None

    @property
    def size(self) -> int:
        """How many bytes the array has."""
        return math.prod(self.shape) * np.dtype(TYPES[self.dtype]).itemsize

    def raw(self) -> bytes:
        """The array's bytes. ValueError: they are not there, are not base64, or are too many or few."""
        if self.data is None:
            raise ValueError("its data is not here")
        if any(side < 0 for side in self.shape):
            raise ValueError(f"its shape is {self.shape}")
        try:
            data = base64.b64decode(self.data, validate=True)
        except ValueError:
            raise ValueError("its data is not base64") from None
        if len(data) != self.size:
            raise ValueError(f"{self.dtype} of shape {self.shape} has {self.size} bytes, its data {len(data)}")
        return data

    def array(self) -> np.ndarray:
        """The array, in float32 where it holds weights."""
        stored = np.frombuffer(self.raw(), TYPES[self.dtype]).reshape(self.shape)
        if self.code == "sqrt":
            return (stored.astype(np.float32) / 255) ** 2
        return stored.astype(np.float32) if self.dtype == "float16" else stored


def block(array: Any, dtype: Kind = "float16", code: Literal["plain", "sqrt"] = "plain") -> Block:
    """An array or tensor as a block. code "sqrt" stores weights from 0 to 1 in a byte each, at most 0.004 away."""
    values = np.asarray(array.detach().cpu().numpy() if hasattr(array, "detach") else array)
    if code == "sqrt":
        values = np.rint(np.sqrt(np.clip(values.astype(np.float64), 0, 1)) * 255)
    stored = np.ascontiguousarray(values.astype(TYPES[dtype]))
    data = base64.b64encode(stored.tobytes()).decode("ascii")
    return Block(shape=list(stored.shape), dtype=dtype, code=code, data=data)


class Blocks:
    """Blocks as they are made, each under a name of its own."""

    def __init__(self) -> None:
        self.made: dict[str, Block] = {}
        self._once: dict[tuple[Any, ...], str] = {}

    def add(self, name: str, array: Any, dtype: Kind = "float16", code: Literal["plain", "sqrt"] = "plain") -> str:
        """Keep an array under this name, or this name and a number if it is taken; the name it got."""
        free = name
        while free in self.made:
            stem, _, number = free.rpartition("~")
            free = f"{stem}~{int(number) + 1}" if stem else f"{name}~1"
        self.made[free] = block(array, dtype, code)
        return free

    def once(self, name: str, array: Any, dtype: Kind = "float16") -> str:
        """As `add`, but an array that was given here before keeps the name that it has."""
        made = block(array, dtype)
        key = (dtype, *made.shape, made.data)
        if key not in self._once:
            self._once[key] = name
            self.made[name] = made
        return self._once[key]


def softmax(scores: np.ndarray, barred: np.ndarray | None) -> np.ndarray:
    """Weights Float[Q K] of scores, none at the cells that are barred; a row that may see nothing has none at all."""
    allowed = scores if barred is None else np.where(barred, -np.inf, scores)
    high = allowed.max(1, keepdims=True)
    powers = np.exp(allowed - np.where(np.isfinite(high), high, 0.0))
    return powers / np.maximum(powers.sum(1, keepdims=True), np.finfo(powers.dtype).tiny)

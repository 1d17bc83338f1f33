"""Products of matrices in compiled code, written as vector instructions: what a search spends most of its time on.

Of plain loops over a weight's row the compiler makes sums that must be added up across a register at the end, a third of the
time where rows are 128 long. So weights are packed: sixteen outputs beside each other, for one input after another. A tile
of some rows times sixteen outputs stays in registers until it is done; numba alone would keep it in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from regard.compiled.kernels import Floats, jit

LANES = 8
"""Numbers of a vector: 256 bits. Machines with narrower registers take two for it."""
PANEL = 2 * LANES
"""Outputs of a tile. Two vectors for each of six rows are twelve of the sixteen registers there are."""


def packed(weight: Floats) -> Floats:
    """Float[... out in] as panels Float[... P in PANEL], filled up with zeros."""
    *more, outputs, inputs = weight.shape
    panels = -(-outputs // PANEL)
    whole = np.zeros((*more, panels * PANEL, inputs), np.float32)
    whole[..., :outputs, :] = weight
    return np.ascontiguousarray(whole.reshape(*more, panels, PANEL, inputs).swapaxes(-1, -2))


def filled(bias: Floats) -> Floats:
    """Float[... out] with zeros up to whole panels."""
    return np.pad(bias, [(0, 0)] * (bias.ndim - 1) + [(0, -bias.shape[-1] % PANEL)]).astype(np.float32)


def _tile(context: Any, rows: Any, panels: Any, x: Any, weight: Any, bias: Any, y: Any, at: Any) -> tuple[Any, Any] | None:
    """tile(rows, panels, x, weight, bias, y, at): y[at[2] + i, at[3] + o] = bias + weight · x[at[0] + i] for so many rows i
    and the outputs o of so many panels from at[1] on. rows, panels: literals. Arrays must be contiguous; no bound is
    looked at."""
    arrays = (x, weight, bias, y)
    counted = isinstance(rows, types.IntegerLiteral) and isinstance(panels, types.IntegerLiteral)
    if not counted or any(getattr(one, "layout", "") != "C" or one.dtype != types.float32 for one in arrays):
        return None

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        held = [make_array(signature.args[number])(context, builder, values[number]) for number in range(2, 6)]
        places = [builder.extract_value(values[6], axis) for axis in range(4)]
        _Tile(context, builder, rows.literal_value, panels.literal_value).write(*held, *places)
        return context.get_dummy_value()

    return types.void(rows, panels, *arrays, types.UniTuple(types.intp, 4)), generate


tile: Any = intrinsic(_tile)


class _Tile:
    """Writes the instructions of a tile."""

    def __init__(self, context: Any, builder: Any, rows: int, panels: int) -> None:
        self.builder, self.rows, self.word = builder, range(rows), context.get_value_type(types.intp)
        self.vector, self.starts = ir.VectorType(ir.FloatType(), LANES), range(0, panels * PANEL, LANES)
        self.panels = panels

    def number(self, value: int) -> Any:
        return ir.Constant(self.word, value)

    def address(self, base: Any, *terms: Any) -> Any:
        for term in terms:
            base = self.builder.gep(base, [term])
        return base

    def read(self, base: Any, *terms: Any) -> Any:
        """The vector there."""
        found = self.builder.load(self.builder.bitcast(self.address(base, *terms), self.vector.as_pointer()))
        found.align = 4
        return found

    def everywhere(self, value: Any) -> Any:
        """A vector of one number."""
        none, first = ir.Constant(self.vector, ir.Undefined), ir.Constant(ir.IntType(32), 0)
        once = self.builder.insert_element(none, value, first)
        return self.builder.shuffle_vector(once, none, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))

    def write(self, x: Any, weight: Any, bias: Any, y: Any, r: Any, p: Any, *into: Any) -> None:
        """The whole tile: biases, a loop over the inputs, and the sums to their places."""
        builder, inputs = self.builder, self.builder.extract_value(weight.shape, 1)
        columns = builder.extract_value(x.shape, 1)
        asked = [self.address(x.data, builder.mul(builder.add(r, self.number(i)), columns)) for i in self.rows]
        first = self.address(bias.data, builder.mul(p, self.number(PANEL)))
        begin = [self.read(first, self.number(start)) for start in self.starts]
        size = builder.mul(inputs, self.number(PANEL))
        panels = [self.address(weight.data, builder.mul(builder.add(p, self.number(n)), size)) for n in range(self.panels)]
        sums = self.loop(inputs, asked, panels, begin)
        width = builder.extract_value(y.shape, 1)
        for i in self.rows:
            row = self.address(y.data, builder.mul(builder.add(into[0], self.number(i)), width), into[1])
            for start, total in zip(self.starts, sums[i]):
                there = builder.bitcast(self.address(row, self.number(start)), self.vector.as_pointer())
                builder.store(total, there).align = 4

    def loop(self, inputs: Any, asked: list[Any], panels: list[Any], begin: list[Any]) -> list[list[Any]]:
        """sums[row][vector], one input after another."""
        builder, free = self.builder, ("contract",)
        before, body = builder.block, builder.append_basic_block("inputs")
        builder.branch(body)
        builder.position_at_end(body)
        i = builder.phi(self.word)
        i.add_incoming(self.number(0), before)
        sums = [[builder.phi(self.vector) for _ in self.starts] for _ in self.rows]
        step = builder.mul(i, self.number(PANEL))
        weights = [self.read(panels[start // PANEL], step, self.number(start % PANEL)) for start in self.starts]
        made = []
        for row, held in zip(asked, sums):
            value = self.everywhere(builder.load(self.address(row, i)))
            made.append([
                builder.fadd(builder.fmul(value, w, flags=free), total, flags=free) for w, total in zip(weights, held)
            ])  # fmt: skip
        following = builder.add(i, self.number(1))
        i.add_incoming(following, body)
        for held, new in zip(sums, made):
            for total, start, value in zip(held, begin, new):
                total.add_incoming(start, before)
                total.add_incoming(value, body)
        after = builder.append_basic_block("done")
        builder.cbranch(builder.icmp_signed("<", following, inputs), body, after)
        builder.position_at_end(after)
        return made


@jit
def linear(x: Floats, rows: int, weight: Floats, bias: Floats, y: Floats) -> None:
    """y[r] = weight · x[r] + bias, of the first rows: as many columns of x as the weight has inputs, all of y Float[R out].
    weight: as `packed`, bias: as `filled`."""
    outputs = y.shape[1]
    panels, p = outputs // PANEL, 0
    while rows == 1 and p + 3 < panels:  # so that no sum waits for the one before
        tile(1, 4, x, weight, bias, y, (0, p, 0, p * PANEL))
        p += 4
    while p < panels:  # all rows while the panel is near
        r = 0
        while r + 5 < rows:
            tile(6, 1, x, weight, bias, y, (r, p, r, p * PANEL))
            r += 6
        if r + 3 < rows:
            tile(4, 1, x, weight, bias, y, (r, p, r, p * PANEL))
            r += 4
        if r + 1 < rows:
            tile(2, 1, x, weight, bias, y, (r, p, r, p * PANEL))
            r += 2
        if r < rows:
            tile(1, 1, x, weight, bias, y, (r, p, r, p * PANEL))
        p += 1
    if outputs % PANEL:
        some = np.empty((1, PANEL), np.float32)
        for r in range(rows):
            tile(1, 1, x, weight, bias, some, (r, p, 0, 0))
            for o in range(outputs % PANEL):
                y[r, p * PANEL + o] = some[0, o]

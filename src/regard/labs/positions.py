"""L3: what sines and cosines say of a position."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from regard.labs.frame.bounds import EXACT
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first
from regard.labs.frame.values import Check, Column, Design, Line, Measured, Plot, check, text
from regard.layers.embeddings import Tokens
from regard.layers.positions import Learned, Sinusoidal
from regard.layout import Layout

WIDTH, PAIRS = 64, 32
ROOM = 1 << 16
"""Positions that are looked at for wavelengths: the slowest pair turns once in 47,000."""
STEPS = (1, 2, 3, 5, 8, 16, 32, 64, 128, 200)
FITTED = 256
"""Positions that a matrix is fitted on; it is tested on as many after them."""
EPS = torch.finfo(torch.float32).eps


def _table(length: int, broken: bool) -> Tensor:
    """Float64[length 64], what the toolkit's `Sinusoidal` adds (made in single precision): 32 sines, then their cosines.
    broken: each position's angles are off by a hundredth, drawn anew for each."""
    layer = Sinusoidal().build(WIDTH)
    table = layer(torch.zeros(1, length, WIDTH), Layout.unpadded(length))[0].double()
    if broken:
        off = torch.arange(length)[:, None] * rates() * 0.01 * torch.randn(length, 1, dtype=torch.float64)
        sine, cosine = table.chunk(2, 1)
        table = torch.cat([sine * off.cos() + cosine * off.sin(), cosine * off.cos() - sine * off.sin()], 1)
    return table


def rates() -> Tensor:
    """Float64[32], radians a position: 10000^(-2i/d)."""
    return 10000.0 ** (-torch.arange(PAIRS, dtype=torch.float64) / PAIRS)


def turn(step: int) -> Tensor:
    """The matrix M [64 64] for which M PE(p) = PE(p + step), whatever p: each pair is turned by step × its rate."""
    angle = step * rates()
    cosine, sine = angle.cos().diag(), angle.sin().diag()
    return torch.cat([torch.cat([cosine, sine], 1), torch.cat([-sine, cosine], 1)])


def _wavelengths(table: Tensor) -> list[dict[str, Any]]:
    """Of each pair the wavelength from the sine's changes of sign, the one that the formula says, and how well the count of
    positions can tell it: the first and last change of sign are known to one position."""
    found = []
    for pair, rate in enumerate(rates().tolist()):
        sign = table[1:, pair] > 0
        at = (sign[1:] != sign[:-1]).nonzero()[:, 0].double()
        measured = float(2 * (at[-1] - at[0]) / (len(at) - 1))
        expected = 2 * math.pi / rate
        error = abs(measured / expected - 1) * float(at[-1] - at[0])
        move = (table[1:, [pair, pair + PAIRS]] - table[:-1, [pair, pair + PAIRS]]).norm(dim=1).mean()
        found.append({"pair": pair, "wavelength": measured, "expected": expected, "positions": error, "moves": float(move)})
    return found


def _nearest(table: Tensor) -> float:
    """The least distance between any two rows."""
    least = math.inf
    for start in range(0, len(table), 1000):
        rows = table[start : start + 1000].float()
        distance = torch.cdist(rows, table.float())
        distance[torch.arange(len(rows)), start + torch.arange(len(rows))] = math.inf
        least = min(least, float(distance.min()))
    return least


def _fitted(table: Tensor, step: int, width: int = 2) -> float:
    """Matrices fitted to PE(p) -> PE(p + step) for p < 256, tested on the next 256: the error's share of the size. width 2:
    a matrix for each pair of dimensions; 64: one for all."""
    pairs = table.unflatten(1, (2, PAIRS)).permute(2, 0, 1) if width == 2 else table[None]
    x, y = pairs[:, : 2 * FITTED], pairs[:, step : step + 2 * FITTED]
    solved = torch.linalg.lstsq(x[:, :FITTED], y[:, :FITTED], driver="gelsd", rcond=EPS).solution
    return float((x[:, FITTED:] @ solved - y[:, FITTED:]).norm() / y[:, FITTED:].norm())


def _learned(length: int) -> Tensor:
    """A learned table before it is trained: rows that no rule connects."""
    layer: Any = Learned(length).build(WIDTH)
    return layer.table.weight.detach().double()


@torch.no_grad()
def _measure(setting: Setting) -> Measured:
    table, many = _table(ROOM, setting.broken), setting.pick(2000, 10000, 20000)
    waves, learned = _wavelengths(table), _learned(1024)
    short = table[:1024]
    turned = max(float((short[:512] @ turn(k).T - short[k : 512 + k]).abs().max()) for k in STEPS)
    square = max(float((turn(k) @ turn(k).T - torch.eye(WIDTH)).abs().max()) for k in STEPS)
    spread = max(float(_spread(short, k)) for k in STEPS)
    fits = [
        {"step": k, "sinusoid": _fitted(short, k), "table": _fitted(learned, k), "any": _fitted(short, k, WIDTH)}
        for k in STEPS
    ]
    added = Tokens(8, Sinusoidal()).build(WIDTH)
    ids = torch.arange(8)[None]
    same = (added(ids, Layout.unpadded(8)) - added.tokens(ids))[0].double() - short[:8]
    found = {
        "waves": max(row["positions"] for row in waves),
        "slower": min(one["moves"] - two["moves"] for one, two in pairwise(waves)),
        "nearest": _nearest(table[:many]),
        "one_pair": _nearest(_one_pair(table[:many], 0, setting)),
        "turned": turned,
        "square": square,
        "spread": spread,
        "added": float(same.abs().max()),
        "fit": max(row["sinusoid"] for row in fits),
        "random": min(row["table"] for row in fits),
        "any": max(row["any"] for row in fits),
        "many": many,
    }
    finding = text(
        f"The nearest two of {many:,} positions are {found['nearest']:.2f} apart. One matrix moves every position by k: "
        f"PE(p + k) = M PE(p) to {turned:.1e}. Fitted pair by pair on 256 positions it is off by {found['fit']:.1g} of "
        f"the size at most on the next 256; of a table without a rule by {found['random']:.2g} at least.",
        f"{many:,} 个位置中最近的两个相距 {found['nearest']:.2f}。同一个矩阵把所有位置移动 k：PE(p + k) = M PE(p)，误差 "
        f"{turned:.1e}。"
        f"在 256 个位置上逐对拟合的矩阵，在之后 256 个位置上的相对误差至多为 {found['fit']:.1g}；没有规律的表至少为 "
        f"{found['random']:.2g}。",
    )
    return Measured(
        columns=COLUMNS,
        rows=[*waves, *fits],
        checks=_checks(found),
        finding=finding,
        limits=LIMITS,
        plots=_plots(waves, fits, short),
    )


def _spread(table: Tensor, step: int) -> Tensor:
    product = (table[:512] * table[step : 512 + step]).sum(1)
    return product.max() - product.min()


def _one_pair(table: Tensor, pair: int, setting: Setting) -> Tensor:
    """Control: the coordinates of one pair alone, rounded as bfloat16 does, so that they come round again."""
    return table[:, [pair, pair + PAIRS]].bfloat16().float()


def _checks(found: dict[str, float]) -> list[Check]:
    single = text("single precision: 4 ε", "单精度：4 ε")
    return [
        check("claim", "wavelength", text("wavelength of each pair against 2π·10000^(2i/d), in positions",
                                          "各维度对的波长与 2π·10000^(2i/d) 之差（以位置计）"),
              found["waves"], "<=", 1.0, text("a change of sign is known to one position", "变号点只能确定到一个位置"), 1),
        check("claim", "slower", text("each pair moves less from position to position than the one before it",
                                      "每一对维度的相邻位置变化都小于前一对"),
              found["slower"], ">=", 0.0, EXACT, 1),
        check("claim", "unique", text(f"least distance between any two of {found['many']:,.0f} positions",
                                      f"{found['many']:,.0f} 个位置两两之间的最小距离"),
              found["nearest"], ">=", math.sqrt(2 - 2 * math.cos(1)) / 2,
              text("half of the step of the fastest pair, √(2 - 2 cos 1)", "最快一对单步位移 √(2 - 2 cos 1) 的一半"), 2),
        check("claim", "turned", text("|M PE(p) - PE(p + k)|, one M for all p", "|M PE(p) - PE(p + k)|，所有 p 共用一个 M"),
              found["turned"], "<=", 4 * EPS, single, 2),
        check("claim", "even", text("spread of PE(p)·PE(p + k) over p", "PE(p)·PE(p + k) 随 p 的变化"),
              found["spread"], "<=", 4 * EPS * math.sqrt(2 * WIDTH), text("4 ε √128", "4 ε √128"), 2),
        check("claim", "fit", text("fitted pair by pair on 256 positions, error on the next 256",
                                   "在 256 个位置上逐对拟合，在之后 256 个位置上的误差"),
              found["fit"], "<=", 0.1, text("a tenth of what telling nothing gives (1)",
              "“什么都不预测”的误差（1）的十分之一"), 2),
        check("control", "table", text("the same fit on a table without a rule", "同样的拟合用于没有规律的表"),
              found["random"], ">=", 0.5, text("half of what telling nothing gives (1)", "“什么都不预测”的误差（1）的一半")),
        check("control", "one-pair", text("least distance where a position has one rounded pair alone",
                                          "每个位置只有一对（舍入的）维度时的最小距离"),
              found["one_pair"], "==", 0.0, EXACT),
        check("note", "orthogonal", text("|M M' - 1|: M is a rotation", "|M M' - 1|：M 是旋转"),
              found["square"], "<=", 4 * torch.finfo(torch.float64).eps, text("double precision: 4 ε", "双精度：4 ε")),
        check("note", "any", text("one 64×64 matrix fitted on 256 positions is off on the next 256",
                                  "在 256 个位置上拟合的一个 64×64 矩阵，在之后 256 个位置上有偏差"),
              found["any"], ">=", 0.1, text("a tenth of what telling nothing gives (1)",
              "“什么都不预测”的误差（1）的十分之一")),
        check("note", "added", text("the embeddings add just this table", "嵌入层所加的正是这张表"),
              found["added"], "<=", 4 * EPS, single),
    ]  # fmt: skip


COLUMNS = [
    Column(key="pair", title=text("pair of dimensions", "维度对")),
    Column(key="wavelength", title=text("wavelength", "波长")),
    Column(key="expected", title=text("2π·10000^(2i/d)", "2π·10000^(2i/d)")),
    Column(key="moves", title=text("moves by, a position", "每个位置的变化")),
    Column(key="step", title=text("distance k", "距离 k")),
    Column(key="sinusoid", title=text("fit: sinusoids", "拟合：正弦")),
    Column(key="table", title=text("fit: table without a rule", "拟合：无规律的表")),
    Column(key="any", title=text("fit: any 64×64 matrix", "拟合：任意 64×64 矩阵")),
]
LIMITS = [
    text(
        "“Low dimensions vary fast” is about the index 2i of the formula. The toolkit's table has the sines first and the "
        "cosines after them, a fixed reordering that a trained model cannot tell; there a low index within each half is "
        "fast.",
        "“低维度变化快”指公式中的下标 2i。本工具的表先放全部正弦、再放全部余弦，只是固定的重排，训练后的模型无法分辨；"
        "每一半中下标小的变化快。",
    ),
    text(
        "The matrix exists, but few positions do not show all of it: over 256 of them the slow pairs have hardly turned, in "
        "single precision a freely fitted 64×64 matrix cannot tell them apart, and it fails on later positions.",
        "这个矩阵存在，但少量位置不足以确定它：256 个位置之内慢的维度对几乎没有转动，单精度下自由拟合的 64×64 "
        "矩阵分不清它们，到后面的位置就失准。",
    ),
    text(
        "That a distance is a rotation is possible for attention to use, and does not say that it does.",
        "距离对应旋转，说明注意力可以利用它，并不说明它一定利用了。",
    ),
]


def _plots(waves: list[dict[str, Any]], fits: list[dict[str, Any]], table: Tensor) -> list[Plot]:
    pair, position = text("pair of dimensions", "维度对"), text("position", "位置")
    index = [float(row["pair"]) for row in waves]
    steps = [float(row["step"]) for row in fits]
    return [
        Plot(title=text("wavelength", "波长"), x=pair, y=text("positions", "位置数"), log_y=True, lines=[
            Line(label=text("measured", "测量"), x=index, y=[row["wavelength"] for row in waves]),
            Line(label=text("2π·10000^(2i/d)", "2π·10000^(2i/d)"), x=index, y=[r["expected"] for r in waves], dashed=True)]),
        Plot(title=text("sines of four pairs", "四对维度的正弦"), x=position, y=text("sin", "sin"), lines=[
            Line(label=text(f"pair {i}", f"第 {i} 对"), x=list(range(100)), y=table[:100, i].tolist()) for i in (0, 4, 8,
            16)]),
        Plot(title=text("PE(p + k) from PE(p), unseen p", "由 PE(p) 得 PE(p + k)，未见过的 p"), x=text("distance k",
        "距离 k"),
             y=text("relative error", "相对误差"), log_x=True, log_y=True, lines=[
            Line(label=text("sinusoids", "正弦"), x=steps, y=[row["sinusoid"] for row in fits]),
            Line(label=text("table without a rule", "无规律的表"), x=steps, y=[row["table"] for row in fits])]),
    ]  # fmt: skip


LAB = Lab(
    number=3,
    name="positions",
    title=text("what sines and cosines say of a position", "正弦与余弦如何表示位置"),
    quotes=(
        first(
            "位置编码 (Positional Encoding)",
            "每个维度对应不同频率的正弦波。低维度变化快（捕捉局部位置差异），高维度变化慢（捕捉全局顺序）。",
            "Each dimension is a sine wave of its own frequency. Low dimensions vary fast (local differences of position), "
            "high dimensions slowly (global order).",
        ),
        first(
            "例题：排列不变性的验证",
            "位置编码给每个位置打上唯一“坐标”，让模型恢复序列结构。",
            "The positional encoding stamps a unique “coordinate” on each position, so that the model recovers the order.",
        ),
    ),
    design=Design(
        vary=text("the pair of dimensions, the position, the distance", "维度对、位置、距离"),
        fixed=text("d_model 64, the table of the toolkit's Sinusoidal", "d_model 64，本工具 Sinusoidal 的表"),
        measured=text(
            "wavelengths from changes of sign; the least distance of two positions; the matrix from PE(p) to PE(p + k)",
            "由变号点得到的波长；两个位置的最小距离；从 PE(p) 到 PE(p + k) 的矩阵",
        ),
        control=text(
            "a table without a rule: no matrix may fit it; one rounded pair alone: positions must coincide",
            "没有规律的表：任何矩阵都不应拟合；只用一对舍入的维度：位置必须重合",
        ),
    ),
    expected="holds",
    sabotage=text("each position's frequencies are off by a hundredth, drawn anew", "每个位置的频率各有百分之一的随机偏差"),
    measure=_measure,
)

"""L7: how much of a gradient comes back over a distance, through a recurrence and through attention."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.labs.frame.bounds import ROUNDING, fit, rounding
from regard.labs.frame.build import built, from_vectors, recurrent, stack
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first, second
from regard.labs.frame.values import Check, Column, Design, Line, Measured, Plot, check, text
from regard.layers.recurrent import STEPS
from regard.layout import Layout

WIDTH = 32
CELL = "rnn"
"""The arm that the sabotage is done to: plain tanh units."""
AT = (1, 8, 32, 64)
EPS = torch.finfo(torch.float32).eps
ARMS = {
    "rnn": text("RNN", "RNN"),
    "gru": text("GRU", "GRU"),
    "lstm": text("LSTM", "LSTM"),
    "lstm+1": text("LSTM, forget bias 1", "LSTM，遗忘门偏置 1"),
    "attention": text("attention, 1 block", "注意力，1 个块"),
    "attention2": text("attention, 2 blocks", "注意力，2 个块"),
    "radius0.9": text("linear RNN, radius 0.9", "线性 RNN，谱半径 0.9"),
    "radius1": text("linear RNN, radius 1", "线性 RNN，谱半径 1"),
    "radius1.1": text("linear RNN, radius 1.1", "线性 RNN，谱半径 1.1"),
}
Read = Callable[[Tensor], Tensor]


@torch.no_grad()
def _recurrent(arm: str) -> Any:
    """A recurrent encoder: torch's initial weights; radius…: an orthogonal matrix times that, no biases."""
    model = built(recurrent("rnn" if arm.startswith("radius") else arm.split("+")[0], d_model=WIDTH))  # type: ignore[arg-type]
    layer = model.layers[0]
    if arm == "lstm+1":
        layer.bias_ih_l0[WIDTH : 2 * WIDTH] = 1.0
        layer.bias_hh_l0[WIDTH : 2 * WIDTH] = 0.0
    if arm.startswith("radius"):
        torch.nn.init.orthogonal_(layer.weight_hh_l0).mul_(float(arm.removeprefix("radius")))
        layer.bias_ih_l0.zero_()
        layer.bias_hh_l0.zero_()
    return model


def _skipping(model: Any, x: Tensor) -> Tensor:
    """Sabotage: the same cell step by step, each state added to the one before it."""
    layer, hidden, states = model.layers[0], x.new_zeros(len(x), WIDTH), []
    for given in torch.nn.functional.linear(x, layer.weight_ih_l0, layer.bias_ih_l0).unbind(1):
        hidden = hidden + STEPS["rnn"](given, (hidden,), layer)[0] / 8
        states.append(hidden)
    return torch.stack(states, 1)


def _reader(arm: str, length: int, broken: bool) -> Read:
    """The arm as a function from vectors Float[B T D] to its last output Float[B D]."""
    if arm.startswith("attention"):
        model = built(stack(d_model=WIDTH, num_layers=2 if arm.endswith("2") else 1))
    else:
        model = _recurrent(arm)
    layout = Layout.unpadded(length)

    def read(x: Tensor) -> Tensor:
        if broken and arm == CELL:
            return _skipping(model, x)[:, -1]
        hook = from_vectors(model, x)
        try:
            return model(torch.zeros(x.shape[:2], dtype=torch.long), layout).states[:, -1]
        finally:
            hook.remove()

    return read


def _norms(read: Read, x: Tensor) -> list[float]:
    """|∂y_T / ∂x_(T-k)| for k = 0, 1, …: one copy of x a number of y, one backward pass."""
    copies = x.expand(WIDTH, *x.shape).clone().requires_grad_()
    (slope,) = torch.autograd.grad(read(copies).diagonal().sum(), copies)
    return slope.square().sum((0, 2)).sqrt().flip(0).tolist()


def _unrolled(model: Any, tokens: list[Tensor]) -> Tensor:
    """The recurrence one step after another over tokens Float[B D]: its last output. (All at once, torch makes one node of
    the inputs of all steps, and the graph no longer tells the tokens apart.)"""
    layer = model.layers[0]
    step, zero = STEPS[layer.mode.split("_")[0].lower()], tokens[0].new_zeros(len(tokens[0]), WIDTH)
    hidden = (zero, zero) if layer.mode == "LSTM" else (zero,)
    for token in tokens:
        hidden = step(torch.nn.functional.linear(token, layer.weight_ih_l0, layer.bias_ih_l0), hidden, layer)
    return hidden[0]


def _path(arm: str, read: Read, x: Tensor, distance: int) -> int:
    """Fewest edges of the autograd graph between the last output and the input so far back."""
    leaves = [token.clone()[None].requires_grad_() for token in x]
    out = read(torch.stack(leaves, 1)) if arm.startswith("attention") else _unrolled(_recurrent(arm), leaves)
    goal, queue, seen = leaves[-1 - distance], deque([(out.grad_fn, 0)]), set()
    while queue:
        node, steps = queue.popleft()
        if getattr(node, "variable", None) is goal:
            return steps
        for after, _ in node.next_functions:  # type: ignore[union-attr]
            if after is not None and after not in seen:
                seen.add(after)
                queue.append((after, steps + 1))
    raise RuntimeError("the last output does not depend on this input")


@torch.no_grad()
def _same(x: Tensor) -> float:
    """Largest difference between the toolkit's step and torch's layer, over the cells."""
    worst = 0.0
    for cell in STEPS:
        model = _recurrent(cell)
        whole = model.layers[0](x[None])[0][:, -1]
        worst = max(worst, float((whole - _unrolled(model, [token[None] for token in x])).abs().max()))
    return worst


def _measure(setting: Setting) -> Measured:
    length = setting.pick(80, 128, 256)
    x = torch.randn(length, WIDTH, dtype=torch.float64)
    rows: list[dict[str, Any]] = []
    norms: dict[str, list[float]] = {}
    for arm, label in ARMS.items():
        read = _reader(arm, length, setting.broken)
        # so small that a tanh unit is linear all along, and radius 1.1 has room to explode
        norms[arm] = _norms(read, x * 1e-7 if arm.startswith("radius") else x)
        inner = range(8, min(72, length - 4))
        slope = fit([float(k) for k in inner], [math.log(max(norms[arm][k], 1e-300)) for k in inner])
        paths = {f"path{k}": _path(arm, read, x, k) for k in (1, 64)}
        rows.append({"arm": label, "rate": slope.slope, "error": slope.error} | {f"k{k}": norms[arm][k] for k in AT} | paths)
    by_arm = dict(zip(ARMS, rows))
    ratio = {arm: its[64] / its[1] for arm, its in norms.items()}
    finding = text(
        f"Over 64 tokens the gradient of the RNN shrinks to {ratio['rnn']:.0e} of what it is over one, of the GRU to "
        f"{ratio['gru']:.0e}, of the LSTM to {ratio['lstm']:.0e} ({ratio['lstm+1']:.0e} with a forget bias of 1), of "
        "attention "
        f"to {ratio['attention']:.2g}.",
        f"相隔 64 个词元时，与相隔 1 个相比，RNN 的梯度缩小到 {ratio['rnn']:.0e}，GRU 到 {ratio['gru']:.0e}，LSTM 到 "
        f"{ratio['lstm']:.0e}"
        f"（遗忘门偏置为 1 时 {ratio['lstm+1']:.0e}），注意力为 {ratio['attention']:.2g}。",
    )
    return Measured(
        columns=COLUMNS,
        rows=rows,
        checks=_checks(ratio, by_arm, _same(x)),
        finding=finding,
        limits=LIMITS,
        plots=[_plot(norms), _plot({arm: its for arm, its in norms.items() if arm.startswith("radius")})],
    )


def _checks(ratio: dict[str, float], rows: dict[str, dict[str, Any]], same: float) -> list[Check]:
    lost = text(
        "ε of single precision: what is smaller is lost beside the near gradient", "单精度的 ε：更小的梯度会被近处的梯度淹没"
    )
    four = text("four standard errors of the fit below 0", "比 0 低四个拟合标准误")
    grows = rows["rnn"]["path64"] - rows["rnn"]["path1"]
    made = [
        check("claim", f"lost-{arm}", text(f"{ARMS[arm].en}: gradient over 64 tokens, as a share of that over 1",
                                           f"{ARMS[arm].zh}：相隔 64 与相隔 1 的梯度之比"),
              ratio[arm], "<=", EPS, lost, 2 if arm == CELL else 3)
        for arm in ("rnn", "gru", "lstm")
    ]  # fmt: skip
    made += [
        check("claim", "chain", text("RNN: edges of the graph that 63 more tokens add", "RNN：多 63 个词元增加的计算图边数"),
              grows, ">=", 63, text("one a token at least", "每个词元至少一条"), 1),
        check("claim", "rate", text("RNN: log of the gradient a token, and four standard errors",
                                    "RNN：每个词元的梯度对数变化，加四个标准误"),
              rows["rnn"]["rate"] + 4 * rows["rnn"]["error"], "<=", 0.0, four, 1),
        check("control", "attention", text("attention: gradient over 64 tokens, as a share of that over 1",
                                           "注意力：相隔 64 与相隔 1 的梯度之比"),
              ratio["attention"], ">=", 0.1, text("a tenth: it does not decay", "十分之一：没有衰减")),
        check("control", "direct", text("attention: edges that 63 more tokens add", "注意力：多 63 个词元增加的边数"),
              rows["attention"]["path64"] - rows["attention"]["path1"], "==", 0, text("counted", "计数")),
        check("note", "same", text("one step after another = the layer at once", "逐步计算 = 整层一次计算"),
              same, "<=", rounding(torch.float64, 64 * WIDTH), ROUNDING),
        check("note", "forget", text("LSTM with forget bias 1, against without: share that is left, log10 of the quotient",
                                     "LSTM 遗忘门偏置 1 与默认之比：剩余梯度之商的 log10"),
              math.log10(ratio["lstm+1"] / ratio["lstm"]), ">=", 3.0, text("a thousand times", "一千倍")),
    ]  # fmt: skip
    for radius in (0.9, 1.0, 1.1):
        its = rows[f"radius{radius:g}"]["rate"]
        made.append(
            check("note", f"radius-{radius:g}", text(f"radius {radius:g}: rate less log {radius:g}, without sign",
                                                     f"谱半径 {radius:g}：速率与 log {radius:g} 之差的绝对值"),
                  abs(its - math.log(radius)), "<=", 0.001, text("an orthogonal matrix times the radius",
                  "正交矩阵乘以谱半径"))
        )  # fmt: skip
    return made


COLUMNS = [
    Column(key="arm", title=text("arm", "组")),
    *(Column(key=f"k{k}", title=text(f"|∂y/∂x|, k = {k}", f"|∂y/∂x|，k = {k}")) for k in AT),
    Column(key="rate", title=text("log, a token", "每词元对数")),
    Column(key="error", title=text("± error", "± 标准误")),
    *(Column(key=f"path{k}", title=text(f"edges, k = {k}", f"边数，k = {k}")) for k in (1, 64)),
]
LIMITS = [
    text(
        "All of this is at initialisation. With a forget bias of 1 an LSTM loses far less; with torch's own, near 0, it "
        "loses "
        "as much as a GRU: that a gate is there does not help, that it is open does.",
        "以上都是初始化时的结果。遗忘门偏置为 1 的 LSTM 损失小得多；用 torch 默认值（接近 0）则与 GRU 一样多：有门并不够，"
        "门要打开才行。",
    ),
    text(
        "A recurrence need not vanish: in its linear range the gradient goes as the power of the spectral radius, and "
        "above 1 "
        "it explodes.",
        "循环网络并不必然梯度消失：在线性区，梯度按谱半径的幂变化，大于 1 时爆炸。",
    ),
]


def _plot(norms: dict[str, list[float]]) -> Plot:
    lines = [
        Line(label=ARMS[arm], x=list(range(len(its))), y=[max(value, 1e-40) for value in its]) for arm, its in norms.items()
    ]
    return Plot(
        title=text("gradient over a distance", "梯度与距离"),
        x=text("distance k", "距离 k"),
        y=text("|∂y_T / ∂x_(T-k)|", "|∂y_T / ∂x_(T-k)|"),
        lines=lines,
        log_y=True,
    )


LAB = Lab(
    number=7,
    name="gradient",
    title=text("how much of a gradient comes back", "梯度能传回多少"),
    quotes=(
        first("开头", "信息必须经过每一步的隐状态传递才能到达远处，梯度在长路径上不断衰减。",
              "To get far, information must pass through the hidden state of every step; over long paths the gradient "
              "decays."),
        first("维度 | RNN | Transformer", "长距离依赖 | 差（梯度消失） | 好（一步直达）",
              "Long-range dependence | bad (gradients vanish) | good (one step)"),
        second("2.Tranformer相比RNN/LSTM的 又是", "间隔较长的语义关联效果差，易梯度消失/爆炸",
               "(LSTM/GRU) related meanings far apart are caught badly; gradients easily vanish or explode."),
    ),
    design=Design(
        vary=text("the distance from 0 on; the kind of cell; the spectral radius", "距离（从 0 起）；单元种类；谱半径"),
        fixed=text(f"width {WIDTH}, one layer, double precision, random inputs, weights as initialised",
                   f"宽 {WIDTH}，一层，双精度，随机输入，初始化的权重"),
        measured=text("norm of the derivative of the last output by each input; edges of the autograd graph between them",
                      "最后一个输出对每个输入的导数的范数；二者在自动求导图中相隔的边数"),
        control=text("attention: no decay, as many edges at every distance", "注意力：没有衰减，任何距离的边数都相同"),
    ),
    expected="holds",
    sabotage=text("skip connections: each state of the RNN is added to the one before",
    "跳跃连接：RNN 每个状态都加上前一个状态"),
    measure=_measure,
)  # fmt: skip

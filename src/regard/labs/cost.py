"""L8: what a longer text costs, in operations, in steps that must wait for one another, in memory, and in time."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn

from regard.labs.frame.bounds import EXACT, log_fit
from regard.labs.frame.build import NUM_HEADS, built, from_vectors, recurrent
from regard.labs.frame.counts import flops, largest_kept
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first, second
from regard.labs.frame.values import Check, Column, Design, Line, Measured, Plot, check, text
from regard.layers.attention import Attend, Attention, ScaledDot
from regard.layers.frame import Frame
from regard.layers.masks import Everything, Lowered, Mask, Window
from regard.layout import Layout

WIDTH = 64
RECURRENT = ("rnn", "gru")
ARMS = {
    "rnn": text("RNN", "RNN"),
    "gru": text("GRU", "GRU"),
    "attention": text("attention, by definition", "注意力，按定义"),
    "fused": text("attention, fused", "注意力，融合核"),
    "window": text("attention in a window of 16", "窗口为 16 的注意力"),
}


class _Defined(Attend):
    """Attention as it is defined: the weights are made, then used."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Lowered, bias: Tensor | None = None) -> Tensor:
        return self.explain(q, k, mask, bias) @ v


class _ByDefinition:
    """The description of it."""

    def build(self, head_dim: int, dropout: float) -> nn.Module:
        return _Defined(head_dim**-0.5)


def _layer(arm: str, broken: bool) -> Any:
    """One layer as a function of vectors Float[1 n 64]. broken: attention looks through a window and nobody says so."""
    if arm in RECURRENT:
        model = built(recurrent(arm, WIDTH), torch.float32)  # type: ignore[arg-type]

        def read(x: Tensor) -> Tensor:
            hook = from_vectors(model, x)
            try:
                return model(torch.zeros(x.shape[:2], dtype=torch.long), Layout.unpadded(x.shape[1])).states
            finally:
                hook.remove()

        return read
    narrow = arm == "window" or (broken and arm == "attention")
    mask: Mask = Window(16) if narrow else Everything()
    attend = _ByDefinition() if arm == "attention" and not broken else ScaledDot()
    module = Attention(NUM_HEADS, mask=mask, attend=attend).build(WIDTH).eval()

    def look(x: Tensor) -> Tensor:
        layout = Layout.unpadded(x.shape[1])
        return module(x, Frame.of([mask], layout, layout))

    return look


def _chain(out: Tensor) -> int:
    """The longest path through the autograd graph: operations that wait for one another, however many processors there "
    "are."""
    depth: dict[Any, int] = {}
    first: Any = out.grad_fn
    stack = [(first, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            depth[node] = 1 + max((depth[after] for after, _ in node.next_functions if after is not None), default=0)
        elif node not in depth:
            stack.append((node, True))
            stack += [(after, False) for after, _ in node.next_functions if after is not None and after not in depth]
    return depth[first]


@torch.no_grad()
def _milliseconds(read: Any, x: Tensor, times: int) -> float:
    best = float("inf")
    for _ in range(times):
        began = time.perf_counter()
        read(x)
        best = min(best, time.perf_counter() - began)
    return 1000 * best


def _measure(setting: Setting) -> Measured:
    lengths = setting.pick([2**n for n in range(5, 11)], [2**n for n in range(5, 12)], [2**n for n in range(5, 14)])
    rows: list[dict[str, Any]] = []
    most = setting.pick(256, 512, 2048)
    """Longest text whose operations are counted step by step through a recurrence."""
    for arm, label in ARMS.items():
        read = _layer(arm, setting.broken)
        for length in lengths:
            x = torch.randn(1, length, WIDTH)
            counted = length <= most or arm not in RECURRENT
            its = {"arm": label, "key": arm, "n": length}
            its["flops"] = flops(lambda read=read, x=x: read(x)) if counted else None
            its["chain"] = _chain(read(x.requires_grad_())) if length <= 512 else None
            its["kept"] = largest_kept(lambda read=read, x=x: read(x))
            rows.append(its | {"ms": _milliseconds(read, x.detach(), setting.pick(1, 3, 5))})
    by_arm = {arm: [row for row in rows if row["key"] == arm] for arm in ARMS}
    exponent = {
        key: {arm: log_fit(*_points(its, key, 3)).slope for arm, its in by_arm.items()} for key in ("flops", "kept", "ms")
    }
    crossing = next(
        (a["n"] for a, g in zip(by_arm["attention"], by_arm["gru"]) if a["flops"] > (g["flops"] or a["flops"])), None
    )
    finding = text(
        f"Operations grow with the length to the power {exponent['flops']['rnn']:.2f} (RNN) and "
        f"{exponent['flops']['attention']:.2f} (attention); time to {exponent['ms']['rnn']:.2f} and "
        f"{exponent['ms']['attention']:.2f}. At width {WIDTH} attention does more than a GRU from {crossing or 'no'} "
        "tokens on.",
        f"运算量随长度的指数：RNN {exponent['flops']['rnn']:.2f}，注意力 {exponent['flops']['attention']:.2f}；时间的指数为 "
        f"{exponent['ms']['rnn']:.2f} 与 {exponent['ms']['attention']:.2f}。宽 {WIDTH} 时，注意力从 {crossing or '无'} "
        "个词元起运算多于 GRU。",
    )
    return Measured(
        columns=COLUMNS,
        rows=[{key: value for key, value in row.items() if key != "key"} for row in rows],
        checks=_checks(by_arm, exponent),
        finding=finding,
        limits=LIMITS,
        plots=_plots(by_arm),
    )


def _points(rows: list[dict[str, Any]], key: str, last: int = 0) -> tuple[list[float], list[float]]:
    """Lengths and values of the rows that have one, or of the last of them."""
    having = [row for row in rows if row[key] is not None][-last:]
    return [row["n"] for row in having], [row[key] for row in having]


def _checks(rows: dict[str, list[dict[str, Any]]], exponent: dict[str, dict[str, float]]) -> list[Check]:
    chains = {arm: [(row["n"], row["chain"]) for row in its if row["chain"]] for arm, its in rows.items()}
    steps = {arm: its[-1][1] - its[0][1] for arm, its in chains.items()}
    more = chains["rnn"][-1][0] - chains["rnn"][0][0]
    scores = max(abs(row["kept"] - 4 * NUM_HEADS * row["n"] ** 2) for row in rows["attention"] if row["n"] >= WIDTH * 2)
    short = rows["attention"][0]["flops"] / rows["gru"][0]["flops"]
    one, two = (
        text("1.0 ± 0.2, and above only for noise", "1.0 ± 0.2"),
        text("2.0 - 0.3: the products with weights are linear", "2.0 - 0.3：与权重的乘积是线性的"),
    )
    clock = text("by the clock of a shared machine: told, not judged", "共享机器上的计时：只报告，不作判定")
    return [
        check("claim", "serial", text(f"RNN: steps that must wait, added by {more} more tokens",
        f"RNN：多 {more} 个词元增加的串行步数"),
              steps["rnn"], ">=", more, text("one a token at least", "每个词元至少一步"), 1, 3),
        check("claim", "parallel", text("attention: steps that must wait, added by as many",
        "注意力：同样多词元增加的串行步数"),
              steps["fused"], "==", 0, EXACT, 1),
        check("claim", "rnn", text("RNN: exponent of the operations", "RNN：运算量的指数"), exponent["flops"]["rnn"], "<=",
        1.2, one, 2),
        check("claim", "attention", text("attention: exponent of the operations", "注意力：运算量的指数"),
              exponent["flops"]["attention"], ">=", 1.7, two, 2),
        check("claim", "scores", text("attention: bytes of the weights kept, less 4·n² a head",
        "注意力：所存权重字节数减去每头 4·n²"),
              scores, "==", 0, EXACT, 2),
        check("control", "window", text("attention in a window: exponent of the operations", "窗口注意力：运算量的指数"),
              exponent["flops"]["window"], "<=", 1.2, one),
        check("control", "waits", text("GRU: steps that must wait, added by as many", "GRU：同样多词元增加的串行步数"),
              steps["gru"], ">=", more, text("one a token at least", "每个词元至少一步")),
        check("limit", "short", text(f"{rows['gru'][0]['n']} tokens: operations of attention, against the GRU's",
                                     f"{rows['gru'][0]['n']} 个词元：注意力与 GRU 的运算量之比"),
              short, "<=", 1.0, text("n·d² against n²·d: below n = d attention does less",
              "n·d² 对 n²·d：n < d 时注意力运算更少"), 2),
        check("note", "fused", text("fused attention: exponent of the operations", "融合注意力：运算量的指数"),
              exponent["flops"]["fused"], ">=", 1.7, two),
        check("note", "memory", text("fused attention: exponent of the bytes kept", "融合注意力：所存字节的指数"),
              exponent["kept"]["fused"], "<=", 1.2, one),
        check("note", "clock-rnn", text("RNN: exponent of the time", "RNN：时间的指数"), exponent["ms"]["rnn"], "<=", 1.2,
        clock),
        check("note", "clock-attention", text("attention: exponent of the time", "注意力：时间的指数"),
              exponent["ms"]["attention"], ">=", 1.7, clock),
    ]  # fmt: skip


COLUMNS = [
    Column(key="arm", title=text("layer", "层")),
    Column(key="n", title=text("tokens", "词元数")),
    Column(key="flops", title=text("operations", "运算量")),
    Column(key="chain", title=text("steps that wait", "串行步数")),
    Column(key="kept", title=text("largest kept, bytes", "所存最大张量字节数")),
    Column(key="ms", title=text("ms, best", "毫秒，最好")),
]
LIMITS = [
    text(
        "O(n) against O(n²) leaves out the width: a recurrence costs n·d², attention n²·d and n·d². Up to n = d or so "
        "attention "
        "does less, and all at once.",
        "O(n) 与 O(n²) 省略了宽度：循环的开销为 n·d²，注意力为 n²·d 加 n·d²。n 不超过约 d 时，注意力的运算更少，"
        "而且可以同时进行。",
    ),
    text(
        "A fused kernel saves the memory of the square, not its operations.",
        "融合核节省的是平方级的内存，而不是平方级的运算。",
    ),
    text(
        "Operations, steps and bytes are counted and always the same; times are of this machine in this moment.",
        "运算量、步数、字节数是计数所得，每次相同；时间只反映这台机器此刻的情况。",
    ),
]


def _plots(by_arm: dict[str, list[dict[str, Any]]]) -> list[Plot]:
    made = []
    for key, title in (
        ("flops", text("operations", "运算量")),
        ("kept", text("largest tensor kept", "所存最大张量")),
        ("ms", text("time", "时间")),
    ):
        unit = {"flops": text("FLOPs", "浮点运算"), "kept": text("bytes", "字节"), "ms": text("ms", "毫秒")}[key]
        points = {arm: _points(its, key) for arm, its in by_arm.items()}
        lines = [Line(label=ARMS[arm], x=x, y=y) for arm, (x, y) in points.items()]
        made.append(Plot(title=title, x=text("tokens", "词元数"), y=unit, lines=lines, log_x=True, log_y=True))
    return made


TABLE = "维度 | RNN | Transformer"
LAB = Lab(
    number=8,
    name="cost",
    title=text("what a longer text costs", "更长的文本要多少开销"),
    quotes=(
        first(TABLE, "并行性 | 差（必须串行处理） | 好（注意力可并行计算）",
              "Parallelism | bad (must go one by one) | good (attention computes in parallel)"),
        first(TABLE, "计算复杂度 | O(n)（序列长度） | O(n²)（序列长度的平方）",
              "Complexity | O(n) (length) | O(n²) (length squared)"),
        second("2.为什么需要注意力机制", "一个时间步一个时间步提取特征，无法并行",
               "Features are extracted one time step after another, without parallelism."),
    ),
    design=Design(
        vary=text("the length, from 32 tokens on; the layer", "长度（从 32 个词元起）；层的种类"),
        fixed=text(f"one layer of width {WIDTH}, one text, single precision", f"一层，宽 {WIDTH}，一个文本，单精度"),
        measured=text("operations, the longest chain of operations, the largest tensor kept for the backward pass, best "
                      "time",
                      "运算量、最长的串行运算链、为反向传播所存的最大张量、最好时间"),
        control=text("attention in a window: its cost must not be quadratic; a GRU: it must wait as the RNN does",
                     "窗口注意力：开销不得为平方；GRU：必须像 RNN 一样串行"),
    ),
    expected="holds_with_limits",
    sabotage=text("attention looks through a window of 16 and nobody says so", "注意力暗中只看宽为 16 的窗口"),
    measure=_measure,
)  # fmt: skip

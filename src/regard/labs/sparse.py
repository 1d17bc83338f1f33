"""L14: attention that sees only some of the tokens: what it costs, how far it reaches, and what a global token mends."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.architecture import Description, Targets
from regard.labs.frame.bounds import EXACT, ROUNDING, log_fit, noise, rounding
from regard.labs.frame.build import NUM_HEADS, built, from_vectors, stack
from regard.labs.frame.counts import flops
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first
from regard.labs.frame.train import right, train
from regard.labs.frame.values import Check, Column, Design, Measured, Plot, check, line, text
from regard.layers.attention import Attention
from regard.layers.frame import Frame
from regard.layers.heads import Classify
from regard.layers.masks import Everything, Global, Mask, Window
from regard.layout import Layout

SEEN, LAYERS, WIDTH = 5, 2, 32
REACH = LAYERS * (SEEN - 1)
"""How far a token can be felt: so many places a block."""
CLASSES, NOISE, LENGTH, BATCH, ROWS = 8, 16, 32, 32, 512
SUM, ASK = CLASSES + NOISE, CLASSES + NOISE + 1
ARMS = {
    "full": text("full", "全部"),
    "window": text(f"window of {SEEN}", f"窗口 {SEEN}"),
    "global": text(f"window of {SEEN} and a global token", f"窗口 {SEEN} 加一个全局词元"),
}


def _masks(broken: bool) -> dict[str, Mask]:
    """broken: the windows let everything through."""
    window: Mask = Everything() if broken else Window(SEEN)
    return {"full": Everything(), "window": window, "global": window if broken else window | Global(1)}


def _texts(source: torch.Generator, distance: int | None, rows: int = BATCH) -> dict[str, Any]:
    """Noise with one token that says the class, so far before the question at the end; None: anywhere."""
    ids = torch.randint(CLASSES, CLASSES + NOISE, (rows, LENGTH), generator=source)
    answer = torch.randint(0, CLASSES, (rows,), generator=source)
    far = torch.randint(1, LENGTH - 1, (rows,), generator=source)
    place = LENGTH - 1 - (far if distance is None else torch.full_like(far, distance))
    ids[torch.arange(rows), place] = answer
    ids[:, 0], ids[:, -1] = SUM, ASK
    return {"inputs": ids, "targets": Targets(answer)}


def _felt(mask: Mask, reach: int) -> float:
    """Largest derivative of the last output by an input more than `reach` tokens before it."""
    model, layout = built(stack(mask, d_model=WIDTH, num_layers=LAYERS)), Layout.unpadded(40)
    x = torch.randn(1, 40, WIDTH, dtype=torch.float64, requires_grad=True)
    hook = from_vectors(model, x)
    model(torch.zeros(1, 40, dtype=torch.long), layout).states[:, -1].square().sum().backward()
    hook.remove()
    assert x.grad is not None
    return float(x.grad[0, : 40 - 1 - reach].abs().max())


@torch.no_grad()
def _cost(mask: Mask, lengths: list[int]) -> tuple[list[int], float]:
    """Operations of a layer at each length; largest difference between what attention gives at the last of them and what
    its definition gives with the mask in full."""
    module, found, worst = Attention(NUM_HEADS, mask=mask).build(WIDTH).eval(), [], 0.0

    def compare(attend: Any, given: tuple[Any, ...], out: Tensor) -> None:
        nonlocal worst
        q, k, v, lowered, *_ = given
        worst = float((attend.explain(q, k, lowered) @ v - out).abs().max())

    for length in lengths:
        layout, x = Layout.unpadded(length), torch.randn(1, length, WIDTH)
        frame = Frame.of([mask], layout, layout)
        found.append(flops(lambda x=x, frame=frame: module(x, frame)))
    hook = module.attend.register_forward_hook(compare)
    layout, x = Layout.unpadded(512), torch.randn(1, 512, WIDTH)
    module(x, Frame.of([mask], layout, layout))
    hook.remove()
    return found, worst


def _measure(setting: Setting) -> Measured:
    steps = setting.pick(250, 1200, 4000)
    lengths = setting.pick([512, 1024, 2048], [512, 1024, 2048, 4096], [512, 1024, 2048, 4096, 8192])
    distances = [REACH // LAYERS, REACH, REACH + 2, 20, LENGTH - 2]
    rows: list[dict[str, Any]] = []
    lines, costs = [], []
    facts: dict[str, dict[str, float]] = {}
    for arm, mask in _masks(setting.broken).items():
        cost, difference = _cost(mask, lengths)
        sizes: dict[str, Any] = {"d_model": WIDTH, "num_layers": LAYERS, "vocab_size": ASK + 1}
        model = built(Description(Classify(CLASSES, "last"), stack(mask, **sizes)), torch.float32, setting.seed)
        losses = train(model, lambda source: _texts(source, None), steps, setting.seed, rate=5e-3)
        told = {}
        for distance in distances:
            told[distance] = right(model, _texts(torch.Generator().manual_seed(setting.seed + 2), distance, ROWS))
            rows.append({"arm": ARMS[arm], "distance": distance, "loss": losses[-1], "accuracy": told[distance]})
        rows += [{"arm": ARMS[arm], "n": n, "flops": count} for n, count in zip(lengths, cost)]
        lines.append(line(label=ARMS[arm], x=distances, y=list(told.values())))
        costs.append(line(label=ARMS[arm], x=lengths, y=cost))
        facts[arm] = {
            "slope": log_fit(lengths, cost).slope, "difference": difference, "felt": _felt(mask, REACH),
            "near": told[distances[0]], "reach": told[REACH], "beyond": told[REACH + 2], "far": told[LENGTH - 2],
        }  # fmt: skip
    its = facts["window"]
    finding = text(
        f"Operations grow with the length to the power {facts['full']['slope']:.2f} (full) and {its['slope']:.2f} "
        f"(window). Over {REACH} tokens the window answers {its['reach']:.0%} right, over {REACH + 2} "
        f"{its['beyond']:.0%}; with a global token {facts['global']['far']:.0%} over {LENGTH - 2}.",
        f"运算量随长度的指数：全部 {facts['full']['slope']:.2f}，窗口 {its['slope']:.2f}。"
        f"相隔 {REACH} 时窗口答对 {its['reach']:.0%}，相隔 {REACH + 2} 时 {its['beyond']:.0%}；"
        f"加全局词元后相隔 {LENGTH - 2} 答对 {facts['global']['far']:.0%}。",
    )
    plots = [
        Plot(title=text("right by distance", "正确率与距离"), x=text("distance", "距离"), y=text("right", "正确率"),
            lines=lines),
        Plot(title=text("operations", "运算量"), x=text("tokens", "词元数"), y=text("FLOPs", "浮点运算"), lines=costs,
            log_x=True,
             log_y=True),
    ]  # fmt: skip
    return Measured(columns=COLUMNS, rows=rows, checks=judge(facts), finding=finding, limits=LIMITS, plots=plots)


def judge(facts: dict[str, dict[str, float]]) -> list[Check]:
    """Checks of each arm's slope, difference, reach and shares of right answers."""
    chance = 1 / CLASSES + noise(ROWS, 1 / CLASSES)
    guess = text(f"chance, 1/{CLASSES}, and four standard errors", f"随机猜测 1/{CLASSES} 加四个标准误")
    most, exponent = text("nine of ten", "十分之九"), text("1.0 ± 0.2", "1.0 ± 0.2")
    made = [
        check("claim", f"slope-{arm}", text(f"{ARMS[arm].en}: exponent of the operations", f"{ARMS[arm].zh}：运算量的指数"),
              facts[arm]["slope"], "<=", 1.2, exponent)
        for arm in ("window", "global")
    ]  # fmt: skip
    return [
        *made,
        check("claim", "same", text("window: attention in blocks less the definition under the same mask",
                                    "窗口：分块计算与同一掩码下定义之差"),
              max(its["difference"] for its in facts.values()), "<=", rounding(torch.float32, 512, 1.0), ROUNDING),
        check("claim", "part", text(f"window: derivative by tokens more than {REACH} back",
              f"窗口：对 {REACH} 之外词元的导数"),
              facts["window"]["felt"], "==", 0.0, EXACT),
        check("claim", "near", text(f"window: right over {REACH // LAYERS} tokens",
              f"窗口：相隔 {REACH // LAYERS} 的正确率"),
              facts["window"]["near"], ">=", 0.9, most),
        check("control", "full", text("full: exponent of the operations", "全部：运算量的指数"), facts["full"]["slope"],
              ">=", 1.6,
              text("2.0 less what the products with weights take off at these lengths",
                    "2.0 减去这些长度上与权重乘积的影响")),
        check("control", "feels", text(f"full: derivative by tokens more than {REACH} back",
              f"全部：对 {REACH} 之外词元的导数"),
              facts["full"]["felt"], ">=", 1e-9, text("not zero", "不为零")),
        check("control", "task", text(f"full: right over {LENGTH - 2} tokens", f"全部：相隔 {LENGTH - 2} 的正确率"),
              facts["full"]["far"], ">=", 0.9, most),
        check("limit", "blind", text(f"window: right over {REACH + 2} tokens, past its reach",
              f"窗口：相隔 {REACH + 2}（超出可及范围）的正确率"),
              facts["window"]["beyond"], "<=", chance, guess),
        check("note", "mended", text(f"with a global token: right over {LENGTH - 2} tokens",
                                     f"加全局词元：相隔 {LENGTH - 2} 的正确率"), facts["global"]["far"], ">=", 0.9, most),
    ]  # fmt: skip


COLUMNS = [
    Column(key="arm", title=text("arm", "组")),
    Column(key="distance", title=text("distance", "距离")),
    Column(key="loss", title=text("last loss", "最后的损失")),
    Column(key="accuracy", title=text("right", "正确率")),
    Column(key="n", title=text("tokens", "词元数")),
    Column(key="flops", title=text("operations", "运算量")),
]
LIMITS = [
    text(
        f"What lies farther than blocks × (window - 1), here {REACH} tokens, is not there at all: answers "
        "fall to chance from one token to the next. One token that sees all and is seen by all mends it.",
        f"超过“块数 ×（窗口 - 1）”（此处 {REACH}）的词元完全不存在：正"
        "确率骤降为随机猜测。一个能看全部、也被全部看到的词元可以弥补。",
    ),
]
LAB = Lab(
    number=14,
    name="sparse",
    title=text("attention that sees only some of the tokens", "只看部分词元的注意力"),
    quotes=(
        first("后续用途 / 连接", "稀疏注意力与 MoE：O(n²) 复杂度的瓶颈催生了稀疏注意力（只看部分 token）",
              "Sparse attention and MoE: the bottleneck of O(n²) brought "
              "forth sparse attention (which sees only some of the "
              "tokens) …"),
    ),
    design=Design(
        vary=text("what is seen: everything, a window, a window and a global token; the distance; the length",
                  "可见范围：全部、窗口、窗口加全局词元；距离；长度"),
        fixed=text(f"{LAYERS} blocks of width {WIDTH}, no positions, {LENGTH} tokens, batches, updates, Adam at 0.005",
                   f"{LAYERS} 个块，宽 {WIDTH}，无位置编码，{LENGTH} 个词元，批次、更新次数、Adam 0.005"),
        measured=text("operations; the derivative by far tokens; right answers by distance",
                      "运算量；对远处词元的导数；各距离的正确率"),
        control=text("full attention: quadratic, feels far tokens, answers over any distance",
                     "全部可见的注意力：平方级开销，能感知远处，任何距离都能答对"),
    ),
    expected="holds_with_limits",
    sabotage=text("the windows let everything through", "窗口让一切通过"),
    measure=_measure,
)  # fmt: skip

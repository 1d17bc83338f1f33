"""L11: the filing cabinet: labelled drawers, a question, and where attention learns to look."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.architecture import Description, Targets
from regard.inspection.tape import record
from regard.labs.frame.bounds import BUDGET, ROUNDING, noise_between, rounding
from regard.labs.frame.build import built, fitted, number_of_weights, recurrent, weights_of
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import second
from regard.labs.frame.train import right, train
from regard.labs.frame.values import Check, Column, Design, Measured, Plot, check, line, text
from regard.layers.attention import Attention, ScaledDot
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense
from regard.layers.heads import Classify
from regard.layers.masks import Lowered, Prefix
from regard.layers.stack import Stack
from regard.layout import Layout

LABELS, CONTENTS, WIDTH, BATCH, ROWS = 8, 8, 32, 64, 512
DRAWERS = (2, 4, 8)
ASK = LABELS * CONTENTS
"""Tokens below are drawers, label × 8 + content; from here on questions, 64 + label."""
ARMS = {
    "attention": text("attention", "注意力"),
    "even": text("attention with even weights", "权重均匀的注意力"),
    "gru": text("GRU", "GRU"),
}
WRITTEN = (0.001, 0.3, 0.5, 0.002, 0.001, 0.00003)
"""The note's array of coefficients, as far as it is written out."""


def _descriptions() -> dict[str, Description]:
    head = Classify(CONTENTS, "last")

    def looks(attend: ScaledDot) -> Description:
        # next to nothing after attention: what it gives must be the answer, not a mixture that could be taken apart
        block = Block(Attention(1, mask=Prefix(), attend=attend), Dense(1))
        return Description(head, Stack(WIDTH, Tokens(ASK + LABELS), (block,)))

    learned = looks(ScaledDot())
    gru = fitted(lambda width: Description(head, recurrent("gru", width, ASK + LABELS)), weights_of(learned))
    return {"attention": learned, "even": looks(ScaledDot(0.0)), "gru": gru}


def _cabinet(source: torch.Generator, drawers: int, rows: int = BATCH) -> tuple[dict[str, Any], Tensor]:
    """Drawers of different labels, then the label of one of them; and which one it is, Int[rows]. Drawers are marked: they
    alone are looked at."""
    labels = torch.rand(rows, LABELS, generator=source).argsort(1)[:, :drawers]
    contents = torch.randint(0, CONTENTS, (rows, drawers), generator=source)
    asked = torch.randint(0, drawers, (rows, 1), generator=source)
    ids = torch.cat([labels * CONTENTS + contents, ASK + labels.gather(1, asked)], 1)
    mark = torch.cat([torch.ones(1, drawers, dtype=torch.long), torch.zeros(1, 1, dtype=torch.long)], 1)
    layout = replace(Layout.unpadded(drawers + 1), mark=mark)
    return {"inputs": ids, "layout": layout, "targets": Targets(contents.gather(1, asked)[:, 0])}, asked[:, 0]


def _looked(model: Any, drawers: int, seed: int) -> dict[str, float]:
    """Of the question's weights over the drawers: the mean on the right one, how often it is the largest, the entropy, and
    how far from 1 a row's sum is at most."""
    given, asked = _cabinet(torch.Generator().manual_seed(seed + 2), drawers, ROWS)
    with torch.no_grad(), record(model) as tape:
        model(given["inputs"], layout=given["layout"])
    weights = tape.weights(tape.names[0])[:, 0]
    last = weights[:, -1]
    own = last.gather(1, asked[:, None])
    return {
        "weight": float(own.mean()),
        "largest": float((last.argmax(1) == asked).float().mean()),
        "entropy": float(-(last * last.clamp(min=1e-30).log()).sum(1).mean()),
        "sums": float((weights.sum(-1) - 1).abs().max()),
    }


def _by_hand() -> dict[str, float]:
    """The second step with numbers: weights times values, by the toolkit's body and by the sum that the note writes."""
    attend = ScaledDot().build(WIDTH, 0.0)
    q, k, v = (torch.randn(1, 1, n, WIDTH, dtype=torch.float64) for n in (3, 7, 7))
    weights = attend.explain(q, k, Lowered())[0, 0]
    out = attend(q, k, v, Lowered())[0, 0]
    summed = sum(weights[:, i, None] * v[0, 0, i] for i in range(7))
    outside = torch.maximum(out - v[0, 0].amax(0), v[0, 0].amin(0) - out).max()
    return {"sum": float((out - summed).abs().max()), "hull": float(outside.clamp(min=0)), "written": sum(WRITTEN)}


def _draw(source: torch.Generator) -> dict[str, Any]:
    return _cabinet(source, DRAWERS[int(torch.randint(0, len(DRAWERS), (), generator=source))])[0]


def _frozen(model: Any) -> None:
    """Sabotage: queries and keys stay as they were drawn."""
    matrix = model.encoder.blocks[0].attention.qkv
    for tensor in (matrix.weight, matrix.bias):
        tensor.register_hook(lambda slope: torch.cat([torch.zeros_like(slope[: 2 * WIDTH]), slope[2 * WIDTH :]]))
    model.encoder.embed.requires_grad_(False)


def _measure(setting: Setting) -> Measured:
    steps = setting.pick(500, 1200, 4000)
    looks: list[dict[str, float]] = []
    at: list[int] = []
    rows: list[dict[str, Any]] = []
    for arm, description in _descriptions().items():
        model = built(description, torch.float32, setting.seed)
        watch: Callable[[int], None] | None = None
        if arm == "attention":
            if setting.broken:
                _frozen(model)

            def see(step: int, model: Any = model) -> None:
                if step % (steps // 20) == 0:
                    at.append(step)
                    looks.append(_looked(model, DRAWERS[-1], setting.seed))

            watch = see
        losses = train(model, _draw, steps, setting.seed, rate=5e-3, watch=watch)
        for drawers in DRAWERS:
            given, _ = _cabinet(torch.Generator().manual_seed(setting.seed + 2), drawers, ROWS)
            its = {"arm": ARMS[arm], "weights": number_of_weights(model), "drawers": drawers, "loss": losses[-1]}
            its |= {"accuracy": right(model, given)} | ({} if arm == "gru" else _looked(model, drawers, setting.seed))
            rows.append(its)
    begin, end = looks[0], looks[-1]
    finding = text(
        f"Among {DRAWERS[-1]} drawers the right one has {begin['weight']:.1%} of the weight "
        f"before training and {end['weight']:.1%} after; the entropy of the weights falls from "
        f"{begin['entropy']:.2f} (even: {math.log(DRAWERS[-1]):.2f}) to {end['entropy']:.2f}.",
        f"{DRAWERS[-1]} 个抽屉中，正确的那个训练前占权重 {begin['weight']:.1%}，训练后 {end['weight']:.1%}；"
        f"权重的熵从 {begin['entropy']:.2f}（均匀时 {math.log(DRAWERS[-1]):.2f}）降到 {end['entropy']:.2f}。",
    )
    x = [float(step) for step in at]
    plots = [
        Plot(title=text("weight on the right drawer", "正确抽屉的权重"), x=text("update", "更新次数"), y=text("weight",
            "权重"),
             lines=[line(label=text("mean", "平均"), x=x, y=[its["weight"] for its in looks])]),
        Plot(title=text("entropy of the weights", "权重的熵"), x=text("update", "更新次数"), y=text("nats", "奈特"),
             lines=[line(label=text("mean", "平均"), x=x, y=[its["entropy"] for its in looks])]),
    ]  # fmt: skip
    checks = judge({arm: rows[n * len(DRAWERS) : (n + 1) * len(DRAWERS)] for n, arm in enumerate(ARMS)}, begin, _by_hand())
    return Measured(columns=COLUMNS, rows=rows, checks=checks, finding=finding, limits=LIMITS, plots=plots)


def judge(rows: dict[str, list[dict[str, Any]]], begin: dict[str, float], by_hand: dict[str, float]) -> list[Check]:
    """Checks of each arm's rows (by number of drawers), of where attention looked before training, of the sum by hand."""
    most = {arm: its[-1] for arm, its in rows.items()}
    weights = [its["weights"] for its in most.values()]
    drawers = most["attention"]["drawers"]
    rise = most["attention"]["weight"] - begin["weight"]
    return [
        check("claim", "right",
              text("attention: how often the largest weight is on the right drawer, the worst number of them",
                                     "注意力：最大权重落在正确抽屉上的比例（取最差的抽屉数）"),
              min(its["largest"] for its in rows["attention"]), ">=", 0.95, text("nineteen of twenty", "二十分之十九"), 1),
        check("claim", "one", text("weights of a row, sum less 1", "一行权重之和减 1"), most["attention"]["sums"], "<=",
              rounding(torch.float32, drawers + 1), ROUNDING, 2),
        check("claim", "sum", text("the body of attention against Σ weight · V", "注意力函数与 Σ 权重 · V 之差"),
              by_hand["sum"], "<=", rounding(torch.float64, 7, 4.0), ROUNDING, 3),
        check("claim", "hull", text("how far the sum lies outside its values, in any number", "加权和超出各个 V 的范围"),
              by_hand["hull"], "<=", rounding(torch.float64, 7, 4.0), ROUNDING, 3),
        check("claim", "learned", text(f"{drawers} drawers: weight on the right one, after less before",
                                       f"{drawers} 个抽屉：正确者的权重，训练后减训练前"),
              rise, ">=", 0.5, text("half of all weight", "全部权重的一半"), 4),
        check("control", "begin", text(f"{drawers} drawers: weight on the right one before training",
                                       f"{drawers} 个抽屉：训练前正确者的权重"),
              begin["weight"], "<=", 2 / drawers, text("twice what even weights give it", "均匀权重的两倍")),
        check("control", "even", text(f"{drawers} drawers: right answers, attention as learned less even weights",
                                      f"{drawers} 个抽屉：权重均匀时的正确率"),
              most["even"]["accuracy"], "<=", 1 - noise_between(ROWS), text("four standard errors below 1",
                  "比 1 低四个标准误")),
        check("control", "budget", text("most weights of an arm, against fewest", "各组参数数的最大与最小之比"),
              max(weights) / min(weights), "<=", 1.05, BUDGET),
        check("note", "written", text("the note's array, as far as it is written, sums to less than 1",
                                      "讲义中写出的系数之和不超过 1"),
              by_hand["written"], "<=", 1.0, text("the rest stands behind the dots", "其余在省略号中")),
        check("note", "gru", text(f"{drawers} drawers: right answers of a GRU", f"{drawers} 个抽屉：GRU 的正确率"),
              most["gru"]["accuracy"], "<=", most["attention"]["accuracy"] - noise_between(ROWS),
              text("below attention by four standard errors", "比注意力低四个标准误")),
    ]  # fmt: skip


COLUMNS = [
    Column(key="arm", title=text("arm", "组")),
    Column(key="weights", title=text("weights", "参数数")),
    Column(key="drawers", title=text("drawers", "抽屉数")),
    Column(key="loss", title=text("last loss", "最后的损失")),
    Column(key="accuracy", title=text("right", "正确率")),
    Column(key="weight", title=text("weight on the right one", "正确者的权重")),
    Column(key="largest", title=text("it is the largest", "它最大的比例")),
    Column(key="entropy", title=text("entropy", "熵")),
]
LIMITS = [
    text(
        "The weight is on the right drawer because this task leaves attention no other way. Where "
        "the answer can be had without, weights need not show what mattered: see the lab explain.",
        "权重落在正确的抽屉上，是因为这个任务没有别的办法。若答案另有来路，权重未必说明什么重要：见实验 explain。",
    ),
]
STEPS = "4.注意力机制的实现步骤"
LAB = Lab(
    number=11,
    name="lookup",
    title=text("a filing cabinet learns where to look", "档案柜：学会看哪里"),
    quotes=(
        second("3.注意力机制的QKV", "注意力机制的核心是 Q、K、V 三个张量，用档案柜找文件的场景来理解",
               "At the heart of attention are three tensors, Q, K and V; think of finding a file in a filing cabinet."),
        second(STEPS, "得到注意力权重分布（一个系数数组）",
              "The attention weights are a distribution (an array of coefficients)."),
        second(STEPS, "第2步：权重分布与V加权求和", "Step 2: the sum of the values, each times its weight."),
        second(STEPS, "一开始权重分布可能不准确，但不要紧。注意力机制只是前向计算路径中的一个小策略，"
                      "最终靠损失函数和反向传播来更新权重参数",
               "At first the weights may be wrong, which does not matter: attention is a small strategy within the forward "
               "computation; in the end loss and back-propagation update the parameters."),
    ),
    design=Design(
        vary=text("the number of drawers; attention, attention whose weights are held even, a GRU",
                  "抽屉数；注意力、权重保持均匀的注意力、GRU"),
        fixed=text(f"{LABELS} labels, {CONTENTS} contents, one head, one block, weights to 5 %, batches, updates, Adam at "
                   "0.005",
                   f"{LABELS} 个标签，{CONTENTS} 种内容，一个头，一个块，参数数相差 5 % 以内，批次、更新次数、Adam 0.005"),
        measured=text("weight on the right drawer and entropy of the weights through training; right answers",
                      "训练过程中正确抽屉的权重与权重的熵；正确率"),
        control=text("before training the weight is elsewhere; with even weights the answer cannot always be found",
                     "训练前权重不在那里；权重均匀时不能总是找到答案"),
    ),
    expected="holds",
    sabotage=text("no gradient reaches queries, keys and embeddings", "梯度不到达查询、键与嵌入"),
    measure=_measure,
)  # fmt: skip

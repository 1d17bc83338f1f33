"""L18: residuals and norms: what comes back to the first block, and whether a deep stack learns at all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.architecture import Description, Targets
from regard.labs.frame.bounds import fit
from regard.labs.frame.build import built
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first
from regard.labs.frame.train import answers, train
from regard.labs.frame.values import Check, Column, Design, Measured, Plot, check, line, text
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense
from regard.layers.heads import Classify
from regard.layers.norms import LayerNorm, Norm
from regard.layers.stack import Stack

CLASSES, NOISE, LENGTH, WIDTH, BATCH, ROWS = 8, 8, 8, 32, 32, 512
DEPTHS = (2, 4, 8, 16)


@dataclass(frozen=True)
class _NoNorm:
    """Leaves a vector as it is."""

    def build(self, d_model: int) -> nn.Module:
        return nn.Identity()


@dataclass(frozen=True)
class _Arm:
    label: Any
    placement: Any = "post"
    norm: Norm = LayerNorm()
    residual: bool = True


ARMS = {
    "post": _Arm(text("residual and norm, as published", "残差与规范化（原文）")),
    "pre": _Arm(text("residual, norm before", "残差，规范化在前"), "pre"),
    "no-norm": _Arm(text("residual, no norm", "残差，无规范化"), norm=_NoNorm()),
    "no-residual": _Arm(text("norm, no residual", "规范化，无残差"), residual=False),
    "neither": _Arm(text("neither", "都没有"), norm=_NoNorm(), residual=False),
}


def _cut(block: Any) -> None:
    """Take the residual away: what is added to what a sub-layer gives is taken off it first. (Only in norm(x + f(x)), where
    the sub-layer is given x itself.)"""
    for part in (block.attention, block.feedforward):
        part.register_forward_hook(lambda _, given, out: out - given[0])


def _model(arm: str, depth: int, broken: bool, seed: int) -> Any:
    its = ARMS[arm]
    block = Block(Attention(4), Dense(2 * WIDTH), norm=its.norm, placement=its.placement)
    last = LayerNorm() if its.placement == "pre" else None
    model = built(
        Description(Classify(CLASSES + NOISE, "tokens"), Stack(WIDTH, Tokens(CLASSES + NOISE + 1), (block,) * depth, last)),
        torch.float32,
        seed,
    )
    if not its.residual or (broken and arm == "post"):
        for one in model.encoder.blocks:
            _cut(one)
    return model


def _texts(source: torch.Generator, rows: int = BATCH) -> dict[str, Any]:
    """Noise with one token that says the class: the first token must tell it, every other what it is itself."""
    ids = torch.randint(CLASSES, CLASSES + NOISE, (rows, LENGTH), generator=source)
    answer = torch.randint(0, CLASSES, (rows,), generator=source)
    place = torch.randint(1, LENGTH, (rows,), generator=source)
    ids[torch.arange(rows), place], ids[:, 0] = answer, CLASSES + NOISE
    return {"inputs": ids, "targets": Targets(torch.cat([answer[:, None], ids[:, 1:]], 1))}


def _right(model: Any, given: dict[str, Any]) -> float:
    """Right answers, of the first token or of the others, whichever are fewer."""
    said, wanted = answers(model, given)
    same = (said == wanted).float()
    return float(torch.minimum(same[:, 0].mean(), same[:, 1:].mean()))


def _slopes(model: Any, given: dict[str, Any]) -> tuple[list[float], float]:
    """Norm of the loss's derivative by what goes into each block, and the size of what comes out of the last."""
    seen: list[Tensor] = []
    hooks = [block.register_forward_pre_hook(lambda _, args: seen.append(args[0])) for block in model.encoder.blocks]
    last = model.encoder.blocks[-1].register_forward_hook(lambda _, __, out: seen.append(out))
    told = model(**given)
    found = torch.autograd.grad(told.loss_sum / told.count, seen)
    for hook in (*hooks, last):
        hook.remove()
    return [float(slope.norm()) for slope in found], float(seen[-1].detach().square().mean().sqrt())


def _measure(setting: Setting) -> Measured:
    depth, steps = setting.pick(8, 12, 24), setting.pick(150, 350, 1500)
    given = _texts(torch.Generator().manual_seed(setting.seed + 2), ROWS)
    rows: list[dict[str, Any]] = []
    facts: dict[str, dict[str, float]] = {}
    lines, curves = [], []
    for arm, its in ARMS.items():
        sizes = {n: _slopes(_model(arm, n, setting.broken, setting.seed), given)[1] for n in DEPTHS}
        model = _model(arm, depth, setting.broken, setting.seed)
        slopes, _ = _slopes(model, given)
        rate = fit(list(range(depth + 1)), [math.log(max(slope, 1e-38)) for slope in slopes])
        losses = train(model, _texts, steps, setting.seed, rate=2e-3)
        facts[arm] = {
            "lost": slopes[0] / slopes[-1], "rate": -rate.slope, "accuracy": _right(model, given),
                "grown": sizes[16] / sizes[2]
        }  # fmt: skip
        rows.append({"arm": its.label, "depth": depth, "loss": losses[-1]} | facts[arm])
        lines.append(line(label=its.label, x=list(range(depth + 1)), y=[max(slope, 1e-38) for slope in slopes]))
        curves.append(line(label=its.label, x=list(range(1, len(losses) + 1)), y=losses))
    its = facts["post"]
    finding = text(
        f"With {depth} blocks, residuals and norms {its['accuracy']:.0%} of the answers are right "
        f"after {steps} updates; without residuals {facts['no-residual']['accuracy']:.0%}, without "
        f"norms {facts['no-norm']['accuracy']:.0%}. The gradient at the first block is {its['lost']:.1e} "
        f"of that at the last, without residuals {facts['no-residual']['lost']:.1e}.",
        f"{depth} 个块，有残差与规范化时，{steps} 次更新后答对 {its['accuracy']:.0%}；无残差 "
        f"{facts['no-residual']['accuracy']:.0%}，无规范化 {facts['no-norm']['accuracy']:.0%}。第"
        f"一块处的梯度是最后一块处的 {its['lost']:.1e}，无残差时为 {facts['no-residual']['lost']:.1e}。",
    )
    plots = [
        Plot(title=text("gradient before each block", "各块之前的梯度"), x=text("block", "块"), y=text("norm", "范数"),
            lines=lines,
             log_y=True),
        Plot(title=text("loss", "损失"), x=text("update", "更新次数"), y=text("cross entropy", "交叉熵"), lines=curves),
    ]  # fmt: skip
    return Measured(columns=COLUMNS, rows=rows, checks=judge(facts), finding=finding, limits=LIMITS, plots=plots)


def judge(facts: dict[str, dict[str, float]]) -> list[Check]:
    """Checks of each arm's gradient, right answers, and growth with depth."""
    nine, chance = text("nine of ten", "十分之九"), text(f"twice chance, 2/{CLASSES}", f"随机猜测的两倍，2/{CLASSES}")
    post, cut = facts["post"], facts["no-residual"]
    return [
        check("claim", "learns", text("residual and norm: right answers", "残差与规范化：正确率"), post["accuracy"], ">=",
              0.9, nine),
        check("claim", "gradient", text("residual and norm: gradient at the first block, as a share of that at the last",
                                        "残差与规范化：第一块与最后一块处梯度之比"),
              post["lost"], ">=", 0.01, text("a hundredth: what is left can be learned from", "百分之一：剩下的仍可学习")),
        check("claim", "size", text("residual and norm: size of the result of 16 blocks against 2",
              "残差与规范化：16 块与 2 块输出大小之比"),
              post["grown"], "<=", 1.1, text("norms hold it at 1", "规范化使其保持为 1")),
        check("control", "cut", text("no residual: right answers", "无残差：正确率"), cut["accuracy"], "<=", 2 / CLASSES,
              chance),
        check("control", "bare", text("neither: right answers", "都没有：正确率"), facts["neither"]["accuracy"], "<=",
              2 / CLASSES, chance),
        check("note", "pre", text("norm before: right answers", "规范化在前：正确率"), facts["pre"]["accuracy"], ">=", 0.9,
              nine),
        check("note", "no-norm", text("residual alone: right answers", "只有残差：正确率"), facts["no-norm"]["accuracy"],
              ">=", 0.9, nine),
        check("note", "decay", text("no residual: log of the gradient a block", "无残差：每块的梯度对数变化"), cut["rate"],
              "<=", 0.0,
              text("it shrinks", "逐块缩小")),
    ]  # fmt: skip


COLUMNS = [
    Column(key="arm", title=text("arm", "组")),
    Column(key="depth", title=text("blocks", "块数")),
    Column(key="lost", title=text("gradient, first / last", "梯度，首/末")),
    Column(key="rate", title=text("log, a block", "每块对数")),
    Column(key="grown", title=text("size, 16 / 2 blocks", "大小，16/2 块")),
    Column(key="loss", title=text("last loss", "最后的损失")),
    Column(key="accuracy", title=text("right", "正确率")),
]
LIMITS = [
    text(
        "At this depth the learning hangs on the residuals, but not for want of gradient: norms keep its size "
        "without them, too. What is lost is which token is which: block after block attention makes them more alike.",
        "在这样的深度上，能否学会取决于残差，但原因并不是梯度消失：没有残差，规范化"
        "也能保持梯度的大小。失去的是各个词元的区别：注意力逐块把它们变得越来越相似。",
    ),
    text(
        "What norms are for is measured at one learning rate and one size only: without "
        "them the stack learns as well here, and what comes out of it grows with the depth.",
        "规范化的作用只在一个学习率与规模上测过：没有它，这里的堆叠照样能学会，只是输出随深度增大。",
    ),
]
LAB = Lab(
    number=18,
    name="depth",
    title=text("residuals and norms in a deep stack", "深层堆叠中的残差与规范化"),
    quotes=(
        first("Token Embedding", "残差连接 + Layer Normalization",
              "Residual connections + layer normalisation (in each layer of the encoder)"),
    ),
    design=Design(
        vary=text("residual and norm, on and off; norm after or before; the depth",
                  "残差与规范化的有无；规范化在后或在前；深度"),
        fixed=text(f"width {WIDTH}, the task, batches, updates, Adam at 0.002",
                   f"宽 {WIDTH}，任务、批次、更新次数、Adam 0.002"),
        measured=text("the gradient before each block; right answers after the training; the size of what comes out",
                      "各块之前的梯度；训练后的正确率；输出的大小"),
        control=text("without residuals the same stack must not learn", "没有残差的同一堆叠学不会"),
    ),
    expected="holds",
    sabotage=text("the residuals of the published arm are taken off", "去掉原文组的残差"),
    measure=_measure,
)  # fmt: skip

"""L15: a mixture of experts: how much of it each token uses, what that costs, and what the rest is worth."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.architecture import Description, Targets
from regard.labs.frame.bounds import EXACT, INTERVAL, ROUNDING, rounding, surely
from regard.labs.frame.build import built, number_of_weights
from regard.labs.frame.counts import flops
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first
from regard.labs.frame.train import train
from regard.labs.frame.values import Check, Column, Design, Measured, Plot, check, line, text
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.experts import Experts, expert_load
from regard.layers.feedforward import FeedForward, Gated
from regard.layers.heads import Classify
from regard.layers.stack import Stack

WIDTH, INNER, EXPERTS, ACTIVE = 32, 32, 8, 2
NAMES, ANSWERS, BATCH = 64, 32, 256
COUNTS = (4, 8, 16, 32)
ARMS: dict[str, FeedForward] = {
    "dense": Gated(ACTIVE * INNER),
    "experts": Experts(Gated(INNER), EXPERTS, ACTIVE, 0.01),
    "uneven": Experts(Gated(INNER), EXPERTS, ACTIVE, 0.0),
    "large": Gated(EXPERTS * INNER),
}
LABELS = {
    "dense": text("dense, as many active weights", "稠密，激活参数相同"),
    "experts": text(f"{EXPERTS} experts, {ACTIVE} active", f"{EXPERTS} 个专家，激活 {ACTIVE} 个"),
    "uneven": text("the same without balance", "同上，无均衡项"),
    "large": text("dense, as many weights in all", "稠密，总参数相同"),
}


def _model(feedforward: FeedForward, seed: int) -> Any:
    block = Block(Attention(4), feedforward)
    stack = Stack(WIDTH, Tokens(2 * NAMES), (block,))
    return built(Description(Classify(ANSWERS, "last"), stack), torch.float32, seed)


def _active(model: Any) -> int:
    """Weights that one token passes: of experts only the chosen."""
    experts = [m for m in model.modules() if hasattr(m, "router")]
    idle = sum((m.expand.numel() + m.contract.numel()) // m.count * (m.count - m.active) for m in experts)
    return number_of_weights(model) - idle


class _Facts:
    """A table to learn by heart: for each pair of names an answer that no rule gives."""

    def __init__(self, seed: int) -> None:
        self.table = torch.randint(0, ANSWERS, (NAMES, NAMES), generator=torch.Generator().manual_seed(seed + 3))

    def ask(self, source: torch.Generator) -> dict[str, Any]:
        pair = torch.randint(0, NAMES, (2, BATCH), generator=source)
        return {"inputs": torch.stack([pair[0], NAMES + pair[1]], 1), "targets": Targets(self.table[pair[0], pair[1]])}


def _touched(feedforward: FeedForward) -> int:
    """How many experts have a gradient after one token."""
    module: Any = feedforward.build(WIDTH)
    module(torch.randn(1, 1, WIDTH)).sum().backward()
    return int((module.expand.grad.flatten(1).abs().sum(1) > 0).sum())


@torch.no_grad()
def _mixture() -> float:
    """All experts active, less the mixture written out: the softmax of the router times each expert's result."""
    module: Any = Experts(Gated(INNER), EXPERTS, EXPERTS).build(WIDTH).double()
    x = torch.randn(20, 1, WIDTH, dtype=torch.float64)
    share = module.router(x).softmax(-1)
    each = []
    for number in range(EXPERTS):
        gate, value = (x @ module.expand[number].T).chunk(2, -1)
        each.append(module.activation(gate) * value @ module.contract[number].T)
    return float((module(x) - (share[..., None] * torch.stack(each, -2)).sum(-2)).abs().max())


def _operations(count: int, active: int) -> int:
    """Operations for 64 tokens, the router's left out."""
    module, x = Experts(Gated(INNER), count, active).build(WIDTH), torch.randn(64, 1, WIDTH)
    return flops(lambda: module(x)) - 2 * 64 * WIDTH * count


def _measure(setting: Setting) -> Measured:
    steps, seeds = setting.pick(120, 800, 2500), setting.pick(2, 3, 5)
    rows: list[dict[str, Any]] = []
    losses: dict[str, list[float]] = {}
    curves: dict[str, list[float]] = {}
    shares: dict[str, Tensor] = {}
    for arm in ARMS if not setting.broken else ("dense", "experts"):
        for seed in range(setting.seed, setting.seed + (seeds if arm in ("dense", "experts") else 1)):
            model = _model(_sabotaged(arm, setting.broken), seed)
            facts = _Facts(seed)
            curve = train(model, facts.ask, steps, seed, rate=1e-2)
            curves.setdefault(arm, curve)
            losses.setdefault(arm, []).append(sum(curve[-20:]) / 20)
            row = {"arm": LABELS[arm], "seed": seed, "weights": number_of_weights(model), "active": _active(model)}
            if hasattr(ARMS[arm], "count"):
                with torch.no_grad(), expert_load(model) as load:
                    model(facts.ask(torch.Generator().manual_seed(seed))["inputs"])
                shares[arm] = load.shares()[0]
                row["busiest"] = float(shares[arm].max())
            rows.append(row | {"loss": losses[arm][-1]})
    active = EXPERTS if setting.broken else ACTIVE
    exact = {
        "touched": _touched(Experts(Gated(INNER), EXPERTS, active)), "mixture": _mixture(),
        "operations": [_operations(count, count if setting.broken else ACTIVE) for count in COUNTS],
        "all": _touched(Experts(Gated(INNER), EXPERTS, EXPERTS)),
    }  # fmt: skip
    plots = [
        Plot(title=text("loss", "损失"), x=text("update", "更新次数"), y=text("cross entropy", "交叉熵"),
             lines=[line(label=LABELS[arm], x=list(range(1, steps + 1)), y=its) for arm, its in curves.items()]),
    ]  # fmt: skip
    checks = judge(exact, losses, {arm: next(r for r in rows if r["arm"] == LABELS[arm]) for arm in losses})
    return Measured(columns=COLUMNS, rows=rows, checks=checks, finding=_finding(losses, rows), limits=LIMITS, plots=plots)


def _sabotaged(arm: str, broken: bool) -> FeedForward:
    return Experts(Gated(INNER), EXPERTS, EXPERTS, 0.01) if broken and arm == "experts" else ARMS[arm]


def _finding(losses: dict[str, list[float]], rows: list[dict[str, Any]]) -> Any:
    mean = {arm: sum(its) / len(its) for arm, its in losses.items()}
    its = next(row for row in rows if row["arm"] == LABELS["experts"])
    return text(
        f"A token passes {its['active']:,} of {its['weights']:,} weights. After as many updates the experts' "
        f"loss is {mean['experts']:.3f}, that of a dense layer with as many active weights {mean['dense']:.3f}.",
        f"每个词元经过 {its['weights']:,} 个参数中的 {its['active']:,} 个。同样的更新次数后，"
        f"专家混合的损失为 {mean['experts']:.3f}，激活参数相同的稠密层为 {mean['dense']:.3f}。",
    )


def judge(exact: dict[str, Any], losses: dict[str, list[float]], first_rows: dict[str, dict[str, Any]]) -> list[Check]:
    """Checks of what is counted and of the losses of equal seeds."""
    better = surely([dense - experts for dense, experts in zip(losses["dense"], losses["experts"])])
    sizes = first_rows["experts"]["active"] / first_rows["dense"]["active"]
    made = [
        check("claim", "touched", text("experts with a gradient after one token", "一个词元之后有梯度的专家数"),
              exact["touched"],
              "==", ACTIVE, EXACT),
        check("claim", "operations", text(f"operations of {COUNTS[-1]} experts less those of {COUNTS[0]}, router left out",
                                          f"{COUNTS[-1]} 个与 {COUNTS[0]} 个专家的运算量之差（不计路由）"),
              exact["operations"][-1] - exact["operations"][0], "==", 0, EXACT),
        check("claim", "better", text("loss: dense less experts, at as many active weights",
              "损失：激活参数相同时，稠密减专家"),
              better, ">=", 0.0, INTERVAL),
        check("control", "all", text("with all experts active: experts with a gradient after one token",
                                     "全部激活时：一个词元之后有梯度的专家数"), exact["all"], "==", EXPERTS, EXACT),
        check("note", "mixture", text("all active, less the mixture written out", "全部激活时与逐项写出的混合之差"),
              exact["mixture"],
              "<=", rounding(torch.float64, EXPERTS * INNER, 4.0), ROUNDING),
        check("note", "budget", text("active weights, experts against dense", "激活参数之比：专家与稠密"), sizes, "<=", 1.05,
              text("equal to 5 %: the router's are more", "相差 5 % 以内：多出的是路由")),
    ]  # fmt: skip
    if "uneven" in first_rows:
        made.append(
            check("note", "balance", text("share of the busiest expert, with balance less without",
                  "最忙专家的份额：有均衡项减无均衡项"),
                  first_rows["experts"]["busiest"] - first_rows["uneven"]["busiest"], "<=", 0.0,
                  text("the loss of balance evens out", "均衡损失使其均匀"))
        )  # fmt: skip
    return made


COLUMNS = [
    Column(key="arm", title=text("arm", "组")),
    Column(key="seed", title=text("seed", "种子")),
    Column(key="weights", title=text("weights", "参数数")),
    Column(key="active", title=text("active", "激活")),
    Column(key="busiest", title=text("busiest expert", "最忙专家的份额")),
    Column(key="loss", title=text("last loss", "最后的损失")),
]
LIMITS = [
    text(
        "Only computation is saved: all experts must be kept in memory, and at "
        "this size on a CPU choosing among them costs more time than it saves.",
        "节省的只是计算：所有专家都要放在内存里；在这样的规模与 CPU 上，选择专家的时间比省下的还多。",
    ),
]
LAB = Lab(
    number=15,
    name="moe",
    title=text("a mixture of experts, of which few are active", "混合专家，只激活少数"),
    quotes=(
        first("后续用途 / 连接", "混合专家（MoE，只激活部分参数）",
              "… a mixture of experts (MoE, only part of the parameters is active)"),
    ),
    design=Design(
        vary=text("dense or experts; how many; with or without the loss of balance", "稠密或专家；专家数；有无均衡损失"),
        fixed=text(f"one block of width {WIDTH}, active weights to 5 %, batches, updates, Adam at 0.01; "
                   f"{NAMES * NAMES:,} facts to learn by heart",
                   f"一个块，宽 {WIDTH}，激活参数相差 5 % 以内，批次、更新次数、Adam 0.01；需记住 {NAMES * NAMES:,} 条事实"),
        measured=text("experts with a gradient, operations, loss", "有梯度的专家数、运算量、损失"),
        control=text("with all experts active every one has a gradient", "全部激活时每个专家都有梯度"),
    ),
    expected="holds",
    sabotage=text("every token passes all experts", "每个词元都经过所有专家"),
    measure=_measure,
)  # fmt: skip

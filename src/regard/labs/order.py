"""L4: does A come before B? Attention without positions cannot tell, however long it is trained."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.architecture import Description, Targets
from regard.labs.frame.bounds import EXACT, ROUNDING, rounding
from regard.labs.frame.build import number_of_weights, recurrent, shifted_embeddings, stack
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first
from regard.labs.frame.values import Check, Column, Design, Line, Measured, Plot, check, text
from regard.layers.heads import Classify
from regard.layers.masks import Causal
from regard.layers.positions import Learned, Rotary, Sinusoidal

LENGTH, VOCAB, WIDTH, GRU_WIDTH, BATCH = 8, 12, 32, 37, 64
FIRST, SECOND = 1, 2
"""The tokens A and B; those above are fillers."""
ARMS = {
    "none": text("attention, no positions", "注意力，无位置编码"),
    "sinusoidal": text("attention, sinusoids", "注意力，正弦"),
    "learned": text("attention, learned positions", "注意力，学习的位置"),
    "rotary": text("attention, rotary positions", "注意力，旋转位置"),
    "gru": text("GRU", "GRU"),
    "causal": text("causal attention, no positions", "因果注意力，无位置编码"),
}
TOLD = 0.98


def _model(arm: str, broken: bool) -> Any:
    sizes: dict[str, Any] = {"d_model": WIDTH, "vocab_size": VOCAB, "num_layers": 1}
    made = {
        "sinusoidal": lambda: stack(position=Sinusoidal(), **sizes),
        "learned": lambda: stack(position=Learned(LENGTH), **sizes),
        "rotary": lambda: stack(turning=Rotary(), **sizes),
        "causal": lambda: stack(Causal(), **sizes),
        "gru": lambda: recurrent("gru", GRU_WIDTH, VOCAB),
    }
    torch.manual_seed(0)
    half = made.get(arm, lambda: stack(**sizes))()
    model = Description(Classify(2, "last" if arm == "gru" else "mean"), half).build()
    if broken and arm == "none":
        shifted_embeddings(model.encoder, 0.05)
    return model


def _texts(count: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Int[count 8] with one A and one B among fillers, and Int[count], 1 where A is first."""
    ids = torch.randint(3, VOCAB, (count, LENGTH), generator=source)
    places = torch.rand(count, LENGTH, generator=source).argsort(1)[:, :2]
    rows = torch.arange(count)
    ids[rows, places[:, 0]], ids[rows, places[:, 1]] = FIRST, SECOND
    return ids, (places[:, 0] < places[:, 1]).long()


def _train(model: Any, steps: int, seed: int) -> list[float]:
    """The same batches for every arm, Adam; the loss at each step."""
    source, losses = torch.Generator().manual_seed(seed + 1), []
    adam = torch.optim.Adam(model.parameters(), lr=5e-3, fused=True)
    for _ in range(steps):
        ids, answer = _texts(BATCH, source)
        told = model(ids, targets=Targets(answer))
        loss = told.loss_sum / told.count
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(float(loss.detach()))
    return losses


@torch.no_grad()
def _tested(model: Any, seed: int) -> tuple[float, float]:
    """Accuracy on unseen texts and their reversals, and the largest difference between the logits of the two."""
    ids, answer = _texts(512, torch.Generator().manual_seed(seed + 2))
    model = model.double().eval()
    given, turned = model(ids).logits, model(ids.flip(1)).logits
    right = (given.argmax(1) == answer).sum() + (turned.argmax(1) == 1 - answer).sum()
    return float(right) / (2 * len(ids)), float((given - turned).abs().max())


def _measure(setting: Setting) -> Measured:
    steps = setting.pick(100, 300, 1500)
    rows: list[dict[str, Any]] = []
    losses: dict[str, list[float]] = {}
    for arm, label in ARMS.items():
        model = _model(arm, setting.broken)
        losses[arm] = _train(model, steps, setting.seed)
        accuracy, difference = _tested(model, setting.seed)
        its = {"arm": label, "weights": number_of_weights(model), "steps": steps, "loss": losses[arm][-1]}
        rows.append(its | {"accuracy": accuracy, "difference": difference})
    by_arm = dict(zip(ARMS, rows))
    finding = text(
        f"Without positions the logits of a text and of its reversal are equal to {by_arm['none']['difference']:.0e}, so "
        f"{by_arm['none']['accuracy']:.1%} of the answers are right; with sinusoids "
        f"{by_arm['sinusoidal']['accuracy']:.1%}, GRU "
        f"{by_arm['gru']['accuracy']:.1%}, causal attention without positions {by_arm['causal']['accuracy']:.1%}.",
        f"没有位置编码时，一个序列与其倒序的 logits 相差 {by_arm['none']['difference']:.0e}，因此答对 "
        f"{by_arm['none']['accuracy']:.1%}；"
        f"加正弦位置编码 {by_arm['sinusoidal']['accuracy']:.1%}，GRU {by_arm['gru']['accuracy']:.1%}，"
        f"无位置编码的因果注意力 {by_arm['causal']['accuracy']:.1%}。",
    )
    lines = [Line(label=ARMS[arm], x=list(range(1, steps + 1)), y=its) for arm, its in losses.items()]
    plot = Plot(title=text("loss", "损失"), x=text("step", "步"), y=text("cross entropy", "交叉熵"), lines=lines)
    return Measured(columns=COLUMNS, rows=rows, checks=_checks(by_arm), finding=finding, limits=LIMITS, plots=[plot])


def _checks(rows: dict[str, dict[str, Any]]) -> list[Check]:
    sure = text(
        "chance is 0.5 ± 0.016 (one standard error of 1,024 answers)", "随机猜测为 0.5 ± 0.016（1,024 个回答的一个标准误）"
    )
    size = max(1.0, 4 * rows["none"]["loss"])
    made = [
        check("claim", "equal", text("no positions: |logits of a text - of its reversal|",
        "无位置编码：|序列的 logits - 倒序的 logits|"),
              rows["none"]["difference"], "<=", rounding(torch.float64, 6 * WIDTH, 4 * size), ROUNDING, 1),
        check("claim", "chance", text("no positions: share of right answers on pairs", "无位置编码：成对数据上的正确率"),
              rows["none"]["accuracy"], "==", 0.5, EXACT, 1),
    ]  # fmt: skip
    for arm in ("sinusoidal", "learned", "rotary", "gru"):
        what = text(f"{ARMS[arm].en}: share of right answers", f"{ARMS[arm].zh}：正确率")
        made.append(check("claim", arm, what, rows[arm]["accuracy"], ">=", TOLD, sure, 2))
    weights = [its["weights"] for its in rows.values()]
    return [
        *made,
        check("control", "task", text("the task can be learned in as many steps: sinusoids and GRU, the worse of the two",
                                      "同样步数内任务可以学会：正弦与 GRU 中较差者"),
              min(rows["sinusoidal"]["accuracy"], rows["gru"]["accuracy"]), ">=", TOLD, sure),
        check("control", "budget", text("most weights of an arm, against fewest", "各组参数数的最大与最小之比"),
              max(weights) / min(weights), "<=", 1.05, text("equal budgets to 5 %", "预算相差不超过 5 %")),
        check("limit", "causal", text("causal attention tells without positions: share of right answers",
                                      "因果注意力无需位置编码也能分辨：正确率"), rows["causal"]["accuracy"], ">=", TOLD,
                                      sure),
    ]  # fmt: skip


COLUMNS = [
    Column(key="arm", title=text("arm", "组")),
    Column(key="weights", title=text("weights", "参数数")),
    Column(key="steps", title=text("steps", "步数")),
    Column(key="loss", title=text("last loss", "最后的损失")),
    Column(key="accuracy", title=text("right", "正确率")),
    Column(key="difference", title=text("|logits - reversed|", "|logits - 倒序|")),
]
LIMITS = [
    text(
        "That attention without positions answers half of the pairs right is an identity, not a failure to train: both "
        "texts of a "
        "pair get the same answer.",
        "无位置编码的注意力恰好答对一半，是恒等式，而不是没有训练好：一对序列得到同样的答案。",
    ),
    text(
        "It is true of attention that sees everything. A causal mask tells order without any positions.",
        "这只适用于能看到全部词元的注意力。因果掩码不需要位置编码也能分辨顺序。",
    ),
]
LAB = Lab(
    number=4,
    name="order",
    title=text("does A come before B?", "A 在 B 之前吗？"),
    quotes=(
        first("例题：排列不变性的验证", "模型无法区分“A 在第 1 位”和“A 在第 3 位”——所有位置的信息都等价。",
              "The model cannot tell “A is first” from “A is third”: all positions say the same."),
        first("维度 | RNN | Transformer", "位置信息 | 隐式（通过时间步） | 显式（位置编码）",
              "Position | implicit (by time steps) | explicit (positional encoding)"),
    ),
    design=Design(
        vary=text("what tells positions: nothing, sinusoids, a learned table, rotation; a recurrence; a causal mask",
                  "位置信息的来源：无、正弦、学习的表、旋转；循环；因果掩码"),
        fixed=text(f"{LENGTH} tokens, weights to 5 %, batches, steps, Adam at 0.005",
        f"{LENGTH} 个词元，参数数相差 5 % 以内，批次、步数、Adam 0.005"),
        measured=text("right answers on unseen texts and their reversals; difference of the logits of the two",
                      "未见序列及其倒序上的正确率；两者 logits 之差"),
        control=text("sinusoids and a GRU must learn the task in as many steps", "正弦位置编码与 GRU 必须在同样步数内学会"),
    ),
    expected="holds_with_limits",
    sabotage=text("0.05 × position leaks into the embeddings of the arm without", "向无位置编码组的嵌入中泄漏 0.05 × 位置"),
    measure=_measure,
)  # fmt: skip

"""L12: several heads: the same work in parallel groups, and what each comes to look at."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.architecture import Description, Targets
from regard.inspection.tape import record
from regard.labs.frame.bounds import EXACT, ROUNDING, noise_between, rounding
from regard.labs.frame.build import built, number_of_weights, stack
from regard.labs.frame.counts import flops
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first
from regard.labs.frame.train import answers, train
from regard.labs.frame.values import Check, Column, Design, Measured, Plot, check, text
from regard.layers.attention import Attention
from regard.layers.frame import Frame
from regard.layers.heads import Classify
from regard.layers.masks import Everything
from regard.layers.positions import Sinusoidal
from regard.layout import Layout

LABELS, CONTENTS, WIDTH, BATCH, ROWS = 12, 6, 48, 64, 1024
ASK = LABELS * CONTENTS
HEADS = (1, 2, 4, 8)
SHOWN = 4
"""The number of heads whose roles are looked at."""
ROLES = {"label": text("the item of that label", "标签相同的项"), "before": text("the item before", "前一项")}


def _texts(source: torch.Generator, items: int, rows: int = BATCH) -> tuple[dict[str, Any], Tensor]:
    """Items, label × 6 + content, and a question, a label: the answer is the content of the item of that label and of the
    item just before the question, as one of 36 classes. Int[rows]: where the item of that label stands."""
    labels = torch.rand(rows, LABELS, generator=source).argsort(1)[:, :items]
    contents = torch.randint(0, CONTENTS, (rows, items), generator=source)
    asked = torch.randint(0, items - 1, (rows, 1), generator=source)
    ids = torch.cat([labels * CONTENTS + contents, ASK + labels.gather(1, asked)], 1)
    answer = contents.gather(1, asked)[:, 0] * CONTENTS + contents[:, -1]
    return {"inputs": ids, "targets": Targets(answer)}, asked[:, 0]


def _draw(source: torch.Generator) -> dict[str, Any]:
    return _texts(source, int(torch.randint(4, 10, (), generator=source)))[0]


def _test(seed: int) -> tuple[dict[str, Any], Tensor]:
    return _texts(torch.Generator().manual_seed(seed + 2), 8, ROWS)


def _shares(model: Any, given: dict[str, Any]) -> dict[str, float]:
    """Right answers in all, and of each of the two look-ups."""
    said, wanted = answers(model, given)
    label, before = (said // CONTENTS == wanted // CONTENTS), (said % CONTENTS == wanted % CONTENTS)
    return {"both": float((said == wanted).float().mean()), "label": float(label.float().mean()),
            "before": float(before.float().mean())}  # fmt: skip


def _looking(model: Any, given: dict[str, Any], place: Tensor) -> dict[str, list[float]]:
    """For each role and head, the question's mean weight there."""
    with torch.no_grad(), record(model) as tape:
        model(given["inputs"])
    last = tape.weights(tape.names[0])[:, :, -1]
    where = {"label": place, "before": torch.full_like(place, last.shape[2] - 2)}
    return {
        role: last.gather(2, at[:, None, None].expand(-1, last.shape[1], 1)).mean((0, 2)).tolist()
        for role, at in where.items()
    }


def _without(model: Any, given: dict[str, Any], heads: list[int]) -> dict[str, float]:
    """Right answers with what these heads say taken out."""
    attention = model.encoder.blocks[0].attention

    def silence(_: Any, __: Any, out: Tensor) -> Tensor:
        return out.index_fill(1, torch.tensor(heads, dtype=torch.long), 0.0)

    hook = attention.attend.register_forward_hook(silence)
    try:
        return _shares(model, given)
    finally:
        hook.remove()


def _alike(_: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sabotage: all heads ask and answer as the first."""
    q, k, *rest = given
    return (q[:, :1].expand_as(q), k[:, :1].expand_as(k), *rest)


@torch.no_grad()
def _groups() -> tuple[float, list[int]]:
    """Largest difference between 4 heads at once and the sum of 4 single ones, and the operations of 1, 2, 4, 8 heads."""
    layout = Layout.unpadded(10)
    frame, x = Frame.of([Everything()], layout, layout), torch.randn(2, 10, 64, dtype=torch.float64)
    whole = Attention(4, bias=False).build(64).double()
    parts = torch.zeros_like(x)
    for number in range(4):
        one = Attention(1, head_dim=16, bias=False).build(64).double()
        rows = torch.cat([torch.arange(16) + 16 * number + 64 * part for part in range(3)])
        one.qkv.weight.copy_(whole.qkv.weight[rows])
        one.output.weight.copy_(whole.output.weight[:, 16 * number : 16 * (number + 1)])
        parts += one(x, frame)
    counted = [flops(lambda h=h: Attention(h).build(64)(x.float(), frame)) for h in HEADS]
    return float((whole(x, frame) - parts).abs().max()), counted


def _measure(setting: Setting) -> Measured:
    steps = setting.pick(700, 1500, 5000)
    given, place = _test(setting.seed)
    rows: list[dict[str, Any]] = []
    shown: dict[str, Any] = {}
    for heads in HEADS:
        sizes: dict[str, Any] = {"d_model": WIDTH, "num_layers": 1, "num_heads": heads, "vocab_size": ASK + LABELS}
        model = built(Description(Classify(CONTENTS**2, "last"), stack(position=Sinusoidal(), **sizes)), torch.float32)
        if setting.broken:
            model.encoder.blocks[0].attention.attend.register_forward_pre_hook(_alike)
        before = _looking(model, given, place)
        losses = train(model, _draw, steps, setting.seed, rate=5e-3)
        rows.append({"heads": heads, "weights": number_of_weights(model), "loss": losses[-1]} | _shares(model, given))
        if heads == SHOWN:
            shown = _roles(model, given, place) | {"begin": before}
    difference, counted = _groups()
    for row, count in zip(rows, counted):
        row["operations"] = count
    return Measured(
        columns=COLUMNS, rows=rows, checks=judge(rows, shown, difference), finding=_finding(rows, shown), limits=LIMITS,
        plots=[Plot(title=text("mean weight: rows are heads", "平均权重：每行一个头"), x=text("label, before",
            "同标签、前一项"),
                    y=text("head", "头"), cells=[list(pair) for pair in zip(*(shown["after"][role] for role in ROLES))])],
    )  # fmt: skip


def _roles(model: Any, given: dict[str, Any], place: Tensor) -> dict[str, Any]:
    """Where each head looks; the heads of each role, those that look there more; and what is right without them."""
    after, whole = _looking(model, given, place), _shares(model, given)
    mine = [a > b for a, b in zip(after["label"], after["before"])]
    groups = {role: [n for n, its in enumerate(mine) if its == (role == "label")] for role in ROLES}
    lost = {}
    for role, heads in groups.items():
        left = _without(model, given, heads)
        lost[role] = {other: whole[other] - left[other] for other in ROLES}
    return {"after": after, "groups": groups, "lost": lost}


def _finding(rows: list[dict[str, Any]], shown: dict[str, Any]) -> Any:
    lost = shown["lost"]
    right = ", ".join(f"{row['heads']}: {row['both']:.0%}" for row in rows)
    return text(
        f"Right answers by number of heads: {right}. Of {SHOWN} heads, without those that look at the "
        f"label the first look-up loses {lost['label']['label']:.0%} and the second {lost['label']['before']:.0%}; "
        f"without the others {lost['before']['label']:.0%} and {lost['before']['before']:.0%}.",
        f"按头数的正确率：{right}。{SHOWN} 个头中，去掉看标签的头，第一个查找下降 "
        f"{lost['label']['label']:.0%}，第二个 {lost['label']['before']:.0%}；去掉其余"
        f"的头，分别下降 {lost['before']['label']:.0%} 与 {lost['before']['before']:.0%}。",
    )


def judge(rows: list[dict[str, Any]], shown: dict[str, Any], difference: float) -> list[Check]:
    """Checks of right answers by number of heads, the roles of one model's heads, and the sum of single heads."""
    counted = [row["operations"] for row in rows]
    lost, apart = shown["lost"], text("four standard errors of the difference", "差值的四个标准误")
    own = min(lost[role][role] - lost[role][other] for role, other in (("label", "before"), ("before", "label")))
    one, two = rows[0]["both"], rows[1]["both"]
    return [
        check("claim", "groups", text("4 heads at once, less the sum of 4 single ones", "4 个头一起计算，减去 4 个单头之和"),
              difference, "<=", rounding(torch.float64, 3 * 64), ROUNDING, 1),
        check("claim", "operations", text("operations of 8 heads less those of 1, of the same width",
              "同宽度下 8 个头与 1 个头的运算量之差"),
              counted[-1] - counted[0], "==", 0, EXACT, 1),
        check("claim", "roles",
              text(f"{SHOWN} heads: taking out the heads of one role costs that look-up more than the other, "
                                     "the lesser of both roles",
                                     f"{SHOWN} 个头：去掉一种头时，自己的查找比另一个多下降多少（两种中较小者）"),
              own, ">=", 2 * noise_between(ROWS), apart, 2),
        check("control", "begin", text("before training: largest mean weight of a head on one of the two items",
                                       "训练前：各头对两项的最大平均权重"),
              max(max(its) for its in shown["begin"].values()), "<=", 0.3, text("even weights give 1/9", "均匀时为 1/9")),
        check("control", "learned", text("both look-ups at once can be learned: best number of heads",
              "两个查找可以同时学会：最好的头数"),
              max(row["label"] for row in rows), ">=", 0.9, text("nine of ten", "十分之九")),
        check("limit", "single", text("one head as good as two: right answers less theirs", "一个头与两个头的正确率之差"),
              one - two, ">=", -noise_between(ROWS), apart, 2),
    ]  # fmt: skip


COLUMNS = [
    Column(key="heads", title=text("heads", "头数")),
    Column(key="weights", title=text("weights", "参数数")),
    Column(key="operations", title=text("operations", "运算量")),
    Column(key="loss", title=text("last loss", "最后的损失")),
    Column(key="both", title=text("both right", "两者都对")),
    Column(key="label", title=text("of that label", "同标签项")),
    Column(key="before", title=text("the one before", "前一项")),
]
LIMITS = [
    text(
        "That heads come to look at different things is measured here on a task with "
        "two relations. Which relations the heads of a trained translator serve (grammar, "
        "meaning) is not measured by this, and their names must not be wished for.",
        "这里在含两种关系的任务上测到各头各看一处。训练好的翻译模型的"
        "头对应哪些关系（语法、语义）并未由此测出，也不能凭愿望命名。",
    ),
]
LAB = Lab(
    number=12,
    name="heads",
    title=text("several heads, several relations", "多个头，多种关系"),
    quotes=(
        first("Scaled Dot-Product Attention", "并行运行 h 组独立的 Self-Attention（各有 Q,K,V），拼接后线性投影。",
              "h independent groups of self-attention run in parallel (each with Q, K, V), are concatenated and projected."),
        first("Scaled Dot-Product Attention", "多头让模型同时关注不同类型的关系（语法、语义、位置关系等）。",
              "Several heads let the model attend to relations of different kinds at once (grammar, meaning, position …)."),
    ),
    design=Design(
        vary=text("the number of heads, 1 to 8", "头数，1 到 8"),
        fixed=text(f"one block of width {WIDTH}, weights, batches, updates, Adam at 0.005; two look-ups in one answer",
                   f"一个块，宽 {WIDTH}，参数数、批次、更新次数、Adam 0.005；一个答案需要两个查找"),
        measured=text("right answers; where each head looks; what is lost without the heads of one role",
                      "正确率；每个头看哪里；去掉一种头后损失多少"),
        control=text("before training no head looks at either item more than at others", "训练前没有一个头偏重这两项"),
    ),
    expected="holds",
    sabotage=text("all heads ask and answer as the first", "所有头的查询与键都与第一个头相同"),
    measure=_measure,
)  # fmt: skip

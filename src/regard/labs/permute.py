"""L1: without positions, self-attention only reorders its outputs when its inputs are reordered."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from regard.labs.frame.bounds import ROUNDING, VISIBLE, rounding
from regard.labs.frame.build import D_MODEL, VOCAB, built, recurrent, shifted_embeddings, stack
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first
from regard.labs.frame.values import Check, Column, Design, Line, Measured, Plot, Text, check
from regard.layers.masks import Causal
from regard.layers.positions import Sinusoidal
from regard.layout import Layout

ARMS = {
    "plain": Text(en="self-attention alone", zh="只有自注意力"),
    "pooled": Text(en="the same, averaged over tokens", zh="同左，再对词元取平均"),
    "positions": Text(en="with sinusoidal positions", zh="加正弦位置编码"),
    "causal": Text(en="with a causal mask, no positions", zh="加因果掩码，无位置编码"),
    "rnn": Text(en="RNN", zh="RNN"),
}
KINDS = {"float64": torch.float64, "float32": torch.float32}


def _model(arm: str, dtype: torch.dtype, broken: bool) -> Any:
    parts = {"positions": stack(position=Sinusoidal()), "causal": stack(Causal()), "rnn": recurrent()}
    model = built(parts.get(arm, stack()), dtype)
    if broken and arm in ("plain", "pooled"):
        shifted_embeddings(model, 1e-3)
    return model


def _orders(length: int, count: int) -> Tensor:
    """Int[P n]: all orders but the first one if there are few, else `count` drawn ones."""
    if length <= 4:
        return torch.tensor(list(permutations(range(length)))[1:])
    return torch.stack([torch.randperm(length) for _ in range(count)])


@torch.no_grad()
def _moved(arm: str, model: Any, ids: Tensor, orders: Tensor) -> tuple[float, float]:
    """Largest |P f(X) - f(P X)|, and largest |f(X) - f(P X)|, over all orders."""
    layout = Layout.unpadded(len(ids))
    given = model(ids[None], layout).states
    reordered = model(ids[orders], layout).states
    if arm == "pooled":
        given, reordered = given.mean(1, keepdim=True), reordered.mean(1, keepdim=True)
        follows = given
    else:
        follows = given[0][orders]
    return float((follows - reordered).abs().max()), float((given - reordered).abs().max())


def _measure(setting: Setting) -> Measured:
    rows: list[dict[str, Any]] = []
    for length in (3, setting.pick(16, 64, 128)):
        ids, orders = torch.randperm(VOCAB).repeat(2)[:length], _orders(length, setting.pick(20, 200, 1000))
        for kind, dtype in KINDS.items():
            for arm in ARMS:
                follows, stays = _moved(arm, _model(arm, dtype, setting.broken), ids, orders)
                its = {"arm": ARMS[arm], "key": arm, "dtype": kind, "n": length, "orders": len(orders)}
                rows.append(its | {"follows": follows, "stays": stays})

    def of(arm: str, kind: str, which: str) -> list[float]:
        return [row[which] for row in rows if row["key"] == arm and row["dtype"] == kind]

    plain, placed = max(of("plain", "float64", "follows")), min(of("positions", "float64", "follows"))
    causal = min(of("causal", "float64", "follows"))
    finding = Text(
        en=f"Without positions the outputs follow the reordering to {plain:.1e} (float64); with sinusoids they differ "
        "from it by "
        f"{placed:.2f}, under a causal mask without any positions by {causal:.2f}.",
        zh=f"没有位置编码时，输出跟随重排，误差为 {plain:.1e}（float64）；加正弦位置编码后相差 {placed:.2f}，"
        f"只加因果掩码、不加位置编码也相差 {causal:.2f}。",
    )
    columns = [
        Column(key="arm", title=Text(en="arm", zh="组")),
        Column(key="dtype", title=Text(en="type", zh="数值类型")),
        Column(key="n", title=Text(en="tokens", zh="词元数")),
        Column(key="orders", title=Text(en="orders", zh="排列数")),
        Column(key="follows", title=Text(en="max |P f(X) - f(P X)|", zh="最大 |P f(X) - f(P X)|")),
        Column(key="stays", title=Text(en="max |f(X) - f(P X)|", zh="最大 |f(X) - f(P X)|")),
    ]
    return Measured(
        columns=columns,
        rows=[{key: value for key, value in row.items() if key != "key"} for row in rows],
        checks=_checks(of, max(row["n"] for row in rows)),
        finding=finding,
        limits=LIMITS,
        plots=[_plot(of)],
    )


def _checks(of: Any, longest: int) -> list[Check]:
    made = []
    terms = 2 * (6 * D_MODEL + longest)  # the longest chain of additions through two blocks
    for kind, dtype in KINDS.items():
        bound = rounding(dtype, terms, size=4.0)
        what = Text(en=f"reordered input, reordered output ({kind})", zh=f"输入重排，输出随之重排（{kind}）")
        made.append(check("claim", f"follows-{kind}", what, max(of("plain", kind, "follows")), "<=", bound, ROUNDING))
    for arm in ("positions", "rnn"):
        what = Text(en=f"{ARMS[arm].en}: the output does not follow", zh=f"{ARMS[arm].zh}：输出不跟随")
        made.append(check("control", f"not-{arm}", what, min(of(arm, "float64", "follows")), ">=", 0.1, VISIBLE))
    what = Text(en="reordered is not unchanged: |f(X) - f(P X)|", zh="重排不等于不变：|f(X) - f(P X)|")
    made.append(check("limit", "not-invariant", what, min(of("plain", "float64", "stays")), ">=", 0.1, VISIBLE))
    what = Text(en="a causal mask breaks it without any positions", zh="不加位置编码，因果掩码也会破坏它")
    made.append(check("limit", "causal", what, min(of("causal", "float64", "follows")), ">=", 0.1, VISIBLE))
    what = Text(en="averaged over tokens it is unchanged (float64)", zh="对词元取平均后不变（float64）")
    bound = rounding(torch.float64, terms, size=4.0)
    made.append(check("note", "pooled", what, max(of("pooled", "float64", "stays")), "<=", bound, ROUNDING))
    return made


LIMITS = [
    Text(
        en="What the note describes is equivariance: the outputs move with the inputs. Invariance, outputs that do not "
        "change, "
        "is true only after pooling.",
        zh="讲义所描述的是等变（输出随输入移动）；不变（输出完全不动）只有在池化之后才成立。",
    ),
    Text(
        en="A decoder's causal mask carries order by itself: each token sees how many stand before it.",
        zh="解码器的因果掩码本身就带有顺序信息：每个词元都能看到自己之前有多少个词元。",
    ),
]


def _plot(of: Any) -> Plot:
    lines = [
        Line(
            label=Text(en=kind, zh=kind), x=list(range(len(ARMS))), y=[max(*of(arm, kind, "follows"), 1e-17) for arm in ARMS]
        )
        for kind in KINDS
    ]
    title = Text(en="how far outputs are from following", zh="输出偏离“跟随重排”的程度")
    x = Text(en="0 alone, 1 averaged, 2 positions, 3 causal, 4 RNN", zh="0 单独，1 平均，2 位置编码，3 因果掩码，4 RNN")
    return Plot(title=title, x=x, y=Text(en="max |P f(X) - f(P X)|", zh="最大 |P f(X) - f(P X)|"), lines=lines, log_y=True)


LAB = Lab(
    number=1,
    name="permute",
    title=Text(en="reorder the input of self-attention", zh="重排自注意力的输入"),
    quotes=(
        first(
            "位置编码 (Positional Encoding)",
            "Self-Attention 本身是排列不变的——打乱 token 顺序，输出只是对应重排",
            "Self-attention itself is permutation-invariant: shuffle the tokens, and the output is only reordered "
            "accordingly.",
        ),
        first(
            "例题：排列不变性的验证",
            "重排输入等价于对 Q,K,V 矩阵做行置换，输出也只是对应行置换。",
            "Reordering the input permutes the rows of Q, K and V, and the output is only permuted by rows accordingly.",
        ),
    ),
    design=Design(
        vary=Text(
            en="all orders of 3 tokens and drawn orders of many; float64 and float32",
            zh="3 个词元的全部排列，以及更长序列的随机排列；float64 与 float32",
        ),
        fixed=Text(
            en="two post-norm blocks, d_model 64, 4 heads, the same weights in every arm",
            zh="两个 post-norm 块，d_model 64，4 个头，各组权重相同",
        ),
        measured=Text(
            en="the largest difference between the reordered output and the output of the reordered input",
            zh="“输出的重排”与“重排输入的输出”之间的最大差",
        ),
        control=Text(en="with sinusoidal positions, and an RNN", zh="加正弦位置编码；以及 RNN"),
    ),
    expected="holds_with_limits",
    sabotage=Text(en="0.001 × position leaks into the embeddings", zh="向嵌入中泄漏 0.001 × 位置"),
    measure=_measure,
)

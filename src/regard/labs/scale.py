"""L2: why scores are divided by the root of d_k."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from regard.labs.frame.bounds import log_fit
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first
from regard.labs.frame.values import Check, Column, Design, Line, Measured, Plot, Text, check, text
from regard.layers.attention import Attend, ScaledDot, weights_of
from regard.layers.masks import Lowered

KEYS, VALUE_WIDTH, PAIRS = 64, 64, 4000
ARMS = {"unscaled": Text(en="q·k", zh="q·k"), "scaled": Text(en="q·k / √d_k", zh="q·k / √d_k")}
WORKED = (8.0, -3.0, 5.0)
SURE = 4.0
"""Standard errors: a normal estimate is farther off once in 16,000 times."""


def _attend(arm: str, width: int, broken: bool) -> Attend:
    if arm == "unscaled":
        return ScaledDot(1.0).build(width, 0.0)
    return ScaledDot(1 / width if broken else None).build(width, 0.0)


def _variance(attend: Attend, width: int) -> float:
    q, k = torch.randn(2, PAIRS, width, dtype=torch.float64)
    return float(((q * k).sum(1) * attend.scale).var())


def _slopes(attend: Attend, width: int, queries: int) -> dict[str, Any]:
    """Entropy and largest weight, and the norms of a loss's gradient by the scores and by the queries, row by row: the loss
    is a random direction in the outputs."""
    q = torch.randn(queries, width, requires_grad=True)
    k, v, wanted = torch.randn(KEYS, width), torch.randn(KEYS, VALUE_WIDTH), torch.randn(queries, VALUE_WIDTH)
    scores = q @ k.T * attend.scale
    weights = weights_of(scores)
    loss = (weights @ v * wanted).sum() / math.sqrt(VALUE_WIDTH)
    by_score, by_query = (slope.norm(dim=1) for slope in torch.autograd.grad(loss, (scores, q)))
    entropy = -(weights.clamp(min=1e-30).log() * weights).sum(1)
    explained = attend.explain(q[None, None], k[None, None], Lowered())[0, 0]
    return {
        "entropy": float(entropy.detach().mean()),
        "largest": float(weights.detach().amax(1).mean()),
        "score_median": float(by_score.median()),
        "score_mean": float(by_score.mean()),
        "query_median": float(by_query.median()),
        "query_mean": float(by_query.mean()),
        "explained": float((explained - weights).detach().abs().max()),
        "by_score": by_score,
    }


def _measure(setting: Setting) -> Measured:
    widths = setting.pick([4, 16, 64, 256, 1024], [2**n for n in range(2, 11)], [2**n for n in range(2, 13)])
    rows: list[dict[str, Any]] = []
    for width in widths:
        found: dict[str, dict[str, Any]] = {}
        for arm in ARMS:
            attend = _attend(arm, width, setting.broken)
            found[arm] = {"variance": _variance(attend, width)} | _slopes(attend, width, setting.pick(256, 512, 2048))
        usual = found["scaled"]["score_median"]
        for arm, its in found.items():
            silent = float((its.pop("by_score") < usual / 100).float().mean())
            rows.append({"arm": ARMS[arm], "key": arm, "d_k": width, "silent": silent} | its)
    worked = weights_of(torch.tensor(WORKED, dtype=torch.float64))
    by_arm = {arm: [row for row in rows if row["key"] == arm] for arm in ARMS}
    last, first_scaled = {arm: its[-1] for arm, its in by_arm.items()}, by_arm["scaled"][0]
    finding = Text(
        en=f"At d_k = {widths[-1]} the variance of a score is {last['unscaled']['variance']:.0f} unscaled and "
        f"{last['scaled']['variance']:.2f} scaled; the median gradient of a score is {last['unscaled']['score_median']:.1e} "
        f"against {last['scaled']['score_median']:.2g}. softmax(8, -3, 5) = ({', '.join(f'{w:.2g}' for w in worked)}).",
        zh=f"d_k = {widths[-1]} 时，得分的方差不缩放为 {last['unscaled']['variance']:.0f}，缩放后为 "
        f"{last['scaled']['variance']:.2f}；"
        f"得分梯度的中位数为 {last['unscaled']['score_median']:.1e} 与 {last['scaled']['score_median']:.2g}。"
        f"softmax(8, -3, 5) = ({', '.join(f'{w:.2g}' for w in worked)})。",
    )
    return Measured(
        columns=COLUMNS,
        rows=[{key: value for key, value in row.items() if key not in ("key", "explained")} for row in rows],
        checks=_checks(by_arm, worked, first_scaled),
        finding=finding,
        limits=LIMITS,
        plots=_plots(by_arm),
    )


COLUMNS = [
    Column(key="arm", title=Text(en="score", zh="得分")),
    Column(key="d_k", title=Text(en="d_k", zh="d_k")),
    Column(key="variance", title=Text(en="variance", zh="方差")),
    Column(key="entropy", title=Text(en="entropy", zh="熵")),
    Column(key="largest", title=Text(en="largest weight", zh="最大权重")),
    Column(key="score_median", title=Text(en="|∂L/∂score| median", zh="|∂L/∂得分| 中位数")),
    Column(key="score_mean", title=Text(en="mean", zh="平均")),
    Column(key="query_median", title=Text(en="|∂L/∂q| median", zh="|∂L/∂q| 中位数")),
    Column(key="query_mean", title=Text(en="mean", zh="平均")),
    Column(key="silent", title=Text(en="rows < 1 % of scaled", zh="不到缩放组 1 % 的行")),
]


def _errors(rows: list[dict[str, Any]], expected: Any) -> float:
    """The variance farthest from what is expected, in its standard errors, from the kurtosis 3 + 6/d_k of such products."""
    return max(
        abs(row["variance"] / expected(row["d_k"]) - 1) / math.sqrt((2 + 6 / row["d_k"]) / (PAIRS - 1)) for row in rows
    )


def _checks(by_arm: dict[str, list[dict[str, Any]]], worked: Tensor, narrow: dict[str, Any]) -> list[Check]:
    plain, scaled = by_arm["unscaled"], by_arm["scaled"]
    sampled = Text(en=f"{SURE:g} standard errors of {PAIRS:,} drawn pairs", zh=f"{PAIRS:,} 对随机向量的 {SURE:g} 个标准误")
    softmax = Text(en="1 / (1 + e^-3 + e^-11) = 0.9526, rounded down", zh="1 / (1 + e^-3 + e^-11) = 0.9526，向下取整")
    percent = Text(en="1 % of the scaled arm's", zh="缩放组的 1 %")
    double = Text(en="a factor of two from the narrowest to the widest", zh="从最窄到最宽不超过两倍")
    half = Text(en=f"half of log {KEYS}, an even spread's entropy", zh=f"均匀分布熵 log {KEYS} 的一半")
    slope = log_fit([row["d_k"] for row in plain], [row["variance"] for row in plain])
    worst = max(row["explained"] for rows in by_arm.values() for row in rows)
    change = max(scaled[-1]["score_median"], narrow["score_median"]) / min(
        scaled[-1]["score_median"], narrow["score_median"]
    )
    small = weights_of(torch.tensor(WORKED, dtype=torch.float64) / 8)
    return [
        check("claim", "variance", text("the variance of q·k is d_k", "q·k 的方差为 d_k"),
              _errors(plain, float), "<=", SURE, sampled, 1),
        check("claim", "one-hot", text("largest weight of softmax(8, -3, 5)", "softmax(8, -3, 5) 的最大权重"),
              float(worked.max()), ">=", 0.95, softmax, 2),
        check("claim", "vanishes", text("unscaled: median gradient of a score, as a share of the scaled one",
                                      "不缩放：得分梯度的中位数，占缩放组的比例"),
              plain[-1]["score_median"] / scaled[-1]["score_median"], "<=", 0.01, percent, 3),
        check("claim", "scaled", text("scaled: the variance is 1", "缩放后方差为 1"),
              _errors(scaled, lambda _: 1.0), "<=", SURE, sampled, 4),
        check("claim", "stable", text("scaled: the median gradient changes by a factor of", "缩放后梯度中位数的变化倍数"),
              change, "<=", 2.0, double, 4),
        check("control", "saturates", text("unscaled: entropy at the widest", "不缩放：最宽时的熵"),
              plain[-1]["entropy"], "<=", math.log(KEYS) / 2, half),
        check("control", "eighth", text("largest weight of softmax((8, -3, 5) / 8)", "softmax((8, -3, 5) / 8) 的最大权重"),
              float(small.max()), "<=", 0.6, text("far from one-hot", "远离 one-hot"), 2),
        check("note", "grows", text("exponent of the variance in d_k", "方差随 d_k 增长的指数"), slope.slope, ">=", 0.95,
              text("1 by theory", "理论值为 1")),
        check("note", "mean", text("unscaled against scaled: MEAN gradient of a query",
        "不缩放与缩放之比：query 梯度的平均值"),
              plain[-1]["query_mean"] / scaled[-1]["query_mean"], ">=", 1.0, text("equal would be 1", "相等则为 1")),
        check("note", "explain", text("attend.explain gives the same weights", "attend.explain 给出相同的权重"), worst, "<=",
              1e-4, text("single precision, exponentials of scores of 100", "单精度，得分约 100 的指数")),
    ]  # fmt: skip


LIMITS = [
    Text(
        en="It is the median that vanishes. The mean gradient of the queries is larger unscaled, for keys have norm √d_k "
        "and "
        "a few rows that are not saturated dominate: whoever plots the mean refutes the note by accident.",
        zh="趋近零的是中位数。query 梯度的平均值在不缩放时反而更大，因为 key 的范数为 √d_k，少数未饱和的行占主导："
        "只画平均值会误把讲义“推翻”。",
    ),
    Text(
        en="The variance is d_k only for independent entries of variance 1: true at initialisation, not of trained vectors.",
        zh="方差为 d_k 只适用于独立、方差为 1 的分量：初始化时成立，训练之后的向量不一定。",
    ),
]


def _plots(by_arm: dict[str, list[dict[str, Any]]]) -> list[Plot]:
    made = []
    for key, en, zh, log in (
        ("variance", "variance of a score", "得分的方差", True),
        ("entropy", "entropy of the weights", "权重的熵", False),
        ("score_median", "median |∂L/∂score|", "|∂L/∂得分| 的中位数", True),
    ):
        lines = [
            Line(label=ARMS[arm], x=[row["d_k"] for row in rows], y=[row[key] for row in rows])
            for arm, rows in by_arm.items()
        ]
        made.append(Plot(title=text(en, zh), x=text("d_k", "d_k"), y=text(en, zh), lines=lines, log_x=True, log_y=log))
    return made


SECTION = "例题：为什么 Attention 要除以 √d_k"
LAB = Lab(
    number=2,
    name="scale",
    title=Text(en="why scores are divided by √d_k", zh="为什么得分要除以 √d_k"),
    quotes=(
        first(SECTION, "假设 q_i, k_i 独立零均值、方差 1，则点积 s = Σ q_i k_i 的方差为 d_k。",
              "For independent q_i, k_i of zero mean and variance 1, the dot product s = Σ q_i k_i has variance d_k."),
        first(SECTION, "当 d_k = 64：点积的典型量级为 √64 = 8。softmax 输入为 [8, -3, 5, …] 时，输出接近 one-hot。",
              "With d_k = 64 a dot product is typically √64 = 8; for inputs [8, -3, 5, …] the output of softmax is nearly "
              "one-hot."),
        first(SECTION, "softmax 在输入极端时梯度趋近零，训练几乎停滞。",
              "For extreme inputs the gradient of softmax approaches zero, and training all but stops."),
        first(SECTION, "除以 √d_k：把方差拉回 1，softmax 输入保持在合理范围，梯度稳定。",
              "Dividing by √d_k brings the variance back to 1: the inputs of softmax stay in a sensible range, gradients "
              "stable."),
    ),
    design=Design(
        vary=Text(en="d_k from 4 on; with and without the scale", zh="d_k 从 4 起递增；缩放与不缩放"),
        fixed=Text(en=f"{KEYS} keys, values of width {VALUE_WIDTH}, normal entries",
        zh=f"{KEYS} 个 key，value 宽 {VALUE_WIDTH}，正态分量"),
        measured=Text(
            en="variance of scores, entropy and largest weight, gradients by score and by query: median, mean, share of "
               "silent rows",
            zh="得分方差、权重的熵与最大值、对得分与 query 的梯度：中位数、平均值、近零行的比例",
        ),
        control=Text(en="the same scores unscaled: they must saturate", zh="同样的得分不缩放：必须饱和"),
    ),
    expected="holds",
    sabotage=Text(en="divide by d_k in place of √d_k", zh="除以 d_k 而不是 √d_k"),
    measure=_measure,
)  # fmt: skip

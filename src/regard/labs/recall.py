"""L10: remembering the first token over a distance, learned at once and learned from near to far."""

from __future__ import annotations

from typing import Any

import torch

from regard.architecture import Description, Targets
from regard.labs.frame.bounds import BUDGET, noise
from regard.labs.frame.build import built, fitted, number_of_weights, recurrent, stack, weights_of
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first, second
from regard.labs.frame.train import right, train
from regard.labs.frame.values import Check, Column, Design, Measured, Plot, check, line, text
from regard.layers.heads import Classify
from regard.layers.masks import Everything, Window
from regard.layers.positions import Sinusoidal
from regard.layers.recurrent import Cell

SYMBOLS, NOISE, WIDTH, BATCH, ROWS = 8, 8, 32, 64, 512
ASK, VOCAB = SYMBOLS + NOISE, SYMBOLS + NOISE + 1
LEARNED = 0.1
"""The loss from which on the task counts as learned."""
ARMS = {
    "rnn": text("RNN", "RNN"),
    "gru": text("GRU", "GRU"),
    "attention": text("attention", "注意力"),
    "mixed": text("RNN, from near to far", "RNN，由近到远"),
}
Found = dict[str, dict[int, dict[str, Any]]]
"""For each arm and distance: weights, updates, loss, accuracy."""


def _descriptions(broken: bool) -> dict[str, Description]:
    mask = Window(4) if broken else Everything()
    attention = Description(
        Classify(SYMBOLS, "last"), stack(mask, Sinusoidal(), d_model=WIDTH, num_layers=1, vocab_size=VOCAB)
    )

    def cell(kind: Cell) -> Description:
        return fitted(
            lambda width: Description(Classify(SYMBOLS, "last"), recurrent(kind, width, VOCAB)), weights_of(attention)
        )

    return {"rnn": cell("rnn"), "gru": cell("gru"), "attention": attention}


def _texts(source: torch.Generator, distance: int, rows: int = BATCH) -> dict[str, Any]:
    """A symbol, noise after it, and so far away the question what the symbol was."""
    ids = torch.randint(SYMBOLS, SYMBOLS + NOISE, (rows, distance + 1), generator=source)
    ids[:, 0], ids[:, -1] = torch.randint(0, SYMBOLS, (rows,), generator=source), ASK
    return {"inputs": ids, "targets": Targets(ids[:, 0].clone())}


def _tested(model: Any, distance: int, seed: int) -> float:
    return right(model, _texts(torch.Generator().manual_seed(seed + 2), distance, ROWS))


def _measure(setting: Setting) -> Measured:
    distances = setting.pick([8, 40], [8, 32, 64], [8, 16, 32, 64, 128])
    steps, mixed_steps = setting.pick(250, 500, 1500), setting.pick(600, 1500, 4000)
    found: Found = {arm: {} for arm in ARMS}
    descriptions = _descriptions(setting.broken)
    for arm, description in descriptions.items():
        for distance in distances:
            model = built(description, torch.float32, setting.seed)

            def draw(source: torch.Generator, distance: int = distance) -> dict[str, Any]:
                return _texts(source, distance)

            losses = train(model, draw, steps, setting.seed, constant=True, until=LEARNED)
            its = {"weights": number_of_weights(model), "steps": len(losses), "loss": losses[-1]}
            found[arm][distance] = its | {"accuracy": _tested(model, distance, setting.seed)}
    model = built(descriptions["rnn"], torch.float32, setting.seed)

    drawn = 0

    def near_and_far(source: torch.Generator) -> dict[str, Any]:
        nonlocal drawn
        drawn += 1
        most = max(2, min(distances[-1], round(distances[-1] * drawn / (0.6 * mixed_steps))))
        return _texts(source, int(torch.randint(1, most + 1, (), generator=source)))

    losses = train(model, near_and_far, mixed_steps, setting.seed)
    its = {"weights": number_of_weights(model), "steps": mixed_steps, "loss": losses[-1]}
    found["mixed"] = {distance: its | {"accuracy": _tested(model, distance, setting.seed)} for distance in distances}
    return _told(found, distances)


def _told(found: Found, distances: list[int]) -> Measured:
    far = distances[-1]
    share = {arm: its[far]["accuracy"] for arm, its in found.items()}
    finding = text(
        f"Over {far} tokens the RNN answers {share['rnn']:.0%} right, the GRU {share['gru']:.0%}, attention "
        f"{share['attention']:.0%} (by chance {1 / SYMBOLS:.0%}); an RNN that was taught from near to far "
        f"{share['mixed']:.0%}.",
        f"相隔 {far} 个词元时，RNN 答对 {share['rnn']:.0%}，GRU {share['gru']:.0%}，注意力 "
        f"{share['attention']:.0%}（随机猜测 {1 / SYMBOLS:.0%}）；由近到远训练的 RNN 答对 {share['mixed']:.0%}。",
    )
    rows: list[dict[str, Any]] = [
        {"arm": ARMS[arm], "distance": n} | row for arm, its in found.items() for n, row in its.items()
    ]
    lines = [line(label=ARMS[arm], x=distances, y=[its[n]["accuracy"] for n in distances]) for arm, its in found.items()]
    plot = Plot(
        title=text("the first token is remembered", "记住第一个词元"), x=text("distance", "距离"), y=text("right", "正确率"),
        lines=lines, log_x=True,
    )  # fmt: skip
    return Measured(columns=COLUMNS, rows=rows, checks=judge(found), finding=finding, limits=LIMITS, plots=[plot])


def judge(found: Found) -> list[Check]:
    """Checks of the nearest and the farthest distance."""
    near, far = min(found["rnn"]), max(found["rnn"])
    chance = text(f"chance, 1/{SYMBOLS}, and four standard errors", f"随机猜测 1/{SYMBOLS} 加四个标准误")
    most = text("all but what noise may take", "除噪声外全部正确")
    guess, sure = 1 / SYMBOLS + noise(ROWS, 1 / SYMBOLS), 1 - noise(ROWS, 0.05)
    weights = [its[near]["weights"] for its in found.values()]
    return [
        check("claim", "rnn-far", text(f"RNN: right over {far} tokens", f"RNN：相隔 {far} 的正确率"),
              found["rnn"][far]["accuracy"], "<=", guess, chance, 1, 2),
        check("claim", "attention-far", text(f"attention: right over {far} tokens", f"注意力：相隔 {far} 的正确率"),
              found["attention"][far]["accuracy"], ">=", sure, most, 2, 3),
        check("claim", "updates", text(f"attention: updates until learned, over {far} tokens against {near}",
                                       f"注意力：相隔 {far} 与相隔 {near} 学会所需更新次数之比"),
              found["attention"][far]["steps"] / found["attention"][near]["steps"], "<=", 4.0,
              text("far below the ratio of the distances", "远小于距离之比"), 2),
        check("control", "rnn-near", text(f"RNN: right over {near} tokens", f"RNN：相隔 {near} 的正确率"),
              found["rnn"][near]["accuracy"], ">=", 0.9, text("it can learn the task: nine of ten", "能学会任务：十分之九")),
        check("control", "budget", text("most weights of an arm, against fewest", "各组参数数的最大与最小之比"),
              max(weights) / min(weights), "<=", 1.05, BUDGET),
        check("limit", "taught", text(f"RNN taught from near to far: right over {far} tokens",
                                      f"由近到远训练的 RNN：相隔 {far} 的正确率"),
              found["mixed"][far]["accuracy"], ">=", 0.9, text("nine of ten", "十分之九"), 1, 2),
        check("note", "gru-far", text(f"GRU: right over {far} tokens", f"GRU：相隔 {far} 的正确率"),
              found["gru"][far]["accuracy"], "<=", guess, chance),
    ]  # fmt: skip


COLUMNS = [
    Column(key="arm", title=text("arm", "组")),
    Column(key="distance", title=text("distance", "距离")),
    Column(key="weights", title=text("weights", "参数数")),
    Column(key="steps", title=text("updates", "更新次数")),
    Column(key="loss", title=text("last loss", "最后的损失")),
    Column(key="accuracy", title=text("right", "正确率")),
]
LIMITS = [
    text(
        "What fails over a distance is the learning, not the remembering: there is no "
        "gradient to learn from. Taught from near to far, the same RNN remembers over "
        "the whole distance. A lab that mixes distances would show no difference at all.",
        "随距离失败的是学习，而不是记忆：没有梯度可学。由近到远地教，"
        "同一个 RNN 能记住整个距离。混合距离的实验会完全看不到差别。",
    ),
]
LAB = Lab(
    number=10,
    name="recall",
    title=text("remembering the first token over a distance", "隔着距离记住第一个词元"),
    quotes=(
        second("2.为什么需要注意力机制", "前面单词的特征会随着序列增长而被稀释，没有重点",
               "The features of earlier words are diluted as the sequence grows; nothing stands out."),
        first("维度 | RNN | Transformer", "长距离依赖 | 差（梯度消失） | 好（一步直达）",
              "Long-range dependence | bad (gradients vanish) | good (one step)"),
        second("2.Tranformer相比RNN/LSTM的 又是", "捕捉长距离语义关联效果更好",
               "(Transformer) catches meanings that are far apart better."),
    ),
    design=Design(
        vary=text("the distance; RNN, GRU or attention; one distance from the start, or from near to far",
                  "距离；RNN、GRU 或注意力；一开始就用固定距离，或由近到远"),
        fixed=text(f"{SYMBOLS} symbols, weights to 5 %, batches, most updates, Adam at 0.003; a training ends when its loss "
                   f"is below {LEARNED}",
                   f"{SYMBOLS} 个符号，参数数相差 5 % 以内，批次、更新次数上限、Adam 0.003；损失低于 {LEARNED} 时结束训练"),
        measured=text(f"updates until learned; right answers on {ROWS} unseen texts",
                      f"学会所需的更新次数；{ROWS} 个未见序列上的正确率"),
        control=text("the RNN learns the same task over 8 tokens", "RNN 能学会相隔 8 的同一任务"),
    ),
    expected="holds_with_limits",
    sabotage=text("attention sees 3 tokens back and no farther", "注意力只能看到前 3 个词元"),
    measure=_measure,
)  # fmt: skip

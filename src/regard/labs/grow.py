"""L21: more weights, more data, more computation: what each takes off the loss of a small language model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.architecture import Description, Targets
from regard.labs.frame.bounds import Slope, log_fit
from regard.labs.frame.build import built, number_of_weights, stack
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first
from regard.labs.frame.train import train
from regard.labs.frame.values import Check, Column, Design, Measured, Plot, check, line, text
from regard.layers.heads import NextToken
from regard.layers.masks import Causal
from regard.layers.positions import Sinusoidal

WORDS, LENGTH, BATCH, ROWS = 32, 32, 32, 256
WIDTHS = (8, 16, 32, 64)
Point = dict[str, float]


class _Language:
    """Each word is drawn by the two before it, from a table that no rule shortens. flat: from nothing, all words alike."""

    def __init__(self, flat: bool) -> None:
        source = torch.Generator().manual_seed(11)
        scores = torch.zeros(WORDS, WORDS, WORDS) if flat else 2.5 * torch.randn(WORDS, WORDS, WORDS, generator=source)
        self.odds = scores.softmax(-1)

    def texts(self, rows: int, seed: int) -> Tensor:
        """Int[rows 33]."""
        source = torch.Generator().manual_seed(seed)
        words = [torch.randint(0, WORDS, (rows,), generator=source) for _ in range(2)]
        while len(words) < LENGTH + 1:
            words.append(self.odds[words[-2], words[-1]].multinomial(1, generator=source)[:, 0])
        return torch.stack(words, 1)

    def least(self, texts: Tensor) -> float:
        """The loss of one who knows the table, over the words from the third on."""
        return float(-self.odds[texts[:, :-2], texts[:, 1:-1]].gather(2, texts[:, 2:, None]).log().mean())


def _given(texts: Tensor) -> dict[str, Any]:
    targets = texts[:, 1:].clone()
    targets[:, 0] = -100  # the second word hangs on nothing
    return {"inputs": texts[:, :-1], "targets": Targets(targets)}


@torch.no_grad()
def _loss(model: Any, texts: Tensor) -> float:
    told = model(**_given(texts))
    return float(told.loss_sum / told.count)


def _trained(width: int, texts: Tensor, test: Tensor, least: float, setting: Setting) -> tuple[Point, list[Point]]:
    """What one model is at the end, and at a quarter, a half … of its updates."""
    steps = setting.pick(200, 500, 2000)
    sizes: dict[str, Any] = {"d_model": width, "num_layers": 1, "vocab_size": WORDS}
    model = built(Description(NextToken(WORDS), decoder=stack(Causal(), Sinusoidal(), **sizes)), torch.float32, setting.seed)
    path: list[Point] = []

    def draw(source: torch.Generator) -> dict[str, Any]:
        return _given(texts[torch.randint(0, len(texts), (BATCH,), generator=source)])

    def watch(step: int) -> None:
        if step and step in (steps // 8, steps // 4, steps // 2, steps):
            model.eval()
            path.append({"steps": step, "excess": _loss(model, test) - least})
            model.train()

    train(model, draw, steps, setting.seed, rate=1e-2, constant=True, watch=watch)
    loss = _loss(model, test)
    return {
        "weights": number_of_weights(model),
        "tokens": texts.shape[0] * LENGTH,
        "loss": loss,
        "excess": loss - least,
    }, path


def _measure(setting: Setting) -> Measured:
    language = _Language(flat=setting.broken)
    data = setting.pick([64, 512, 4096], [64, 512, 4096], [64, 512, 4096, 32768])
    widths = WIDTHS if setting.size != "full" else (*WIDTHS, 128)
    test = language.texts(ROWS, setting.seed + 1)
    least, texts = language.least(test), language.texts(data[-1], setting.seed + 2)
    grid: dict[tuple[int, int], Point] = {}
    path: list[Point] = []
    for width in widths:
        for rows in data:
            if rows == data[-1] or width == widths[-1] or (width == widths[0] and rows == data[0]):
                grid[width, rows], path = _trained(width, texts[:rows], test, least, setting)
    flat = _Language(flat=True)
    noise = flat.texts(data[-1], setting.seed + 2)
    nothing = [_trained(width, noise, flat.texts(ROWS, setting.seed + 1), 0.0, setting)[0]["loss"] for width in widths[::3]]
    series = {
        "weights": [grid[width, data[-1]] for width in widths],
        "tokens": [grid[widths[-1], rows] for rows in data],
        "few": [grid[width, data[0]] for width in (widths[0], widths[-1])],
    }
    rows_: list[dict[str, Any]] = [its | {"width": width} for (width, _), its in grid.items()]
    return Measured(
        columns=COLUMNS, rows=rows_, checks=judge(series, path, nothing), finding=_finding(series, path, least),
            limits=LIMITS,
        plots=_plots(series, path),
    )  # fmt: skip


def _slope(points: list[Point], key: str) -> Slope:
    return log_fit([its[key] for its in points], [max(its["excess"], 1e-6) for its in points])


def _finding(series: dict[str, list[Point]], path: list[Point], least: float) -> Any:
    weights, tokens, steps = _slope(series["weights"], "weights"), _slope(series["tokens"], "tokens"), _slope(path, "steps")
    return text(
        f"What the loss is above its least, {least:.3f}, goes with the weights to the "
        f"power {weights.slope:.2f} ± {weights.error:.2f}, with the data {tokens.slope:.2f} "
        f"± {tokens.error:.2f}, with the updates {steps.slope:.2f} ± {steps.error:.2f}.",
        f"损失高出其下限（{least:.3f}）的部分，随参数量的指数为 {weights.slope:.2f} ± {weights.error:.2f}，随"
        f"数据量 {tokens.slope:.2f} ± {tokens.error:.2f}，随更新次数 {steps.slope:.2f} ± {steps.error:.2f}。",
    )


def judge(series: dict[str, list[Point]], path: list[Point], nothing: list[float]) -> list[Check]:
    """Checks of the powers by weights, data and updates, and of the text that has nothing to learn."""
    below = text("two standard errors of the fit below 0", "比 0 低两个拟合标准误")
    names = {"weights": ("weights", "参数量"), "tokens": ("data", "数据量")}
    made = []
    for key, (en, zh) in names.items():
        its = _slope(series[key], key)
        made.append(
            check("claim", key, text(f"power of the excess loss by {en}, and two standard errors",
                  f"超出损失随{zh}的指数，加两个标准误"),
                  its.slope + 2 * its.error, "<=", 0.0, below)
        )  # fmt: skip
    its = _slope(path, "steps")
    first_, last = (series["few"][n]["excess"] for n in (0, -1))
    return [
        *made,
        check("claim", "steps", text("power of the excess loss by updates, and two standard errors",
              "超出损失随更新次数的指数，加两个标准误"),
              its.slope + 2 * its.error, "<=", 0.0, below),
        check("control", "nothing", text("text with nothing to learn: loss of the largest model less that of the smallest",
                                         "无规律文本：最大与最小模型的损失之差"),
              nothing[-1] - nothing[0], ">=", -0.02, text("a fiftieth of a nat: size does not help",
                  "五十分之一奈特：规模无用")),
        check("limit", "few", text("least data: excess loss of the largest model, against that of the smallest",
                                   "数据最少时：最大与最小模型的超出损失之比"),
              last / first_, ">=", 1.0, text("more weights do not help", "更多参数没有帮助")),
    ]  # fmt: skip


def _plots(series: dict[str, list[Point]], path: list[Point]) -> list[Plot]:
    by = {
        "weights": text("weights", "参数量"),
        "tokens": text("tokens of data", "数据词元数"),
        "steps": text("updates", "更新次数"),
    }
    lines = {
        "weights": [line(label=text(name, zh), x=[its["weights"] for its in series[key]],
            y=[its["excess"] for its in series[key]])
                    for key, name, zh in (("weights", "most data", "数据最多"), ("few", "least data", "数据最少"))],
        "tokens": [line(label=text("largest model", "最大模型"), x=[its["tokens"] for its in series["tokens"]],
                        y=[its["excess"] for its in series["tokens"]])],
        "steps": [line(label=text("largest model, most data", "最大模型、最多数据"), x=[its["steps"] for its in path],
                       y=[its["excess"] for its in path])],
    }  # fmt: skip
    title, y = text("loss above its least", "高出下限的损失"), text("nats", "奈特")
    return [Plot(title=title, x=label, y=y, lines=lines[key], log_x=True, log_y=True) for key, label in by.items()]


COLUMNS = [
    Column(key="width", title=text("width", "宽度")),
    Column(key="weights", title=text("weights", "参数量")),
    Column(key="tokens", title=text("tokens of data", "数据词元数")),
    Column(key="loss", title=text("loss", "损失")),
    Column(key="excess", title=text("above the least", "高出下限")),
]
LIMITS = [
    text(
        "One without the others does not do: with the least data the larger model is the worse one, for it learns by heart.",
        "只增加其中一项不行：数据最少时，更大的模型反而更差，因为它在死记硬背。",
    ),
    text(
        "Four sizes and one generated language give a direction and a power with its error, not a law for large models.",
        "四种规模、一种生成的语言，只能给出方向与带误差的指数，不是大模型的定律。",
    ),
]
LAB = Lab(
    number=21,
    name="grow",
    title=text("more weights, more data, more computation", "更多参数、更多数据、更多计算"),
    quotes=(
        first("阶段 | 代表工作 | 核心变化", "规模化 | GPT-3/4, LLaMA | 参数量 + 数据量 + 计算量",
              "Scaling | GPT-3/4, LLaMA | number of weights + amount of data + amount of computation"),
    ),
    design=Design(
        vary=text("width, amount of data, updates", "宽度、数据量、更新次数"),
        fixed=text(f"one causal block, a generated language of {WORDS} words, batches of {BATCH} texts, Adam at 0.01",
                   f"一个因果块，{WORDS} 个词的生成语言，批量 {BATCH}，Adam 0.01"),
        measured=text("loss on unseen text above the least that there can be; powers with their errors",
                      "未见文本上高出下限的损失；指数及其误差"),
        control=text("on text with nothing to learn size must not help", "在无规律的文本上，规模不应有帮助"),
    ),
    expected="holds_with_limits",
    sabotage=text("all words are drawn alike: there is nothing to learn", "所有词等概率：没有可学的规律"),
    measure=_measure,
)  # fmt: skip

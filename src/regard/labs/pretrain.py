"""L20: what texts without labels are worth: hidden words first, then a few labels, against labels alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.architecture import Description, Targets
from regard.labs.frame.bounds import INTERVAL, surely
from regard.labs.frame.build import built, stack
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first
from regard.labs.frame.train import right, train
from regard.labs.frame.values import Check, Column, Design, Line, Measured, Plot, check, line, text
from regard.layers.heads import IGNORED, Classify, MaskedToken

TOPICS, WORDS, LENGTH, WIDTH, BATCH, ROWS = 4, 200, 12, 32, 64, 1024
MASK = WORDS
OWN = 0.75
"""Share of a text's words that are of its topic; the others are of any."""
FEW, MANY, TUNING = 32, 2048, 80
ARMS = {
    "scratch": text("labels alone", "只用标签"),
    "pretrained": text("hidden words first", "先预测被遮的词"),
    "scrambled": text("hidden words of scrambled texts first", "先预测打乱文本中被遮的词"),
}
Shares = dict[str, dict[int, list[float]]]
"""For each arm and number of labels, right answers by seed."""


def _texts(source: torch.Generator, rows: int, scrambled: bool = False) -> tuple[Tensor, Tensor]:
    """Words Int[rows 12] and topics Int[rows]. scrambled: the words are dealt anew among the texts."""
    topic = torch.randint(0, TOPICS, (rows,), generator=source)
    of = torch.where(torch.rand(rows, LENGTH, generator=source) < OWN, topic[:, None],
                     torch.randint(0, TOPICS, (rows, LENGTH), generator=source))  # fmt: skip
    ids = of + TOPICS * torch.randint(0, WORDS // TOPICS, (rows, LENGTH), generator=source)
    if scrambled:
        ids = ids.flatten()[torch.randperm(ids.numel(), generator=source)].view_as(ids)
    return ids, topic


def _hidden(source: torch.Generator, scrambled: bool) -> dict[str, Any]:
    """Texts with a word or more hidden, each of which is to be told."""
    ids, _ = _texts(source, BATCH, scrambled)
    chosen = torch.rand(ids.shape, generator=source) < 0.2
    chosen[torch.arange(BATCH), torch.randint(0, LENGTH, (BATCH,), generator=source)] = True
    return {"inputs": ids.masked_fill(chosen, MASK), "targets": Targets(ids.masked_fill(~chosen, IGNORED))}


def _encoder() -> Any:
    return stack(d_model=WIDTH, num_layers=1, vocab_size=WORDS + 1)


def _pretrained(seed: int, steps: int, scrambled: bool) -> tuple[dict[str, Tensor], list[float]]:
    """The weights of an encoder that has learned to tell hidden words, and its losses."""
    model = built(Description(MaskedToken(WORDS), _encoder()), torch.float32, seed)
    losses = train(model, lambda source: _hidden(source, scrambled), steps, seed, rate=5e-3)
    return model.encoder.state_dict(), losses


def _tuned(weights: dict[str, Tensor] | None, labels: int, seed: int) -> float:
    """Right answers on unseen texts after as many updates on so many labelled ones, from these weights or from new ones."""
    model = built(Description(Classify(TOPICS, "mean"), _encoder()), torch.float32, seed + 50)
    if weights is not None:
        model.encoder.load_state_dict(weights)
    ids, topic = _texts(torch.Generator().manual_seed(seed + 7), labels)

    def draw(source: torch.Generator) -> dict[str, Any]:
        chosen = torch.randperm(labels, generator=source)[:BATCH]
        return {"inputs": ids[chosen], "targets": Targets(topic[chosen])}

    train(model, draw, TUNING, seed, rate=3e-3)
    ids_, topic_ = _texts(torch.Generator().manual_seed(seed + 9), ROWS)
    return right(model, {"inputs": ids_, "targets": Targets(topic_)})


def _measure(setting: Setting) -> Measured:
    steps, seeds = setting.pick(250, 500, 3000), setting.pick(3, 5, 5)
    found: Shares = {arm: {FEW: [], MANY: []} for arm in ARMS}
    lines: list[Line] = []
    rows: list[dict[str, Any]] = []
    for seed in range(setting.seed, setting.seed + seeds):
        for arm in ARMS:
            weights = None
            if arm != "scratch":
                weights, losses = _pretrained(seed, steps, arm == "scrambled" or setting.broken)
                if seed == setting.seed:
                    lines.append(line(label=ARMS[arm], x=list(range(1, steps + 1)), y=losses))
            for labels in (FEW, MANY):
                found[arm][labels].append(_tuned(weights, labels, seed))
                rows.append({"arm": ARMS[arm], "seed": seed, "labels": labels, "accuracy": found[arm][labels][-1]})
    mean = {arm: {labels: sum(its) / len(its) for labels, its in by.items()} for arm, by in found.items()}
    finding = text(
        f"With {FEW} labels {mean['scratch'][FEW]:.1%} are right, with hidden words first "
        f"{mean['pretrained'][FEW]:.1%}, with those of scrambled texts {mean['scrambled'][FEW]:.1%}; "
        f"with {MANY:,} labels {mean['scratch'][MANY]:.1%} and {mean['pretrained'][MANY]:.1%}.",
        f"{FEW} 个标签时答对 {mean['scratch'][FEW]:.1%}，先预测被遮的词 {mean['pretrained'][FEW]:.1%}，用打乱文本预训练 "
        f"{mean['scrambled'][FEW]:.1%}；{MANY:,} 个标签时为 {mean['scratch'][MANY]:.1%} 与 {mean['pretrained'][MANY]:.1%}。",
    )
    plot = Plot(
        title=text("pretraining", "预训练"), x=text("update", "更新次数"), y=text("cross entropy", "交叉熵"), lines=lines
    )
    return Measured(columns=COLUMNS, rows=rows, checks=judge(found), finding=finding, limits=LIMITS, plots=[plot])


def judge(found: Shares) -> list[Check]:
    """Checks of the differences between arms, seed by seed."""

    def gain(arm: str, labels: int) -> list[float]:
        return [a - b for a, b in zip(found[arm][labels], found["scratch"][labels])]

    gains = {labels: sum(gain("pretrained", labels)) / len(gain("pretrained", labels)) for labels in (FEW, MANY)}
    return [
        check("claim", "gain", text(f"{FEW} labels: right answers, hidden words first less labels alone",
                                    f"{FEW} 个标签：先预测被遮的词与只用标签的正确率之差"),
              surely(gain("pretrained", FEW)), ">=", 0.0, INTERVAL),
        check("claim", "structure", text(f"{FEW} labels: right answers, hidden words of true texts less of scrambled ones",
                                         f"{FEW} 个标签：真实文本与打乱文本预训练的正确率之差"),
              surely([a - b for a, b in zip(found["pretrained"][FEW], found["scrambled"][FEW])]), ">=", 0.0, INTERVAL),
        check("control", "scrambled", text(f"{FEW} labels: what scrambled texts gain, against what true ones are asked to",
                                           f"{FEW} 个标签：打乱文本预训练带来的提升"),
              sum(gain("scrambled", FEW)) / len(gain("scrambled", FEW)), "<=", 0.1,
              text("a tenth: there was nothing to learn", "十分之一：无可学习")),
        check("control", "task", text(f"{MANY:,} labels alone: right answers, the worst seed",
              f"{MANY:,} 个标签，不预训练：最差种子的正确率"),
              min(found["scratch"][MANY]), ">=", 0.8, text("labels alone suffice, if they are many",
                  "标签多时只用标签就够")),
        check("limit", "many", text(f"what pretraining gains with {MANY:,} labels, as a share of what it gains with {FEW}",
                                    f"{MANY:,} 个标签时预训练的提升，与 {FEW} 个时之比"),
              gains[MANY] / max(gains[FEW], 1e-9) if gains[FEW] > 0 else 1.0, "<=", 0.5, text("half", "一半")),
    ]  # fmt: skip


COLUMNS = [
    Column(key="arm", title=text("arm", "组")),
    Column(key="seed", title=text("seed", "种子")),
    Column(key="labels", title=text("labels", "标签数")),
    Column(key="accuracy", title=text("right", "正确率")),
]
LIMITS = [
    text(
        "Pretraining is worth most where labels are few: it has seen which words keep company, and a "
        "label then speaks for words that no labelled text had. With many labels little of that is left.",
        "标签越少，预训练越有价值：它已知道哪些词常在一起，于是一个标签"
        "也能说明没有出现在标注文本中的词。标签多时，这种好处所剩无几。",
    ),
    text(
        "“General” is not measured here: one generated language, one task. On real text see the lab finetune.",
        "“通用”在这里没有测：只有一种生成的语言、一个任务。真实文本见实验 finetune。",
    ),
]
LAB = Lab(
    number=20,
    name="pretrain",
    title=text("hidden words first, then a few labels", "先预测被遮的词，再用少量标签"),
    quotes=(
        first("后续用途 / 连接", "通过大规模无监督预训练获得通用语言表示。",
              "Through pretraining on much text without labels they gain general representations of language."),
        first("阶段 | 代表工作 | 核心变化", "双向注意力，预训练 + 微调", "Attention both ways, pretraining + fine-tuning"),
    ),
    design=Design(
        vary=text("what comes before the labels: nothing, hidden words, hidden words of scrambled texts; the number of "
                  "labels",
                  "用标签之前：无、被遮的词、打乱文本中被遮的词；标签数"),
        fixed=text(f"{WORDS} words of {TOPICS} topics, one block of width {WIDTH}, {TUNING} updates on the labels, Adam",
                   f"{TOPICS} 个主题共 {WORDS} 个词，一个块，宽 {WIDTH}，在标签上更新 {TUNING} 次，Adam"),
        measured=text(f"topics told right, {ROWS:,} unseen texts, several seeds",
                      f"{ROWS:,} 个未见文本的主题正确率，多个种子"),
        control=text("scrambled texts have nothing to teach; many labels need no pretraining",
                     "打乱的文本无可学习；标签多时不需要预训练"),
    ),
    expected="holds_with_limits",
    sabotage=text("the texts of the pretraining are scrambled", "打乱预训练所用的文本"),
    measure=_measure,
)  # fmt: skip

"""L9: one fixed vector against a look at every state: writing down texts of growing length."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from regard.labs.frame.bounds import BUDGET, noise_between
from regard.labs.frame.build import built, fitted, number_of_weights, weights_of, writer
from regard.labs.frame.copying import SYMBOLS, VOCAB, copied, copying
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first
from regard.labs.frame.train import train
from regard.labs.frame.values import Check, Column, Design, Measured, Plot, check, line, text
from regard.layers.scores import Dot

WIDTH, ROWS = 64, 512
ARMS = {
    "fixed": text("fixed vector", "固定向量"),
    "attention": text("attention", "注意力"),
    "wide": text("fixed vector, twice as wide", "固定向量，宽度加倍"),
}
Found = dict[str, list[dict[int, tuple[float, float]]]]
"""For each arm and seed, by length: shares of symbols and of whole texts that are right."""


def _models() -> dict[str, Any]:
    attention = writer(WIDTH, VOCAB, Dot(scaled=True))
    fixed = fitted(lambda width: writer(width, VOCAB), weights_of(attention))
    return {"fixed": fixed, "attention": attention, "wide": writer(2 * fixed.decoder.d_model, VOCAB)}


def _blinded(model: Any) -> None:
    """Sabotage: every state that attention could look at is the mean of all."""

    def mean(_: Any, __: Any, memory: Any) -> Any:
        return replace(memory, states=memory.states.mean(1, keepdim=True).expand_as(memory.states))

    model.encoder.register_forward_hook(mean)


def _measure(setting: Setting) -> Measured:
    longest, steps = setting.pick(10, 12, 24), setting.pick(300, 600, 3000)
    seeds = setting.pick(1, 2, 3)
    lengths = [4, longest // 2, longest, longest + longest // 2]
    descriptions = _models()
    found: Found = {}
    for arm, description in descriptions.items():
        found[arm] = []
        for seed in range(setting.seed, setting.seed + seeds):
            model = built(description, torch.float32, seed)
            if setting.broken and arm == "attention":
                _blinded(model)

            def draw(source: torch.Generator) -> dict[str, Any]:
                return copying(source, int(torch.randint(2, longest + 1, (), generator=source)))

            train(model, draw, steps, seed, rate=5e-3)
            found[arm].append({length: copied(model, length, seed, ROWS) for length in lengths})
    weights = {arm: number_of_weights(built(its)) for arm, its in descriptions.items()}
    rows: list[dict[str, Any]] = [
        {"arm": ARMS[arm], "weights": weights[arm], "seed": seed, "length": length, "tokens": its[0], "texts": its[1]}
        for arm, each in found.items()
        for seed, by_length in enumerate(each, setting.seed)
        for length, its in by_length.items()
    ]
    least = {arm: min(its[longest][0] for its in each) for arm, each in found.items()}
    finding = text(
        f"Of {longest} symbols the fixed vector writes {least['fixed']:.0%} right, twice as "
        f"wide {least['wide']:.0%}, attention {least['attention']:.0%} (the worst seed of each).",
        f"长度 {longest} 时，固定向量写对 {least['fixed']:.0%} 的符号，宽度加倍 "
        f"{least['wide']:.0%}，注意力 {least['attention']:.0%}（各取最差的种子）。",
    )
    plot = Plot(
        title=text("symbols written right", "写对的符号"),
        x=text("length", "长度"),
        y=text("share", "比例"),
        lines=[line(label=ARMS[arm], x=lengths, y=[its[n][0] for n in lengths]) for arm, (its, *_) in found.items()],
    )
    return Measured(
        columns=COLUMNS, rows=rows, checks=judge(found, lengths, weights), finding=finding, limits=LIMITS, plots=[plot]
    )


def judge(found: Found, lengths: list[int], weights: dict[str, int]) -> list[Check]:
    """Checks of what was measured at these lengths: the shortest, one between, the longest of the training, a longer."""
    short, _, long, beyond = lengths
    symbols = noise_between(ROWS * short)  # at least so many symbols were counted
    apart = text("four standard errors of the difference of two such shares", "两个比例之差的四个标准误")
    both = list(zip(found["fixed"], found["attention"]))
    fall = {arm: max(its[short][0] - its[long][0] for its in found[arm]) for arm in found}
    lost = min(its[short][0] - its[long][0] for its in found["fixed"])
    wider = min(wide[long][0] - its[long][0] for wide, its in zip(found["wide"], found["fixed"]))
    return [
        check("claim", "squeezed",
              text(f"fixed vector: symbols right, {short} long less {long} long, the least of the seeds",
                                        f"固定向量：长 {short} 与长 {long} 的正确率之差，各种子中最小者"),
              lost, ">=", 0.05 + symbols, text("a twentieth beside the noise", "噪声之外再加二十分之一"), 1),
        check("claim", "gap", text(f"{long} long: symbols right, attention less fixed vector, the least of the seeds",
                                   f"长 {long}：注意力与固定向量的正确率之差，各种子中最小者"),
              min(b[long][0] - a[long][0] for a, b in both), ">=", symbols, apart, 2),
        check("claim", "steady", text("attention: what length costs it, against what it costs the fixed vector",
                                      "注意力随长度的下降，与固定向量的下降之比"),
              fall["attention"] / max(lost, 1e-9), "<=", 0.25, text("a quarter of it at most", "至多四分之一"), 2),
        check("control", "short", text(f"fixed vector: symbols right, {short} long", f"固定向量：长 {short} 的正确率"),
              min(its[short][0] for its in found["fixed"]), ">=", 0.9, text("it has learned the task: nine of ten",
                                                                            "已学会任务：十分之九")),
        check("control", "capacity", text(f"{long} long: symbols right, twice as wide less as wide, the least of the seeds",
                                          f"长 {long}：宽度加倍与原宽度的正确率之差，各种子中最小者"),
              wider, ">=", symbols, apart),
        check("control", "budget", text("weights, attention against fixed vector", "参数数之比：注意力与固定向量"),
              max(weights["attention"] / weights["fixed"], weights["fixed"] / weights["attention"]), "<=", 1.05, BUDGET),
        check("note", "beyond", text(f"attention: symbols right, {beyond} long, which no training text was",
                                     f"注意力：长 {beyond}（训练中没有）的正确率"),
              min(its[beyond][0] for its in found["attention"]), ">=", 0.9, text("nine of ten", "十分之九")),
    ]  # fmt: skip


COLUMNS = [
    Column(key="arm", title=text("arm", "组")),
    Column(key="weights", title=text("weights", "参数数")),
    Column(key="seed", title=text("seed", "种子")),
    Column(key="length", title=text("length", "长度")),
    Column(key="tokens", title=text("symbols right", "符号正确率")),
    Column(key="texts", title=text("texts right", "整个序列正确率")),
]
LIMITS = [
    text(
        "The vector is a bottleneck by its size, not by a law: twice as wide, it holds more of the same text after as "
        "many updates. And it is one of learning as well as of room: 64 numbers of 32 bits could hold 16 symbols of 4 bits.",
        "向量成为瓶颈是因为它的大小，而不是必然规律：宽度加倍后，同样的更新次数能保存更"
        "多内容。瓶颈也在于学习而不只在于容量：64 个 32 位的数足以存下 16 个 4 位的符号。",
    ),
]
LAB = Lab(
    number=9,
    name="bottleneck",
    title=text("one fixed vector for a text of any length", "用一个固定向量装下任意长的文本"),
    quotes=(
        first("开头", "不管输入多长，都挤进同一个 c 里——这是信息瓶颈。",
              "However long the input is, all of it is squeezed into the same c: this is the bottleneck of information."),
        first("开头", "不再压缩，而是让解码器在每一步主动选择应该看输入序列中的哪些位置。",
              "No compression any more; the decoder chooses at each step which places of the input it should look at."),
    ),
    design=Design(
        vary=text("the length; fixed vector or attention; the width of the vector", "长度；固定向量或注意力；向量的宽度"),
        fixed=text(f"GRU encoder and decoder, {SYMBOLS} symbols, weights to 5 % (but for the wide arm), batches, updates, "
                   "Adam at 0.005",
                   f"GRU 编码器与解码器，{SYMBOLS} 个符号，参数数相差 5 % 以内（加宽组除外），批次、更新次数、Adam 0.005"),
        measured=text(f"symbols and whole texts written right, {ROWS} unseen texts of each length",
                      f"写对的符号与整个序列的比例，每种长度 {ROWS} 个未见序列"),
        control=text("the fixed vector learns short texts, and holds more if it is wider",
                     "固定向量能学会短序列；更宽则能装下更多"),
    ),
    expected="holds",
    sabotage=text("all states that attention looks at are made their mean", "注意力所看的所有状态都换成它们的平均"),
    measure=_measure,
)  # fmt: skip

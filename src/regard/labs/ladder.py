"""L22: from the fixed vector over attention to the Transformer, on real captions, the same minutes for each."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

from regard.labs.frame.bounds import BUDGET
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import second
from regard.labs.frame.stored import RUNS, read, trained
from regard.labs.frame.values import Check, Column, Design, Measured, Plot, check, line, text

MINUTES = 20
SAMPLES = 1000
ARMS = {
    "fixed": ("multi30k-en-fr-rnn", text("GRU, fixed vector", "GRU，固定向量")),
    "additive": ("multi30k-en-fr-rnn-additive", text("GRU, additive attention", "GRU，加性注意力")),
    "dot": ("multi30k-en-fr-rnn-dot", text("GRU, dot attention", "GRU，点积注意力")),
    "transformer": ("multi30k-en-fr", text("Transformer", "Transformer")),
}
LABELS = {arm: label for arm, (_, label) in ARMS.items()}
BUCKETS = (9, 12, 15)
"""Last length, in source words, of all buckets but the last."""


def settings(seed: int) -> list[str]:
    """What is laid on top of each recipe."""
    return [f"training.max_minutes={MINUTES}", f"training.seed={seed + 1}"]


def _train(setting: Setting) -> Measured:
    from regard.evaluation.evaluate import Evaluating, evaluate
    from regard.evaluation.task import task_of_pairs
    from regard.text import named
    from regard.translator import load

    task = task_of_pairs(named.find("multi30k", "test", "en", "fr", None), "en", "fr")
    rows: list[dict[str, Any]] = []
    texts: dict[str, list[str]] = {}
    plots: list[Plot] = []
    for arm, (recipe, _) in ARMS.items():
        folder = trained(recipe, RUNS / f"ladder-{arm}-{setting.seed}", settings(setting.seed))
        translator = load(folder)
        began = time.perf_counter()
        done = evaluate(translator, task, Evaluating(metrics=("bleu", "chrf")))
        seconds, facts = time.perf_counter() - began, translator.meta["training"]
        texts[arm] = done.translations
        rows.append({
            "arm": arm, "weights": sum(p.numel() for p in translator.model.parameters()), "steps": facts["steps"],
            "minutes": facts["seconds"] / 60, "speed": facts["target_tokens"] / facts["seconds"], "translating": seconds,
            "bleu": done.scores["bleu"].value, "chrf": done.scores["chrf"].value,
        })  # fmt: skip
        if arm != "fixed":
            plots.append(_looking(translator, LABELS[arm]))
    assert task.sources is not None
    for row in rows:
        row |= _against(texts["fixed"], texts[row["arm"]], task, "fixed") | _against(
            texts["dot"], texts[row["arm"]], task, "dot"
        )
    return told(rows, plots)


def _against(first: list[str], other: list[str], task: Any, name: str) -> dict[str, float]:
    """How sure the difference in BLEU to another arm's translations is, and BLEU by length."""
    from regard.evaluation.compare import Comparing, compare

    options = Comparing(metrics=("bleu",), samples=SAMPLES, buckets=BUCKETS, worst=0)
    found = compare(task.references, first, other, task.sources, options=options)
    by_length = {f"bleu{n}": bucket.second for n, bucket in enumerate(found.buckets)}
    return by_length | {f"low_{name}": found.tests[0].low, f"high_{name}": found.tests[0].high}


def _looking(translator: Any, label: Any) -> Plot:
    """Where one short caption's translation looked."""
    from regard.inspection.tape import align

    source = "A man in a blue shirt is standing on a ladder."
    read_, begin_end = translator.tokenizers.source.tokens(source), translator.marks()
    written = translator.tokenizers.target.tokens(translator.translate([source])[0])
    weights = align(translator.model, [*read_.ids, begin_end[1]], [begin_end[0], *written.ids])
    return Plot(title=label, x=text("what it read", "读到的"), y=text("what it wrote", "写出的"), cells=weights.tolist())


def told(rows: list[dict[str, Any]], plots: list[Plot]) -> Measured:
    """What rows of all arms say; the same whether they were just measured or kept."""
    by = {row["arm"]: row for row in rows}
    finding = text(
        "BLEU on test2016: " + "; ".join(f"{LABELS[arm].en} {by[arm]['bleu']:.1f}" for arm in ARMS) + ".",
        "test2016 上的 BLEU：" + "；".join(f"{LABELS[arm].zh} {by[arm]['bleu']:.1f}" for arm in ARMS) + "。",
    )
    marks = [0, *BUCKETS]
    x = [float(a + b) / 2 for a, b in pairwise([*marks, 2 * BUCKETS[-1] - BUCKETS[-2]])]
    lines = [line(label=LABELS[arm], x=x, y=[by[arm][f"bleu{n}"] for n in range(len(x))]) for arm in ARMS]
    lengths = Plot(
        title=text("BLEU by length", "按长度的 BLEU"),
        x=text("source words", "源句词数"),
        y=text("BLEU", "BLEU"),
        lines=lines,
    )
    looks = [plot for plot in plots if plot.cells is not None]
    return Measured(columns=COLUMNS, rows=rows, checks=judge(by), finding=finding, limits=LIMITS, plots=[lengths, *looks])


def judge(by: dict[str, dict[str, Any]]) -> list[Check]:
    """Checks of the rows by arm."""
    last = f"bleu{len(BUCKETS)}"
    sure = text(
        f"lower end of the 95 % interval, {SAMPLES:,} paired bootstrap samples", f"95 % 区间下端，{SAMPLES:,} 次成对自助抽样"
    )
    long = by["transformer"][last] - by["fixed"][last]
    short = by["transformer"]["bleu0"] - by["fixed"]["bleu0"]
    minutes = [its["minutes"] for its in by.values()]
    return [
        check("claim", "attention", text("BLEU: the better recurrent attention less the fixed vector",
              "BLEU：较好的循环注意力减固定向量"),
              max(by["additive"]["low_fixed"], by["dot"]["low_fixed"]), ">=", 0.0, sure, 1),
        check("claim", "transformer", text("BLEU: Transformer less the fixed vector", "BLEU：Transformer 减固定向量"),
              by["transformer"]["low_fixed"], ">=", 0.0, sure, 2),
        check("limit", "dot", text("BLEU: dot attention in a recurrent net less the Transformer",
              "BLEU：带点积注意力的循环网络减 Transformer"),
              -by["transformer"]["low_dot"], ">=", 0.0,
              text(f"upper end of the 95 % interval, {SAMPLES:,} paired bootstrap samples",
                   f"95 % 区间上端，{SAMPLES:,} 次成对自助抽样"), 2),
        check("claim", "long",
              text(f"BLEU above the fixed vector's, sentences over {BUCKETS[-1]} words less those up to {BUCKETS[0]}",
                                    f"高出固定向量的 BLEU：{BUCKETS[-1]} 词以上的句子减 {BUCKETS[0]} 词以下的句子"),
              long - short, ">=", 0.0, text("the gap is no smaller where sentences are long", "句子长时差距不应更小"), 3),
        check("control", "learned", text("BLEU of the fixed vector on the shortest sentences",
              "固定向量在最短句子上的 BLEU"),
              by["fixed"]["bleu0"], ">=", 20.0, text("it has learned to translate", "已学会翻译")),
        check("control", "budget", text("most minutes of an arm, against fewest", "各组训练分钟数的最大与最小之比"),
              max(minutes) / min(minutes), "<=", 1.05, BUDGET),
        check("note", "speed", text("target tokens a second in training, Transformer against fixed vector",
              "训练速度之比：Transformer 与固定向量"),
              by["transformer"]["speed"] / by["fixed"]["speed"], ">=", 1.0, text("by the clock: told, not judged",
                  "计时：只报告，不作判定")),
    ]  # fmt: skip


COLUMNS = [
    Column(key="arm", title=text("arm", "组")),
    Column(key="weights", title=text("weights", "参数数")),
    Column(key="steps", title=text("updates", "更新次数")),
    Column(key="minutes", title=text("minutes", "分钟")),
    Column(key="speed", title=text("target tokens/s", "目标词元/秒")),
    Column(key="translating", title=text("translating, s", "翻译用时，秒")),
    Column(key="bleu", title=text("BLEU", "BLEU")),
    Column(key="chrf", title=text("chrF", "chrF")),
    *(Column(key=f"bleu{n}", title=text(f"BLEU, {its} words", f"BLEU，{its} 词")) for n, its in
      enumerate([f"1-{BUCKETS[0]}", *(f"{a + 1}-{b}" for a, b in pairwise(BUCKETS)), f"> {BUCKETS[-1]}"])),
]  # fmt: skip
LIMITS = [
    text(
        f"{MINUTES} minutes on two cores with 29,000 captions: the order may be another with other data, sizes and times.",
        f"两个核 {MINUTES} 分钟、29,000 条图片说明：换成别的数据、规模与时间，次序可能不同。",
    ),
]


def _measure(setting: Setting) -> Measured:
    if setting.size == "full" and not setting.broken:
        return _train(setting)
    return read("ladder", COLUMNS, told, ("fixed", "transformer"), setting)


LAB = Lab(
    number=22,
    name="ladder",
    title=text("fixed vector, attention, Transformer on real captions", "真实图片说明上的固定向量、注意力与 Transformer"),
    quotes=(
        second("2.Seq2Seq的组成", "通常会包含注意力机制，以便在生成过程中动态关注输入序列的不同部分",
               "Usually there is attention, so that different parts of the input are attended to as the output is made."),
        second("1.Transformer诞生背景",
              "用纯注意力机制取代了RNN，同时继承了Seq2Seq的编码器-解码器架构、自回归"
              "生成方式和训练推理策略，一举解决了RNN的长距离依赖和并行计算两大痛点。",
               "(The Transformer) put attention alone in the place of RNNs, kept Seq2Seq's "
               "encoder-decoder, its autoregressive generation, training and inference, "
               "and at one stroke solved RNNs' two troubles: long-range dependence and "
               "parallel computation."),
        second("2.Tranformer相比RNN/LSTM的 又是", "捕捉长距离语义关联效果更好",
              "(Transformer) catches meanings that are far apart better."),
    ),
    design=Design(
        vary=text("the architecture", "架构"),
        fixed=text(f"Multi30k English to French, its recipes, {MINUTES} minutes of training on the same machine, beam 5",
                   f"Multi30k 英法，各自的配方，同一台机器上训练 {MINUTES} 分钟，束宽 5"),
        measured=text("BLEU and chrF on test2016, BLEU by length of the source, speed",
                      "test2016 上的 BLEU 与 chrF、按源句长度的 BLEU、速度"),
        control=text("the fixed vector translates short sentences", "固定向量能翻译短句"),
    ),
    expected="holds_with_limits",
    sabotage=text("fixed vector and Transformer have changed names", "固定向量与 Transformer 的名字互换"),
    measure=_measure,
)  # fmt: skip

"""L23: masked pretraining on real text, then few labels, against the same model from scratch."""

from __future__ import annotations

from typing import Any

from regard.labs.frame.bounds import INTERVAL, surely
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first
from regard.labs.frame.stored import RUNS, read, trained
from regard.labs.frame.values import Check, Column, Design, Measured, Plot, check, line, text

FEW, SEEDS = (100, 500), 5
LABELS = {"scratch": text("from scratch", "从头训练"), "pretrained": text("pretrained, then fine-tuned", "预训练 + 微调")}
TASKS = ("trec", "sst2")


def _accuracy(folder: Any) -> float:
    """Right answers on the test texts, as the model folder tells."""
    from regard.loading import load

    return float(load(folder).meta["scores"]["accuracy"]["value"])


def _train(setting: Setting) -> Measured:
    begun = trained("english-bert", RUNS / "finetune-pretraining", [])
    rows: list[dict[str, Any]] = []
    for task in TASKS:
        for labels in (*FEW, None):
            for seed in range(setting.seed + 1, setting.seed + 1 + SEEDS):
                for arm in LABELS:
                    settings = [f"training.seed={seed}", f"data.max_pairs={'null' if labels is None else labels}"]
                    if arm == "pretrained":
                        settings.append(f"model.from={begun}")
                    recipe = f"{task}-bert" + ("-scratch" if arm == "scratch" else "")
                    folder = RUNS / f"finetune-{task}-{labels or 'all'}-{arm}-{seed}"
                    accuracy = _accuracy(trained(recipe, folder, settings))
                    rows.append({"arm": arm, "task": task, "labels": labels or 0, "seed": seed, "accuracy": accuracy})
    return told(rows, [])


def _by(rows: list[dict[str, Any]], arm: str, task: str, labels: int) -> list[float]:
    chosen = [row for row in rows if (row["arm"], row["task"], row["labels"]) == (arm, task, labels)]
    return [row["accuracy"] for row in sorted(chosen, key=lambda row: row["seed"])]


def _gains(rows: list[dict[str, Any]], task: str, labels: int) -> list[float]:
    return [a - b for a, b in zip(_by(rows, "pretrained", task, labels), _by(rows, "scratch", task, labels))]


def told(rows: list[dict[str, Any]], plots: list[Plot]) -> Measured:
    """What the rows say; the same whether they were just measured or kept. labels: 0 for all there are."""

    def mean(arm: str, task: str, labels: int) -> float:
        its = _by(rows, arm, task, labels)
        return sum(its) / len(its)

    en, zh = [], []
    for task in TASKS:
        pair = f"{mean('scratch', task, FEW[0]):.1f} % → {mean('pretrained', task, FEW[0]):.1f} %"
        en.append(f"{task} with {FEW[0]} labels {pair}")
        zh.append(f"{task} 用 {FEW[0]} 个标签 {pair}")
    lines = [
        line(label=text(f"{task}, {LABELS[arm].en}", f"{task}，{LABELS[arm].zh}"), x=[float(n) for n in FEW],
             y=[mean(arm, task, labels) for labels in FEW])
        for task in TASKS for arm in LABELS
    ]  # fmt: skip
    plot = Plot(title=text("right answers", "正确率"), x=text("labels", "标签数"), y=text("%", "%"), lines=lines, log_x=True)
    finding = text("Right answers: " + "; ".join(en) + ".", "正确率：" + "；".join(zh) + "。")
    return Measured(columns=COLUMNS, rows=rows, checks=judge(rows), finding=finding, limits=LIMITS, plots=[plot])


def judge(rows: list[dict[str, Any]]) -> list[Check]:
    """Checks of the differences between the arms, seed by seed, in per cent of right answers."""
    made = [
        check("claim", f"gain-{task}", text(f"{task}, {FEW[0]} labels: right answers, pretrained less from scratch, %",
                                            f"{task}，{FEW[0]} 个标签：预训练与从头训练的正确率之差，%"),
              surely(_gains(rows, task, FEW[0])), ">=", 0.0, INTERVAL)
        for task in TASKS
    ]  # fmt: skip
    for task in TASKS:
        few, every = _gains(rows, task, FEW[0]), _gains(rows, task, 0)
        from_scratch = _by(rows, "scratch", task, 0)
        rise = surely([a - b for a, b in zip(from_scratch, _by(rows, "scratch", task, FEW[0]))])
        made += [
            check("control", f"labels-{task}", text(f"{task} from scratch: all labels less {FEW[0]}, %",
                                                    f"{task} 从头训练：全部标签与 {FEW[0]} 个标签之差，%"),
                  rise, ">=", 0.0, INTERVAL),
            check("limit", f"all-{task}", text(f"{task}: what pretraining gains with all labels, against with {FEW[0]}",
                                               f"{task}：用全部标签时预训练的提升，与 {FEW[0]} 个时之比"),
                  sum(every) / max(sum(few), 1e-9), "<=", 0.5, text("half", "一半")),
        ]  # fmt: skip
    return made


COLUMNS = [
    Column(key="task", title=text("task", "任务")),
    Column(key="arm", title=text("arm", "组")),
    Column(key="labels", title=text("labels (0: all)", "标签数（0：全部）")),
    Column(key="seed", title=text("seed", "种子")),
    Column(key="accuracy", title=text("right, %", "正确率，%")),
]
LIMITS = [
    text(
        "Two million words and a small model: the gains are those of "
        "this size, and both arms have as many updates on the labels.",
        "两百万词与一个小模型：提升只对这样的规模而言；两组在标签上的更新次数相同。",
    ),
]


def _measure(setting: Setting) -> Measured:
    if setting.size == "full" and not setting.broken:
        return _train(setting)
    return read("finetune", COLUMNS, told, ("scratch", "pretrained"), setting)


LAB = Lab(
    number=23,
    name="finetune",
    title=text("pretraining and fine-tuning on real text", "真实文本上的预训练与微调"),
    quotes=(
        first("后续用途 / 连接", "通过大规模无监督预训练获得通用语言表示。",
              "Through pretraining on much text without labels they gain general representations of language."),
        first("阶段 | 代表工作 | 核心变化", "双向注意力，预训练 + 微调", "Attention both ways, pretraining + fine-tuning"),
    ),
    design=Design(
        vary=text("pretrained or not; the number of labels", "是否预训练；标签数"),
        fixed=text(f"the recipes english-bert, trec-bert and sst2-bert; updates on the labels; {SEEDS} seeds",
                   f"配方 english-bert、trec-bert、sst2-bert；在标签上的更新次数；{SEEDS} 个种子"),
        measured=text("right answers on the test texts", "测试文本上的正确率"),
        control=text("from scratch more labels help", "从头训练时，标签多则更好"),
    ),
    expected="holds",
    sabotage=text("the arms have changed names", "两组的名字互换"),
    measure=_measure,
)  # fmt: skip

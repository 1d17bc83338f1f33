"""L17: is a high weight a cause? Attention against what the model's answer really hangs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.architecture import Description, Targets
from regard.inspection.tape import record
from regard.labs.frame.bounds import noise
from regard.labs.frame.build import built, from_vectors, stack
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import second
from regard.labs.frame.train import right, train
from regard.labs.frame.values import Check, Column, Design, Measured, Plot, check, text
from regard.layers.attention import ScaledDot
from regard.layers.heads import Classify
from regard.layout import Layout

CLASSES, NOISE, LENGTH, WIDTH, BATCH, ROWS = 6, 20, 13, 32, 64, 256
WHOLE, BLANK = CLASSES + NOISE, CLASSES + NOISE + 1
"""The token that the head reads, first in every text; the token that takes another's place when it is taken out."""
DEPTHS = (1, 3)
WAYS = {
    "last": text("attention, last block, mean of heads", "注意力，最后一块，各头平均"),
    "head": text("attention, the best single head of all", "注意力，所有头中最好的一个"),
    "worst": text("attention, the worst single head of all", "注意力，所有头中最差的一个"),
    "rollout": text("attention rollout", "注意力累积（rollout）"),
    "gradient": text("input × gradient", "输入 × 梯度"),
    "integrated": text("integrated gradients", "积分梯度"),
    "taken": text("taking the token out", "去掉该词元"),
}
Shares = dict[str, float]


def _texts(source: torch.Generator, rows: int = BATCH) -> tuple[dict[str, Any], Tensor]:
    """Noise with one token that says the class, and where it stands."""
    ids = torch.randint(CLASSES, CLASSES + NOISE, (rows, LENGTH), generator=source)
    answer = torch.randint(0, CLASSES, (rows,), generator=source)
    place = torch.randint(1, LENGTH, (rows,), generator=source)
    ids[torch.arange(rows), place], ids[:, 0] = answer, WHOLE
    blank = torch.rand(ids.shape, generator=source) < 0.1  # so that a token taken out is nothing strange
    blank[:, 0] = blank[torch.arange(rows), place] = False
    return {"inputs": ids.masked_fill(blank, BLANK), "targets": Targets(answer)}, place


def _attention(model: Any, ids: Tensor) -> dict[str, Tensor]:
    """Scores Float[B T] of the tokens by attention's weights: of the first token's row, and of its rollout."""
    with torch.no_grad(), record(model) as tape:
        model(ids)
    layers = [tape.weights(name) for name in tape.names]
    flow = torch.eye(LENGTH).expand(len(ids), -1, -1)
    for weights in layers:
        flow = (0.5 * weights.mean(1) + 0.5 * torch.eye(LENGTH)) @ flow
    heads = {f"{n}.{h}": weights[:, h, 0] for n, weights in enumerate(layers) for h in range(weights.shape[1])}
    return heads | {"last": layers[-1].mean(1)[:, 0], "rollout": flow[:, 0]}


def _gradients(model: Any, ids: Tensor, answer: Tensor, steps: int) -> tuple[Tensor, Tensor, float]:
    """Scores Float[B T] by input × gradient and by integrated gradients from zero vectors, and how far the sum of the latter
    is from what it must be, as a share of it."""
    layout = Layout.unpadded(LENGTH)
    vectors = model.encoder.embed(ids, layout).detach()

    def slope(share: float) -> tuple[Tensor, Tensor]:
        given = (vectors * share).requires_grad_()
        hook = from_vectors(model.encoder, given)
        said = model(ids).logits.gather(1, answer[:, None])[:, 0]
        hook.remove()
        (found,) = torch.autograd.grad(said.sum(), given)
        return found, said.detach()

    whole, said = slope(1.0)
    _, nothing = slope(0.0)
    mean = torch.stack([slope((n + 0.5) / steps)[0] for n in range(steps)]).mean(0)
    integrated = (vectors * mean).sum(-1)
    missing = (integrated.sum(1) - (said - nothing)).abs().mean() / (said - nothing).abs().mean()
    return (vectors * whole).sum(-1), integrated, float(missing)


@torch.no_grad()
def _taken(model: Any, ids: Tensor, answer: Tensor) -> Tensor:
    """What the answer's logit loses without each token: Float[B T]."""
    whole = model(ids).logits.gather(1, answer[:, None])
    lost = []
    for place in range(LENGTH):
        other = ids.clone()
        other[:, place] = BLANK if place else WHOLE
        lost.append(whole - model(other).logits.gather(1, answer[:, None]))
    return torch.cat(lost, 1)


def _found(scores: Tensor, place: Tensor) -> float:
    """How often the token with the highest score, the first left out, is the cause."""
    return float((scores[:, 1:].argmax(1) + 1 == place).float().mean())


@torch.no_grad()
def _moved(model: Any, ids: Tensor) -> float:
    """How many answers change if the last block's weights change places among the keys, at random for each query."""
    before = model(ids).logits.argmax(1)

    def shuffle(attend: Any, given: tuple[Any, ...], out: Tensor) -> Tensor:
        q, k, v, mask, *_ = given
        weights = attend.explain(q, k, mask)
        return weights.gather(-1, torch.rand_like(weights).argsort(-1)) @ v

    hook = model.encoder.blocks[-1].attention.attend.register_forward_hook(shuffle)
    after = model(ids).logits.argmax(1)
    hook.remove()
    return float((before != after).float().mean())


def _model(depth: int, broken: bool, seed: int) -> Any:
    attend = ScaledDot(0.0) if broken else None
    its = stack(d_model=WIDTH, num_layers=depth, vocab_size=BLANK + 1, attend=attend)
    return built(Description(Classify(CLASSES, "first"), its), torch.float32, seed)


def _looked(model: Any, given: dict[str, Any], place: Tensor, steps: int) -> tuple[Shares, float]:
    """For each way of asking, how often it finds the cause; and the error of the integrated gradients."""
    ids, answer = given["inputs"], given["targets"].ids
    attention = _attention(model, ids)
    heads = [_found(scores, place) for name, scores in attention.items() if "." in name]
    gradient, integrated, missing = _gradients(model, ids, answer, steps)
    told = {"last": attention["last"], "rollout": attention["rollout"], "gradient": gradient, "integrated": integrated,
            "taken": _taken(model, ids, answer)}  # fmt: skip
    return {way: _found(scores, place) for way, scores in told.items()} | {"head": max(heads), "worst": min(heads)}, missing


def _measure(setting: Setting) -> Measured:
    steps = setting.pick(300, 800, 3000)
    given, place = _texts(torch.Generator().manual_seed(setting.seed + 2), ROWS)
    rows: list[dict[str, Any]] = []
    found: dict[int, Shares] = {}
    facts: dict[int, dict[str, float]] = {}
    draw: Callable[[torch.Generator], dict[str, Any]] = lambda source: _texts(source)[0]  # noqa: E731
    for depth in DEPTHS:
        model = _model(depth, setting.broken, setting.seed)
        begin = _looked(model, given, place, 2)[0]
        train(model, draw, steps, setting.seed, rate=5e-3)
        found[depth], missing = _looked(model, given, place, setting.pick(16, 64, 256))
        accuracy = right(model, given)
        facts[depth] = {
            "accuracy": accuracy,
            "moved": _moved(model, given["inputs"]),
            "begin": begin["last"],
            "missing": missing,
        }
        rows += [{"depth": depth, "way": WAYS[way], "found": found[depth][way], "accuracy": accuracy} for way in WAYS]
    one, deep = (found[depth] for depth in DEPTHS)
    finding = text(
        f"The token with the most weight is the cause in {one['last']:.0%} of the texts with one block and in "
        f"{deep['last']:.0%} with {DEPTHS[1]}; taking tokens out finds it in {one['taken']:.0%} and {deep['taken']:.0%}. "
        f"Of the {DEPTHS[1]} blocks' heads the best finds it in {deep['head']:.0%}, the worst in {deep['worst']:.0%}. "
        f"Weights put in other places change {facts[DEPTHS[0]]['moved']:.0%} and {facts[DEPTHS[1]]['moved']:.0%} of the "
        "answers.",
        f"权重最大的词元就是原因的比例：一个块时 {one['last']:.0%}，{DEPTHS[1]} 个块时 {deep['last']:.0%}；去掉词元的方"
        f"法为 {one['taken']:.0%} 与 {deep['taken']:.0%}。{DEPTHS[1]} 个块的各头中最好的为 {deep['head']:.0%}，最差的为 "
        f"{deep['worst']:.0%}。打乱权重改变了 {facts[DEPTHS[0]]['moved']:.0%} 与 {facts[DEPTHS[1]]['moved']:.0%} 的答案。",
    )
    plot = Plot(
        title=text("the cause is found: 1 block, 3 blocks", "找到原因：1 个块、3 个块"), x=text("way", "方法"),
                   y=text("blocks", "块"),
        cells=[[its[way] for way in WAYS] for its in found.values()],
    )  # fmt: skip
    return Measured(columns=COLUMNS, rows=rows, checks=judge(found, facts), finding=finding, limits=LIMITS, plots=[plot])


def judge(found: dict[int, Shares], facts: dict[int, dict[str, float]]) -> list[Check]:
    """Checks of how often each way finds the cause, by depth."""
    one, deep = (found[depth] for depth in DEPTHS)
    half, tokens = text("more than half, and four standard errors", "一半以上加四个标准误"), LENGTH - 1
    chance = 1 / tokens + noise(ROWS, 1 / tokens)
    nine = text("nine of ten", "十分之九")
    return [
        check("claim", "one", text("1 block: the token with the most weight is the cause", "1 个块：权重最大的词元就是原因"),
              one["last"], ">=", 0.5 + noise(ROWS), half),
        check("control", "cause", text("taking out the token finds the cause, the worse depth",
              "去掉词元能找到原因（较差的深度）"),
              min(one["taken"], deep["taken"]), ">=", 0.9, nine),
        check("control", "task", text("right answers, the worse depth", "正确率（较差的深度）"),
              min(its["accuracy"] for its in facts.values()), ">=", 0.9, nine),
        check("control", "begin", text("1 block before training: the token with the most weight is the cause",
                                       "1 个块训练前：权重最大的词元就是原因"),
              facts[DEPTHS[0]]["begin"], "<=", 0.5, text("half", "一半")),
        check("note", "elsewhere", text(f"{DEPTHS[1]} blocks: the worst head finds the cause",
              f"{DEPTHS[1]} 个块：最差的头找到原因"),
              deep["worst"], "<=", 0.5 - noise(ROWS), text("less than half, by four standard errors", "比一半少四个标准误")),
        check("note", "deep", text(f"{DEPTHS[1]} blocks: the token with the most weight in the last one is the cause",
                                   f"{DEPTHS[1]} 个块：最后一块中权重最大的词元就是原因"), deep["last"], ">=",
                                       0.5 + noise(ROWS), half),
        check("note", "chance", text(f"{DEPTHS[1]} blocks: the same against chance", f"{DEPTHS[1]} 个块：与随机猜测相比"),
              deep["last"], ">=",
              chance, text(f"1/{tokens} and four standard errors", f"1/{tokens} 加四个标准误")),
        check("limit", "unmoved",
              text(f"{DEPTHS[1]} blocks: answers that change with the last block's weights put in other places",
                                      f"{DEPTHS[1]} 个块：打乱最后一块的权重后改变的答案"),
              facts[DEPTHS[1]]["moved"], "<=", 0.5, text("half", "一半")),
        check("note", "complete", text("integrated gradients: what is missing from the sum, as a share",
                                       "积分梯度：总和所缺的比例"),
              max(its["missing"] for its in facts.values()), "<=", 0.2, text("a fifth, for so few steps",
                  "步数很少时五分之一")),
    ]  # fmt: skip


COLUMNS = [
    Column(key="depth", title=text("blocks", "块数")),
    Column(key="way", title=text("asked by", "方法")),
    Column(key="found", title=text("finds the cause", "找到原因")),
    Column(key="accuracy", title=text("right answers", "正确率")),
]
LIMITS = [
    text(
        "With one block the weight must lie on the cause, for there is no other way to the answer. "
        "With more, the last block's weights may lie on it all the same, and yet put in other "
        "places they change next to no answer: earlier blocks have passed the cause on from token "
        "to token. A weight tells where a head read in its own block, not what the answer hangs on.",
        "只有一个块时权重只能落在原因上，因为没有别的路通向答案。块多了，最后一块的权重也许仍落在原因上，但打乱它们几乎"
        "不改变答案：前面的块已经把原因在词元之间传开了。权重只说明一个头在自己那一块里读了哪里，而不是答案取决于什么。",
    ),
    text(
        "To find a cause, take it out and see: attention is where to begin looking, not the proof.",
        "要找原因，就去掉它看看：注意力可以是线索，不是证明。",
    ),
]
LAB = Lab(
    number=17,
    name="explain",
    title=text("is a high weight a cause?", "权重高就是原因吗？"),
    quotes=(
        second("四、总结", "让模型学会把注意力放在数据中最具辨识度的地方",
               "Lets the model learn to put its attention where the data are most telling."),
        second("2.为什么需要注意力机制", "能注意到最重要的信息，不眉毛胡子一把抓",
               "It can attend to the most important information and need not grasp at everything."),
    ),
    design=Design(
        vary=text("the number of blocks; how tokens are ranked: weights, rollout, gradients, taking out",
                  "块数；给词元排序的方法：权重、累积、梯度、去掉"),
        fixed=text(f"{LENGTH} tokens of which one says the class, width {WIDTH}, 4 heads, no positions, batches, updates, "
                   "Adam at 0.005",
                   f"{LENGTH} 个词元，其中一个决定类别，宽 {WIDTH}，4 个头，无位置编码，批次、更新次数、Adam 0.005"),
        measured=text(f"how often the highest rank is the planted cause, {ROWS} unseen texts; answers that change with "
                      "weights put in other places",
                      f"{ROWS} 个未见序列中排名最高者就是所埋原因的比例；打乱权重后改变的答案"),
        control=text("taking tokens out finds the cause: the answer does hang on it; before training attention does not",
                     "去掉词元能找到原因：答案确实取决于它；训练前注意力找不到"),
    ),
    expected="holds_with_limits",
    sabotage=text("all weights are held even: the model answers as well, and attention shows nothing",
                  "所有权重保持均匀：模型照样能答，而注意力什么也不显示"),
    measure=_measure,
)  # fmt: skip

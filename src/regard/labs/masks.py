"""L5: which inputs an output depends on: seen from both sides, causal, prefix, encoder-decoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.architecture import Description
from regard.labs.frame.bounds import EXACT, ROUNDING, rounding
from regard.labs.frame.build import VOCAB, built, dependency, from_vectors, language_model, stack
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first, second
from regard.labs.frame.values import Check, Column, Design, Measured, Plot, Text, check, text
from regard.layers.heads import NextToken
from regard.layers.masks import Causal, Mask, Prefix, Window
from regard.layers.positions import Rotary, Sinusoidal
from regard.layout import Layout

WIDTH, TOKENS, FIRST = 16, 8, 3
"""FIRST: tokens of the prefix."""
ARMS = {
    "both": text("both ways (BERT)", "双向（BERT）"),
    "causal": text("causal (GPT)", "因果（GPT）"),
    "prefix": text("causal with a prefix", "带前缀的因果"),
    "decoder": text("decoder on its own tokens", "解码器对自己的词元"),
    "cross": text("decoder on the source", "解码器对源序列"),
}


def _causal(broken: bool) -> Mask:
    """broken: off by one, the next token is seen too."""
    return Causal() | Window(2) if broken else Causal()


def _reads(model: Any, layout: Layout) -> Any:
    """An encoder as a function of the vectors that stand in for its embeddings."""

    def read(x: Tensor) -> Tensor:
        hook = from_vectors(model, x)
        try:
            return model(torch.zeros(x.shape[:2], dtype=torch.long), layout).states
        finally:
            hook.remove()

    return read


def _answers(model: Any, source: Tensor | None, target: Tensor | None) -> Any:
    """An encoder-decoder as a function of its source vectors, or where those are given of its target vectors."""

    def read(x: Tensor) -> Tensor:
        sides = {model.encoder: source, model.decoder: target}
        hooks = [from_vectors(half, x if its is None else its.expand(len(x), -1, -1)) for half, its in sides.items()]
        try:
            ids = torch.zeros(len(x), TOKENS, dtype=torch.long)
            return model(ids, ids, layout=Layout.unpadded(TOKENS), output_layout=Layout.unpadded(TOKENS)).logits
        finally:
            for hook in hooks:
                hook.remove()

    return read


def _maps(broken: bool) -> dict[str, Tensor]:
    """Float[T S] of each arm: how strongly output t depends on input s."""
    x, y = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    causal, plain = _causal(broken), Layout.unpadded(TOKENS)
    marked = replace(plain, mark=(torch.arange(TOKENS) < FIRST).long()[None])
    arms = (("both", None, plain), ("causal", causal, plain), ("prefix", causal | Prefix(), marked))
    found = {name: dependency(_reads(built(stack(mask, d_model=WIDTH)), layout), x) for name, mask, layout in arms}
    parts = (stack(d_model=WIDTH), stack(causal, d_model=WIDTH, cross=True))
    model = built(Description(NextToken(11), *parts))
    found["decoder"] = dependency(_answers(model, y[None], None), x)
    found["cross"] = dependency(_answers(model, None, y[None]), x)
    return found


def _language_model(broken: bool, dtype: torch.dtype) -> Any:
    description = language_model(Rotary())
    if broken:
        block = description.decoder.blocks[0]
        block = replace(block, attention=replace(block.attention, mask=_causal(True)))
        description = replace(description, decoder=replace(description.decoder, blocks=(block,) * 2))
    return built(description, dtype)


@torch.no_grad()
def _changed(model: Any, ids: Tensor) -> Tensor:
    """Float[T], by how much each answer changes when the last token is another one."""
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % VOCAB
    return (model(ids).logits - model(other).logits).abs().amax((0, 2))


@torch.no_grad()
def _stepwise(model: Any, ids: Tensor) -> float:
    """Largest difference between the logits of all tokens at once and those of one after another."""
    state, at_once = model.start(None, ids.shape[1]), model(ids).logits
    each = [model.step(ids[:, t : t + 1], state) for t in range(ids.shape[1])]
    return float((torch.stack(each, 1) - at_once).abs().max())


def _measure(setting: Setting) -> Measured:
    maps = _maps(setting.broken)
    ids = torch.randint(VOCAB, (4, setting.pick(12, 24, 96)))
    double, single = (_language_model(setting.broken, dtype) for dtype in (torch.float64, torch.float32))
    changed = _changed(single, ids)
    seeing = _both_ways(ids)
    above = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    hidden = above.clone()
    hidden[:, :FIRST] = False
    rows: list[dict[str, Any]] = []
    for name, its in maps.items():
        upper, lower = float(its[above].max()), float(its[~above].min())
        rows.append({"arm": ARMS[name], "above": upper, "below": lower, "least": float(its.min())})
    found = {
        "both": float(maps["both"].min()),
        "future": max(float(maps[name][above].max()) for name in ("causal", "decoder")),
        "past": min(float(maps[name][~above].min()) for name in ("causal", "decoder")),
        "prefix_hidden": float(maps["prefix"][hidden].max()),
        "prefix_seen": float(maps["prefix"][~hidden].min()),
        "cross": float(maps["cross"].min()),
        "earlier": float(changed[:-1].max()),
        "seeing": float(seeing[:-1].max()),
        "double": _stepwise(double, ids),
        "single": _stepwise(single, ids),
        "length": ids.shape[1],
    }
    finding = text(
        f"Above the diagonal the causal derivatives are {found['future']:.1g}, below it at least {found['past']:.1e}. "
        "Another "
        f"last token changes earlier answers by {found['earlier']:.1g}, where all is seen by {found['seeing']:.2f}. All "
        "at once "
        f"and one after another differ by {found['double']:.1e}.",
        f"对角线以上的导数为 {found['future']:.1g}，以下至少为 {found['past']:.1e}。更换最后一个词元，之前的输出改变 "
        f"{found['earlier']:.1g}；"
        f"双向时改变 {found['seeing']:.2f}。一次算完与逐个计算相差 {found['double']:.1e}。",
    )
    plots = [
        Plot(title=ARMS[name], x=text("input s", "输入 s"), y=text("output t", "输出 t"), cells=its.tolist())
        for name, its in maps.items()
    ]
    return Measured(columns=COLUMNS, rows=rows, checks=_checks(found), finding=finding, limits=LIMITS, plots=plots)


@torch.no_grad()
def _both_ways(ids: Tensor) -> Tensor:
    """Control: the same change in an encoder that sees both ways."""
    model, other, layout = built(stack(position=Sinusoidal()), torch.float32), ids.clone(), Layout.unpadded(ids.shape[1])
    other[:, -1] = (other[:, -1] + 1) % VOCAB
    return (model(ids, layout).states - model(other, layout).states).abs().amax((0, 2))


def _checks(found: dict[str, float]) -> list[Check]:
    terms = int(2 * (6 * 64 + found["length"]))
    some = torch.finfo(torch.float64).eps
    more = text("more than rounding", "大于舍入误差")

    def one(role: Any, name: str, what: Text, operator: Any, bound: float, origin: Text, *quotes: int) -> Check:
        return check(role, name, what, found[name], operator, bound, origin, *quotes)

    return [
        one("claim", "both", text("both ways: least dependence of any output on any input",
        "双向：任一输出对任一输入的最小依赖"),
            ">=", some, more, 1),
        one("claim", "future", text("causal: greatest dependence on what comes later", "因果：对后面词元的最大依赖"),
            "==", 0.0, EXACT, 2),
        one("claim", "past", text("causal: least dependence on what came before", "因果：对之前词元的最小依赖"),
            ">=", some, more, 2),
        one("claim", "earlier", text("earlier logits, when the last token changes (float32)",
                                     "更换最后一个词元时，之前 logits 的变化（float32）"), "==", 0.0, EXACT, 2),
        one("claim", "prefix_hidden", text("prefix: greatest dependence on later tokens past it",
        "前缀：对前缀之后的后续词元的最大依赖"),
            "==", 0.0, EXACT, 3),
        one("claim", "prefix_seen", text("prefix: least dependence on it and on the past",
        "前缀：对前缀和之前词元的最小依赖"),
            ">=", some, more, 3),
        one("claim", "cross", text("decoder: least dependence on any source token", "解码器：对任一源词元的最小依赖"), ">=",
        some, more, 3),
        one("claim", "double", text("all at once = one after another (float64)", "一次算完 = 逐个计算（float64）"),
            "<=", rounding(torch.float64, terms, 4.0), ROUNDING, 4),
        one("claim", "single", text("the same in float32", "float32 下同上"),
            "<=", rounding(torch.float32, terms, 4.0), ROUNDING, 4),
        one("control", "seeing", text("both ways: earlier outputs, when the last token changes",
                                      "双向：更换最后一个词元时，之前输出的变化"), ">=", rounding(torch.float32, terms,
                                      4.0), ROUNDING),
    ]  # fmt: skip


COLUMNS = [
    Column(key="arm", title=text("arm", "组")),
    Column(key="above", title=text("most, above the diagonal", "对角线以上最大")),
    Column(key="below", title=text("least, on or below it", "对角线及以下最小")),
    Column(key="least", title=text("least of all", "总体最小")),
]
LIMITS = [
    text(
        "A derivative says that an output may depend on an input, not how much it does after training.",
        "导数说明输出可能依赖某个输入，并不说明训练之后依赖多少。",
    ),
]
LAB = Lab(
    number=5,
    name="masks",
    title=text("what an output may depend on", "输出可以依赖哪些输入"),
    quotes=(
        first(
            "发展方向",
            "编码器路线 | BERT (2018) | 双向注意力，预训练 + 微调",
            "The encoder's way | BERT (2018) | attention both ways, …",
        ),
        first(
            "发展方向",
            "解码器路线 | GPT 系列 (2018–) | 自回归生成，规模化",
            "The decoder's way | GPT (2018–) | autoregressive generation, …",
        ),
        first(
            "发展方向",
            "编码器-解码器 | T5, BART | 文本到文本统一框架",
            "Encoder-decoder | T5, BART | one frame from text to text.",
        ),
        second(
            "二、Seq2Seq架构 2.Seq2Seq的组成",
            "逐个生成输出序列，每个时刻的输出会作为下一时刻的输入（自回归生成）",
            "The output is made one by one; each moment's output is the next one's input (autoregressive generation).",
        ),
    ),
    design=Design(
        vary=text(
            "the mask: everything, causal, causal with a prefix; encoder-decoder",
            "掩码：全部、因果、带前缀的因果；编码器-解码器",
        ),
        fixed=text("two blocks, 4 heads, weights, inputs", "两个块、4 个头、权重、输入"),
        measured=text(
            "norm of the derivative of each output by each input; bits of earlier logits; logits at once and stepwise",
            "每个输出对每个输入的导数的范数；之前 logits 的逐位比较；一次算完与逐步的 logits",
        ),
        control=text("both ways: the last token must change earlier outputs", "双向：最后一个词元必须改变之前的输出"),
    ),
    expected="holds",
    sabotage=text("the causal mask is off by one: the next token is seen", "因果掩码错一位：能看到下一个词元"),
    measure=_measure,
)

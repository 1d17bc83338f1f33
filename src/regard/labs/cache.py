"""L13: reading token after token through caches of keys and values gives what reading everything again gives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.architecture import Description
from regard.decoding.options import Search
from regard.decoding.search import search
from regard.labs.frame.bounds import EXACT, ROUNDING, log_fit, rounding
from regard.labs.frame.build import D_MODEL, NUM_HEADS, VOCAB, built, language_model, stack
from regard.labs.frame.counts import flops
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import second
from regard.labs.frame.values import Check, Column, Design, Line, Measured, Plot, check, text
from regard.layers.heads import NextToken
from regard.layers.masks import Causal
from regard.layers.positions import Rotary, Sinusoidal
from regard.layout import Layout

ROWS, SOURCE, LAYERS = 3, 7, 2
KINDS = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
ARMS = {
    "alone": text("decoder alone, rotary positions", "仅解码器，旋转位置编码"),
    "both": text("encoder-decoder, sinusoids", "编码器-解码器，正弦位置编码"),
}


def _model(arm: str, dtype: torch.dtype) -> Any:
    if arm == "alone":
        return built(language_model(Rotary(), num_layers=LAYERS), dtype)
    parts = stack(position=Sinusoidal()), stack(Causal(), Sinusoidal(), cross=True)
    return built(Description(NextToken(VOCAB), *parts), dtype)


def _start(model: Any, source: Tensor, room: int) -> Any:
    return model.start(None if model.encoder is None else model.encode(source), room)


def _step(model: Any, tokens: Tensor, state: Any, broken: bool) -> Tensor:
    """One step through the cache. broken: every token says that it stands at position 0."""
    return model.step(tokens, state, Layout.unpadded(1) if broken else None)


@torch.no_grad()
def _cached(model: Any, source: Tensor, ids: Tensor, broken: bool) -> tuple[Tensor, Any]:
    """Logits Float[B T V], one token after another, and the state at the end."""
    state = _start(model, source, ids.shape[1])
    each = [_step(model, ids[:, t : t + 1], state, broken) for t in range(ids.shape[1])]
    return torch.stack(each, 1), state


@torch.no_grad()
def _again(model: Any, source: Tensor, ids: Tensor) -> Tensor:
    """Logits Float[B T V], everything so far read again for each token."""
    each = []
    for t in range(ids.shape[1]):
        given = ids[:, : t + 1]
        answer = model(given) if model.encoder is None else model(source, given)
        each.append(answer.logits[:, -1])
    return torch.stack(each, 1)


def _bytes(state: Any) -> int:
    """What the caches of the decoder's own tokens hold."""
    kept = [t[:, :, : cache.length] for cache in state.caches for t in (cache.keys, cache.values)]
    return sum(t.numel() * t.element_size() for t in kept)


@torch.no_grad()
def _reordered(model: Any, source: Tensor, ids: Tensor, broken: bool, select: bool) -> float:
    """Beams change places half way: largest difference between the logits that follow and those of a pass over the texts
    that the rows now are. select: the caches are told, as search tells them."""
    half, places = ids.shape[1] // 2, torch.tensor([1, 1, 0])
    source = source[:1].expand(ROWS, -1)
    state = _start(model, source[:1], ids.shape[1])
    if model.encoder is not None:
        state.select(torch.zeros(ROWS, dtype=torch.long))  # the beams of one sentence
    for t in range(half):
        _step(model, ids[:, t : t + 1], state, broken)
    if select:
        state.select(places)
    after = [_step(model, ids[:, t : t + 1], state, broken) for t in range(half, ids.shape[1])]
    texts = torch.cat([ids[places, :half], ids[:, half:]], 1)
    wanted = _again(model, source, texts)[:, half:]
    return float((torch.stack(after, 1) - wanted).abs().max())


def _flops(model: Any, ids: Tensor, at: int, cached: bool) -> int:
    """FLOPs of the answer after token number `at`, counted as they are done."""
    if not cached:
        return flops(lambda: model(ids[:, :at]))
    state = model.start(None, at)
    with torch.no_grad():
        model.step(ids[:, : at - 1], state)
    return flops(lambda: model.step(ids[:, at - 1 : at], state))


@torch.no_grad()
def _greedy(model: Any, source: Tensor, length: int) -> bool:
    """Whether the toolkit's greedy search, which feeds each token back, gives the ids of a loop that reads all again."""
    ids = torch.ones(len(source), 1, dtype=torch.long)
    for _ in range(length):
        logits = (model(ids) if model.encoder is None else model(source, ids)).logits[:, -1]
        ids = torch.cat([ids, logits.argmax(1, keepdim=True)], 1)
    wanted = [row[: row.index(0)] if 0 in row else row for row in ids[:, 1:].tolist()]
    given = source if model.encoder is not None else torch.ones(len(source), 1, dtype=torch.long)
    found = search(model, given, Layout.unpadded(given.shape[1]), Search(num_beams=1, max_length=length), bos=1, eos=0)
    return [list(answers[0].ids) for answers in found] == wanted


def _differences(broken: bool, source: Tensor, ids: Tensor) -> tuple[list[dict[str, Any]], dict[str, list[float]]]:
    """Cached against all again, by arm and type: the largest difference, how many answers change, the caches' bytes."""
    rows, by_step = [], {}
    for arm, label in ARMS.items():
        for kind, dtype in KINDS.items():
            model = _model(arm, dtype)
            cached, state = _cached(model, source, ids, broken)
            again = _again(model, source, ids)
            difference = (cached - again).abs().double().amax((0, 2))
            flips = int((cached.argmax(2) != again.argmax(2)).sum())
            expected = 2 * LAYERS * ids.shape[1] * D_MODEL * ROWS * dtype.itemsize
            its = {"arm": label, "key": arm, "dtype": kind, "difference": float(difference.max()), "flips": flips}
            rows.append(its | {"bytes": _bytes(state), "by_formula": expected})
            by_step[f"{arm}, {kind}"] = difference.tolist()
    return rows, by_step


def _measure(setting: Setting) -> Measured:
    source, ids = torch.randint(2, VOCAB, (ROWS, SOURCE)), torch.randint(2, VOCAB, (ROWS, setting.pick(12, 32, 128)))
    rows, by_step = _differences(setting.broken, source, ids)
    models = {arm: _model(arm, torch.float64) for arm in ARMS}
    lengths = setting.pick([16, 64, 256], [16, 32, 64, 128, 256, 512], [16, 64, 256, 1024, 2048])
    long = torch.randint(2, VOCAB, (1, max(lengths)))
    cost = {cached: [_flops(models["alone"], long, n, cached) for n in lengths] for cached in (True, False)}
    found: dict[str, float] = {kind: max(row["difference"] for row in rows if row["dtype"] == kind) for kind in KINDS}
    found |= {
        "bytes": max(abs(row["bytes"] - row["by_formula"]) for row in rows),
        "beams": max(_reordered(model, source, ids, setting.broken, True) for model in models.values()),
        "forgotten": min(_reordered(model, source, ids, setting.broken, False) for model in models.values()),
        "greedy": float(all(_greedy(model, source, setting.pick(8, 20, 60)) for model in models.values())),
        "length": ids.shape[1],
        "slope": log_fit(lengths[-3:], [float(n) for n in cost[False][-3:]]).slope,
        "cheaper": cost[False][-1] / cost[True][-1],
        "longest": lengths[-1],
    }
    finding = text(
        f"With and without the cache logits agree to {found['float64']:.1e} (float64) and {found['float32']:.1e} "
        "(float32). The "
        f"answer after token {lengths[-1]} costs {cost[True][-1]:,} FLOPs with it and {cost[False][-1]:,} without. Beams "
        "that "
        f"change places without the caches being told are off by {found['forgotten']:.2f}.",
        f"有无缓存的 logits 之差为 {found['float64']:.1e}（float64）和 {found['float32']:.1e}（float32）。第 "
        f"{lengths[-1]} 个词元之后的回答，"
        f"有缓存需 {cost[True][-1]:,} 次浮点运算，没有则需 {cost[False][-1]:,} 次。束换位而不通知缓存，偏差为 "
        f"{found['forgotten']:.2f}。",
    )
    told = [{key: value for key, value in row.items() if key != "key"} for row in rows]
    told += [{"n": n, "cached": a, "again": b} for n, a, b in zip(lengths, cost[True], cost[False])]
    return Measured(
        columns=COLUMNS,
        rows=told,
        checks=_checks(found),
        finding=finding,
        limits=LIMITS,
        plots=_plots(by_step, lengths, cost),
    )


def _checks(found: dict[str, float]) -> list[Check]:
    terms = int(2 * LAYERS * (6 * D_MODEL + found["length"]))
    same = [
        check("claim", kind, text(f"cached logits = logits of all read again ({kind})",
        f"缓存的 logits = 全部重读的 logits（{kind}）"),
              found[kind], "<=", rounding(KINDS[kind], terms, 4.0), ROUNDING) for kind in ("float64", "float32")
    ]  # fmt: skip
    return [
        *same,
        check("claim", "greedy", text("greedy search gives the ids of a loop that reads all again",
                                      "贪心搜索给出的 id 与每步全部重读的循环相同"), found["greedy"], "==", 1, EXACT),
        check("claim", "beams", text("beams change places, and the caches with them: logits after it",
                                     "束换位、缓存随之换位：之后的 logits"), found["beams"], "<=",
              rounding(torch.float64, terms, 4.0), ROUNDING),
        check("claim", "bytes", text("bytes of the caches, less 2 · layers · tokens · d_model · rows · size",
                                     "缓存字节数减去 2 · 层数 · 词元数 · d_model · 行数 · 字节宽度"), found["bytes"], "==",
                                     0, EXACT),
        check("control", "forgotten", text("beams change places, the caches are not told: logits after it",
                                           "束换位而不通知缓存：之后的 logits"), found["forgotten"], ">=",
              rounding(torch.float32, terms, 4.0), text("more than rounding in float32", "大于 float32 的舍入误差")),
        check("control", "grows", text("without the cache: exponent of an answer's FLOPs in the tokens read",
                                       "没有缓存：一次回答的浮点运算随词元数增长的指数"), found["slope"], ">=", 0.9,
              text("1 at least by theory", "理论值至少为 1")),
        check("note", "cheaper", text(f"FLOPs without the cache, against with it, after {found['longest']:.0f} tokens",
                                      f"{found['longest']:.0f} 个词元之后，无缓存与有缓存的浮点运算之比"),
              found["cheaper"], ">=", found["longest"] / 8, text("an eighth of the tokens", "词元数的八分之一")),
    ]  # fmt: skip


COLUMNS = [
    Column(key="arm", title=text("model", "模型")),
    Column(key="dtype", title=text("type", "数值类型")),
    Column(key="difference", title=text("max difference of logits", "logits 最大差")),
    Column(key="flips", title=text("answers changed", "改变的回答")),
    Column(key="bytes", title=text("bytes of caches", "缓存字节数")),
    Column(key="by_formula", title=text("by the formula", "按公式")),
    Column(key="n", title=text("token", "词元")),
    Column(key="cached", title=text("FLOPs cached", "有缓存的浮点运算")),
    Column(key="again", title=text("FLOPs again", "全部重读的浮点运算")),
]
LIMITS = [
    text(
        "The identity is of numbers with rounding: in bfloat16 a sum in another order may change which token is most "
        "likely.",
        "恒等只在舍入误差之内：bfloat16 下求和次序不同，可能改变最可能的词元。",
    ),
    text(
        f"A cached answer is not of constant cost: attention over n keys stays 4·n·d_model a layer ({NUM_HEADS} heads or "
        "one); "
        "what no longer grows are the products with the weights.",
        f"有缓存时一次回答的开销也不是常数：每层对 n 个键的注意力仍需 4·n·d_model（{NUM_HEADS} 个头或一个头都一样）；"
        "不再增长的是与权重的乘积。",
    ),
]


def _plots(by_step: dict[str, list[float]], lengths: list[int], cost: dict[bool, list[int]]) -> list[Plot]:
    names = {True: text("with the cache", "有缓存"), False: text("all again", "全部重读")}
    return [
        Plot(
            title=text("cached against all again", "有缓存与全部重读"),
            x=text("token", "词元"),
            y=text("max difference of logits", "logits 最大差"),
            log_y=True,
            lines=[
                Line(label=text(name, name), x=list(range(1, len(its) + 1)), y=[max(value, 1e-17) for value in its])
                for name, its in by_step.items()
            ],
        ),
        Plot(
            title=text("one answer", "一次回答"),
            x=text("tokens read", "已读词元"),
            y=text("FLOPs", "浮点运算"),
            log_x=True,
            log_y=True,
            lines=[
                Line(label=names[cached], x=[float(n) for n in lengths], y=[float(n) for n in its])
                for cached, its in cost.items()
            ],
        ),
    ]


LAB = Lab(
    number=13,
    name="cache",
    title=text("token after token through a cache", "借助缓存逐个生成"),
    quotes=(
        second(
            "二、Seq2Seq架构 2.Seq2Seq的组成",
            "逐个生成输出序列，每个时刻的输出会作为下一时刻的输入（自回归生成）",
            "The output is made one by one; each moment's output is the next one's input (autoregressive generation).",
        ),
    ),
    design=Design(
        vary=text(
            "with the cache and reading all again; number type; beams that change places",
            "有缓存与全部重读；数值类型；束的换位",
        ),
        fixed=text(f"{LAYERS} layers, d_model {D_MODEL}, weights, tokens", f"{LAYERS} 层，d_model {D_MODEL}，权重，词元"),
        measured=text(
            "largest difference of logits at each token; ids of greedy search; bytes of the caches; FLOPs of one answer",
            "每个词元处 logits 的最大差；贪心搜索的 id；缓存的字节数；一次回答的浮点运算",
        ),
        control=text(
            "beams change places and the caches are not told: logits must differ; reading all again must cost more and more",
            "束换位而不通知缓存：logits 必须不同；全部重读的开销必须不断增长",
        ),
    ),
    expected="holds",
    sabotage=text("every token says that it stands at position 0", "每个词元都声称自己在位置 0"),
    measure=_measure,
)

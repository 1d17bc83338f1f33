"""L6: the parts of the Transformer, counted, and what the decoder is handed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from regard import models
from regard.labs.frame.bounds import EXACT, VISIBLE
from regard.labs.frame.build import built, number_of_weights
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first, second
from regard.labs.frame.values import Check, Column, Design, Line, Measured, Plot, check, text
from regard.layers.positions import sinusoids
from regard.layers.state import Memory
from regard.layout import Layout

LAYERS, D_MODEL, D_FF, SOURCE, TARGET = 6, 32, 64, 50, 40
PARTS = {
    "input": text("input: embeddings and positions", "输入部分：嵌入与位置编码"),
    "encoder": text("encoder: layers", "编码器部分：各层"),
    "decoder": text("decoder: layers", "解码器部分：各层"),
    "output": text("output: linear layer (softmax has no weights)", "输出部分：线性层（Softmax 没有参数）"),
}
PREFIXES = {
    "encoder.embed.": "input",
    "decoder.embed.": "input",
    "encoder.blocks.": "encoder",
    "decoder.blocks.": "decoder",
    "head.": "output",
}
SUBLAYERS = ("attention", "cross", "feedforward")


def _model(broken: bool) -> Any:
    """The Transformer of 2017, small. broken: decoder layer i is handed what encoder layer i gave, as the note has it."""
    sizes = {"num_layers": LAYERS, "d_model": D_MODEL, "d_ff": D_FF, "num_heads": 4, "dropout": 0.0}
    made = models.find("transformer").describe(vocab_size=SOURCE, target_vocab_size=TARGET, tied="no", pad=None, **sizes)
    model = built(made)
    if broken:
        kept: dict[int, Tensor] = {}
        for number, (source, target) in enumerate(zip(model.encoder.blocks, model.decoder.blocks)):
            source.register_forward_hook(lambda _, given, out, number=number: kept.__setitem__(number, out))
            target.register_forward_pre_hook(lambda _, given, number=number: _handed(given, kept[number]))
    return model


def _handed(given: tuple[Any, ...], states: Tensor) -> tuple[Any, ...]:
    x, frame, cache, memory = given
    return x, frame, cache, Memory(states, memory.layout)


@torch.no_grad()
def _wiring(model: Any, ids: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Outputs of the encoder's layers, what each cross-attention makes keys and values from, and what it makes."""
    layers: list[Tensor] = []
    read: list[Tensor] = []
    made: list[Tensor] = []
    hooks = [block.register_forward_hook(lambda _, given, out: layers.append(out)) for block in model.encoder.blocks]
    for block in model.decoder.blocks:
        hooks.append(
            block.cross.kv.register_forward_hook(lambda _, given, out: (read.append(given[0]), made.append(out))[0])
        )
    model(ids, ids % TARGET)
    for hook in hooks:
        hook.remove()
    return layers, read, made


def _formula() -> dict[str, int]:
    """Numbers of weights by the book: 4d² + 4d of an attention, 2·d·d_ff + d_ff + d of a feed-forward, 2d of a norm."""
    attention, dense, norm = 4 * D_MODEL**2 + 4 * D_MODEL, 2 * D_MODEL * D_FF + D_FF + D_MODEL, 2 * D_MODEL
    return {
        "input": (SOURCE + TARGET) * D_MODEL,
        "encoder": LAYERS * (attention + dense + 2 * norm),
        "decoder": LAYERS * (2 * attention + dense + 3 * norm),
        "output": TARGET * D_MODEL,
    }


@torch.no_grad()
def _embedding(model: Any, ids: Tensor) -> tuple[float, float]:
    """Largest |one-hot · E - lookup|, and |embedding - (√d · token's vector + position's)|, as the layer computes it."""
    embed, table = model.encoder.embed, model.encoder.embed.tokens.weight
    one_hot = torch.nn.functional.one_hot(ids, SOURCE).to(table.dtype) @ table
    looked_up = embed.tokens(ids)
    whole = looked_up * embed.scale + sinusoids(ids.shape[1], D_MODEL).to(table.dtype)
    difference = embed(ids, Layout.unpadded(ids.shape[1])) - whole
    return float((one_hot - looked_up).abs().max()), float(difference.abs().max())


def _measure(setting: Setting) -> Measured:
    model, ids = _model(setting.broken), torch.randint(SOURCE, (2, 9))
    layers, read, made = _wiring(model, ids)
    hot, added = _embedding(model, ids)
    distance = torch.stack([torch.stack([(its - layer).abs().max() for layer in layers]) for its in read])
    sources = distance.argmin(1).tolist()
    count = dict.fromkeys(PARTS, 0)
    strays = 0
    for name, weight in model.named_parameters():
        part = next((part for prefix, part in PREFIXES.items() if name.startswith(prefix)), None)
        strays += part is None
        count[part or "input"] += weight.numel()
    formula = _formula()
    rows: list[dict[str, Any]] = [{"part": PARTS[part], "weights": count[part], "formula": formula[part]} for part in PARTS]
    rows += [
        {
            "part": text(f"decoder layer {i + 1} reads encoder layer", f"解码器第 {i + 1} 层读取的编码器层"),
            "reads": source + 1,
        }
        for i, source in enumerate(sources)
    ]
    found: dict[str, float] = {
        "parts": sum(count[part] > 0 for part in PARTS),
        "strays": strays,
        "encoder": _sublayers(model.encoder.blocks),
        "decoder": _sublayers(model.decoder.blocks),
        "weights": number_of_weights(model) - sum(formula.values()),
        "hot": hot,
        "added": added,
        "query": _query_side(model, ids),
        "read": len(set(sources)),
        "last": float((distance.min(1).values.max() == 0) and all(source == LAYERS - 1 for source in sources)),
        "apart": float(min((a - b).abs().max() for a, b in pairwise(layers))),
        "own": float(min((a - b).abs().max() for i, a in enumerate(made) for b in made[:i])),
    }
    finding = text(
        f"{number_of_weights(model):,} weights, as the formula says; 2 sub-layers a layer of the encoder and 3 of the "
        "decoder. "
        f"The {LAYERS} layers of the decoder make their keys and values from {found['read']:.0f} of the encoder's {LAYERS} "
        f"layers: number {', '.join(str(s + 1) for s in sorted(set(sources)))}.",
        f"共 {number_of_weights(model):,} 个参数，与公式一致；编码器每层 2 个子层，解码器每层 3 个。解码器的 {LAYERS} "
        f"层从编码器 {LAYERS} 层中的 "
        f"{found['read']:.0f} 层生成键和值：第 {'、'.join(str(s + 1) for s in sorted(set(sources)))} 层。",
    )
    plot = _plot(sources)
    return Measured(columns=COLUMNS, rows=rows, checks=_checks(found), finding=finding, limits=LIMITS, plots=[plot])


def _plot(sources: list[int]) -> Plot:
    layers = [float(number + 1) for number in range(LAYERS)]
    return Plot(
        title=text("which encoder layer is read", "读取编码器的哪一层"),
        x=text("decoder layer", "解码器层"),
        y=text("encoder layer", "编码器层"),
        lines=[
            Line(label=text("measured", "测量"), x=layers, y=[source + 1 for source in sources]),
            Line(label=text("as the note has it", "讲义的说法"), x=layers, y=layers, dashed=True),
        ],
    )


def _sublayers(blocks: Any) -> float:
    """Sub-layers of each block that have a norm of their own, if all blocks have as many; else -1."""
    counts = {
        sum(getattr(block, n, None) is not None and hasattr(block, f"{n}_norm") for n in SUBLAYERS) for block in blocks
    }
    return counts.pop() if len(counts) == 1 else -1


@torch.no_grad()
def _query_side(model: Any, ids: Tensor) -> float:
    """Whether cross-attention's queries come from the decoder alone and its keys from the encoder alone: how much the first
    layer's query changes with the source, where its keys do; 0 if not at all."""
    seen: dict[str, list[Tensor]] = {"q": [], "kv": []}
    cross = model.decoder.blocks[0].cross
    hooks = [getattr(cross, n).register_forward_hook(lambda _, given, out, n=n: seen[n].append(out)) for n in seen]
    target = ids % TARGET
    model(ids, target)
    model((ids + 1) % SOURCE, target)
    for hook in hooks:
        hook.remove()
    moved = {name: float((one - two).abs().max()) for name, (one, two) in seen.items()}
    return moved["q"] if moved["kv"] > 0 else 1.0


def _checks(found: dict[str, float]) -> list[Check]:
    counted = text("counted", "计数")
    return [
        check("claim", "parts", text("parts that have weights", "含有参数的部分数"), found["parts"], "==", 4, counted, 1),
        check("claim", "strays", text("weights in none of the four", "不属于四个部分的参数"), found["strays"], "==", 0,
        counted, 1),
        check("claim", "encoder", text("sub-layers of each encoder layer, each with residual and norm",
                                       "每个编码器层的子层数，各有残差与规范化"), found["encoder"], "==", 2, counted, 2),
        check("claim", "decoder", text("sub-layers of each decoder layer", "每个解码器层的子层数"),
              found["decoder"], "==", 3, counted, 2),
        check("claim", "weights", text("weights counted, less those of the formula", "实际参数数减去公式给出的数"),
              found["weights"], "==", 0, counted, 2),
        check("claim", "query", text("change of the query when the source changes, which moves the keys",
                                     "源序列改变（键随之改变）时 query 的变化"), found["query"], "==", 0, EXACT, 3),
        check("claim", "hot", text("|one-hot · E - lookup|", "|one-hot · E - 查表|"), found["hot"], "==", 0, EXACT, 4),
        check("claim", "added", text("|input - (token + position)|", "|输入 - (词元 + 位置)|"), found["added"], "==", 0,
        EXACT, 5),
        check("claim", "read", text("encoder layers whose output makes keys and values for the decoder",
                                    "其输出被用来为解码器生成键和值的编码器层数"),
              found["read"], "==", LAYERS, text("every layer, as written", "“每层”，如原文"), 6),
        check("control", "apart", text("outputs of neighbouring encoder layers differ, so that they can be told apart",
                                       "相邻编码器层的输出不同，因而可以分辨"), found["apart"], ">=", 0.1, VISIBLE),
        check("control", "own", text("each decoder layer makes keys and values of its own", "每个解码器层有自己的键和值"),
              found["own"], ">=", 0.1, VISIBLE),
        check("note", "last", text("all decoder layers read the last encoder layer, bit for bit",
                                   "所有解码器层读取的正是编码器最后一层，逐位相同"), found["last"], "==", 1, EXACT),
    ]  # fmt: skip


COLUMNS = [
    Column(key="part", title=text("part", "部分")),
    Column(key="weights", title=text("weights", "参数数")),
    Column(key="formula", title=text("by the formula", "按公式")),
    Column(key="reads", title=text("number", "编号")),
]
LIMITS = [
    text(
        "Only the encoder's last layer is handed over. It goes to every layer of the decoder, and each of those makes its "
        "own "
        "keys and values from it. Keys and values that the encoder's layers make for their self-attention stay there.",
        "交给解码器的只有编码器最后一层的输出。它传给解码器的每一层，由解码器各层自己的投影生成键和值。"
        "编码器各层为自注意力生成的键和值只在本层内使用。",
    ),
    text(
        "The token's vector is multiplied by √d_model before the position is added, as in the paper; the note leaves it "
        "out.",
        "论文中词元向量先乘以 √d_model 再加位置编码；讲义省略了这一步。",
    ),
]
NOTE = "三、Transformer 3.Transformer总体架构"
LAB = Lab(
    number=6,
    name="anatomy",
    title=text("the parts of the Transformer, and what the decoder is handed", "Transformer 的组成，以及交给解码器的是什么"),
    quotes=(
        second(NOTE, "Transformer共分为4个部分：输入部分 → 编码器部分 → 解码器部分 → 输出部分",
               "The Transformer has four parts: input → encoder → decoder → output."),
        second(NOTE, "每个编码器层由两个子层连接结构组成 … 每个解码器层由三个子层连接结构组成",
               "Each encoder layer consists of two sub-layers with their connections … each decoder layer of three."),
        first("Transformer 由编码器和解码器堆叠而成", "Query 来自解码器，Key/Value 来自编码器输出。",
              "The query comes from the decoder, key and value from the encoder's output."),
        first("Token Embedding", "可以通过 one-hot + 矩阵乘法，或直接查表实现。",
              "It may be done by one-hot vectors and a matrix product, or by looking up directly."),
        first("位置编码 (Positional Encoding)", "最终输入 = Token Embedding + Positional Encoding。",
              "The final input = token embedding + positional encoding."),
        second("三、Transformer 4.编码器和解码器的连接方式", "编码器每层都会生成K（键向量）和V（值向量），"
                                               "传递给解码器使用。",
               "Each layer of the encoder makes K (keys) and V (values), which are handed to the decoder."),
    ),
    design=Design(
        vary=text("the layer of the decoder; the source", "解码器的层；源序列"),
        fixed=text(f"{LAYERS} + {LAYERS} layers of the 2017 model, d_model {D_MODEL}",
        f"2017 年模型 {LAYERS} + {LAYERS} 层，d_model {D_MODEL}"),
        measured=text("counts of parts, sub-layers and weights; the tensor that each cross-attention makes keys and "
                      "values from",
                      "部分、子层、参数的数目；每个交叉注意力用来生成键和值的张量"),
        control=text("outputs of different encoder layers must differ, or one could not tell which is read",
                     "编码器各层的输出必须不同，否则无法分辨读取的是哪一层"),
    ),
    expected="not_as_written",
    sabotage=text("decoder layer i is handed the output of encoder layer i", "把编码器第 i 层的输出交给解码器第 i 层"),
    measure=_measure,
)  # fmt: skip

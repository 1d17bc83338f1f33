"""L19: an image as a sequence of patches, read by the encoder that reads texts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.architecture import Description, Targets
from regard.labs.frame.bounds import EXACT, ROUNDING, noise, rounding
from regard.labs.frame.build import built, number_of_weights, stack
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import first
from regard.labs.frame.train import right, train
from regard.labs.frame.values import Check, Column, Design, Line, Measured, Plot, check, line, text
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.feedforward import Dense
from regard.layers.heads import Classify
from regard.layers.patches import Patches
from regard.layers.stack import Stack
from regard.layout import Layout

GRID, PATCH, WIDTH, BATCH, ROWS = 4, 3, 32, 64, 1024
SIDE = GRID * PATCH
CLASSES = 4
"""A dot in one of four quarters of the image: the patches are the same, only their places differ."""
ARMS = {
    "places": text("patches with their places", "带位置的图块"),
    "none": text("patches without places", "不带位置的图块"),
    "shuffled": text("with places, patches shuffled in each image", "带位置，但每张图的图块被打乱"),
}


def _images(source: torch.Generator, rows: int = BATCH, shuffled: bool = False) -> dict[str, Any]:
    """Float[rows 1 12 12]: noise, and a dot anywhere in one of the quarters; shuffled: the patches of each image change
    places."""
    answer = torch.randint(0, CLASSES, (rows,), generator=source)
    half, inside = GRID // 2, torch.randint(0, GRID // 2, (2, rows), generator=source)
    patch = (answer // 2 * half + inside[0]) * GRID + answer % 2 * half + inside[1]
    cells = 0.3 * torch.randn(rows, GRID * GRID, PATCH * PATCH, generator=source)
    cells[torch.arange(rows), patch, torch.randint(0, PATCH * PATCH, (rows,), generator=source)] += 3.0
    if shuffled:
        order = torch.rand(rows, GRID * GRID, generator=source).argsort(1)
        cells = cells.gather(1, order[..., None].expand_as(cells))
    return {"inputs": F.fold(cells.transpose(1, 2), (SIDE, SIDE), PATCH, stride=PATCH), "targets": Targets(answer)}


def _model(arm: str, seed: int) -> Any:
    block = Block(Attention(4), Dense(2 * WIDTH))
    encoder = Stack(WIDTH, Patches((SIDE, SIDE), (PATCH, PATCH), channels=1), (block,))
    model = built(Description(Classify(CLASSES, "mean"), encoder), torch.float32, seed)
    torch.nn.init.normal_(model.encoder.embed.table, std=0.3)  # beside pixels of so few patches 0.02 is little
    if arm == "none":
        model.encoder.embed.table.requires_grad_(False).zero_()
    return model


@torch.no_grad()
def _as_tokens(model: Any, images: Tensor) -> float:
    """What the embedding gives, less one linear layer over each patch written out, plus its place."""
    embed = model.encoder.embed
    patches = F.unfold(images, PATCH, stride=PATCH).transpose(1, 2)
    wanted = F.linear(patches, embed.project.weight.flatten(1), embed.project.bias) + embed.table[:, 1:]
    return float((embed(images, Layout.unpadded(GRID * GRID + 1))[:, 1:] - wanted).abs().max())


def _others(model: Any) -> int:
    """Kinds of module in the image's encoder, its embedding left out, that an encoder of texts does not have."""

    def kinds(encoder: Any) -> set[type]:
        return {type(module) for name, module in encoder.named_modules() if name and not name.startswith("embed")}

    return len(kinds(model.encoder) ^ kinds(built(stack(d_model=WIDTH, num_layers=1))))


@torch.no_grad()
def _moved(model: Any, images: Tensor) -> float:
    """How far the answers move if the patches of the images change places."""
    cells = F.unfold(images, PATCH, stride=PATCH)
    order = torch.randperm(GRID * GRID)
    other = F.fold(cells[:, :, order], (SIDE, SIDE), PATCH, stride=PATCH)
    return float((model(images).logits - model(other).logits).abs().max())


def _measure(setting: Setting) -> Measured:
    steps = setting.pick(300, 800, 3000)
    rows: list[dict[str, Any]] = []
    lines: list[Line] = []
    facts: dict[str, dict[str, float]] = {}
    for arm, label in ARMS.items():
        model = _model(arm, setting.seed)
        mixed = arm == "shuffled" or (setting.broken and arm == "places")
        losses = train(model, lambda source, mixed=mixed: _images(source, BATCH, mixed), steps, setting.seed, rate=5e-3)
        given = _images(torch.Generator().manual_seed(setting.seed + 2), ROWS, mixed)
        images = given["inputs"][:64]
        facts[arm] = {"accuracy": right(model, given), "tokens": _as_tokens(model, images), "moved": _moved(model, images),
                      "others": _others(model)}  # fmt: skip
        rows.append({"arm": label, "weights": number_of_weights(model), "loss": losses[-1]} | facts[arm])
        lines.append(line(label=label, x=list(range(1, steps + 1)), y=losses))
    finding = text(
        f"In which quarter is the dot: with places {facts['places']['accuracy']:.1%} are right, without "
        f"{facts['none']['accuracy']:.1%}, with shuffled patches {facts['shuffled']['accuracy']:.1%}.",
        f"点在哪一角：带位置答对 {facts['places']['accuracy']:.1%}，不带位置 "
        f"{facts['none']['accuracy']:.1%}，打乱图块 {facts['shuffled']['accuracy']:.1%}。",
    )
    plot = Plot(title=text("loss", "损失"), x=text("update", "更新次数"), y=text("cross entropy", "交叉熵"), lines=lines)
    return Measured(columns=COLUMNS, rows=rows, checks=judge(facts), finding=finding, limits=LIMITS, plots=[plot])


def judge(facts: dict[str, dict[str, float]]) -> list[Check]:
    """Checks of each arm's facts."""
    guess = text(f"chance, 1/{CLASSES}, and four standard errors", f"随机猜测 1/{CLASSES} 加四个标准误")
    none = facts["none"]
    return [
        check("claim", "tokens", text("embedding of the patches less one linear layer over each",
              "图块嵌入与逐块线性层之差"),
              max(its["tokens"] for its in facts.values()), "<=", rounding(torch.float32, PATCH**2, 4.0), ROUNDING),
        check("claim", "same", text("kinds of module that only one of the encoders of images and texts has",
                                    "图像与文本编码器中只有一方才有的模块种类"), facts["places"]["others"], "==", 0, EXACT),
        check("claim", "learns", text("with places: right answers", "带位置：正确率"), facts["places"]["accuracy"], ">=",
              0.9,
              text("nine of ten", "十分之九")),
        check("control", "none", text("without places: right answers", "不带位置：正确率"), none["accuracy"], "<=",
              1 / CLASSES + noise(ROWS, 1 / CLASSES),
              guess),
        check("control", "shuffled", text("shuffled: right answers", "打乱图块：正确率"), facts["shuffled"]["accuracy"],
              "<=",
              1 / CLASSES + noise(ROWS, 1 / CLASSES), guess),
        check("note", "still", text("without places: how far answers move when patches change places",
              "不带位置：图块换位后答案的变化"),
              none["moved"], "<=", rounding(torch.float32, 8 * WIDTH, 16.0), ROUNDING),
    ]  # fmt: skip


COLUMNS = [
    Column(key="arm", title=text("arm", "组")),
    Column(key="weights", title=text("weights", "参数数")),
    Column(key="loss", title=text("last loss", "最后的损失")),
    Column(key="accuracy", title=text("right", "正确率")),
    Column(key="moved", title=text("moved by a shuffle", "打乱后的变化")),
]
LIMITS = [
    text(
        "The sequence knows nothing of the image's two dimensions: where a patch stands it "
        "must learn from the table of places, and without it an image is a bag of patches.",
        "序列并不知道图像有两维：图块的位置要从位置表里学来；没有它，图像只是一袋图块。",
    ),
]
LAB = Lab(
    number=19,
    name="patches",
    title=text("an image as a sequence of patches", "把图像当作图块的序列"),
    quotes=(
        first("后续用途 / 连接",
              "Vision Transformer (ViT) 把图像切成 patch 当作 token 序列处理，直接复用 Transformer 架构。",
              "The Vision Transformer (ViT) cuts an image into patches, treats them as a sequence of tokens, and reuses the "
              "Transformer as it is."),
    ),
    design=Design(
        vary=text("whether patches have places; whether they are shuffled", "图块有无位置；是否打乱"),
        fixed=text(f"images of {SIDE}×{SIDE} pixels, {GRID * GRID} patches, 1 block of width {WIDTH}, batches, updates, "
                   f"Adam at 0.005",
                   f"{SIDE}×{SIDE} 像素的图像，{GRID * GRID} 个图块，1 个块，宽 {WIDTH}，批次、更新次数、Adam 0.005"),
        measured=text(f"right answers on {ROWS:,} unseen images; the embedding against its definition; kinds of module",
                      f"{ROWS:,} 张未见图像上的正确率；嵌入与其定义之差；模块种类"),
        control=text("without places, or shuffled, no quarter can be told from another",
                     "没有位置或被打乱时，各角无法分辨"),
    ),
    expected="holds",
    sabotage=text("the patches of each image are shuffled before they are read", "读入之前打乱每张图的图块"),
    measure=_measure,
)  # fmt: skip

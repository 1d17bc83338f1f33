"""L16: what a recurrent decoder asks, and whom: the table read literally, and the attentions that were published."""

from __future__ import annotations

from typing import Any

import torch

from regard.architecture import Description
from regard.errors import UserError
from regard.labs.frame.bounds import BUDGET, noise_between
from regard.labs.frame.build import built, fitted, weights_of, writer
from regard.labs.frame.copying import SYMBOLS, VOCAB, copied, copying
from regard.labs.frame.lab import Lab, Setting
from regard.labs.frame.notes import second
from regard.labs.frame.train import train
from regard.labs.frame.values import Check, Column, Design, Measured, Plot, check, line, text
from regard.layers.masks import Lowered
from regard.layers.scores import Additive, Dot, Location, Score

WIDTH, ROWS = 48, 512
ARMS = {
    "none": text("no attention: C is the first state", "无注意力：C 作为初始状态"),
    "literal": text("the table read literally: C at every step", "按字面：每一步都给 C"),
    "location": text("by location, as often coded", "按位置打分（常见写法）"),
    "additive": text("additive (Bahdanau)", "加性（Bahdanau）"),
    "dot": text("dot (Luong)", "点积（Luong）"),
    "scaled": text("scaled dot", "缩放点积"),
}


def _descriptions(longest: int, broken: bool) -> dict[str, Description]:
    scores: dict[str, Score] = {
        "location": Location(longest),
        "additive": Additive(32),
        "dot": Dot(),
        "scaled": Dot(scaled=True),
    }
    made = {arm: fitted(lambda width, its=its: writer(width, VOCAB, its), weights_of(writer(WIDTH, VOCAB, Dot()))) for arm,
        its
            in scores.items()}  # fmt: skip
    goal = weights_of(made["dot"])
    none = fitted(lambda width: writer(width, VOCAB), goal)
    literal = made["dot"] if broken else fitted(lambda width: writer(width, VOCAB, context="every_step"), goal)
    return {"none": none, "literal": literal} | made


def _chooses(items: int) -> float:
    """How far two different questions' weights over so many items of V are apart at most."""
    attend: Any = Dot(scaled=True).build(WIDTH, 0.0)
    asked, keys = torch.randn(1, 1, 2, WIDTH, dtype=torch.float64), torch.randn(1, 1, items, WIDTH, dtype=torch.float64)
    one, two = attend.explain(asked, keys, Lowered())[0, 0]
    return float((one - two).abs().max())


def _reach(model: Any, length: int, seed: int) -> tuple[float | None, float | None]:
    """Symbols and whole texts right at a length; nothing where the model refuses it."""
    try:
        return copied(model, length, seed, ROWS)
    except (ValueError, UserError):
        return None, None


def _measure(setting: Setting) -> Measured:
    longest, steps = setting.pick(8, 12, 24), setting.pick(300, 700, 3000)
    lengths = [4, longest, longest + 4]
    rows: list[dict[str, Any]] = []
    found: dict[str, dict[Any, Any]] = {}
    for arm, description in _descriptions(longest, setting.broken).items():
        model = built(description, torch.float32, setting.seed)

        def draw(source: torch.Generator) -> dict[str, Any]:
            return copying(source, int(torch.randint(2, longest + 1, (), generator=source)))

        losses = train(model, draw, steps, setting.seed, rate=5e-3)
        found[arm] = {"weights": weights_of(description)}
        for length in lengths:
            tokens, texts = _reach(model, length, setting.seed)
            found[arm][length] = tokens
            its = {"arm": ARMS[arm], "weights": weights_of(description), "loss": losses[-1]}
            rows.append(its | {"length": length, "tokens": tokens, "texts": texts})
    one, states = _chooses(1), _chooses(longest)
    finding = text(
        f"Of {longest} symbols are written right: {_list(found, longest, 'en')}. With one V "
        f"the weights of any two questions differ by {one:.0f}, with {longest} by {states:.2f}.",
        f"长度 {longest} 时写对的符号：{_list(found, longest, 'zh')}。V 只有一个"
        f"时，任意两个查询的权重相差 {one:.0f}，有 {longest} 个时相差 {states:.2f}。",
    )
    lines = [
        line(
            label=ARMS[arm], x=[n for n in lengths if its[n] is not None], y=[its[n] for n in lengths if its[n] is not None]
        )
        for arm, its in found.items()
    ]
    plot = Plot(
        title=text("symbols written right", "写对的符号"), x=text("length", "长度"), y=text("share", "比例"), lines=lines
    )
    checks = judge(found, states if setting.broken else one, states, lengths)
    return Measured(columns=COLUMNS, rows=rows, checks=checks, finding=finding, limits=LIMITS, plots=[plot])


def _list(found: dict[str, dict[Any, Any]], length: int, language: str) -> str:
    return ("；" if language == "zh" else "; ").join(
        f"{ARMS[arm].say(language)} {its[length]:.0%}" for arm, its in found.items()
    )


def judge(found: dict[str, dict[Any, Any]], chooses: float, control: float, lengths: list[int]) -> list[Check]:
    """Checks of symbols written right by arm and length, and of how far weights depend on the question."""
    short, longest, beyond = lengths
    apart = text("four standard errors of the difference", "差值的四个标准误")
    symbols = noise_between(ROWS * short)
    weights = [its["weights"] for its in found.values()]
    best = max(found[arm][longest] for arm in ("additive", "dot", "scaled"))
    return [
        check("claim", "chooses", text("the table's attention: how far the weights of two questions are apart",
                                       "按表格的注意力：两个不同查询的权重相差多少"),
              chooses, ">=", 1e-3, text("an attention that asks nothing gives 0", "不取决于查询则为 0"), 1),
        check("claim", "helps", text(f"{longest} long: symbols right, best published attention less none",
                                     f"长 {longest}：已发表的最好注意力与无注意力的正确率之差"),
              best - found["none"][longest], ">=", symbols, apart, 2),
        check("control", "states", text("K and V are all states: how far the weights of two questions are apart",
                                        "K、V 为所有状态：两个不同查询的权重相差多少"),
              control, ">=", 1e-3, text("not 0", "不为 0")),
        check("control", "short", text(f"{short} long: symbols right, the worst arm", f"长 {short}：最差一组的正确率"),
              min(its[short] for its in found.values()), ">=", 0.8, text("all have learned short texts",
                  "各组都学会了短序列")),
        check("control", "budget", text("most weights of an arm, against fewest", "各组参数数的最大与最小之比"),
              max(weights) / min(weights), "<=", 1.05, BUDGET),
        check("note", "literal", text(f"{longest} long: symbols right, C at every step less as the first state",
                                      f"长 {longest}：每步都给 C 与只作初始状态的正确率之差"),
              found["literal"][longest] - found["none"][longest], "<=", 0.5 * (best - found["none"][longest]),
              text("less than half of what attention gains", "不到注意力所得的一半")),
        check("note", "refused", text(f"by location: refuses texts of {beyond}, longer than its scores",
              f"按位置打分：拒绝长 {beyond} 的序列"),
              float(found["location"][beyond] is None), "==", 1.0, text("it scores places, so many and no more",
                  "它只给固定个数的位置打分")),
    ]  # fmt: skip


COLUMNS = [
    Column(key="arm", title=text("arm", "组")),
    Column(key="weights", title=text("weights", "参数数")),
    Column(key="loss", title=text("last loss", "最后的损失")),
    Column(key="length", title=text("length", "长度")),
    Column(key="tokens", title=text("symbols right", "符号正确率")),
    Column(key="texts", title=text("texts right", "整个序列正确率")),
]
LIMITS = [
    text(
        "The softmax of one number is 1: with the single vector C as value there is nothing to choose among, whatever "
        "asks. What was published has the decoder's state as the question, and all states of the encoder as keys and "
        "values.",
        "一个数的 softmax 恒为 1：值只有一个向量 C 时，无论查询是什么都无可"
        "选择。已发表的做法是：查询为解码器的状态，键与值为编码器的所有状态。",
    ),
    text(
        "The form that tutorials code, a linear layer over embedding and state whose outputs are scores of "
        "places, does attend; but it knows as many places as it was made for, and does not read what stands there.",
        "教程中常见的写法（对嵌入与状态做线性层，输出即各位置的分数）"
        "确实是注意力；但它只认固定个数的位置，而且不看那里是什么。",
    ),
]
SECTION = "3.Seq2Seq中的注意力机制"
LAB = Lab(
    number=16,
    name="variants",
    title=text("what a recurrent decoder asks, and whom", "循环解码器问什么、问谁"),
    quotes=(
        second("四、总结", "Q=词嵌入后张量、K=上一隐藏层输出、V=中间语义C",
               "Q = the embedded token, K = the last hidden output, V = the context vector C"),
        second("2.Seq2Seq的组成", "通常会包含注意力机制，以便在生成过程中动态关注输入序列的不同部分",
               "Usually there is attention, so that different parts of the input are attended to as the output is made."),
    ),
    design=Design(
        vary=text("what is asked, and over what; the length", "查询什么、在什么上查询；长度"),
        fixed=text(f"GRU encoder and decoder, {SYMBOLS} symbols to be written again, weights to 5 %, batches, updates, Adam "
                   "at 0.005",
                   f"GRU 编码器与解码器，复写 {SYMBOLS} 种符号，参数数相差 5 % 以内，批次、更新次数、Adam 0.005"),
        measured=text("how far weights depend on the question; symbols and texts written right, with one length beyond the "
                      "training",
                      "权重在多大程度上取决于查询；写对的符号与序列，含一个超出训练的长度"),
        control=text("with all states as K and V the weights do depend on the question",
                     "K、V 为所有状态时，权重确实取决于查询"),
    ),
    expected="not_as_written",
    sabotage=text("K and V of the table are given all states of the encoder", "把表格中的 K、V 换成编码器的所有状态"),
    measure=_measure,
)  # fmt: skip

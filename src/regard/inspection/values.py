"""What a trace is made of, as values that go through JSON."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from regard.inspection.blocks import Number, Share, Value


class Token(Value):
    """A token. start, end: the characters of its side's text that it stands for, none if equal. word: a number of the
    side's words, or -1. part: number and count where several tokens share characters (bytes of one); bytes: in
    hexadecimal, what it adds to the text."""

    id: int
    piece: str
    start: int
    end: int
    word: int
    special: bool
    part: tuple[int, int] | None = None
    bytes: str = ""


class Side(Value):
    """Tokens with their text. words: half-open ranges of characters. truncated: the text was longer than the model reads.
    prompt: how many of the tokens were given, where the others were written by the model."""

    text: str
    tokens: list[Token]
    words: list[tuple[int, int]]
    truncated: bool = False
    prompt: int = 0


class Checks(Value):
    """row_sum: most that a row of weights is away from 1. output: most that weights × values are away from what the head
    really gave. kernel: the body that gave it ("sdpa", "blocks", "definition")."""

    row_sum: Number
    output: Number
    dtype: str
    kernel: str


class Overview(Value):
    """Blocks [H h w] of one byte: the largest and the mean weight of each cell of a grid of at most 64 × 64. A cell is
    ⌈Q / 64⌉ queries by ⌈K / 64⌉ keys, the last of a row or column what is left."""

    max: str
    mean: str
    size: tuple[int, int]


class Top(Value):
    """Blocks [H Q 8]: of each query the keys it looks at most (-1: none) and their weights, and [H Q] all the others'."""

    keys: str
    weights: str
    rest: str


class Attention(Value):
    """One attention. Row t of a decoder's is what predicted target[t]. weights: block of each kept head, by its number;
    products: of a long text's heads the blocks [Q d] and [K d] instead, whose products, times scale, go through softmax.
    masked: "causal", a block of the forbidden cells, or None. entropy, distance, sink: one number a head, see `heads`."""

    name: str
    half: Literal["encoder", "decoder"]
    kind: Literal["self", "causal", "cross"]
    layer: int
    heads: int
    rows: str
    columns: str
    size: tuple[int, int]
    scale: Number | None
    score: str
    head_dim: int
    weights: dict[str, str]
    products: dict[str, tuple[str, str]] = Field(default_factory=dict)
    overview: Overview | None = None
    top: Top | None = None
    masked: str | None = None
    entropy: list[Number]
    distance: list[Number] | None = None
    sink: list[Number]
    importance: list[Number] | None = None
    offsets: str | None = None
    checks: Checks

    @property
    def kept(self) -> list[str]:
        """The numbers of the heads whose weights can be had whole."""
        return [*self.weights, *self.products]


class Alignment(Value):
    """Which source word each word was written from. head: None for the mean of the layer's heads. agreement, baseline: how
    often the head's strongest source word is the one whose loss hurts most, beside the mean of the layer's heads."""

    attention: str
    layer: int
    head: int | None
    measured: bool
    agreement: Number | None
    baseline: Number | None
    matrix: str
    words: list[tuple[int, int]]
    pharaoh: str


class Rollout(Value):
    """Attention multiplied through the layers of one half (Abnar and Zuidema 2020), a heuristic."""

    half: str
    side: str
    block: str


class Chance(Value):
    """A token with its probability."""

    id: int
    p: Share


class Chosen(Value):
    """What was said at a place, and how likely it was. rank: from 1."""

    id: int
    log_prob: Number
    rank: int
    p: Number


class Predictions(Value):
    """What the model would say at each row, best first; what was said; the entropy in nats."""

    rows: str
    top: list[list[Chance]]
    chosen: list[Chosen | None]
    entropy: list[Number]


class Ranked(Value):
    """How likely the token that was said is to a layer."""

    p: Share
    rank: int


class Lens(Value):
    """What each layer would say (nostalgebraist 2020). checked: how far the last layer is from the model's logits."""

    rows: str
    layers: list[str]
    top: list[list[list[Chance]]]
    chosen: list[list[Ranked | None]]
    checked: Number


class Labelled(Value):
    """A label with its probability."""

    label: str
    p: Number


class Entry(Value):
    """An entry of the vocabulary: its spelling and what it adds to a text."""

    piece: str
    text: str


class Contrast(Value):
    """Why one token rather than another."""

    row: int
    chosen: int
    other: int


class Attribution(Value):
    """What the prediction owes to each input token: block [rows columns]. places: the rows that were asked about. total:
    their sums; error: how far that is from what they should add up to, None where the method promises nothing."""

    method: str
    rows: str
    columns: str
    places: list[int]
    block: str
    what: str
    contrast: Contrast | None = None
    steps: int | None = None
    error: list[Number] | None = None
    total: list[Number]


class Found(Value):
    """A finished answer of the search."""

    text: str
    ids: list[int]
    score: Number
    log_prob: Number
    token_log_probs: list[Number]
    finished: bool


class Node(Value):
    """A token that beam search wrote. parent: number of a node, or -1. kept: something went on from it."""

    step: int
    parent: int
    token: int
    log_prob: Number
    total: Number
    kept: bool
    ended: bool
    best: bool


class Beam(Value):
    """The tree of a beam search."""

    num_beams: int
    nodes: list[Node]


class Hand(Value):
    """All numbers of one head: weights are softmax(q·k × scale + bias), out is weights × v."""

    attention: str
    head: int
    q: str
    k: str
    v: str
    bias: str | None
    out: str
    scale: Number


class Positions(Value):
    """How places are told. table: the vectors that are added; dots: cosines between places; None where there are none."""

    kind: str
    side: str
    table: str | None
    dots: str | None


class Picture(Value):
    """The image that was read, as a data: address, and its grid of patches."""

    src: str
    width: int
    height: int
    grid: tuple[int, int]
    patch: tuple[int, int]


class Experts(Value):
    """A layer of experts: the router's share [T E], the chosen ones [T active], and the load of each expert."""

    name: str
    half: str
    layer: int
    side: str
    count: int
    active: int
    share: str
    chosen: str
    load: list[Number]


class Change(Value):
    """What another answer, or its log-probability, became when heads were scaled, or (None) gave their mean."""

    name: str
    gates: dict[str, dict[str, Number | None]]
    text: str | None
    log_prob: Number | None
    difference: Number | None


class Told(Value):
    """What the model is. anatomy: its tree of parts."""

    name: str
    kind: str
    d_model: int
    parameters: int
    dtype: str
    sha256: str | None = None
    anatomy: dict[str, Any] | None = None


class Whole(Value):
    """equal_bits: the answer with and without recording. log_prob: most that a token's log-probability in the forced pass is
    away from the search's."""

    equal_bits: bool
    log_prob: Number | None
    notes: list[str]


class Limits(Value):
    """What was left out, in words, and the bytes of all blocks."""

    message: str | None = None
    bytes: int = 0

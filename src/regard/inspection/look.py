"""`inspect`: one text through a model, and everything there is to see of it as a trace."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import regard
from regard.errors import UserError
from regard.inspection import parts, why
from regard.inspection.aligning import chosen_head, pharaoh, word_links
from regard.inspection.blocks import Blocks
from regard.inspection.change import change_heads, head_importance
from regard.inspection.experts import mixtures, routes
from regard.inspection.hand import numbers
from regard.inspection.lens import spoken, states
from regard.inspection.outline import outline
from regard.inspection.positions import places
from regard.inspection.reading import Reading, read
from regard.inspection.rollout import rollout
from regard.inspection.sides import picture_of
from regard.inspection.tape import Tape, attentions, is_cross, record
from regard.inspection.trace import Trace
from regard.inspection.values import (
    Alignment,
    Attention,
    Attribution,
    Change,
    Experts,
    Hand,
    Lens,
    Limits,
    Picture,
    Positions,
    Rollout,
    Told,
    Whole,
)
from regard.loaded import Loaded


def inspect(
    model: Any,
    text: Any,
    target: str | None = None,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    methods: Sequence[str] = ("input_x_gradient",),
    contrast: tuple[int, str] | None = None,
    gates: Mapping[str, Mapping[int, float | None]] | None = None,
    full: bool | int = False,
    **search: Any,
) -> Trace:
    """A trace of one input: a text, a pair of texts, a prompt, or an image, by what the model does.

    model: what `load` returns, or a model folder or name. target: the answer to look at; None: the model's own, by these
    options of its search, forced on it once more in one pass. layers, heads: those alone, None for all. methods: of
    `regard.inspection.attribution`. contrast: (row, text): why the token at this row rather than the first token of the
    text. gates: {attention: {head: factor}} in force throughout, None for the mean of what the head gives; the trace says
    what they changed. full: weights of all heads of a text of any length; a number: of as many heads of a long one as that
    many bytes hold. UserError: what is asked for does not exist.
    """
    loaded: Loaded = model
    if isinstance(model, (str, Path)):
        from regard.loading import load

        loaded = load(model)
    with _in_use(loaded.model):
        reading = read(loaded, text, target, **search)
        return _Look(loaded, reading, full).trace(layers, heads, methods, contrast, gates)


@contextmanager
def _in_use(model: Any) -> Iterator[None]:
    """Without dropout; a model in training goes back to it."""
    training = bool(model.training)
    model.eval()
    try:
        yield
    finally:
        model.train(training)


class _Look:
    """One look at one reading: what its views share."""

    def __init__(self, loaded: Loaded, reading: Reading, full: bool | int) -> None:
        self.loaded, self.reading, self.model = loaded, reading, loaded.model
        self.blocks, self.notes = Blocks(), list[str]()
        longest = max(len(side.tokens) for side in reading.sides.values())
        self.full, self.brief, self.far = full, full is not True and longest > parts.WHOLE, longest > parts.FAR
        self.last: Any = self.model.encoder if self.model.decoder is None else self.model.decoder
        self.slopes = not any(hasattr(module, "scales") for module in self.model.modules())  # none through rounded weights

    def trace(
        self,
        layers: Sequence[int] | None,
        heads: Sequence[int] | None,
        methods: Sequence[str],
        contrast: tuple[int, str] | None,
        gates: Mapping[str, Mapping[int, float | None]] | None,
    ) -> Trace:
        """The whole of it."""
        try:
            with ExitStack() as stack:
                before = self._answer()
                if gates:
                    stack.enter_context(change_heads(self.model, gates, self._answer))
                return self._trace(layers, heads, methods, contrast, gates or {}, before)
        except ValueError as error:
            raise UserError(str(error)) from None

    def _answer(self) -> Tensor:
        """Logits Float[N V], or the vector Float[1 D]."""
        with torch.no_grad():
            its = self.reading.answer(self.model)
            found = its.vectors if its.logits is None else its.logits
        return found[0] if found.dim() == 3 else found

    def _trace(
        self, layers: Any, heads: Any, methods: Sequence[str], contrast: Any, gates: Mapping[str, Any], before: Tensor
    ) -> Trace:
        reading = self.reading
        names = parts.wanted(self.model, attentions(self.model), layers, heads)
        plain = self._answer()
        tape, answer, routed, lens = self._recorded(names)
        weights = None if tape is None else parts.Weights(self.model, tape, reading)
        importance = self._importance(plain)
        alignment = self._alignment(weights, names)
        made = [] if weights is None else self._attentions(weights, names, heads, alignment, importance)
        speaks = bool(reading.said) and reading.task != "tag"
        predictions = parts.predictions(plain, reading) if speaks else None
        attributions = self._why(methods, contrast, plain)
        if not made:
            self.notes.append("no attention in this model")
        found: dict[str, Any] = {
            "attentions": made,
            "alignment": alignment,
            "rollout": self._rollout(weights, names),
            "predictions": predictions,
            "lens": lens,
            "attributions": attributions,
            "hypotheses": reading.hypotheses,
            "beam": reading.beam,
            "hand": self._hand(tape, alignment, names),
            "positions": self._positions(),
            "experts": self._experts(routed),
            "changes": self._changes(gates, before, plain),
            "image": self._image(),
        }
        found |= self._labels(plain) | {"vocabulary": self._vocabulary(predictions, lens)}
        equal = torch.equal(plain, answer)
        checks = Whole(equal_bits=equal, log_prob=self._away(predictions, gates), notes=self.notes)
        return self._whole(found, checks)

    def _whole(self, found: dict[str, Any], checks: Whole) -> Trace:
        blocks = self.blocks.made
        message = None
        if self.brief:
            whole = sum(bool(one.kept) for one in found["attentions"])
            message = "a long text: overviews and the strongest keys of all heads, "
            message += f"whole weights in {whole} of {len(found['attentions'])} attentions"
        return Trace(
            made_by=f"regard {regard.__version__}",
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            task=self.reading.task,
            model=self._told(),
            sides=self.reading.sides,
            blocks=blocks,
            checks=checks,
            limits=Limits(message=message, bytes=sum(one.size for one in blocks.values())),
            **found,
        )

    def _told(self) -> Told:
        meta, model = self.loaded.meta, self.model
        weights = list(model.parameters())
        return Told(
            name=str(meta.get("name") or meta.get("recipe") or type(model.description.head).__name__),
            kind=self.loaded.what,
            d_model=self.last.d_model,
            parameters=sum(one.numel() for one in weights),
            dtype=str(weights[0].dtype).removeprefix("torch."),
            anatomy=outline(model.description).json(),
        )

    def _recorded(self, names: list[str]) -> tuple[Tape | None, Tensor, dict[str, Any], Lens | None]:
        """The tape, the answer while it ran, the experts' routes and the lens."""
        asked = [name for name in attentions(self.model) if name.removesuffix(parts.EVERYWHERE) + ".attend" in names]
        asked = sorted({*asked, *names}, key=list(attentions(self.model)).index)
        with ExitStack() as stack:
            tape = stack.enter_context(record(self.model, asked)) if asked else None
            routed = stack.enter_context(routes(self.model))
            seen = stack.enter_context(states(self.last))
            answer = self._answer()
        speaks = self.model.description.head.kind in ("next", "masked") and seen.calls
        return tape, answer, routed, self._lens(seen.rows(len(self.reading.said)), answer) if speaks else self._no_lens()

    def _lens(self, rows: list[Tensor], logits: Tensor) -> Lens:
        layers = ["embeddings", *(f"block {n}" for n in range(len(rows) - 1))]
        made = ((name, spoken(self.model, self.last, state)) for name, state in zip(layers, rows))
        return parts.lens(made, logits, self.reading)

    def _no_lens(self) -> None:
        self.notes.append("no logit lens: the model does not speak from a stack of blocks")

    def _importance(self, plain: Tensor) -> dict[str, list[float]]:
        if self.reading.task in ("embed", "tag") or not self.slopes:
            return {}
        said = self.reading.said or [int(plain[0].argmax())]
        rows = [n for n, number in enumerate(said) if number is not None]
        chosen = torch.tensor([said[n] for n in rows], device=plain.device)

        def loss() -> Tensor:
            logits = self.reading.logits(self.model)[0, rows].float()
            if logits.shape[-1] == 1:
                return -logits.sum()
            return -logits.log_softmax(-1).gather(1, chosen[:, None]).mean()

        return head_importance(self.model, loss)

    def _attentions(
        self, weights: parts.Weights, names: list[str], heads: Any, alignment: Alignment | None, importance: dict[str, Any]
    ) -> list[Attention]:
        """All that were asked for, with as many whole heads as there is room for."""
        first = (names[-1], 0) if alignment is None else (alignment.attention, alignment.head or 0)
        some = [first[0]] if self.brief and not self.full else names
        room = max(parts.ROOM, int(self.full)) if self.brief else math.inf
        kept = parts.whole_heads(weights, some, heads, first, room)
        long = self.brief or self.far
        return [
            parts.attention(weights, name, self.blocks, kept.get(name, []), long, importance.get(name)) for name in names
        ]

    def _alignment(self, weights: parts.Weights | None, names: list[str]) -> Alignment | None:
        head = chosen_head(self.model, self.loaded.meta)
        if head is None or weights is None:
            return None
        if head.attention not in names:
            left = [name for name in names if is_cross(name)]
            if not left:
                return None
            head = type(head)(left[-1], None)
        matrix = weights.head(head.attention, head.head)
        target, source = self.reading.sides["target"], self.reading.sides["source"]
        pairs = word_links(matrix, target, source)
        return Alignment(
            attention=head.attention,
            layer=parts.layer_of(head.attention),
            head=head.head,
            measured=head.agreement is not None,
            agreement=head.agreement,
            baseline=head.baseline,
            matrix=self.blocks.add("alignment", matrix),
            words=pairs,
            pharaoh=pharaoh(pairs),
        )

    def _rollout(self, weights: parts.Weights | None, names: list[str]) -> list[Rollout]:
        """Of each half whose every layer was asked for."""
        found = []
        if self.far and weights is not None:
            self.notes.append(f"no rollout of more than {parts.FAR} tokens")
        for half in ("encoder", "decoder") if weights is not None and not self.far else ():
            every = [n for n in attentions(self.model) if n.startswith(half) and n.endswith("attention.attend")]
            if not every or set(every) - set(names):
                continue
            made = [weights(name) for name in every]  # type: ignore[misc]
            if any(one.shape[1] != one.shape[2] for one in made):
                continue
            side = parts.sides_of(every[0], self.reading)[1]
            found.append(Rollout(half=half, side=side, block=self.blocks.add(f"rollout.{half}", rollout(made))))
        return found

    def _why(self, methods: Sequence[str], contrast: tuple[int, str] | None, plain: Tensor) -> list[Attribution]:
        if self.reading.task in ("embed", "tag"):
            if contrast is not None:
                raise UserError(f"{self.loaded.what} says no token that could be another")
            return []
        if not self.slopes:
            self.notes.append("no gradients: the weights have eight bits")
            methods = [name for name in methods if name == "occlusion"]
            if contrast is not None:
                raise UserError("a contrast needs gradients, and weights of eight bits have none: load the model as float32")
        if self.far and len(self.reading.said) > why.ROWS:
            self.notes.append(f"why: of the first {why.ROWS} tokens of the answer")
        return why.attributions(self.loaded, self.reading, methods, contrast, plain, self.blocks)

    def _hand(self, tape: Tape | None, alignment: Alignment | None, names: list[str]) -> list[Hand]:
        """The numbers of one head: the one that aligns, or the first of the last layer."""
        if tape is None:
            return []
        name = alignment.attention if alignment is not None else names[-1]
        head = (alignment.head if alignment is not None else 0) or 0
        rows = len(self.reading.sides[parts.sides_of(name, self.reading)[0]].tokens)
        its = numbers(tape, name, head, rows)
        if its is None or (self.far and its.bias is not None):
            return []
        made = {key: self.blocks.once(f"hand.{key}", getattr(its, key), "float32") for key in ("q", "k", "v", "out")}
        bias = None if its.bias is None else self.blocks.add("hand.bias", its.bias, "float32")
        return [Hand(attention=name, head=head, bias=bias, scale=its.scale, **made)]

    def _positions(self) -> Positions:
        description = self.model.description
        half, told = (
            (self.model.encoder, description.encoder) if self.model.encoder is not None else (self.last, description.decoder)
        )
        length = min(64, len(self.reading.sides[self.reading.first].tokens))
        its = places(half, told, length)
        table = None if its.table is None else self.blocks.add("positions.table", its.table[:, :64], "float32")
        dots = None if its.dots is None else self.blocks.add("positions.dots", its.dots, "float32")
        return Positions(kind=its.kind, side=self.reading.first, table=table, dots=dots)

    def _experts(self, routed: Mapping[str, Any]) -> list[Experts]:
        found = []
        for name, layer in mixtures(self.model).items():
            its, half = routed[name], name.split(".")[0]
            found.append(
                Experts(
                    name=name,
                    half=half,
                    layer=parts.layer_of(f"{name}."),
                    side="source" if half == "encoder" else "read",
                    count=layer.count,
                    active=layer.active,
                    share=self.blocks.add(f"{name}.share", its.share),
                    chosen=self.blocks.add(f"{name}.chosen", its.chosen, "int32"),
                    load=its.load,
                )
            )
        return found

    def _changes(self, gates: Mapping[str, Mapping[int, float | None]], before: Tensor, after: Tensor) -> list[Change]:
        """What gates did to the log-probability of what was said."""
        if not gates:
            return []
        told = {name: {str(head): factor for head, factor in its.items()} for name, its in gates.items()}
        if not self.reading.said and self.reading.task not in ("classify", "image"):
            return [Change(name="gates", gates=told, text=None, log_prob=None, difference=None)]
        said = self.reading.said or [int(before[0].argmax())]
        was, now = (
            sum(float(row[n].item()) for row, n in zip(x.float().log_softmax(-1), said) if n is not None)
            for x in (before, after)
        )
        return [Change(name="gates", gates=told, text=None, log_prob=now, difference=now - was)]

    def _labels(self, plain: Tensor) -> dict[str, Any]:
        if self.reading.task in ("classify", "image"):
            return {"classes": parts.labelled(self.loaded, plain[0]), "tags": None}
        if self.reading.task != "tag":
            return {"classes": None, "tags": None}
        tokens = self.reading.sides[self.reading.first].tokens
        each = [parts.labelled(self.loaded, row)[0] for row in plain]
        return {"classes": None, "tags": [None if token.special else one for token, one in zip(tokens, each)]}

    def _image(self) -> Picture | None:
        if self.reading.task != "image":
            return None
        pixels, embed = self.reading.inputs, self.model.encoder.embed
        return Picture(
            src=picture_of(pixels[0], self.loaded.meta.get("images") or {}),
            width=pixels.shape[3],
            height=pixels.shape[2],
            grid=embed.shape(pixels),
            patch=embed.patch,
        )

    def _vocabulary(self, predictions: Any, lens: Lens | None) -> dict[str, Any]:
        numbers = {one.id for row in (predictions.top if predictions else []) for one in row}
        numbers |= {one.id for layer in (lens.top if lens else []) for row in layer for one in row}
        numbers |= {number for its in self.reading.hypotheses for number in its.ids}
        numbers |= {node.token for node in (self.reading.beam.nodes if self.reading.beam else [])}
        numbers |= {number for number in self.reading.said if number is not None}
        return parts.vocabulary(self.loaded.tokenizers.target, numbers) if numbers else {}

    def _away(self, predictions: Any, gates: Mapping[str, Any]) -> float | None:
        """Most that a token of the search's own answer is away, in the forced pass, from what the search said of it."""
        if predictions is None or gates or not self.reading.hypotheses:
            return None
        told = self.reading.hypotheses[0].token_log_probs
        forced = [one.log_prob for one in predictions.chosen[len(predictions.chosen) - len(told) :] if one is not None]
        return max((abs(a - b) for a, b in zip(told, forced)), default=None)

"""One input as a model reads it, with the answer that is forced on it: what a trace is a trace of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.checkpoints.preprocessor import Preparation
from regard.errors import UserError
from regard.inspection.beams import followed
from regard.inspection.sides import image_side, side_of_ids, side_of_text
from regard.inspection.values import Beam, Found, Side
from regard.layout import Layout
from regard.loaded import Loaded


@dataclass(frozen=True, eq=False)
class Reading:
    """inputs: Int[1 N] ids, or pixels, of the model's first half; outputs: Int[1 T] of an encoder-decoder's second. said:
    what was answered at each row of the logits, None where nothing was; empty for one answer of the whole input."""

    task: Any
    sides: dict[str, Side]
    inputs: Tensor
    layout: Layout
    segments: Tensor | None = None
    outputs: Tensor | None = None
    said: list[int | None] = field(default_factory=list)
    hypotheses: list[Found] = field(default_factory=list)
    beam: Beam | None = None

    @property
    def rows(self) -> str:
        """The side whose tokens the rows of the logits belong to; "class" for one answer of the whole input."""
        return "class" if not self.said else "target" if "target" in self.sides else "source"

    @property
    def first(self) -> str:
        """The side that the inputs are."""
        return "source" if "source" in self.sides else "read"

    def answer(self, model: Any, copies: int = 1) -> Any:
        """The model's answer to so many copies of the input."""

        def rows(x: Tensor | None) -> Tensor | None:
            return x if x is None or copies == 1 else x.expand(copies, *x.shape[1:])

        more = {} if self.outputs is None else {"output_layout": Layout.unpadded(self.outputs.shape[1], device=model.device)}
        return model(rows(self.inputs), rows(self.outputs), segments=rows(self.segments), layout=self.layout, **more)

    def logits(self, model: Any, copies: int = 1) -> Tensor:
        """Float[copies N V] of each row, or [copies 1 C] of the whole input. ValueError: the model gives vectors."""
        found = self.answer(model, copies).logits
        if found is None:
            raise ValueError("this model answers with vectors, which have no probabilities")
        return found if found.dim() == 3 else found[:, None]


def read(loaded: Loaded, text: Any, target: str | None = None, **search: Any) -> Reading:
    """The reading of a text, a pair of texts, an image or a prompt, by what the model answers with.

    target: the answer that is forced; None: the model's own, found with these options of its search. UserError: an answer is
    given to a model that writes none, or there is nothing to look at.
    """
    its: Any = loaded
    description = loaded.model.description
    kind = description.head.kind
    if kind != "next" and target is not None:
        raise UserError(f"a target is given, but {loaded.what} writes no text")
    if kind != "next" and search:
        raise UserError(f"search options are given ({', '.join(search)}), but {loaded.what} writes no text")
    if kind == "next":
        made = (
            _translation(its, text, target, search) if description.encoder is not None else _text(its, text, target, search)
        )
    elif not hasattr(_first(loaded).embed, "vocab_size"):
        made = _image(its, text)
    else:
        made = _input(its, text, kind)
    return made


def _first(loaded: Loaded) -> Any:
    description = loaded.model.description
    return description.decoder if description.encoder is None else description.encoder


def _ids(numbers: Sequence[int], device: Any) -> Tensor:
    return torch.tensor([list(numbers)], device=device)


def _translation(translator: Any, text: Any, target: str | None, search: dict[str, Any]) -> Reading:
    if not isinstance(text, str) or not text.strip():
        raise UserError("there is nothing to look at: the text is empty")
    side, source, _ = side_of_text(translator, text)
    bos, eos = translator.marks()
    beam, device = None, translator.model.device
    if target is None:
        beam, found = followed(translator, text, search)
        ids, ended = found[0].ids, found[0].finished
    else:
        ids, ended, found = translator.tokenizers.target.encode(target), True, []
    said = [*ids, eos] if ended else list(ids)
    if not said:
        raise UserError("there is nothing to look at: the translation is empty")
    tokenizer = translator.tokenizers.target
    sides = {
        "source": side,
        "read": side_of_ids(tokenizer, [bos, *ids][: len(said)]),
        "target": side_of_ids(tokenizer, said),
    }
    outputs = _ids([bos, *ids][: len(said)], device)
    limit = translator.model.decoder.limit
    if limit is not None and outputs.shape[1] > limit:
        raise UserError(f"the target has {outputs.shape[1]} tokens, the model has positions for {limit}: shorten it")
    layout = Layout.unpadded(len(source), device=device)
    return Reading("translate", sides, _ids(source, device), layout, None, outputs, list(said), found, beam)


def _text(generator: Any, prompt: Any, target: str | None, search: dict[str, Any]) -> Reading:
    given, tokenizer, device = generator.prompt_ids(prompt), generator.tokenizer, generator.model.device
    found: list[Found] = []
    if target is None:
        options = {"max_new_tokens": 20} | search
        answer = generator.generate([prompt], details=True, **options)[0]
        more = [tokenizer.backend.token_to_id(piece) for piece in answer.tokens]
        found = [
            Found(
                text=one.text,
                ids=[tokenizer.backend.token_to_id(piece) for piece in one.tokens],
                score=one.log_prob,
                log_prob=one.log_prob,
                token_log_probs=one.token_log_probs,
                finished=one.finish == "end",
            )
            for one in (answer, *answer.alternatives)
        ]
    else:
        whole = tokenizer.encode(prompt + target) if isinstance(prompt, str) else []
        own = given[len(tokenizer.template.before()) :]
        more = whole[len(own) :] if own and whole[: len(own)] == own else tokenizer.encode(target)
    ids = [*given, *more]
    if len(ids) < 2:
        raise UserError("there is nothing to look at: nothing follows the prompt")
    limit = generator.limit
    if len(ids) - 1 > limit:
        raise UserError(f"prompt and answer have {len(ids)} tokens, the model reads {limit}: shorten them")
    sides = {"read": side_of_ids(tokenizer, ids[:-1], len(given)), "target": side_of_ids(tokenizer, ids[1:])}
    layout = Layout.unpadded(len(ids) - 1, device=device)
    return Reading("generate", sides, _ids(ids[:-1], device), layout, said=list(ids[1:]), hypotheses=found)


def _input(loaded: Any, text: Any, kind: str) -> Reading:
    texts = (text,) if isinstance(text, str) else tuple(text)
    if len(texts) not in (1, 2) or not all(isinstance(one, str) for one in texts):
        raise UserError("a text or a pair of texts can be looked at")
    device = loaded.model.device
    name = "source" if loaded.model.encoder is not None else "read"
    if kind == "masked":
        return _masked(loaded, texts)
    side, ids, segments = side_of_text(loaded, *texts)
    if not ids:
        raise UserError("there is nothing to look at: the text is empty")
    task = "embed" if kind == "vector" else "tag" if loaded.model.description.head.pool == "tokens" else "classify"
    marked = _ids(segments, device) if any(segments) else None
    said: list[int | None] = [None] * len(ids) if task == "tag" else []
    return Reading(task, {name: side}, _ids(ids, device), Layout.unpadded(len(ids), device=device), marked, None, said)


def _masked(loaded: Any, texts: tuple[str, ...]) -> Reading:
    if len(texts) != 1:
        raise UserError("a model of masked tokens takes one text, not a pair")
    tokenizer, device = loaded.tokenizer, loaded.model.device
    names = [] if tokenizer.mask is None else [tokenizer.piece(tokenizer.mask)]
    (ids, segments), over = loaded.frame(tokenizer.encode_marked(texts[0], names))
    if not ids:
        raise UserError("there is nothing to look at: the text is empty")
    side = replace_side(side_of_ids(tokenizer, ids), over)
    said: list[int | None] = [None if number == tokenizer.mask else number for number in ids]
    marked = _ids(segments, device) if any(segments) else None
    return Reading("fill", {"source": side}, _ids(ids, device), Layout.unpadded(len(ids), device=device), marked, None, said)


def replace_side(side: Side, truncated: bool) -> Side:
    """The side, said to have lost its end or not."""
    return side.model_copy(update={"truncated": truncated})


def _image(classifier: Any, image: Any) -> Reading:
    embed = classifier.model.encoder.embed
    pixels = torch.from_numpy(Preparation.of(classifier.meta.get("images"), embed.channels).pixels(image))[None]
    weight = next(classifier.model.parameters())
    pixels = pixels.to(weight.device, weight.dtype)
    side = image_side(*embed.shape(pixels))
    if isinstance(image, (str, Path)):
        side = side.model_copy(update={"text": Path(image).name})
    return Reading("image", {"source": side}, pixels, embed.place(pixels))


def shortened(reading: Reading, side: str, keep: Sequence[int]) -> Reading:
    """The same reading of these places of its source or image alone; what was answered stays."""
    if side != reading.first:
        raise ValueError(f"only {reading.first} can lose tokens")
    ids = reading.inputs[:, list(keep)]
    segments = None if reading.segments is None else reading.segments[:, list(keep)]
    return replace(reading, inputs=ids, segments=segments, layout=Layout.unpadded(len(keep), device=ids.device))

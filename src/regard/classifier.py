"""A classifier: texts, pairs of texts or images in, labels out; of a model of tokens, a label for each token."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, overload

import torch

from regard.architecture import Model
from regard.checkpoints.preprocessor import Preparation
from regard.decoding.generate import BATCH_TOKENS, WINDOW
from regard.errors import UserError
from regard.loaded import SHORTENED, Framed, Loaded, in_windows
from regard.text.tokenizer import Tokenizers

log = logging.getLogger("regard.classifier")

IMAGES = 32
"""Images read at once."""


@dataclass
class TokenLabel:
    """The label of one token: its text, the half-open range of characters that it stands for, and the label's
    probability."""

    text: str
    start: int
    end: int
    label: str
    probability: float


@dataclass
class Classification:
    """The likeliest label with its probability, and the probability of every label. Of a model that labels tokens: `tokens`,
    in order, and label and probability of none. truncated: the text was longer than the model reads and lost its end."""

    text: Any
    label: str
    probability: float
    probabilities: dict[str, float] = field(default_factory=dict)
    tokens: list[TokenLabel] = field(default_factory=list)
    truncated: bool = False

    def json(self) -> dict[str, Any]:
        """The same as JSON types."""
        found = asdict(self)
        return found | {"text": self.text if isinstance(self.text, (str, tuple)) else None}


class Classifier(Loaded):
    """A model whose head gives a class of a text, a token or an image."""

    what = "a classifier"
    use = "regard classify"

    def __init__(self, model: Model, tokenizers: Tokenizers | None, meta: Mapping[str, Any] | None = None) -> None:
        super().__init__(model, tokenizers, meta)
        count = model.description.head.classes
        self.labels: list[str] = list(self.meta.get("labels") or (f"LABEL_{n}" for n in range(count)))
        if len(self.labels) != count:
            raise UserError(f"the folder names {len(self.labels)} labels, the model has {count} classes")
        self.of_tokens: bool = model.description.head.pool == "tokens"

    @overload
    def classify(self, inputs: Sequence[Any], *, details: Literal[False] = False, batch_tokens: int = ...) -> list[Any]: ...

    @overload
    def classify(
        self, inputs: Sequence[Any], *, details: Literal[True], batch_tokens: int = ...
    ) -> list[Classification]: ...

    def classify(
        self, inputs: Sequence[Any], *, details: bool = False, batch_tokens: int = BATCH_TOKENS
    ) -> list[Any] | list[Classification]:
        """The label of each input, in order; with `details` a Classification each.

        inputs: texts, or pairs (tuples of two texts), or for a model of images paths, PIL images or arrays. A model that
        labels tokens gives a list of labels for each text. Text longer than the model reads loses its end: of a pair the
        longer one first, and unless `details` say so it is logged.
        """
        if isinstance(inputs, str):
            raise UserError('classify takes a list of texts, not one text: write classify(["…"])')
        inputs = list(inputs)
        if self._tokenizers is None:
            found = self._images(inputs)
        elif self.of_tokens:
            found = self._tokens(inputs, batch_tokens)
        else:
            found = self._texts(inputs, batch_tokens)
        if details:
            return found
        shortened = sum(one.truncated for one in found)
        if shortened:
            log.warning(SHORTENED, shortened, len(found))
        return [[token.label for token in one.tokens] if self.of_tokens else one.label for one in found]

    def stream(self, inputs: Iterable[Any], *, window: int = WINDOW, **options: Any) -> Iterator[Any]:
        """`classify` for any number of inputs, endless ones too."""
        return in_windows(lambda chunk: self.classify(chunk, **options), inputs, window)

    def _texts(self, inputs: list[Any], batch_tokens: int) -> list[Classification]:
        pairs = [one if isinstance(one, str) else tuple(one) for one in inputs]
        for number, one in enumerate(pairs, 1):
            if not isinstance(one, str) and (len(one) != 2 or not all(isinstance(text, str) for text in one)):
                raise UserError(f"input {number} should be a text or a pair of texts")
        first = self.tokenizer.encode_batch([one if isinstance(one, str) else one[0] for one in pairs])
        others = [(n, one[1]) for n, one in enumerate(pairs) if not isinstance(one, str)]
        second = dict(zip((n for n, _ in others), self.tokenizer.encode_batch([text for _, text in others])))
        framed = [self.frame(ids, second.get(n)) for n, ids in enumerate(first)]
        rows = self.read([each for each, _ in framed], lambda answer, row, length: answer.logits[row], batch_tokens)
        return [self._one(text, row, over) for text, row, (_, over) in zip(pairs, rows, framed)]

    def _one(self, text: Any, logits: torch.Tensor, over: bool = False) -> Classification:
        chances = self._chances(logits)
        named: dict[str, float] = {}
        for name, chance in zip(self.labels, chances):
            named[name] = named.get(name, 0.0) + chance  # of several classes of one name (ImageNet has two) together
        named = dict(sorted(named.items(), key=lambda item: -item[1]))
        label = next(iter(named))
        return Classification(text, label, named[label], named, truncated=over)

    def _chances(self, logits: torch.Tensor) -> list[Any]:
        """Probabilities of Float[C], or of Float[T C] a list of each row's; one class alone: of that class or none."""
        logits = logits.float()
        return (logits.sigmoid() if len(self.labels) == 1 else logits.softmax(-1)).tolist()

    def _tokens(self, inputs: list[Any], batch_tokens: int) -> list[Classification]:
        for number, one in enumerate(inputs, 1):
            if not isinstance(one, str):
                raise UserError(f"input {number}: a model that labels tokens takes texts, not pairs")
        tokens = [self.tokenizer.tokens(text) for text in inputs]
        framed: list[tuple[Framed, bool]] = [self.frame(its.ids) for its in tokens]
        start = len(self.tokenizer.template.before())
        rows = self.read(
            [each for each, _ in framed], lambda answer, row, length: answer.logits[row, start:length], batch_tokens
        )
        found = []
        for text, its, logits, ((whole, _), over) in zip(inputs, tokens, rows, framed):
            chances = self._chances(logits)[: len(whole) - self.tokenizer.template.added()]
            labels = []
            for (begin, end), each in zip(its.offsets, chances):
                best = max(range(len(each)), key=each.__getitem__)
                labels.append(TokenLabel(text[begin:end], begin, end, self.labels[best], each[best]))
            found.append(Classification(text, "", 0.0, tokens=labels, truncated=over))
        return found

    def _images(self, inputs: list[Any]) -> list[Classification]:
        embed = self.model.description.encoder.embed
        prepare = Preparation.of(self.meta.get("images"), embed.channels)
        found = []
        for at in range(0, len(inputs), IMAGES):
            chunk = inputs[at : at + IMAGES]
            pixels = [torch.from_numpy(prepare.pixels(image)) for image in chunk]
            for shape in sorted({tuple(one.shape) for one in pixels}, key=str):
                if shape != tuple(pixels[0].shape):
                    raise UserError("images of one batch differ in size: preprocessor_config.json should say one `size`")
            with torch.inference_mode():
                weight = next(self.model.parameters())
                logits = self.model(torch.stack(pixels).to(weight.device, weight.dtype)).logits
            found += [self._one(str(image) if _is_path(image) else None, row) for image, row in zip(chunk, logits)]
        return found


def _is_path(image: Any) -> bool:
    return hasattr(image, "__fspath__") or isinstance(image, str)

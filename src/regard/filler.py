"""A filler: what may stand where a text has a mask."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from regard.errors import UserError
from regard.loaded import Loaded


@dataclass(frozen=True)
class Filling:
    """A token for the place of a mask: how the vocabulary spells it, its probability, and the text with it."""

    token: str
    probability: float
    text: str

    def json(self) -> dict[str, Any]:
        """The same as JSON types."""
        return asdict(self)


class Filler(Loaded):
    """A model that predicts hidden tokens."""

    what = "a model of masked tokens"
    use = "regard.load(…).fill(text) in Python"

    @property
    def mask(self) -> str:
        """How a mask is written in a text."""
        number = self.tokenizer.mask
        if number is None:
            raise UserError("this model's tokenizer has no mask symbol, so nothing can be filled in")
        return self.tokenizer.piece(number)

    def fill(self, text: str, top: int = 5) -> list[Filling] | list[list[Filling]]:
        """The `top` most likely tokens where `text` has the mask (`self.mask`), best first; a list for each mask if there
        are several, each mask answered with the others still hidden. UserError: there is no mask, or it stands beyond what
        the model reads."""
        mask, tokenizer = self.mask, self.tokenizer
        ids = tokenizer.encode_marked(text, [mask])
        count = sum(number == tokenizer.mask for number in ids)
        if not count:
            raise UserError(f"the text has no mask: write {mask} where a token should be found")
        framed, _ = self.frame(ids)
        places = [place for place, number in enumerate(framed[0]) if number == tokenizer.mask]
        if len(places) < count:
            raise UserError(f"the text is longer than the {self.limit} tokens that the model reads: a mask is cut off")

        def best(answer: Any, row: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
            chances = answer.logits[row, places].float().softmax(-1)
            known = chances[:, : tokenizer.vocab_size]
            return known.topk(min(top, known.shape[-1]), dim=-1)

        chances, found = self.read([framed], best)[0]
        filled = [
            [self._filling(ids, at, int(number), float(chance)) for number, chance in zip(*each)]
            for at, each in zip((n for n, number in enumerate(ids) if number == tokenizer.mask), zip(found, chances))
        ]
        return filled[0] if count == 1 else filled

    def _filling(self, ids: list[int], at: int, number: int, chance: float) -> Filling:
        tokenizer = self.tokenizer
        pieces = [ids[:at], [number], ids[at + 1 :]]
        text = tokenizer.decode([one for piece in pieces for one in piece])
        return Filling(tokenizer.piece(number), chance, text)

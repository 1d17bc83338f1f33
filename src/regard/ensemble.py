"""An ensemble: translators of one vocabulary that write each token together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.decoding.mixture import Mixture
from regard.errors import UserError
from regard.translator import Translator


class Ensemble(Translator):
    """Translators that share their tokenizers, as one: at each step the mean of their probabilities.

    members: of any seeds, sizes and families. names: what messages call them. shares: how much each counts; None: all
    alike. The first one's search options and languages hold; sentences before each are read if all have learned
    to. UserError: another tokenizer, other marks, or text that was prepared in other steps, naming the member.
    """

    what = "an ensemble"
    use = "regard translate MODEL --with MODEL"

    def __init__(
        self,
        members: Sequence[Translator],
        names: Sequence[str | Path] | None = None,
        shares: Sequence[float] | None = None,
    ) -> None:
        if not members:
            raise UserError("an ensemble needs at least one model")
        first, said = members[0], [str(n) for n in names or range(1, len(members) + 1)]
        for one, name in zip(members[1:], said[1:]):
            for what, ours, theirs in _compared(first, one):
                if ours != theirs:
                    raise UserError(f"{name}: its {what} differ from those of {said[0]}; an ensemble needs the same")
        if shares is not None and (len(shares) != len(members) or min(shares) <= 0):
            raise UserError(f"{len(members)} models need as many shares above 0, not {', '.join(map(str, shares))}")
        mixture: Any = Mixture([one.model for one in members], shares)
        alike = all(one.meta.get("context") == first.meta.get("context") for one in members)
        meta = {name: told for name, told in first.meta.items() if alike or name != "context"}
        super().__init__(mixture, first.tokenizers, first.search, meta)
        self.members = list(members)

    def use_shortlist(self, folder: str | Path) -> None:
        """UserError: a shortlist is of one model."""
        raise UserError("an ensemble scores all tokens: leave the shortlist away")

    def save(self, folder: str | Path) -> None:
        """UserError: there is no folder for several models."""
        raise UserError(f"{folder}: an ensemble is several models; save its members, or average them with regard average")


def _compared(first: Translator, one: Translator) -> list[tuple[str, object, object]]:
    """What must be equal, and what it is in both."""

    def vocabularies(its: Translator) -> object:
        both = its.tokenizers
        return both.source.hash, both.target.hash, both.source.wrap([0])

    return [
        ("tokenizers", vocabularies(first), vocabularies(one)),
        ("start and end marks", first.marks(), one.marks()),
        ("steps of preparing text", list(first.meta.get("preprocess") or []), list(one.meta.get("preprocess") or [])),
    ]

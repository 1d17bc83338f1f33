"""The published "lc.norm.tok" scale of Multi30k, made from raw text: lower case, Moses normalisation, Moses tokenisation.

Published scores on Multi30k are BLEU over this text with `tokenize="none"`. The order is that of the data set's own
script (lower case first, then normalize-punctuation.perl, then tokenizer.perl with its XML escapes): in any other order
the German test2016 has 12,102 words instead of the published 12,103. perl_parity: the Perl script turns ’ into ", and so do
the published files (the French training side has 409,845 words with it, 409,831 without).
"""

from __future__ import annotations

from collections.abc import Iterable

from regard.errors import UserError


class Moses:
    """Brings text of one language onto the lc.norm.tok scale. language: two letters (en, de, fr, cs …).

    sacremoses does the work, a port of the Perl scripts of Moses. UserError if it is not installed.
    """

    def __init__(self, language: str) -> None:
        try:
            from sacremoses import MosesPunctNormalizer, MosesTokenizer
        except ImportError as error:
            raise UserError("Moses tokenisation needs sacremoses: pip install 'regard[moses]'") from error
        self.language = language
        self._normalize = MosesPunctNormalizer(lang=language, perl_parity=True).normalize
        self._tokenize = MosesTokenizer(lang=language).tokenize

    def __call__(self, text: str) -> str:
        """One line of raw text -> one line of tokens between blanks, with XML escapes (`'` is `&apos;`)."""
        return str(self._tokenize(self._normalize(text.lower()), return_str=True))

    def lines(self, texts: Iterable[str | None]) -> list[str | None]:
        """Every line on the scale; None stays None."""
        return [None if text is None else self(text) for text in texts]

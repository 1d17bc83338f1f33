"""The two course notes whose claims are measured, and how a quote of them is written."""

from __future__ import annotations

from regard.labs.frame.values import Quote

FIRST = "N1 《深度注意力模型》"
SECOND = "N2 《注意力机制、Seq2Seq、Transformer》"


def first(section: str, zh: str, en: str) -> Quote:
    """A sentence of the first note."""
    return Quote(zh=zh, en=en, note=FIRST, section=section)


def second(section: str, zh: str, en: str) -> Quote:
    """A sentence of the second note."""
    return Quote(zh=zh, en=en, note=SECOND, section=section)

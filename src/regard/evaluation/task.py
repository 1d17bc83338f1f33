"""What is to be translated and scored: read and checked before any model is loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.evaluation.scores import References, check_references, group_references
from regard.text.corpus import open_corpus, read_lines

_PACKED = (".gz", ".xz", ".zst")
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_KANA = re.compile(r"[\u3040-\u30ff]")


@dataclass(frozen=True)
class Task:
    """sources: lines to translate, or None where only translations are to be scored. references: sets of as many lines,
    None where a sentence has no further reference. source_language, target_language: codes, None if unknown."""

    references: References
    sources: Sequence[str] | None = None
    source_language: str | None = None
    target_language: str | None = None

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.references[0])

    def first(self, count: int | None) -> Task:
        """Its first `count` sentences; None: all."""
        if count is None:
            return self
        sources = None if self.sources is None else self.sources[:count]
        return replace(self, sources=sources, references=[lines[:count] for lines in self.references])

    def changed(self, source: Callable[[str], str] | None, target: Callable[[str], str] | None) -> Task:
        """Its sources and references passed through functions, such as a Moses; None leaves a side as it is."""
        sources, references = self.sources, self.references
        if source is not None and sources is not None:
            sources = [source(text) for text in sources]
        if target is not None:
            references = [[None if text is None else target(text) for text in lines] for lines in references]
        return replace(self, sources=sources, references=references)


def task_of_files(
    source: str | Path | None,
    references: Sequence[str | Path],
    source_language: str | None = None,
    target_language: str | None = None,
    allow_empty: bool = False,
) -> Task:
    """Line files: sources (None: there are none) and one reference file or more. Languages that are not given are taken
    from the files' endings (test.de.gz: de), Chinese from the text itself. UserError for unequal counts, naming both, and
    for an empty reference, naming its line."""
    sources = None
    if source is not None:
        sources, source_language = list(read_lines(source)), source_language or _ending(source)
    sets = [list(read_lines(path)) for path in references]
    if not sets:
        raise UserError("no references: give --reference FILE")
    target_language = target_language or _ending(references[0]) or language_of(sets[0])
    checked = check_references(sets, None if sources is None else len(sources), allow_empty)
    return Task(checked, sources, source_language, target_language)


def task_of_pairs(
    spec: Any, source: str, target: str, root: str | Path | None = None, group: bool = True, allow_empty: bool = False
) -> Task:
    """A corpus of pairs (all that open_corpus reads). group: pairs with the same source become one sentence with several
    references; else every pair stands alone."""
    pairs = open_corpus(spec, source, target, root)
    if not pairs:
        raise UserError(f"{spec}: no pairs to score")
    if group:
        sources, references = group_references(pairs)
    else:
        sources, references = [pair.source for pair in pairs], [[pair.target for pair in pairs]]
    return Task(check_references(references, len(sources), allow_empty), sources, source, target)


def language_of(lines: Sequence[str]) -> str | None:
    """ "zh" where most letters are Chinese characters without kana, "ja" with them, else None (not known)."""
    text = "".join(lines[:1000])
    letters = sum(map(str.isalpha, text))
    han, kana = len(_HAN.findall(text)), len(_KANA.findall(text))
    if 2 * (han + kana) <= letters or not letters:
        return None
    return "ja" if 20 * kana > han else "zh"


def _ending(path: str | Path) -> str | None:
    endings = [ending.lower() for ending in Path(path).suffixes if ending.lower() not in _PACKED]
    code = endings[-1][1:] if endings else ""
    known = re.fullmatch(r"[a-z]{2}([-_][a-z0-9]{2,4})?", code)
    return code if known else None

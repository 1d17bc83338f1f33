"""How sure a model is of translations: words, alignments, flags; unknown words replaced and kept parts put back by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from torch import Tensor

from regard.decoding.alignment import Forced, by_words, can_look, forced, links
from regard.decoding.flags import source_flags, text_flags
from regard.decoding.quality import estimate, features
from regard.decoding.wishes import Plan, Wishes, lexicon_of
from regard.errors import UserError
from regard.text.kept import put_back
from regard.text.surfaces import Lexicon
from regard.text.tokenizer import Tokenizers
from regard.text.words import Span, owners, word_spans

UNKNOWN = "\ufffd"


@dataclass
class Judge:
    """Completes translations. frame: ids of a source as the model reads them. marks: start and end of answers. formula: of
    the quality estimate (`regard.decoding.quality`), None if the model has none."""

    model: Any
    tokenizers: Tokenizers
    frame: Callable[[list[int]], list[int]]
    marks: tuple[int, int]
    wishes: Wishes
    batch_tokens: int
    formula: Mapping[str, Any] | None = None

    def complete(self, plans: Sequence[Plan], sources: Sequence[Sequence[int]], made: Sequence[Any]) -> None:
        """Fill in what was wished of translations, made from framed `sources`, and their alternatives."""
        rows = [
            (plan, source, one)
            for plan, source, first in zip(plans, sources, made)
            for one in (first, *first.alternatives)
            if source
        ]
        leads = [self._lead(plan) for plan, _, _ in rows]
        seen = self._looked(rows)
        without = self._without(rows) if self.wishes.confidence else [None] * len(rows)
        for (plan, source, one), lead, its, bare in zip(rows, leads, seen, without):
            skip = len(plan.before.target)
            self._one(plan, source[lead:], one, _cut(its, skip, lead), _cut(bare, skip, 0))

    def _lead(self, plan: Plan) -> int:
        """How many ids of a framed source are of the sentences before it."""
        before = plan.before.source
        return len(before) + len(self.tokenizers.source.template.before()) if before else 0

    def _looked(self, rows: list[tuple[Plan, Sequence[int], Any]]) -> list[Forced | None]:
        """The forced pass of those that need one."""
        unk, wishes = self.tokenizers.target.unk, self.wishes
        if wishes.replace_unknown and not can_look(self.model):
            raise UserError("replacing unknown words needs attention over the source, which this model does not have")
        if not can_look(self.model) and not (wishes.confidence and self.model.encoder is not None):
            return [None] * len(rows)
        wanted = [
            n
            for n, (plan, _, one) in enumerate(rows)
            if wishes.confidence or plan.outs or (wishes.replace_unknown and unk in one.ids)
        ]
        answers = [_told(rows[n][0], rows[n][2]) for n in wanted]
        passes = forced(self.model, [rows[n][1] for n in wanted], answers, *self.marks, self.batch_tokens)
        found: list[Forced | None] = [None] * len(rows)
        for n, its in zip(wanted, passes):
            found[n] = its
        return found

    def _without(self, rows: list[tuple[Plan, Sequence[int], Any]]) -> list[Forced | None]:
        """The same of all without their sources; nothing where an empty source has no tokens at all."""
        empty = self.frame([])
        if not empty or self.model.encoder is None:
            return [None] * len(rows)
        answers = [_told(plan, one) for plan, _, one in rows]
        return [*forced(self.model, [empty] * len(rows), answers, *self.marks, self.batch_tokens)]

    def _one(self, plan: Plan, source: Sequence[int], one: Any, its: Forced | None, bare: Forced | None) -> None:
        lexicon = lexicon_of(self.tokenizers.target)
        weights = None if its is None else its.weights
        reads = None if weights is None else _Source.of(self.tokenizers, plan.text, source)
        words: dict[int, str] = {}
        if self.wishes.replace_unknown and weights is not None and reads is not None:
            words = reads.most_attended(weights, one.ids, lexicon.tokenizer.unk)
        text, offsets = spelled(lexicon, one.ids, words)
        if words:
            one.text = text
        spans = word_spans(text)
        belongs = owners(spans, offsets)
        one.words = _probable(text, spans, belongs, one.token_log_probs)
        facts = {"source-cut": one.truncated, "unfinished": not one.finished, "unknown-words": one.unknown > 0}
        one.flags += [name for name, holds in facts.items() if holds]
        one.flags += text_flags(plan.text, one.text, (len(source), len(one.ids)))
        table = None
        if weights is not None and reads is not None:
            table = by_words(weights, reads.words, belongs, (len(spans), len(reads.spans)))
            one.alignment = " ".join(f"{a}-{b}" for a, b in links(table)) if self.wishes.confidence else None
        if self.wishes.confidence:
            self._sure(one, reads, weights, its, bare)
        self._restore(plan, one, table)
        broken = plan.broken(one.text, lexicon.tokenizer)
        one.unkept = [phrase for _, phrase in broken]
        one.flags += [name for name in dict.fromkeys(name for name, _ in broken) if name not in one.flags]
        if self.formula is not None and self.wishes.confidence:
            one.quality = estimate(self.formula, features(one, len(source), self.formula["length"]))

    def _sure(
        self, one: Any, reads: _Source | None, weights: Tensor | None, its: Forced | None, bare: Forced | None
    ) -> None:
        if its is not None and bare is not None and sum(bare.log_probs) < 0:
            one.explained = 1 - sum(its.log_probs) / sum(bare.log_probs)
        seen, words = [], []
        if weights is not None and reads is not None:
            seen, words = reads.coverage(weights), [reads.text[start:end] for start, end in reads.spans]
        flags, one.uncovered = source_flags(seen, words, one.explained)
        one.flags += flags

    def _restore(self, plan: Plan, one: Any, table: Tensor | None) -> None:
        for name, text in plan.symbols.items():
            one.text = one.text.replace(name, text)
        if plan.outs:
            pairs = [] if table is None else links(table)
            one.text = put_back(plan.text, plan.outs, one.text, pairs)
            if table is None:
                one.flags.append("kept-guessed")


def _told(plan: Plan, one: Any) -> tuple[list[int], bool]:
    """The ids of an answer behind those of the translations before it, and whether an end mark follows."""
    return [*plan.before.target, *one.ids], one.finished


def _cut(its: Forced | None, skip: int, lead: int) -> Forced | None:
    """A forced pass without its first `skip` tokens and without the first `lead` of the source."""
    if its is None or not (skip or lead):
        return its
    return Forced(its.log_probs[skip:], None if its.weights is None else its.weights[skip:, lead:])


@dataclass
class _Source:
    """A source as words. words: of each token the model reads its word, -1 for marks around the text."""

    text: str
    spans: list[Span]
    words: list[int]

    @classmethod
    def of(cls, tokenizers: Tokenizers, text: str, framed: Sequence[int]) -> _Source:
        tokens = tokenizers.source.tokens(text)
        spans = word_spans(text)
        lead, most = _inside(framed, tokens.ids)
        inner = owners(spans, tokens.offsets[:most])
        return cls(text, spans, [-1] * lead + inner + [-1] * (len(framed) - lead - most))

    def coverage(self, weights: Tensor) -> list[float]:
        """The attention that each word had from all tokens together."""
        seen = [0.0] * len(self.spans)
        for word, value in zip(self.words, weights.sum(0).tolist()):
            if word >= 0:
                seen[word] += value
        return seen

    def most_attended(self, weights: Tensor, ids: Sequence[int], unk: int | None) -> dict[int, str]:
        """For each place of the unknown token the source word it looked at most; never a mark (S-BEAM-12). One source word
        that several in a row look at is written once."""
        places = [place for place, word in enumerate(self.words) if word >= 0]
        found: dict[int, str] = {}
        before = -1
        for at, number in enumerate(ids):
            if number != unk or not places:
                before = -1
                continue
            word = self.words[max(places, key=lambda place: float(weights[at, place]))]
            start, end = self.spans[word]
            found[at] = "" if word == before else self.text[start:end]
            before = word
        return found


def _inside(framed: Sequence[int], ids: Sequence[int]) -> tuple[int, int]:
    """Where the text's own ids begin among the framed ones, and how many of them there are (it may have lost its end)."""
    for lead in range(len(framed)):
        most = 0
        while most < len(ids) and lead + most < len(framed) and framed[lead + most] == ids[most]:
            most += 1
        if most and (most == len(ids) or lead + most >= len(framed) - 2):
            return lead, most
    return 0, 0


def spelled(lexicon: Lexicon, ids: Sequence[int], unknown: dict[int, str]) -> tuple[str, list[Span]]:
    """The text of ids, and the characters of it that each stands for. unknown: words for some places."""
    data, ends, unk = b"", [], lexicon.tokenizer.unk
    for place, number in enumerate(ids):
        part = lexicon.texts[number]
        if place in unknown and number == unk:
            space = b" " if unknown[place] and part.startswith(b" ") else b""
            part = space + unknown[place].encode()
        data += part
        ends.append(len(data))
    lead = int(data.startswith(b" "))
    counts = [0, *(max(0, len(data[:end].decode("utf-8", "ignore")) - lead) for end in ends)]
    return data.decode("utf-8", "replace")[lead:], list(pairwise(counts))


def _probable(text: str, spans: Sequence[Span], belongs: Sequence[int], logs: Sequence[float]) -> list[dict[str, Any]]:
    sums = [0.0] * len(spans)
    for word, value in zip(belongs, logs):
        if word >= 0:
            sums[word] += value
    return [{"text": text[start:end], "log_prob": value} for (start, end), value in zip(spans, sums)]

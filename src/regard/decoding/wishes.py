"""What is asked of translations beside the search: phrases, glossary, parts that are kept; and whether it was kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

from regard.decoding.banks import Demand
from regard.decoding.context import Before
from regard.decoding.phrases import Rules
from regard.errors import UserError
from regard.text.glossary import Glossary
from regard.text.kept import Out, find, pattern, take_out
from regard.text.surfaces import Lexicon, occurs
from regard.text.tokenizer import Tokenizer, Tokenizers

Group = tuple[str, ...]


@lru_cache(8)
def lexicon_of(tokenizer: Tokenizer) -> Lexicon:
    """The Lexicon of a tokenizer, made once."""
    return Lexicon(tokenizer)


@dataclass(frozen=True)
class Wishes:
    """require: phrases that must stand in every translation ("a|b": either), or a list of them for each text. forbid: the
    same for phrases that must not. glossary: a Glossary, its file or its entries. keep: kinds of `regard.text.kept.KINDS`
    or regular expressions, for parts that are carried through unchanged. complete: the last word of `prefix` may be the
    beginning of a word. replace_unknown: unknown tokens become the source word that was looked at most. confidence: find
    alignments, uncovered words, and what the source explains (two more passes). context: for each text the sentences before
    it with their translations."""

    require: Any = None
    forbid: Any = None
    glossary: Any = None
    keep: Any = None
    complete: bool = False
    replace_unknown: bool = False
    confidence: bool = False
    context: Any = None

    @classmethod
    def divided(cls, named: Mapping[str, Any]) -> tuple[Wishes, dict[str, Any]]:
        """The wishes among named options, and the other options."""
        own = {f.name for f in fields(cls)}
        wishes = cls(**{name: value for name, value in named.items() if name in own and value is not None})
        return wishes, {name: value for name, value in named.items() if name not in own}

    def __bool__(self) -> bool:
        return any(getattr(self, f.name) for f in fields(self))

    def plans(self, texts: Sequence[str], tokenizers: Tokenizers, begins: Sequence[str] | None = None) -> list[Plan]:
        """What each text asks. begins: how each translation begins. UserError: lists of another length, phrases that
        contradict each other."""
        require, forbid = (
            _each(given, len(texts), name) for name, given in (("require", self.require), ("forbid", self.forbid))
        )
        terms = None if self.glossary is None else Glossary.of(self.glossary)
        kinds = (self.keep,) if isinstance(self.keep, str) else tuple(self.keep or ())
        kept = pattern(kinds) if kinds else None
        known: dict[Any, Rules] = {}
        plans = []
        for number, text in enumerate(texts):
            plan = Plan(text, begins[number] if begins is not None and number < len(begins) else "")
            plan.groups = [("required", group) for group in require[number]]
            plan.forbid = [phrase for group in forbid[number] for phrase in group]
            if terms is not None:
                plan.groups += [("glossary", group) for group in terms.wanted(text).values()]
            if kept is not None:
                plan.take(kept, tokenizers)
            plan.compile(lexicon_of(tokenizers.target), self.complete, known)
            plans.append(plan)
        return plans


@dataclass
class Plan:
    """What is asked of one translation. text: what the model reads. groups: of each one phrase must stand there, and who
    asks for it. kept: parts that must be carried through. symbols: of these, what stands for them. outs: those taken out.
    before: what stands before the text and its translation."""

    text: str
    begin: str = ""
    groups: list[tuple[str, Group]] = field(default_factory=list)
    forbid: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    symbols: dict[str, str] = field(default_factory=dict)
    outs: list[Out] = field(default_factory=list)
    before: Before = field(default_factory=Before)
    rules: Rules | None = None

    def take(self, kept: Any, tokenizers: Tokenizers) -> None:
        """Hide what must be kept behind extra symbols of the vocabulary, if there are enough; else take tags out, and
        require what is not a tag where the vocabulary can spell it."""
        parts = find(self.text, kept)
        self.kept = [part.text for part in parts]
        source, target = tokenizers.source, tokenizers.target
        free = [name for name in source.extra if name in target.extra and name[-2:-1].isdigit() and name not in self.text]
        if parts and len(free) >= len(parts):
            for part, name in reversed(list(zip(parts, free))):
                self.text = self.text[: part.start] + name + self.text[part.end :]
                self.symbols[name] = part.text
                self.groups.append(("kept", (name,)))
            return
        outs = []
        for part in parts:
            spelled = (
                not part.tag and target.normalize(part.text).strip() == part.text and any(lexicon_of(target).ways(part.text))
            )
            if spelled:
                self.groups.append(("kept", (part.text,)))
            else:
                outs.append(part)
        self.text, self.outs = take_out(self.text, outs)

    def compile(self, lexicon: Lexicon, complete: bool, known: dict[Any, Rules]) -> None:
        """Make the rules for the search. `known`: those of other texts."""
        groups = tuple(dict.fromkeys(group for _, group in self.groups))
        forbid = tuple(dict.fromkeys(self.forbid))
        allowed = []
        for group in groups:
            left = tuple(phrase for phrase in group if not any(occurs(no, phrase) for no in forbid))
            if not left:
                raise UserError(f"{' | '.join(group)!r} is required, and {', '.join(map(repr, forbid))} forbidden: drop one")
            allowed.append(left)
        opening = lexicon.spelled(lexicon.tokenizer.encode(self.begin)) if complete and self.begin.strip() else b""
        key = tuple(allowed), forbid, opening
        if key not in known:
            known[key] = Rules(lexicon, allowed, forbid, opening)
        self.rules = known[key] or None

    def whole_words(self, begin: str) -> str:
        """Of how the translation begins, what is sure to be whole words."""
        return begin[: begin.rfind(" ") + 1].rstrip() if self.rules is not None and self.rules.opening else begin

    def demand(self, begin: Sequence[int]) -> Demand:
        """For the search, with the ids that the answer begins with."""
        return Demand(begin, self.rules)

    def broken(self, text: str, tokenizer: Tokenizer) -> list[tuple[str, str]]:
        """Promises that a text does not keep: name of the flag, and the phrase."""
        found = []
        for who, group in self.groups:
            if who != "kept" and not any(occurs(tokenizer.normalize(phrase).strip(), text) for phrase in group):
                found.append((f"{who}-missing", "|".join(group)))
        found += [("forbidden-present", no) for no in self.forbid if occurs(tokenizer.normalize(no).strip(), text)]
        for part in dict.fromkeys(self.kept):
            if text.count(part) != self.kept.count(part):
                found.append(("kept-missing", part))
        if self.begin and not text.startswith(tokenizer.normalize(self.begin)):
            found.append(("prefix-missing", self.begin))
        return found


def _each(given: Any, count: int, name: str) -> list[list[Group]]:
    """For each text its groups of phrases."""
    items = [given] if isinstance(given, str) else list(given or ())
    if any(isinstance(item, list) for item in items):
        if len(items) != count or not all(isinstance(item, list) for item in items):
            raise UserError(
                f"{name} has {len(items)} entries for {count} texts: give a list for each text, or phrases for all"
            )
        return [[_group(phrase, name) for phrase in item] for item in items]
    return [[_group(phrase, name) for phrase in items]] * count


def _group(phrase: Any, name: str) -> Group:
    parts = phrase.split("|") if isinstance(phrase, str) else phrase
    if not isinstance(parts, (list, tuple)) or not all(isinstance(one, str) for one in parts):
        raise UserError(f"{name} takes phrases, not {phrase!r}")
    kept = tuple(one.strip() for one in parts if one.strip())
    if not kept:
        raise UserError(f"{name}: a phrase is empty")
    return kept

"""Phrases that an answer must hold or must not hold: an automaton over tokens that reads the text they spell.

Lexically constrained decoding after Post & Vilar 2018 and Hu et al. 2019. Unlike there, progress is read off the text, not
off the ids of one segmentation: a phrase is found however the model spells it, and only as whole words, so that requiring
or forbidding "cat" leaves "cats" alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from regard.text.surfaces import NARROW, OUTSIDE, SPACE, SPACED, WIDE, Lexicon, first_kind, joined, last_kind


class Pattern:
    """One phrase. `next[p]`: ids that write on when p bytes of " phrase" stand there; `left[p]`: how many are missing."""

    def __init__(self, lexicon: Lexicon, phrase: str) -> None:
        self.body = lexicon.tokenizer.normalize(phrase).strip().encode()
        self.first, self.last = first_kind(self.body), last_kind(self.body)
        self.next: dict[int, set[int]] = {}
        self.left: dict[int, int] = {}
        self._lexicon = lexicon
        ways = lexicon.ways(phrase)
        self.spellable = any(ways)
        for start, ids in enumerate(ways):
            place = start
            for number, token in enumerate(ids):
                self._note(place, token, len(ids) - number)
                place += len(lexicon.texts[token])
        self.left[len(self.body) + 1] = 0
        self.fewest = len(ways[0] or ways[1]) if self.first == SPACED else min(map(len, filter(None, ways)), default=0)

    def missing(self, place: int) -> int | None:
        """How many ids are missing when so many bytes of " phrase" stand there; None: it cannot be gone on with."""
        if place not in self.left:
            self._spell(place)
        return self.left.get(place)

    def _note(self, place: int, token: int, left: int) -> None:
        self.next.setdefault(place, set()).add(token)
        self.left[place] = min(left, self.left.get(place, left))

    def _spell(self, place: int) -> None:
        """From where no usual way leads on: the longest ids that fit."""
        rest, ids = self.body[place - 1 :], []
        while rest:
            fits = next((n for size in range(len(rest), 0, -1) for n in self._lexicon.exact(rest[:size])), None)
            if fits is None:
                return
            ids.append(fits)
            rest = rest[len(self._lexicon.texts[fits]) :]
        if ids:
            self._note(place, ids[0], len(ids))


@lru_cache(4096)
def pattern_of(lexicon: Lexicon, phrase: str) -> Pattern:
    """The Pattern of a phrase, made once for all sentences that ask for it."""
    return Pattern(lexicon, phrase)


class _Seen(NamedTuple):
    """met: groups that stand in the text. active: patterns begun, with the bytes of them that stand at the end of the text
    (all of them: it depends on what follows whether it is the word). last: kind of the last character, gap: what stands
    between words (nothing yet; a space; what a word may follow without one). rest: what must
    stand next, of the beginning that was given."""

    met: frozenset[int]
    active: tuple[tuple[int, int], ...]
    last: int
    gap: int = NARROW
    rest: bytes = b""


class Stage:
    """What an answer has written, as far as its rules ask. missing: tokens that its required phrases still need, and
    `worst` if what is begun comes to nothing. ends: an end mark may follow. held: a forbidden phrase stands there unless its
    word goes on; stands: so does a required one."""

    # Thousands of stages live as long as a search: few objects each, and tuples of numbers, keep the garbage collector away.
    __slots__ = (
        "_advance", "_ending", "_next", "broken", "ends", "goes_on", "held", "missing", "needs", "rules",
        "seen", "stands", "worst",
    )  # fmt: skip

    def __init__(self, rules: Rules, seen: _Seen, broken: bool) -> None:
        self.rules, self.seen, self.broken = rules, seen, broken
        self.held = self.stands = False
        self.goes_on: frozenset[int] = frozenset()  # ids that write on what is begun
        for number, size in seen.active:
            body = rules.patterns[number].body
            if size < len(body):
                self.goes_on |= rules.lexicon.going_on(body[size:])
            elif number < rules.required:
                self.stands = True
            else:
                self.held = True
        self.missing = rules.count(seen)
        self.worst = rules.count(_Seen(seen.met, (), SPACED, WIDE)) if seen.active else self.missing
        self.ends = self.missing == 0 and not self.held and not seen.rest
        self.needs: dict[int, int] = {}
        self._next: dict[int, Stage] = {}
        self._advance: tuple[int, ...] | None = None
        self._ending: tuple[list[int], list[int]] | None = None

    def after(self, token: int) -> Stage:
        """The stage when this token is written."""
        found = self._next.get(token)
        if found is None:
            found = self._next[token] = self._after(token)
        return found

    def _after(self, token: int) -> Stage:
        """Most tokens have nothing to do with phrases, nor go on with what is begun: all that counts of them is how they
        end, and, where a phrase stands, whether they go on with its word."""
        rules = self.rules
        if self.seen.rest or token in rules.touching or token in self.goes_on or token >= len(rules.lexicon.texts):
            return rules.move(self.seen, token)
        inside, last, gap = rules.lexicon.shape(token)
        alike = -1 - gap - 3 * last - 9 * (inside and (self.stands or self.held))  # no id is below 0
        found = self._next.get(alike)
        if found is None:
            found = self._next[alike] = rules.move(self.seen, token)
        return found

    def need(self, token: int) -> int:
        """Tokens that are still needed after this one, by required phrases, and to go on with a word that must not end. For
        ids of which `usual` does not tell; kept in `needs`."""
        seen, _ = self.rules.read(self.seen, token)
        found = self.needs[token] = self.rules.count(seen) + self.rules.holds(seen)
        return found

    @property
    def usual(self) -> tuple[int, ...]:
        """`need` of ids by their `Lexicon.classes`, but for those that touch phrases or go on with what is begun, and where
        a beginning is still to be written."""
        rules, met = self.rules, self.seen.met
        inside = outside = rules.fresh(met)
        if self.stands:
            whole = [n for n, size in self.seen.active if n < rules.required and size == len(rules.patterns[n].body)]
            outside = rules.fresh(met.union(rules.owner[n] for n in whole))
        return self.missing + self.held, *outside, *inside

    @property
    def advance(self) -> tuple[int, ...]:
        """Tokens that bring required phrases nearer; what they need is in `needs`."""
        if self._advance is None:
            found = []
            for token in sorted(self.rules.onward(self.seen)) if self.missing else ():
                seen, _ = self.rules.read(self.seen, token)
                missing = self.rules.count(seen)
                if missing < self.missing:
                    found.append(token)
                    self.needs[token] = missing + self.rules.holds(seen)
            self._advance = tuple(found)
        return self._advance

    @property
    def opening(self) -> list[int]:
        """Tokens that go on with the beginning that was given, or go beyond it; none if it is there."""
        rest = self.seen.rest
        return sorted(self.rules.lexicon.going_on(rest)) if rest else []

    @property
    def endings(self) -> tuple[list[int], list[int]]:
        """Tokens that complete a forbidden phrase, and those after which its word might go on."""
        if self._ending is None:
            self._ending = self.rules.ending(self)
        return self._ending

    def forbidden(self, when: Literal["usual", "alone", "last"]) -> list[int]:
        """Tokens that complete a forbidden phrase, "last": also those after which its word might go on, "alone": these too,
        but not if they bring required phrases nearer. What `held` forbids (all of `Lexicon.outside`) is not listed."""
        broken, held = self.endings
        if not held or (when == "usual" and self.rules.lexicon.inside):
            return broken
        wanted = self.advance if when == "alone" else ()
        return [*broken, *(token for token in held if token not in wanted)]


class Rules:
    """What one answer must and must not hold. groups: of each one phrase must stand there. Phrases that the vocabulary
    cannot spell cannot be required: their groups are `hopeless`. opening: bytes with which the answer begins, however they
    are spelled, and even if its word goes on after them."""

    def __init__(
        self, lexicon: Lexicon, groups: Sequence[Sequence[str]] = (), forbid: Sequence[str] = (), opening: bytes = b""
    ) -> None:
        self.lexicon, self.opening = lexicon, opening
        made = [[pattern_of(lexicon, phrase) for phrase in group] for group in groups]
        kept = [[pattern for pattern in group if pattern.spellable] for group in made]
        self.hopeless = [tuple(group) for group, patterns in zip(groups, kept) if not patterns]
        self.groups: list[list[int]] = []
        self.patterns: list[Pattern] = []
        self.owner: list[int] = []
        for patterns in filter(None, kept):
            self.groups.append(list(range(len(self.patterns), len(self.patterns) + len(patterns))))
            self.owner += [len(self.groups) - 1] * len(patterns)
            self.patterns += patterns
        self.required = len(self.patterns)
        self._whole = [min(self.patterns[n].fewest for n in members) for members in self.groups]
        self.patterns += [pattern_of(lexicon, phrase) for phrase in forbid]
        self._holding: dict[int, list[int]] = {}
        self._touched: dict[int, tuple[int, ...]] = {}
        for number, pattern in enumerate(self.patterns):
            for token in lexicon.touching(pattern.body):
                self._touched[token] = (*self._touched.get(token, ()), number)
        self.touching = lexicon.silent.union(self._touched)
        self._stages: dict[_Seen | tuple[_Seen, bool], Stage] = {}
        self._fresh: dict[frozenset[int], tuple[int, int, int]] = {}
        self._begins: dict[tuple[frozenset[int], int], set[int]] = {}
        self._endings: dict[tuple[bool, tuple[tuple[int, int], ...]], tuple[list[int], list[int]]] = {}

    def __bool__(self) -> bool:
        return bool(self.patterns) or bool(self.opening)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_stages": {}, "_endings": {}}

    def start(self) -> Stage:
        """Nothing is written."""
        return self._stage(_Seen(frozenset(), (), OUTSIDE, NARROW, self.opening), False)

    def holding(self, number: int) -> list[int]:
        """Ids that hold the whole of a pattern."""
        if number not in self._holding:
            self._holding[number] = self.lexicon.holding(self.patterns[number].body)
        return self._holding[number]

    def ending(self, stage: Stage) -> tuple[list[int], list[int]]:
        """Ids after which a forbidden phrase stands there, and those after which it does unless its word goes on."""
        begun = tuple((number, place) for number, place in stage.seen.active if number >= self.required)
        key = stage.seen.last == SPACED, begun  # nothing else that was written bears on it
        if key not in self._endings:
            found = {token for number in range(self.required, len(self.patterns)) for token in self.holding(number)}
            for number, place in begun:
                body = self.patterns[number].body
                found.update(self.lexicon.starting(body[place:]) if place < len(body) else ())
            after = {token: self.read(stage.seen, token) for token in sorted(found)}
            broken = [token for token, (_, wrong) in after.items() if wrong]
            self._endings[key] = broken, [token for token, (seen, wrong) in after.items() if self.holds(seen) and not wrong]
        return self._endings[key]

    def count(self, seen: _Seen) -> int:
        """Tokens that the required phrases still need. Only one phrase can be gone on with at a time: the begun one that
        saves most."""
        begun = [(number, place) for number, place in seen.active if number < self.required]
        if not begun:
            return self.fresh(seen.met)[seen.gap]
        counts = [(self.owner[number], self.patterns[number].missing(place + 1)) for number, place in begun]
        whole = [group for group, left in counts if left == 0]
        met = seen.met.union(whole) if whole else seen.met
        total = sum(size for group, size in enumerate(self._whole) if group not in met)
        saves = (self._whole[group] - left for group, left in counts if left is not None and group not in whole)
        return min(self.fresh(met)[seen.gap], *(total - saved for saved in saves), total)

    def fresh(self, met: frozenset[int]) -> tuple[int, int, int]:
        """`count` where no phrase is begun, after each gap."""
        found = self._fresh.get(met)
        if found is None:
            narrow, space, wide = (self._unbegun(met, gap) for gap in (NARROW, SPACE, WIDE))
            found = self._fresh[met] = narrow, space, wide
        return found

    def _unbegun(self, met: frozenset[int], gap: int) -> int:
        """`count` after a gap, of the groups not yet met."""
        total = saved = 0
        for group, members in enumerate(self.groups):
            if group not in met:
                counts = [self.patterns[n].missing(place) for n in members for place in self._starts(gap, n)]
                now = min((count for count in counts if count is not None), default=self._whole[group])
                total, saved = total + self._whole[group], max(saved, self._whole[group] - now)
        return total - saved

    def onward(self, seen: _Seen) -> set[int]:
        """Ids that begin a required phrase, or go on with one."""
        found = set(self._beginning(seen.met, seen.gap))
        for number, place in seen.active:
            if number < self.required and self.patterns[number].missing(place + 1):
                found |= self.patterns[number].next.get(place + 1, set())
        return found

    def _beginning(self, met: frozenset[int], gap: int) -> set[int]:
        """Ids that begin a required phrase after such a gap."""
        found = self._begins.get((met, gap))
        if found is None:
            found = set()
            for number in range(self.required):
                if self.owner[number] not in met:
                    for place in self._starts(gap, number):
                        if self.patterns[number].missing(place):
                            found |= self.patterns[number].next.get(place, set())
            self._begins[met, gap] = found  # when it is whole: other threads may ask the same
        return found

    def move(self, seen: _Seen, token: int) -> Stage:
        """The stage after one more token."""
        return self._stage(*self.read(seen, token))

    def holds(self, seen: _Seen) -> bool:
        """Whether a forbidden phrase stands there unless its word goes on."""
        return any(n >= self.required and size == len(self.patterns[n].body) for n, size in seen.active)

    def read(self, seen: _Seen, token: int) -> tuple[_Seen, bool]:
        """What is seen after one more token, and whether it completes a forbidden phrase."""
        text = self.lexicon.texts[token] if token < len(self.lexicon.texts) else b""
        if not text:
            return seen, False
        near = self._touched.get(token, ())
        if not (near or seen.active or seen.rest):
            return _Seen(seen.met, (), *self.lexicon.ending(token)), False
        met, broken = seen.met, False
        active: list[tuple[int, int]] = []
        begun: dict[int, list[int]] = {}
        for number, place in seen.active:
            begun.setdefault(number, []).append(place)
        for number in sorted({*begun, *near}) if begun else near:
            required = number < self.required
            if required and self.owner[number] in met:
                continue
            whole, places = _read(self.patterns[number], begun.get(number, ()), seen.last, text)
            if whole and required:
                met = met | {self.owner[number]}
            else:
                broken |= whole
                active += [(number, place) for place in places]
        last, gap = self.lexicon.ending(token)
        rest = seen.rest[len(text) :] if seen.rest.startswith(text) else b""
        left = sorted((n, p) for n, p in active if n >= self.required or self.owner[n] not in met)
        return _Seen(met, tuple(left), last, gap, rest), broken

    def _starts(self, gap: int, number: int) -> list[int]:
        """How many bytes of " phrase" stand after such a gap: all ways to see it."""
        found = [1] if gap != WIDE or self.patterns[number].first != SPACED else []
        return found if gap == SPACE and self.patterns[number].missing(1) is not None else [*found, 0]

    def _stage(self, seen: _Seen, broken: bool) -> Stage:
        key = (seen, True) if broken else seen
        found = self._stages.get(key)
        if found is None:
            found = self._stages[key] = Stage(self, seen, broken)
        return found


def _read(pattern: Pattern, begun: Sequence[int], last: int, text: bytes) -> tuple[bool, set[int]]:
    """Whether text completes the pattern, and how much of it stands at its end. begun: how much stood there before."""
    body, whole, places = pattern.body, False, set()
    starts = [-place for place in begun]
    at = text.find(body[0])
    while at >= 0:
        before = last if at == 0 else last_kind(text[:at])
        if not joined(before, pattern.first):
            starts.append(at)
        at = text.find(body[0], at + 1)
    for start in starts:
        old, new = max(-start, 0), max(start, 0)
        rest, given = body[old:], text[new:]
        if len(given) > len(rest):
            whole |= given.startswith(rest) and not joined(pattern.last, first_kind(given[len(rest) :]))
        elif rest.startswith(given):
            size = old + len(given)
            if size == len(body) and pattern.last != SPACED:
                whole = True
            else:
                places.add(size)
    return whole, places

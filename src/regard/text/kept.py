"""Parts of a text that a translation carries through unchanged: tags, variables, addresses. Found, taken out, put back."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import UserError
from regard.text.words import word_spans

KINDS = {
    "tags": r"<(?:[/!?])?[A-Za-z][^<>]*>",
    "variables": r"\$?\{\{?[^{}\s]*\}?\}|%\([^()\s]+\)[a-zA-Z]"
    r"|%(?:\d++\$)?[-+0#]*+\d*+(?:\.\d++)?[sdifuxXeEgGcr@](?![A-Za-z])",
    "urls": r"(?:https?|ftp)://[^\s<>\"]*[^\s<>\".,;:!?)]",
    "emails": r"(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+",
    "code": r"`[^`\n]+`",
}
"""What may be kept, by name; anything else is a regular expression of the user's. None looks at a character more often than
a few times, however long the text is."""

_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*+)[^<>]*?(/?)>\Z")


@dataclass(frozen=True)
class Part:
    """One such part of a text: half-open range of characters, and whether it was found as a tag."""

    start: int
    end: int
    text: str
    tag: bool


def pattern(kinds: Sequence[str]) -> re.Pattern[str]:
    """One expression for all kinds; UserError if one of them is none."""
    parts = []
    for kind in kinds:
        try:
            re.compile(KINDS.get(kind, kind))
        except re.error as error:
            raise UserError(f"keep: {kind!r} is neither {', '.join(KINDS)} nor a regular expression ({error})") from None
        parts.append(f"(?:{KINDS.get(kind, kind)})")
    return re.compile("|".join(parts))


def find(text: str, expression: re.Pattern[str]) -> list[Part]:
    """The parts of a text that match, in order; empty matches are none."""
    found = [match for match in expression.finditer(text) if match[0]]
    return [Part(match.start(), match.end(), match[0], bool(_TAG.match(match[0]))) for match in found]


@dataclass(frozen=True)
class Out:
    """A part that was taken out: its text, the character of the remaining text before which it stood, and whether a space
    stood on each side of it."""

    text: str
    place: int
    spaces: tuple[bool, bool]


def take_out(text: str, parts: Sequence[Part]) -> tuple[str, list[Out]]:
    """The text without these parts, no two spaces where one stood, and what was taken out."""
    rest, outs, at = "", [], 0
    for part in parts:
        rest += text[at : part.start]
        at = part.end
        before, after = text[part.start - 1 : part.start] if part.start else "", text[part.end : part.end + 1]
        spaces = before.isspace(), after.isspace()
        outs.append(Out(part.text, len(rest), spaces))
        if after.isspace() and (not rest or rest[-1].isspace()):
            at += 1
    return rest + text[at:], outs


def put_back(source: str, outs: Sequence[Out], text: str, links: Sequence[tuple[int, int]]) -> str:
    """The translation `text` of `source` with the parts that were taken out of it, placed by links (source word, word).

    Pairs of tags go around the words that look at what they stood around; pairs stay nested as they were, and everything is
    put back exactly once. Parts that stand alone go before the word of what followed them.
    """
    froms, tos = word_spans(source), word_spans(text)
    nodes, children, roots = _tree(outs)
    goals = [
        _goal(
            None if first == last else _words(froms, outs[first].place, outs[last].place),
            outs[first].place,
            froms,
            tos,
            links,
        )
        for first, last in nodes
    ]
    tight = [(_is_mark(source, out.place - 1), _is_mark(source, out.place)) for out in outs]
    words = [text[start:end] for start, end in tos]
    goals = [_trimmed(goal, words, tight[first][0], tight[last][1]) for goal, (first, last) in zip(goals, nodes)]
    placed: dict[int, tuple[int, int]] = {}

    waiting = [(roots, 0, len(tos))]
    while waiting:  # tags may be nested deeper than Python calls
        numbers, low, high = waiting.pop()
        for number in sorted(numbers, key=lambda n: (goals[n][0], n)):
            start = min(max(goals[number][0], low), high)
            low = min(max(goals[number][1], start), high)
            placed[number] = (start, low)
            waiting.append((children[number], start, low))
    within = {n: _within(source, froms, out.place) for n, out in enumerate(outs)}
    order = [(placed[n], nodes[n]) for n in _in_order(roots, children, placed)]
    return _written(text, tos, order, outs, tight, within)


def _within(source: str, words: Sequence[tuple[int, int]], place: int) -> tuple[str, int]:
    """The word that a place is inside of, and how many of its characters are before it; nothing for one between words."""
    number = bisect_left(words, place, key=_start) - 1
    if number < 0 or words[number][1] <= place:
        return "", 0
    return source[slice(*words[number])], place - words[number][0]


def _trimmed(goal: tuple[int, int], words: Sequence[str], left: bool, right: bool) -> tuple[int, int]:
    """A range of words without those at its ends that are punctuation alone, on sides where punctuation stood outside."""
    start, end = goal
    while right and end - 1 > start and not any(map(str.isalnum, words[end - 1])):
        end -= 1
    while left and start + 1 < end and not any(map(str.isalnum, words[start])):
        start += 1
    return start, end


def _is_mark(text: str, place: int) -> bool:
    """Whether there is a character of punctuation."""
    return 0 <= place < len(text) and not text[place].isspace() and not text[place].isalnum()


def _tree(outs: Sequence[Out]) -> tuple[list[tuple[int, int]], list[list[int]], list[int]]:
    """Pairs of tags (numbers of opening and closing part; the same number twice for a part that stands alone), for each what
    is inside, and those that are inside nothing."""
    partner = {n: n for n in range(len(outs))}
    open_: list[tuple[str, int]] = []
    names: Counter[str] = Counter()
    for number, out in enumerate(outs):
        match = _TAG.match(out.text)
        if match is None or match[3]:
            continue
        if not match[1]:
            open_.append((match[2], number))
            names[match[2]] += 1
        elif names[match[2]]:
            while open_:
                name, first = open_.pop()
                names[name] -= 1
                if name == match[2]:
                    partner[first], partner[number] = number, first
                    break
    nodes = [(first, last) for first, last in sorted(partner.items()) if first <= last]
    children: list[list[int]] = [[] for _ in nodes]
    roots, stack = [], []
    for number, (first, last) in enumerate(nodes):
        while stack and nodes[stack[-1]][1] < first:
            stack.pop()
        (children[stack[-1]] if stack else roots).append(number)
        if last > first:
            stack.append(number)
    return nodes, children, roots


def _words(spans: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    """Half-open range of the words that have characters between two places."""
    low = _before(spans, start)
    return low, max(low, bisect_left(spans, end, key=_start))


def _start(span: tuple[int, int]) -> int:
    return span[0]


def _before(spans: Sequence[tuple[int, int]], place: int) -> int:
    """How many words end at a place or before it."""
    return bisect_right(spans, place, key=lambda span: span[1])


def _goal(
    span: tuple[int, int] | None,
    place: int,
    froms: Sequence[tuple[int, int]],
    tos: Sequence[tuple[int, int]],
    links: Sequence[tuple[int, int]],
) -> tuple[int, int]:
    """Half-open range of words of the translation for words of the source, one word where no link is known; of no length for
    a part that stands alone."""
    around = span is not None and span[0] < span[1] and len(tos) > 0
    if span is not None and around:
        found = [word for source, word in links if span[0] <= source < span[1]]
        if found:
            return min(found), max(found) + 1
    at = span[0] if span is not None else _before(froms, place)
    if at >= len(froms) or not tos:
        return len(tos), len(tos)
    after = [word for source, word in links if source == at]
    before = [word for source, word in links if source == at - 1]
    where = min(after) if after else max(before) + 1 if before else round(at * len(tos) / len(froms))
    return (min(where, len(tos) - 1), min(where, len(tos) - 1) + 1) if around else (where, where)


def _in_order(roots: Sequence[int], children: Sequence[Sequence[int]], placed: dict[int, tuple[int, int]]) -> list[int]:
    found: list[int] = []
    waiting = sorted(roots, key=lambda n: (placed[n], n), reverse=True)
    while waiting:
        found.append(waiting.pop())
        waiting += sorted(children[found[-1]], key=lambda n: (placed[n], n), reverse=True)
    return found


def _written(
    text: str,
    words: Sequence[tuple[int, int]],
    nodes: Sequence[tuple[tuple[int, int], tuple[int, int]]],
    outs: Sequence[Out],
    tight: Sequence[tuple[bool, bool]],
    within: dict[int, tuple[str, int]],
) -> str:
    """The text with openings before words, closings after words, and the closings of the inner elements first. tight:
    whether punctuation stood before and after each part: then a tag leaves that of its word outside, and so do those inside
    it. within: of each part the word of the source that it stood inside of; a part that stands alone goes into the same
    word, such as "()", at the same place."""
    inside: dict[int, tuple[int, str]] = {}
    before: dict[int, str] = {}
    after: dict[int, str] = {}
    opened: dict[int, str] = {}
    closed: dict[int, str] = {}
    for (start, end), (first, last) in nodes:
        if first == last and start < len(words) and text[slice(*words[start])] == within[first][0]:
            offset, there = inside.get(start, (within[first][1], ""))
            inside[start] = offset, there + outs[first].text
            continue
        if first == last:
            left, right = outs[first].spaces
            glue = " " if right or (left and start == len(words)) else ""
            body = glue + outs[first].text if start == len(words) else outs[first].text + glue
        elif start == end:
            body = outs[first].text + outs[last].text
        else:
            body = outs[first].text
            side = closed if tight[last][1] or end - 1 in closed else after
            side[end - 1] = outs[last].text + side.get(end - 1, "")
        side = opened if start in opened or (start < end and tight[first][0]) else before
        side[start] = side.get(start, "") + body
    result, at = "", 0
    for number, (start, end) in enumerate(words):
        left, right = _bare(text, start, end)
        if number in inside and number not in opened and number not in closed:
            left = start + inside[number][0]
        result += text[at:start] + before.get(number, "") + text[start:left] + opened.get(number, "")
        result += inside.get(number, (0, ""))[1] + text[left:right]
        result += closed.get(number, "") + text[right:end] + after.get(number, "")
        at = end
    return result + text[at:] + before.get(len(words), "")


def _bare(text: str, start: int, end: int) -> tuple[int, int]:
    """The range of a word without punctuation around it; of one that is nothing else, its own."""
    left, right = start, end
    while left < right and _is_mark(text, left):
        left += 1
    while right > left and _is_mark(text, right - 1):
        right -= 1
    return (left, right) if left < right else (start, end)

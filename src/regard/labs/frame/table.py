"""A result as lines for a terminal, in one of the languages."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from regard.labs.frame.values import Cell, Result, Text
from regard.labs.frame.words import FRAME, ROLES, SENTENCES, VERDICTS, says


def shown(value: Cell, language: str = "en") -> str:
    """A cell as text: numbers with four digits."""
    if isinstance(value, Text):
        return value.say(language)
    if isinstance(value, bool):
        return {"en": ("no", "yes"), "zh": ("否", "是")}[language][value]
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    return "" if value is None else value


def grid(head: Sequence[str], body: Sequence[Sequence[str]], numeric: Sequence[bool]) -> list[str]:
    """Columns as wide as their widest cell, where a Chinese character counts as two; numbers stand on the right."""
    rows = [head, *body]
    widths = [max(cell_len(row[i]) for row in rows) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = []
        for text, width, right in zip(row, widths, numeric, strict=True):
            space = " " * (width - cell_len(text))
            cells.append(space + text if right else text + space)
        return "  ".join(cells).rstrip()

    return [line(head), "  ".join("─" * width for width in widths), *map(line, body)]


def numbers(result: Result, language: str = "en") -> list[str]:
    """The rows that were measured."""
    body = [[shown(row.get(column.key), language) for column in result.columns] for row in result.rows]
    numeric = [all(isinstance(row.get(c.key), (int, float, type(None))) for row in result.rows) for c in result.columns]
    return grid([column.title.say(language) for column in result.columns], body, numeric)


def lines(result: Result, language: str = "en") -> list[str]:
    """Title, quotes, rows, checks, limits, verdict."""
    out = [f"L{result.number} {result.lab}: {result.title.say(language)}", ""]
    for number, quote in enumerate(result.quotes):
        both = f"「{quote.zh}」" if language == "zh" else f"「{quote.zh}」 {quote.en}"
        out.append(f"  {number + 1}. {both} ({quote.note}, {quote.section})")
    if result.sabotage is not None:
        out += ["", f"{FRAME['sabotaged'].say(language)}: {result.sabotage.say(language)}"]
    out += ["", *numbers(result, language), "", FRAME["checks"].say(language)]
    for one in result.checks:
        role, verdict = ROLES[one.role].say(language), says(one.passed, one.role).say(language)
        about = f" [{', '.join(map(str, one.quotes))}]" if one.quotes else ""
        line = (
            f"  {role}{about}: {one.what.say(language)}: {shown(one.value)} {one.operator} {shown(one.threshold)}: {verdict}"
        )
        out.append(line)
    out += [""] + [f"  {text.say(language)}" for text in (result.finding, *result.limits)]
    return [*out, "", *verdict_lines(result, language)]


def verdict_lines(result: Result, language: str = "en") -> list[str]:
    """The verdict, of each quote where they differ, and whether it is the documented one."""
    word = VERDICTS[result.verdict].say(language)
    sentence = SENTENCES[result.verdict] if result.checks else FRAME["waiting"]
    out = [f"{FRAME['verdict'].say(language)}: {word}. {sentence.say(language)}"]
    if len(set(result.quote_verdicts)) > 1:
        out += [f"  {n + 1}. {VERDICTS[its].say(language)}" for n, its in enumerate(result.quote_verdicts)]
    if result.sabotage is not None:
        out.append(
            f"{FRAME['sabotaged'].say(language)}: {FRAME['caught' if result.as_documented else 'missed'].say(language)}"
        )
    elif not result.as_documented:
        out.append(f"{FRAME['expected'].say(language)}: {VERDICTS[result.expected].say(language)}")
    return out


def summary(results: Sequence[Result], language: str = "en") -> list[str]:
    """One line a lab."""
    head = ["", FRAME["contents"].say(language), FRAME["verdict"].say(language), "", FRAME["seconds"].say(language)]
    body = []
    for its in results:
        caught = "caught" if its.as_documented else "missed"
        aside = FRAME[caught].say(language) if its.sabotage is not None else ""
        if its.sabotage is None and not its.as_documented:
            aside = f"{FRAME['expected'].say(language)}: {VERDICTS[its.expected].say(language)}"
        name = f"{its.lab}: {its.title.say(language)}"
        body.append([f"L{its.number}", name, VERDICTS[its.verdict].say(language), aside, f"{its.seconds:.1f}"])
    return grid(head, body, [False, False, False, False, True])

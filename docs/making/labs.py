"""What the labs found, as parts of pages: verdicts, every lab, and what a section of the notes comes down to."""

from __future__ import annotations

import functools
import json
from typing import Any

from making.words import DOCS, anchor, cell


@functools.cache
def measured() -> tuple[dict[str, Any], dict[str, Any]]:
    """The results of labs in docs/labs/*.json (each file one, or a list of them), by lab: as it is, and sabotaged."""
    from regard.labs.frame.values import Result

    plain: dict[str, Any] = {}
    broken: dict[str, Any] = {}
    for path in sorted((DOCS / "labs").glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        for one in told if isinstance(told, list) else [told]:
            result = Result.model_validate(one)
            (plain if result.sabotage is None else broken)[result.lab] = result
    return plain, broken


def lab_verdicts(language: str) -> str:
    """All labs with their verdicts: documented, measured, and under sabotage."""
    from regard import labs
    from regard.labs.frame.words import FRAME, VERDICTS

    def word(result: Any) -> str:
        return (
            FRAME["waiting"].say(language).rstrip("。.")
            if result is None or not result.checks
            else VERDICTS[result.verdict].say(language)
        )

    plain, broken = measured()
    body = []
    for lab in labs.every():
        link = f"[{lab.name}](#{anchor(lab_title(lab, language))})"
        documented = VERDICTS[lab.expected].say(language)
        body.append([f"L{lab.number}", link, cell(lab.title.say(language)), documented, word(plain.get(lab.name)),
                     word(broken.get(lab.name))])  # fmt: skip
    head = ["", *(FRAME[key].say(language) if key else "" for key in ("contents", "", "expected", "verdict")), "`--break`"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in body)]
    return "\n".join(lines) + "\n"


def lab_title(lab: Any, language: str) -> str:
    """The heading of a lab's section."""
    return f"L{lab.number} {lab.name}{'：' if language == 'zh' else ': '}{lab.title.say(language)}"


def labs(language: str) -> str:
    """Each lab: what is claimed, how it is measured, how to break it, and its stored result."""
    from regard.labs import every

    return "\n".join(_lab(lab, language) for lab in every())


def _lab(lab: Any, language: str) -> str:
    from regard.labs.frame.words import FRAME, VERDICTS

    colon, plain = "：" if language == "zh" else ": ", measured()[0].get(lab.name)
    parts = [f"### {lab_title(lab, language)}\n"]
    for number, quote in enumerate(lab.quotes, 1):
        english = "" if language == "zh" else f" {cell(quote.en)}"
        parts.append(f"{number}. 「{cell(quote.zh)}」{english} ({quote.note}, {cell(quote.section)})")
    parts.append("")
    for key in ("vary", "fixed", "measured", "control"):
        parts.append(f"- {FRAME[key].say(language)}{colon}{cell(getattr(lab.design, key).say(language))}")
    broken, result = measured()[1].get(lab.name), ""
    if broken is not None and broken.checks:
        result = f" → {VERDICTS[broken.verdict].say(language)}"
    parts += [f"- `regard lab {lab.name} --break`{colon}{cell(lab.sabotage.say(language))}{result}\n"]
    if plain is None or not plain.checks:
        return "\n".join([*parts, f"{FRAME['verdict'].say(language)}{colon}{FRAME['waiting'].say(language)}\n"])
    return "\n".join([*parts, *_result(plain, language)])


def _result(result: Any, language: str) -> list[str]:
    from regard.labs.frame.table import shown
    from regard.labs.frame.words import FRAME, ROLES, VERDICTS, says

    colon, stop = ("：", "。") if language == "zh" else (": ", ".")
    verdict = f"**{FRAME['verdict'].say(language)}{colon}{VERDICTS[result.verdict].say(language)}{stop}**"
    head = ["", FRAME["checks"].say(language), FRAME["value"].say(language), FRAME["threshold"].say(language), "",
            FRAME["origin"].say(language)]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for one in result.checks:
        about = " [" + ", ".join(map(str, one.quotes)) + "]" if one.quotes else ""
        lines.append("| " + " | ".join([
            ROLES[one.role].say(language) + about, cell(one.what.say(language)), shown(one.value, language),
            f"{cell(one.operator)} {shown(one.threshold, language)}", says(one.passed, one.role).say(language),
            cell(one.origin.say(language)),
        ]) + " |")  # fmt: skip
    size = f"{FRAME['environment'].say(language)}{colon}{result.settings['size']}, torch {result.environment['torch']}, " \
           f"{result.seconds:.0f} s"  # fmt: skip
    limits = [f"- {cell(limit.say(language))}" for limit in result.limits]
    return [f"{verdict} {cell(result.finding.say(language))}\n", *lines, "", *limits, "", f"{size}\n"]


def findings(language: str, *names: str) -> str:
    """What labs found, a line each with its verdict. names: of labs; none for all."""
    from regard import labs as known
    from regard.labs.frame.words import FRAME, VERDICTS

    colon, stop = ("：", "。") if language == "zh" else (": ", ". ")
    plain, lines = measured()[0], []
    for lab in sorted((one for one in known.every() if not names or one.name in names), key=lambda one: one.number):
        link = f"[L{lab.number} {lab.name}](labs.md#{anchor(lab_title(lab, language))})"
        found = plain.get(lab.name)
        if found is None or not found.checks:
            documented = f"{FRAME['expected'].say(language)}{colon}{VERDICTS[lab.expected].say(language)}"
            said = f"**{documented}**{stop}{FRAME['waiting'].say(language)}"
        else:
            said = f"**{VERDICTS[found.verdict].say(language)}**{stop}{cell(found.finding.say(language))}"
        lines.append(f"- {link}{colon}{said}")
    if missing := set(names) - {lab.name for lab in known.every()}:
        raise ValueError(f"no lab is called {', '.join(sorted(missing))}")
    return "\n".join(lines) + "\n"

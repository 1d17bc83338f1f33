"""Write the tables of the documentation that can be made from the program: `python docs/generate.py`.

A page keeps such a table between `<!-- generated: NAME -->` and `<!-- end -->`; words behind the name are its arguments. The
Chinese pages take their words from chinese.tsv (English, tab, Chinese); a text that is missing there is named, and the exit
code is then 1. Parts that need more than a few lines are in the folder making.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if str(Path(__file__).resolve().parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).resolve().parent))

from making.labs import findings, lab_verdicts, labs
from making.reference import http, python, schema
from making.words import DOCS, LANGUAGES, ROOT, MissingError, cell, rows, say, sentence, table, value

MARK = re.compile(r"(<!-- generated: (\S+)((?: [\w-]+)*) -->\n).*?(<!-- end -->)", re.DOTALL)


def recipes(language: str) -> str:
    """Every key of a recipe, a table a section."""
    from regard.training.recipe import Recipe

    parts = []
    for name, info in Recipe.model_fields.items():
        if hasattr(info.annotation, "model_fields"):
            parts.append(_section(name, info.annotation, str(info.description), language))
    top = [[f"`{n}`", value(i.default), cell(say(str(i.description), language))] for n, i in _plain(Recipe)]
    return "\n".join([table(["key", "default", "what it means"], top, language), *parts])


def _plain(section: Any) -> list[tuple[str, Any]]:
    return [(n, i) for n, i in section.model_fields.items() if not hasattr(i.annotation, "model_fields")]


def _section(name: str, section: Any, what: str, language: str) -> str:
    body = []
    for key, info in _plain(section):
        default = say("required", language) if info.is_required() else value(info.default)
        body.append([f"`{name}.{key}`", default, cell(say(str(info.description), language))])
    parts = [f"### {name}\n\n{sentence(say(what, language), language)}\n", table(_HEAD, body, language)]
    for key, info in section.model_fields.items():
        if hasattr(info.annotation, "model_fields"):
            parts.append(_section(f"{name}.{key}", info.annotation, str(info.description), language))
    return "\n".join(parts)


_HEAD = ["key", "default", "what it means"]


def architectures(language: str) -> str:
    """The arguments of each architecture, and its named sizes."""
    from regard import models

    parts = []
    for name in models.names():
        module = models.find(name)
        body = []
        for argument in inspect.signature(module.describe).parameters.values():
            if argument.name in ("vocab_size", "target_vocab_size", "pad"):
                continue
            body.append(
                [f"`model.{argument.name}`", f"`{argument.annotation}`".replace("|", "\\|"), value(argument.default)]
            )
        sizes = [[f"`{size}`", ", ".join(f"{k} {v}" for k, v in its.items())] for size, its in module.SIZES.items()]
        parts += [
            f"### {name}\n",
            table(["key", "value", "default"], body, language),
            table(["size", "settings"], sizes, language),
        ]
    return "\n".join(parts)


def commands(language: str) -> str:
    """Each verb with its arguments and options."""
    from regard.cli import VERBS

    parts = []
    for verb, what in VERBS.items():
        parts.append(f"### regard {verb}\n\n{sentence(say(what, language), language)}\n")
        for title, command in _subcommands(verb):
            body = [_parameter(p, language) for p in command.params if "--help" not in p.opts]
            if title:
                parts.append(f"#### regard {verb} {title}\n\n{say(_first_line(command.help), language)}\n")
            if body:
                parts.append(table(["argument or option", "default", "what it means"], body, language))
    return "\n".join(parts)


def _subcommands(verb: str) -> Iterator[tuple[str, Any]]:
    import typer

    module = importlib.import_module(f"regard.cli.{verb}")
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False)
        app.command()(module.command)
    command = typer.main.get_command(app)
    inner = getattr(command, "commands", None)
    yield from [("", command)] if inner is None else inner.items()


def _first_line(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split()).partition(": regard ")[0]


def _parameter(parameter: Any, language: str) -> list[str]:
    argument = parameter.param_type_name == "argument"
    names = [parameter.name.upper()] if argument else [*parameter.opts, *parameter.secondary_opts]
    names.sort(key=len, reverse=True)
    default = parameter.default
    if parameter.required:
        shown = say("required", language)
    else:
        shown = "" if default in (None, False, "") or callable(default) else value(default)
    return [", ".join(f"`{name}`" for name in names), shown, cell(say(parameter.help or "", language))]


def aliases(language: str) -> str:
    """Search options under the names that other toolkits have for them."""
    from regard.decoding.options import ALIASES

    body = [[f"`{name}`", ", ".join(f"`{other}`" for other in others)] for name, others in ALIASES.items()]
    return table(["name", "also understood"], body, language)


def kept() -> dict[str, list[str]]:
    """Id of a fault report -> the tests that name it, in their name or docstring."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for name in _ids(node):
                    found.setdefault(name, []).append(f"{path.relative_to(ROOT / 'tests').as_posix()}::{node.name}")
    return found


def _ids(node: ast.FunctionDef) -> list[str]:
    text = node.name.upper().replace("_", "-") + " " + (ast.get_docstring(node) or "")
    for first, second in re.findall(r"\b(S-[A-Z]+-\d\d), (-\d\d)\b", text):  # "S-TOK-04, -05"
        text += f" {first[:-3]}{second}"
    return sorted(set(re.findall(r"\bS-[A-Z]+-\d\d\b", text)))


def faults(language: str) -> str:
    """Each public fault report with the tests that keep it out, or with what it waits for."""
    tests, column = kept(), 2 + LANGUAGES.index(language)
    body = []
    for row in rows("faults.tsv"):
        known = tests.get(row[0])
        where = "<br>".join(f"`{test}`" for test in known) if known else say(row[4] or "no test yet", language)
        body.append([row[0], row[1].replace(", ", "<br>"), cell(row[column]), where])
    return table(["id", "reported in", "what went wrong there", "kept by"], body, language)


def counts(language: str) -> str:
    """How many fault reports have tests."""
    tests, every = kept(), rows("faults.tsv")
    have, wait = sum(row[0] in tests for row in every), sum(row[0] not in tests and bool(row[4]) for row in every)
    numbers = [[str(len(every)), str(have), str(wait), str(len(every) - have - wait)]]
    return table(
        ["reports", "kept by a test", "waiting for a part that does not exist yet", "no test yet"], numbers, language
    )


def named(language: str) -> str:
    """The named data sets."""
    from regard.text.named import NAMED

    body = [
        [f"`{name}`", cell(say(its.what, language)), ", ".join(its.sides), ", ".join(its.splits),
         say("yes" if its.fetched else "no", language)]
        for name, its in NAMED.items()
    ]  # fmt: skip
    return table(["name", "what it is", "sides", "splits", "fetched from its origin"], body, language)


def trials(language: str) -> str:
    """What the scripts that try to break promises last did: benchmarks/results/{reliability,fuzz,endurance}.json."""
    told = {name: ROOT / "benchmarks" / "results" / f"{name}.json" for name in ("reliability", "fuzz", "endurance")}
    found = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in told.items() if path.is_file()}
    body: list[list[str]] = []
    comma, colon = (", ", ": ") if language == "en" else ("，", "：")
    if "reliability" in found:
        its = found["reliability"]
        failed = str(len(its["failures"]))
        body.append([say("trainings killed and resumed", language), f"{its['total']:,}", failed])
        cases = (f"{say(name, language)} {count}" for name, count in its["cases"].items())
        compared = f"{say('resumed runs compared with unbroken ones', language)}{colon}{comma.join(cases)}"
        body.append([compared, f"{its['chains']:,}", failed])
        body.append([say("checkpoints damaged between", language), f"{sum(its['damaged'].values()):,}", failed])
    if "fuzz" in found:
        every = found["fuzz"]["readers"].values()
        tries, drawn, mended = (sum(its[key] for its in every) for key in ("tries", "drawn", "mended"))
        crashes, minutes = str(sum(len(its["crashes"]) for its in every)), sum(its["seconds"] for its in every) / 60
        of_files, of_minutes = (say(what, language) + colon for what in ("damaged and hostile files, readers", "minutes"))
        files = f"{of_files}{len(every)}{comma}{of_minutes}{minutes:.0f}"
        body.append([files, f"{tries:,}", crashes])
        body.append([say("of them drawn by hypothesis", language), f"{drawn:,}", crashes])
        body.append([say("inputs that failed once and were tried again", language), f"{mended:,}", crashes])
    for what, name in (("updates", "updates of a training"), ("sentences", "sentences translated")):
        if "endurance" in found:
            first, last = (found["endurance"][what]["samples"][at] for at in (1, -1))
            memory = f"{first['megabytes']:.0f} → {last['megabytes']:.0f} MB"
            body.append(
                [f"{say(name, language)}{colon}{memory}", f"{last['done']:,}", str(int(found["endurance"][what]["grows"]))]
            )
    return table(["what was tried", "how often", "failed"], body or [[say("not measured yet", language), "", ""]], language)


def flags(language: str) -> str:
    """The flags that a translation may carry."""
    from regard.decoding.flags import FLAGS

    return table(["flag", "what it says"], [[f"`{n}`", cell(say(what, language))] for n, what in FLAGS.items()], language)


OWN = (recipes, architectures, commands, aliases, faults, counts, named, trials, flags)
BLOCKS: dict[str, Callable[..., str]] = {
    block.__name__: block for block in (*OWN, lab_verdicts, labs, findings, python, http, schema)
}


def page(text: str, language: str) -> str:
    """A page with its generated parts made anew."""

    def made(found: re.Match[str]) -> str:
        return f"{found[1]}\n{BLOCKS[found[2]](language, *found[3].split())}\n{found[4]}"

    return MARK.sub(made, text)


def missing() -> list[str]:
    """Texts that chinese.tsv lacks."""
    found: list[str] = []
    known = rows("chinese.tsv")
    for block in BLOCKS.values():
        while True:
            try:
                block("zh")
            except MissingError as error:
                found.append(str(error))
                known.append([str(error), ""])
            else:
                break
    rows.cache_clear()
    return found


def main() -> int:
    """Write all pages; 1 if a translation is missing."""
    absent = missing()
    for text in absent:
        print(f"chinese.tsv lacks: {text}", file=sys.stderr)
    for language in LANGUAGES if not absent else LANGUAGES[:1]:
        for path in sorted((DOCS / language).glob("*.md")):
            old = path.read_text(encoding="utf-8")
            new = page(old, language)
            if new != old:
                path.write_text(new, encoding="utf-8", newline="\n")
                print(f"wrote {path.relative_to(ROOT)}", file=sys.stderr)
    return 1 if absent else 0


if __name__ == "__main__":
    sys.exit(main())

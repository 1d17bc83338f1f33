"""`regard translate MODEL` on a terminal: type a line, see its translation, ask about it."""

from __future__ import annotations

import math
import sys
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from regard.cli.streams import argument, one_line
from regard.errors import UserError

HELP = """\
type a line to see its translation; about the last one:
  :align      which words of the source each word looks at
  :nbest N    the N best translations (5), with their scores
  :why        words it is not sure of, source words it hardly looked at, what is doubtful
  :new        a new text begins (with --context)
  :help       this
  :quit       end (also Ctrl-D)"""
UNSURE = 0.5
"""A word less likely than this is not sure."""


def width(text: str) -> int:
    """Columns that a text takes on a terminal: wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def aligned(answer: Any) -> list[str]:
    """A line for each word of a translation: the word, and the words of the source that it looks at."""
    from regard.text.words import word_spans

    if answer.alignment is None:
        return ["this model does not look at its source word by word"]
    source = [answer.source[start:end] for start, end in word_spans(answer.source)]
    target = [answer.text[start:end] for start, end in word_spans(answer.text)]
    seen: dict[int, list[str]] = {}
    for pair in answer.alignment.split():
        left, right = map(int, pair.split("-"))
        if left < len(source):
            seen.setdefault(right, []).append(source[left])
    room = max(map(width, target), default=0)
    return [f"  {word}{' ' * (room - width(word))}  ← {' '.join(seen.get(n, ['-']))}" for n, word in enumerate(target)]


def doubts(answer: Any) -> list[str]:
    """What speaks against a translation, in lines."""
    from regard.decoding.flags import FLAGS

    lines = []
    if answer.quality is not None:
        lines.append(f"  estimated quality: {answer.quality:.0f} of 100")
    unsure = [(math.exp(word["log_prob"]), word["text"]) for word in answer.words]
    unsure = sorted(pair for pair in unsure if pair[0] < UNSURE)
    if unsure:
        lines.append("  not sure of: " + ", ".join(f"{text} ({100 * sure:.0f} %)" for sure, text in unsure))
    if answer.uncovered:
        lines.append("  hardly looked at: " + " ".join(answer.uncovered))
    if answer.explained is not None:
        lines.append(f"  of its cost without a source, the source takes away {100 * answer.explained:.0f} %")
    lines += [f"  {flag}: {FLAGS.get(flag, '')}" for flag in answer.flags]
    lines += [f"  not kept: {phrase}" for phrase in answer.unkept]
    return lines or ["  nothing speaks against it"]


class Terminal:
    """A conversation. ask: reads a line after a prompt, EOFError at the end. say: writes a line."""

    def __init__(
        self,
        translator: Any,
        options: dict[str, Any],
        ask: Callable[[str], str] = input,
        say: Callable[[str], None] = print,
    ) -> None:
        self.translator, self.options, self.ask, self.say = translator, options, ask, say
        meta = translator.meta
        known = meta.get("source") and meta.get("target")
        self.prompt = f"{meta['source']}-{meta['target']}> " if known else "> "
        self.last: Any = None
        self.before: list[tuple[str, str]] = []
        if options.get("context"):
            from regard.decoding.context import Context

            self.options = options | {"context": Context(options["context"])}

    def run(self) -> None:
        """Answer lines until :quit or Ctrl-D; Ctrl-C gives up the line."""
        self.say("type a line to translate, :help for more, Ctrl-D to end")
        while True:
            try:
                line = argument(self.ask(self.prompt)).strip()
                if line in (":q", ":quit", ":exit"):
                    return
                if line:
                    self._answer(line)
            except EOFError:
                self.say("")
                return
            except KeyboardInterrupt:
                self.say("")
            except UserError as error:
                self.say(f"{error}")

    def _answer(self, line: str) -> None:
        if line.startswith(":"):
            self._command(*line[1:].split())
            return
        self.before = self._thread()
        self.last = self._translated(line)
        self.say(one_line(self.last.text))

    def _thread(self) -> list[tuple[str, str]]:
        """What stands before the next line."""
        return list(self.options["context"].pairs) if self.options.get("context") else []

    def _translated(self, line: str, **more: Any) -> Any:
        return self.translator.translate([line], details=True, confidence=True, **(self.options | more))[0]

    def _command(self, name: str = "", *rest: str) -> None:
        if name in ("h", "help", "?"):
            self.say(HELP)
        elif name == "new":
            if self.options.get("context"):
                self.options["context"].pairs = []
        elif name not in ("align", "nbest", "why"):
            self.say(f"there is no :{name}; :help lists what there is")
        elif self.last is None:
            self.say("translate a line first")
        elif name == "nbest":
            self._nbest(rest[0] if rest else "5")
        else:
            for line in aligned(self.last) if name == "align" else doubts(self.last):
                self.say(line)

    def _nbest(self, count: str) -> None:
        if not count.isdecimal() or not 1 <= int(count) <= 100:
            raise UserError(":nbest takes a number from 1 to 100")
        number = int(count)
        beams: Any = self.options.get("num_beams") or self.translator.search.num_beams
        before = {"context": [self.before]} if self.options.get("context") else {}
        found = self._translated(self.last.source, num_return=number, num_beams=max(number, beams), **before)
        for one in (found, *found.alternatives):
            self.say(f"  {one.score:8.3f}  {one_line(one.text)}")


def converse(translator: Any, options: dict[str, Any]) -> None:
    """Talk with whoever sits at the terminal; arrow keys bring back lines of this session where readline is there."""
    with suppress(ImportError):  # Windows has none
        import readline  # noqa: F401
    Terminal(translator, options).run()


def sits() -> bool:
    """Whether somebody sits at a terminal, typing and reading."""
    return sys.stdin.isatty() and sys.stdout.isatty()

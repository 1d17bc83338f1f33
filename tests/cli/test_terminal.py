"""The conversation on a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from regard.cli.terminal import HELP, Terminal, aligned, doubts, width
from regard.decoding.options import Search
from regard.errors import UserError
from regard.translator import Translation


class Upper:
    """Translates into capitals."""

    def __init__(self) -> None:
        self.meta = {"source": "en", "target": "fr"}
        self.search = Search(num_beams=2)
        self.asked: list[dict[str, Any]] = []

    def translate(self, texts: list[str], **options: Any) -> list[Translation]:
        self.asked.append(options)
        if "bad" in texts[0]:
            raise UserError("this is bad")
        made = [
            Translation(texts[0], texts[0].upper() + "!" * n, -0.5 - n, -1.0) for n in range(options.get("num_return", 1))
        ]
        made[0].alternatives = made[1:]
        made[0].alignment = "0-1 1-0"
        made[0].words = [{"text": "TWO", "log_prob": -2.0}, {"text": "DOGS", "log_prob": -0.01}]
        return made[:1]


def talk(*lines: str | BaseException) -> tuple[list[str], Upper]:
    """What is said to these lines."""
    said: list[str] = []
    left = list(lines)

    def ask(prompt: str) -> str:
        assert prompt == "en-fr> "
        if not left:
            raise EOFError
        line = left.pop(0)
        if isinstance(line, BaseException):
            raise line
        return line

    upper = Upper()
    Terminal(upper, {"num_beams": 3}, ask, said.append).run()
    assert not left or left == ["after"]
    return said[1:], upper


def test_lines_are_answered_until_the_end() -> None:
    said, upper = talk("Two dogs", "", "  ", "a man", ":quit", "after")
    assert said == ["TWO DOGS", "A MAN"]
    assert upper.asked[0] == {"details": True, "confidence": True, "num_beams": 3}
    assert talk("one", KeyboardInterrupt(), "two")[0] == ["ONE", "", "TWO", ""]


def test_questions_about_the_last_line() -> None:
    said, upper = talk(":why", "Two dogs", ":align", ":nbest 4", ":help", ":nonsense", ":nbest x", "bad", ":why")
    assert said[0] == "translate a line first"
    assert said[2:4] == ["  TWO   ← dogs", "  DOGS  ← Two"]
    assert said[4:8] == [
        "    -0.500  TWO DOGS",
        "    -1.500  TWO DOGS!",
        "    -2.500  TWO DOGS!!",
        "    -3.500  TWO DOGS!!!",
    ]
    assert upper.asked[1]["num_beams"] == upper.asked[1]["num_return"] == 4
    assert said[8:12] == [
        HELP,
        "there is no :nonsense; :help lists what there is",
        ":nbest takes a number from 1 to 100",
        "this is bad",
    ]
    assert said[12] == "  not sure of: TWO (14 %)"


def test_what_speaks_against_a_translation() -> None:
    one = Translation("s", "t", 0.0, 0.0, flags=["detached"], uncovered=["dog"], explained=0.25, unkept=["x"], quality=41.6)
    assert doubts(one) == [
        "  estimated quality: 42 of 100",
        "  hardly looked at: dog",
        "  of its cost without a source, the source takes away 25 %",
        "  detached: it depends little on its source",
        "  not kept: x",
    ]
    assert doubts(Translation("s", "t", 0.0, 0.0)) == ["  nothing speaks against it"]


def test_wide_characters_line_up() -> None:
    assert (width("ab"), width("你好"), width("e\u0301")) == (2, 4, 1)
    assert aligned(Translation("a b", "你 xy", 0.0, 0.0, alignment="0-0")) == ["  你  ← a", "  xy  ← -"]
    assert aligned(Translation("a", "b", 0.0, 0.0)) == ["this model does not look at its source word by word"]


PROGRAM = """
import sys
sys.path[:0] = {paths!r}
from regard import cli, translator
from test_terminal import Upper
translator.load = lambda *given, **more: Upper()
import regard.cli.translate as verb
verb._load = lambda named, options: Upper()
sys.exit(cli.main(["translate", "folder"]))
"""


def read_until(handle: int, wanted: str, seconds: float = 60.0) -> str:
    """What a terminal shows, until it shows this."""
    shown, end = b"", time.monotonic() + seconds
    while wanted.encode() not in shown and time.monotonic() < end:
        if select.select([handle], [], [], 0.5)[0]:
            try:
                shown += os.read(handle, 4096)
            except OSError:
                break
    text = shown.decode("utf-8", "replace")
    assert wanted in text, text
    return text


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_on_a_real_terminal() -> None:
    """History included: the arrow key brings the first line back."""
    paths = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[2] / "src")]
    main, side = pty.openpty()
    program = PROGRAM.format(paths=paths)
    environment = os.environ | {"TERM": "dumb", "INPUTRC": "/dev/null"}
    process = subprocess.Popen([sys.executable, "-c", program], stdin=side, stdout=side, stderr=side, env=environment)
    os.close(side)
    try:
        read_until(main, "en-fr> ")
        os.write(main, "Two żółć dogs\n".encode())
        read_until(main, "TWO ŻÓŁĆ DOGS")
        os.write(main, b":why\n")
        read_until(main, "not sure of: TWO")
        os.write(main, b"\x1b[A\x1b[A\n")
        read_until(main, "TWO ŻÓŁĆ DOGS")
        os.write(main, b"\x03")
        os.write(main, b":quit\n")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(main)


def test_lines_of_a_conversation_stand_before_each_other() -> None:
    class Reading(Upper):
        def translate(self, texts: list[str], **options: Any) -> list[Translation]:
            made = super().translate(texts, **options)
            context = options["context"]
            heard.append(list(getattr(context, "pairs", context)))
            if not isinstance(context, list):
                context.add(texts[0], made[0].text)
            return made

    heard: list[Any] = []
    lines = iter(["one", "two", ":nbest 2", "three", ":new", "four"])

    def ask(prompt: str) -> str:
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    Terminal(Reading(), {"context": 2}, ask, lambda text: None).run()
    one, two = ("one", "ONE"), ("two", "TWO")
    assert heard == [[], [one], [[one]], [one, two], []]

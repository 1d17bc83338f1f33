"""What a run says while it goes: a progress bar or lines on stderr, log.jsonl, TensorBoard, the loss curve at the end."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from regard.files import write_text

LOG = "log.jsonl"
T = TypeVar("T")


def read_log(output: Path) -> list[dict[str, Any]]:
    """The entries of a run's log, [] if there is none. A line that a kill or a full disk cut off is left out."""
    path = output / LOG
    if not path.exists():
        return []
    found = []
    for line in path.read_bytes().split(b"\n"):
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict) and "step" in entry:
                found.append(entry)
    return found


class _Console(Console):
    """A console whose readers may leave: the training goes on, and the log says the rest."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


class Journal:
    """Writes down the entries of a run.

    An entry is a flat dictionary with "step" and either training figures (loss per target token, learning_rate, grad_norm,
    source_per_second, target_per_second) or evaluation figures ("valid_loss", "valid_bleu", …). Entries after `step`, and
    evaluations after `seen` (None: `step`), are of a run that went back to before them: they go. What the disk does not take
    is kept for the next try.
    """

    def __init__(self, output: Path, step: int, bar: bool, tensorboard: bool, seen: int | None = None) -> None:
        self.path = output / LOG
        self.console = _Console(stderr=True)
        last = step if seen is None else seen
        entries = [entry for entry in read_log(output) if entry["step"] <= (step if "loss" in entry else last)]
        write_text(self.path, "".join(f"{json.dumps(entry, ensure_ascii=False)}\n" for entry in entries))
        self.unwritten = ""
        self.board = _board(output) if tensorboard else None
        self.bar: Progress | None = None
        if bar and self.console.is_terminal:
            columns = (BarColumn(30), TextColumn("{task.percentage:3.0f}% {task.fields[text]}"), TimeRemainingColumn())
            self.bar = Progress(*columns, console=self.console, transient=True)
            self.task = self.bar.add_task("", total=1.0, text="")
            self.bar.start()

    def say(self, text: str) -> None:
        """A line for whoever watches."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def write(self, entry: dict[str, Any]) -> None:
        """Put an entry into the log, and in front of whoever watches."""
        self.unwritten += json.dumps(entry, ensure_ascii=False) + "\n"
        before = self.path.stat().st_size if self.path.exists() else 0
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:  # opened each time: somebody may have moved the folder away
                file.write(self.unwritten.encode("utf-8"))
            self.unwritten = ""
        except OSError as error:
            with contextlib.suppress(OSError):
                os.truncate(self.path, before)
            self.say(f"cannot write {self.path}: {error.strerror or error}; the lines are kept for the next try")
        if self.board is not None:
            for key, value in entry.items():
                if key != "step" and isinstance(value, (int, float)):
                    self.board.add_scalar(key.replace("valid_", "valid/"), value, entry["step"])

    def show(self, done: float, entry: dict[str, Any]) -> None:
        """Show training figures; `done` is the share of the training that is over."""
        text = (
            f"step {entry['step']}  loss {entry['loss']:.3f}  {entry['source_per_second']:,.0f} + "
            f"{entry['target_per_second']:,.0f} tokens/s  rate {entry['learning_rate']:.2g}"
        )
        if self.bar is None:
            self.say(f"{time.strftime('%H:%M:%S')}  {done:4.0%}  {text}")
        else:
            self.bar.update(self.task, completed=min(done, 1.0), text=text)

    def close(self) -> None:
        """Take the bar away and close the files."""
        if self.bar is not None:
            self.bar.stop()
        if self.board is not None:
            self.board.close()


def counting(items: Iterable[T], what: str, every: int = 1000) -> Iterator[T]:
    """The items, their number shown on a terminal's stderr as they pass."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield from items
        return
    with console.status(what) as status:
        began = time.monotonic()
        for number, item in enumerate(items, 1):
            if number % every == 0:
                status.update(f"{what}: {number:,} ({number / (time.monotonic() - began):,.0f} a second)")
            yield item


class Silence(Journal):
    """The journal of a rank that is not the first: it says and writes nothing."""

    def __init__(self) -> None:
        self.unwritten = ""

    def say(self, text: str) -> None:
        """Nothing."""

    def write(self, entry: dict[str, Any]) -> None:
        """Nothing."""

    def show(self, done: float, entry: dict[str, Any]) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def _board(output: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        from regard.errors import UserError

        raise UserError("training.tensorboard needs the package tensorboard: pip install 'regard[tensorboard]'") from None
    return SummaryWriter(str(output / "tensorboard"))


def draw(output: Path, tell: Callable[[str], None] = lambda text: print(text, file=sys.stderr)) -> Path | None:
    """Draw the loss curve of a run's log into loss.png; gives the file, None if there is nothing to draw."""
    entries = read_log(output)
    train = [(entry["step"], entry["loss"]) for entry in entries if "loss" in entry]
    if not train:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(*zip(*train, strict=True), color="#0072b2", linewidth=1, label="training loss")
    valid = [(entry["step"], entry["valid_loss"]) for entry in entries if "valid_loss" in entry]
    if valid:
        axes.plot(*zip(*valid, strict=True), color="#d55e00", marker="o", markersize=3, label="validation loss")
    axes.set(xlabel="updates", ylabel="loss (nats per target token)")
    axes.grid(alpha=0.3)
    scores = [key for key in ("valid_bleu", "valid_chrf", "valid_exact_match") if any(key in entry for entry in entries)]
    if scores:
        right = axes.twinx()
        points = [(entry["step"], entry[scores[0]]) for entry in entries if scores[0] in entry]
        right.plot(*zip(*points, strict=True), color="#009e73", linestyle="--", label=scores[0].removeprefix("valid_"))
        right.set_ylabel(scores[0].removeprefix("valid_"))
    figure.legend(loc="outside upper right", ncols=3, frameon=False)
    path = output / "loss.png"
    figure.savefig(path, dpi=120)
    return path

"""Feed every reader of files damaged and hostile ones: `python -m benchmarks fuzz --seconds 60`

A reader may answer, or refuse in one line (UserError). Anything else, 400 MB of memory or ten seconds for one small file, is
a crash and is kept. Inputs grow out of valid ones: bytes are flipped, cut and doubled, values of JSON are replaced by the
worst that somebody could think of, and what reaches lines of regard that nothing has reached before is kept and changed
further.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gzip
import io
import json
import lzma
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
import zstandard

from regard.errors import UserError
from regard.files import write_json

SOURCE = str(Path(__file__).resolve().parents[1] / "src" / "regard")
MEMORY, SECONDS = 400 << 10, 10
"""Kilobytes and seconds that one input may cost."""
WORST: list[Any] = [
    None, True, False, 0, -1, 1, 2, 7, 10**6, 10**9, 2**31, 2**63, 10**40, -(10**12), 0.0, -0.5, 1e-320, 1e300, float("nan"),
    float("inf"), "", "x", "\x00", "../../passwd", "/dev/zero", "\ud800", "🙂" * 3, "a" * 5000, "relu", "BertModel", [], {},
    [[]], [None], {"": None}, {"part": "Stack"}, ["a", 1], [0] * 300, {"type": "Sequence"}, [[0, 1]] * 40,
]  # fmt: skip
TOKENS = [b"", b"\x00", b"\xff\xfe", b"\n", b"\r", b"\t", b"{", b"}" * 9, b"[" * 3000, b"99999999999999999999", b"-1",
          b"1e999", b"NaN", b"null", b"&a [*a, *a]", b"<<: *a", b"!!python/object/apply:os.system"]  # fmt: skip


@dataclass
class Reader:
    """What is fed. make(folder): a folder with valid files; names: those that are changed; read(folder): the reader."""

    make: Callable[[Path], None]
    names: list[str]
    read: Callable[[Path], Any]


@dataclass
class Found:
    """What fuzzing a reader gave. crashes: input's file -> what happened."""

    tries: int = 0
    refused: int = 0
    lines: int = 0
    crashes: dict[str, str] = field(default_factory=dict)


def bent(data: bytes, draw: random.Random) -> bytes:
    """Bytes with something wrong."""
    found = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        at = draw.randrange(len(found) + 1)
        kind = draw.randrange(6)
        if kind == 0 and found:
            found[min(at, len(found) - 1)] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del found[at : at + draw.choice((1, 2, 8, 64, len(found)))]
        elif kind == 2:
            found[at:at] = draw.choice(TOKENS)
        elif kind == 3:
            found[at:at] = found[at : at + draw.choice((1, 8, 64))] * draw.choice((1, 2, 50))
        elif kind == 4:
            found[at : at + 8] = draw.choice((0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)).to_bytes(8, "little")
        else:
            found[at : at + 1] = bytes([draw.randrange(256)])
    return bytes(found)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container and key in a JSON document."""
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


def worse(document: Any, draw: random.Random) -> Any:
    """A JSON document with a few values replaced, doubled, moved or gone."""
    document = copy.deepcopy(document)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        every = list(places(document))
        if not every:
            return draw.choice(WORST)
        inside, key = draw.choice(every)
        kind = draw.randrange(8)
        if kind < 4:
            inside[key] = copy.deepcopy(draw.choice(WORST))
        elif kind == 4:
            del inside[key]
        elif kind == 5:
            other, its = draw.choice(every)
            with contextlib.suppress(LookupError):
                inside[key] = copy.deepcopy(other[its])
        elif kind == 6 and isinstance(inside, dict):
            inside[draw.choice(("x", "", "part", "type", "model_type", str(key) * 2))] = inside.pop(key)
        elif isinstance(inside[key], (int, float)) and not isinstance(inside[key], bool):
            inside[key] = inside[key] * draw.choice((-1, 2, 1000, 10**9, 0.5))
        else:
            inside[key] = [copy.deepcopy(inside[key])] * draw.choice((0, 1, 2, 100))
    return document


def changed(name: str, data: bytes, draw: random.Random) -> bytes:
    """The content of a file, changed as becomes its kind."""
    if name.endswith(".json") and draw.random() < 0.8:
        with contextlib.suppress(ValueError, RecursionError):
            return json.dumps(worse(json.loads(data), draw)).encode("utf-8", "surrogatepass")
    if name.endswith(".safetensors") and draw.random() < 0.7:
        with contextlib.suppress(ValueError, RecursionError):
            size = int.from_bytes(data[:8], "little")
            head = json.dumps(worse(json.loads(data[8 : 8 + size]), draw)).encode()
            return len(head).to_bytes(8, "little") + head + data[8 + size :]
    if name.endswith((".gz", ".xz", ".zst")) and draw.random() < 0.5:
        pack = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}[Path(name).suffix]
        return pack(bent(b"a\tb\n" * 5, draw))
    return bent(data, draw)


class Trace:
    """Which lines of regard are reached."""

    def __init__(self) -> None:
        self.seen: set[tuple[CodeType, int]] = set()
        self.new = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self.local if frame.f_code.co_filename.startswith(SOURCE) else None

    def local(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Count a line of a function of regard."""
        place = frame.f_code, frame.f_lineno
        if place not in self.seen:
            self.seen.add(place)
            self.new += 1
        return self.local


class Slow(BaseException):  # not to be caught by what catches all errors
    """An input took too long."""


def _late(number: int, frame: FrameType | None) -> None:
    raise Slow


def fed(reader: Reader, folder: Path, trace: Trace | None = None) -> tuple[str, str]:
    """What a reader makes of a folder: ("read" or "refused", ""), or ("crash", what happened)."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number, timer, seconds in (
        (signal.SIGVTALRM, signal.ITIMER_VIRTUAL, SECONDS),
        (signal.SIGALRM, signal.ITIMER_REAL, 60),
    ):
        signal.signal(number, _late)
        signal.setitimer(timer, seconds)
    tracing = sys.gettrace()
    try:
        if trace is not None:
            sys.settrace(trace)
        reader.read(folder)
        answer = "read", ""
    except UserError as error:
        answer = ("refused", str(error)) if "\n" not in str(error) else ("crash", f"more than one line: {error}")
    except Slow:
        answer = "crash", f"more than {SECONDS} seconds"
    except BaseException as error:  # a panic in Rust is no Exception
        last = traceback.extract_tb(error.__traceback__)[-1]
        mine = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(SOURCE)]
        where = f"{Path((mine or [last])[-1].filename).name}:{(mine or [last])[-1].lineno}"
        answer = "crash", f"{where} {type(error).__name__}: {' '.join(str(error).split())[:160]}"
    finally:
        sys.settrace(tracing)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return answer if grown < MEMORY else ("crash", f"{grown >> 10} MB of memory")


def fuzz(reader: Reader, place: Path, draw: random.Random, seconds: float = 1e9, tries: int = 10**9) -> Found:
    """Feed one reader for a time, or so many inputs. Folders that crash it stay in `place`."""
    found, trace = Found(), Trace()
    good, work = place / "good", place / "work"
    good.mkdir(parents=True)
    reader.make(good)
    kept: dict[str, list[bytes]] = {name: [(good / name).read_bytes()] for name in reader.names}
    shutil.copytree(good, work)
    reader.read(work)  # what is imported now takes no time later
    answer, what = fed(reader, work, trace)
    if answer != "read":
        raise RuntimeError(f"the valid input is not read: {answer} {what}")
    end = time.monotonic() + seconds
    while found.tries < tries and time.monotonic() < end:
        name = draw.choice(reader.names)
        data = changed(name, draw.choice(kept[name]), draw)
        (work / name).write_bytes(data)
        trace.new = 0
        answer, what = fed(reader, work, trace)
        found.tries += 1
        found.refused += answer == "refused"
        if answer == "crash" and what.split(":")[0:2] not in [old.split(":")[0:2] for old in found.crashes.values()]:
            kept_as = f"crash {len(found.crashes)}/{name}"
            (place / kept_as).parent.mkdir(parents=True)
            (place / kept_as).write_bytes(data)
            found.crashes[kept_as] = what
        elif trace.new and len(data) < 1 << 16:
            kept[name].append(data)
        for file in reader.names:
            (work / file).write_bytes((good / file).read_bytes())
    found.lines = len(trace.seen)
    return found


def main(arguments: list[str]) -> int:
    """Feed the readers; exit code 1 if one crashed."""
    from benchmarks.readers import READERS

    parser = argparse.ArgumentParser(prog="benchmarks fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for all readers together")
    parser.add_argument("--tries", type=int, default=10**9, help="for each reader")
    parser.add_argument("--reader", action="append", choices=sorted(READERS), help="these alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--place", type=Path, help="keep what crashed here")
    parser.add_argument("--json", help="write the report here; '-': stdout")
    its = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    names = its.reader or sorted(READERS)
    report: dict[str, Any] = {}
    with contextlib.nullcontext(its.place) if its.place else tempfile.TemporaryDirectory() as place:
        for name in names:
            with contextlib.redirect_stderr(io.StringIO()):
                draw = random.Random(f"{its.seed} {name}")
                found = fuzz(READERS[name], Path(place) / name, draw, its.seconds / len(names), its.tries)
            report[name] = vars(found)
            print(f"{name}: {found.tries} inputs, {found.refused} refused, {found.lines} lines", file=sys.stderr)
            for file, what in found.crashes.items():
                print(f"  {file}: {what}", file=sys.stderr)
    if its.json:
        write_json(its.json, report)
    return 1 if any(found["crashes"] for found in report.values()) else 0

"""regard translate in parts: several processes, broken off and gone on, one line for a line, in order."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from regard import cli, translator
from regard.cli.parts import Parts, jobs_of, whereabouts
from regard.errors import UserError
from regard.translator import Translation


def shout(texts: Iterator[Sequence[str]], file: BinaryIO, first: int) -> None:
    for number, text in enumerate((text for chunk in texts for text in chunk), first + 1):
        file.write(f"{number} {text.upper()}\n".encode())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"line {n}\n" if n % 7 else "\n" for n in range(1, 26)), encoding="utf-8")
    return path


def wanted() -> str:
    return "".join(f"{n} LINE {n}\n" if n % 7 else f"{n} \n" for n in range(1, 26))


def test_processes_share_the_parts_and_the_last_joins_them(source: Path, tmp_path: Path) -> None:
    parts = Parts(str(source), tmp_path / "out.txt", 4, {"model": "m"})
    assert parts.open()
    assert parts.run(1, 3, shout) == 2
    assert not parts.goal.exists()
    rest = [threading.Thread(target=parts.run, args=(rank, 3, shout)) for rank in (0, 2)]
    for thread in rest:
        thread.start()
    for thread in rest:
        thread.join()
    assert parts.goal.read_text(encoding="utf-8") == wanted()
    assert not parts.folder.exists()
    assert not parts.open()


def test_a_broken_off_job_goes_on_where_it_was(source: Path, tmp_path: Path) -> None:
    calls: list[int] = []

    def breaking(texts: Iterator[Sequence[str]], file: BinaryIO, first: int) -> None:
        calls.append(first)
        if first == 15:
            file.write(b"half a line")
            raise KeyboardInterrupt
        shout(texts, file, first)

    parts = Parts(str(source), tmp_path / "out.txt", 5, {})
    parts.open()
    with pytest.raises(KeyboardInterrupt):
        parts.run(0, 1, breaking)
    assert calls == [0, 5, 10, 15]
    again = Parts(str(source), tmp_path / "out.txt", 5, {})
    assert again.open()
    assert again.run(0, 1, shout) == 2
    assert again.goal.read_text(encoding="utf-8") == wanted()


@pytest.mark.parametrize("change", ["said", "size", "input"])
def test_parts_of_another_job_are_refused(source: Path, tmp_path: Path, change: str) -> None:
    Parts(str(source), tmp_path / "out.txt", 5, {"model": "m"}).open()
    if change == "input":
        source.write_text("other\n", encoding="utf-8")
    other = Parts(
        str(source), tmp_path / "out.txt", 6 if change == "size" else 5, {"model": "n" if change == "said" else "m"}
    )
    with pytest.raises(UserError, match="holds parts of another input, model or options"):
        other.open()


def test_patterns_go_into_a_folder(tmp_path: Path) -> None:
    for name in ("b.en", "a.en"):
        (tmp_path / name).write_text("x\n", encoding="utf-8")
    found = jobs_of(f"{tmp_path}/*.en", str(tmp_path / "out"))
    assert [(Path(name).name, goal) for name, goal in found] == [
        ("a.en", tmp_path / "out" / "a.en"),
        ("b.en", tmp_path / "out" / "b.en"),
    ]
    assert jobs_of(str(tmp_path / "a.en"), str(tmp_path / "c")) == [(str(tmp_path / "a.en"), tmp_path / "c")]
    with pytest.raises(UserError, match="give a folder"):
        jobs_of(f"{tmp_path}/*.en", str(tmp_path / "a.en"))
    with pytest.raises(UserError, match="give --input FILE"):
        jobs_of(None, "out")


class Upper:
    """Translates into capitals."""

    def translate(self, texts: list[str], *, details: bool, first: int, **options: Any) -> list[Translation]:
        return [Translation(text, text.upper(), 0.0, 0.0) for text in texts]


def test_the_command_shares_files_by_what_torchrun_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(translator, "load", lambda *given, **named: Upper())
    for name in ("a.en", "b.en"):
        (tmp_path / name).write_text("".join(f"{name} {n}\n" for n in range(10)), encoding="utf-8")
    line = ["translate", "model", "--input", f"{tmp_path}/*.en", "--output", str(tmp_path / "out"), "--parts", "3"]
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("1", "0"):
        assert not (tmp_path / "out" / "b.en").exists()
        monkeypatch.setenv("RANK", rank)
        assert cli.main([*line, "--device", "cpu"]) == 0
    for name in ("a.en", "b.en"):
        made = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert made == "".join(f"{name} {n}\n".upper() for n in range(10))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.en", "b.en"]
    assert cli.main([*line, "--device", "cpu"]) == 0
    assert "2 of 2 outputs are there already" in capsys.readouterr().err
    assert cli.main([*line[:2], "text", "--parts", "3"]) == 2


@pytest.mark.slow
def test_torchrun_translates_a_file(shared: Any, translator_for: Any, few_lines: Any, tmp_path: Path) -> None:
    """Two real processes, three parts: what one translator says, a line for a line."""
    one = translator_for(shared)
    one.save(tmp_path / "model")
    lines = few_lines[0]
    (tmp_path / "in.en").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "regard"]
    source, goal = tmp_path / "in.en", tmp_path / "out.fr"
    command += ["translate", str(tmp_path / "model"), "--input", str(source), "--output", str(goal)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([*command, "--parts", "3"], check=True, env=environment, timeout=300)
    assert goal.read_text(encoding="utf-8") == "".join(f"{text}\n" for text in one.translate(lines))


def test_a_model_that_was_trained_anew_in_its_place_is_another(tmp_path: Path) -> None:
    """Parts of the old one and of the new one would have been put together."""
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(bytes(1 << 20))
    before = whereabouts(str(tmp_path))
    assert whereabouts(str(tmp_path)) == before
    assert before[0] == str(tmp_path)
    weights.write_bytes(bytes((1 << 20) - 1) + b"\1")
    assert whereabouts(str(tmp_path)) != before
    assert whereabouts("owner/name") == ["owner/name"]

"""Files written whole or not at all."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from threading import Thread

import pytest

from regard import files


def test_a_failure_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.txt"
    files.write_text(path, "żółć\n")
    assert path.read_bytes() == "żółć\n".encode()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_text(path, "other")
    assert path.read_bytes() == "żółć\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_json_to_a_file_and_to_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files.write_json(tmp_path / "x.json", {"a": "é"})
    files.write_json("-", {"a": "é"})
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8")) == json.loads(capsys.readouterr().out) == {"a": "é"}


@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_is_written_to_and_never_replaced(tmp_path: Path, linked: bool) -> None:
    """So are devices: `--output /dev/null` by the owner of all files once put a file in its place."""
    pipe, path, read = tmp_path / "pipe", tmp_path / "path", []
    os.mkfifo(pipe)
    path.symlink_to(pipe) if linked else os.link(pipe, path)
    reader = Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")))
    reader.start()
    files.write_text(path, "żółć\n")
    reader.join()
    assert read == ["żółć\n"]
    assert path.is_symlink() is linked
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["path", "pipe"]

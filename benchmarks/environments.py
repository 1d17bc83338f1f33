"""Environments of peers, made from the pinned requirements beside this file and kept for the next time.

They lie under REGARD_PEERS, or ~/.cache/regard-peers. A peer whose pins this interpreter has installed needs none.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

PEERS = Path(__file__).parent / "peers"
NO_DEPS = "# no-deps: "


def home() -> Path:
    """Where environments are kept."""
    return Path(os.environ.get("REGARD_PEERS") or Path.home() / ".cache" / "regard-peers")


def requirements(peer: str) -> tuple[list[str], list[str]]:
    """The requirements of a peer, and those that are installed without what they ask for."""
    lines = (PEERS / f"{peer}.txt").read_text(encoding="utf-8").splitlines()
    apart = [line.removeprefix(NO_DEPS).strip() for line in lines if line.startswith(NO_DEPS)]
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")], apart


def name_of(requirement: str) -> str:
    """The distribution that a requirement names."""
    return re.split(r"[<>=!~\[ ]", requirement, maxsplit=1)[0]


def here(peer: str, exactly: bool = True) -> bool:
    """Whether this interpreter has what a peer needs; exactly: in the pinned versions."""
    for line in [one for part in requirements(peer) for one in part]:
        try:
            found = metadata.version(name_of(line))
        except metadata.PackageNotFoundError:
            return False
        if exactly and "==" in line and found.split("+")[0] != line.split("==")[1]:
            return False
    return True


def interpreter(peer: str, installed: bool = False) -> str:
    """A Python that has the peer. installed: this one will do if it has the peer in any version. The first time an
    environment is made, which takes minutes; REGARD_PEERS_PIP has further arguments for pip."""
    if here(peer, exactly=not installed):
        return sys.executable
    plain, apart = requirements(peer)
    key = hashlib.sha256("\n".join([*plain, *apart, sys.version]).encode()).hexdigest()[:12]
    folder = home() / f"{peer}-{key}"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    done = folder / "complete"
    if not done.is_file():
        print(f"making an environment for {peer} in {folder} …", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", *shlex.split(os.environ.get("REGARD_PEERS_PIP", ""))]
        subprocess.run([*pip, *plain], check=True)
        if apart:
            subprocess.run([*pip, "--no-deps", *apart], check=True)
        done.touch()
    return str(python)


def version(peer: str, python: str) -> str:
    """The version that a peer's interpreter has of it."""
    plain, apart = requirements(peer)
    named = {"opennmt": "OpenNMT-py"}.get(peer, peer)
    own = next((name_of(line) for line in [*plain, *apart] if name_of(line).lower() == named.lower()), named)
    code = f"from importlib.metadata import version; print(version({own!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()

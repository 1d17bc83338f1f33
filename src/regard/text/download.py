"""Fetching a file from its origin: pinned by checksum, resumed where it stopped, moved into place only when it is right."""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

from regard.errors import UserError

ORIGIN = "https://raw.githubusercontent.com"
_CHUNK = 1 << 16
_SECONDS = 30


def origin() -> str:
    """The address before "owner/repository/commit/path": REGARD_ORIGIN (a mirror), or GitHub's raw files."""
    return os.environ.get("REGARD_ORIGIN", ORIGIN).rstrip("/")


def cache_root() -> Path:
    """Where fetched files are kept: REGARD_CACHE, or ~/.cache/regard; data sets in its folder `data`."""
    told = os.environ.get("REGARD_CACHE")
    return (Path(told).expanduser() if told else Path("~/.cache/regard").expanduser()) / "data"


def fetch(path: str, sha256: str, destination: Path) -> Path:
    """The file at `origin()/path` as `destination`, fetched unless it is there. A fetch that broke off goes on where it
    stopped. UserError if the network refuses or the content is not what `sha256` promises; nothing is left in place then."""
    if destination.is_file():
        return destination
    from filelock import FileLock  # not wanted where nothing is fetched

    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{destination}.lock"):
            if not destination.is_file():
                _fetch(f"{origin()}/{path}", sha256, destination)
    except OSError as error:
        raise UserError(f"{destination}: cannot be written ({error.strerror or error})") from None
    return destination


def _fetch(url: str, sha256: str, destination: Path) -> None:
    part = destination.with_name(destination.name + ".part")
    print(f"fetching {url}", file=sys.stderr)
    resumed = part.is_file() and part.stat().st_size > 0
    _download(url, part)
    found = digest(part)
    if found != sha256 and resumed:
        part.unlink()
        _download(url, part)
        found = digest(part)
    if found != sha256:
        part.unlink()
        raise UserError(f"{url}: has sha256 {found}, but {sha256} is expected; the file was changed or damaged on its way")
    os.replace(part, destination)


def _download(url: str, part: Path) -> None:
    start = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            going_on = start > 0 and answer.status == 206
            expected = answer.headers.get("Content-Length")
            with part.open("ab" if going_on else "wb") as file:
                received = 0
                while chunk := answer.read(_CHUNK):
                    file.write(chunk)
                    received += len(chunk)
                file.flush()
                os.fsync(file.fileno())
            if expected is not None and received < int(expected):
                raise UserError(f"{url}: broke off after {received:,} of {int(expected):,} bytes; run again to go on")
    except urllib.error.HTTPError as error:
        if error.code == 416 and start:  # nothing after what is there: the checksum decides
            return
        raise UserError(f"{url}: the server answers {error.code} {error.reason}; {_ADVICE}") from None
    except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
        raise UserError(f"{url}: cannot be fetched ({getattr(error, 'reason', error)}); {_ADVICE}") from None


_ADVICE = "set REGARD_DATA to a folder that has the data, or REGARD_ORIGIN to a mirror"


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""Writing text files so that a reader never sees half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from regard.errors import UserError


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` beside `path`, flush it to the disk and move it into place; folders are made. UserError if the system
    refuses (full disk, no permission), and then nothing of it is left."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_text(path: Path, content: str) -> None:
    """`write_bytes` of the text in UTF-8."""
    write_bytes(path, content.encode("utf-8"))

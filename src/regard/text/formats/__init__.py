"""Formats of documents: what of them is translated, and how they are put together again.

Each reads a text into a `Document` and nothing is lost on the way: `read(format, text).write([None, …])` is the text.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import PurePath

from regard.errors import UserError
from regard.text.formats.document import Document

FORMATS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "text": ("plain", "read", (".txt", ".text")),
    "srt": ("subtitles", "read_srt", (".srt",)),
    "vtt": ("subtitles", "read_vtt", (".vtt",)),
    "markdown": ("markdown", "read", (".md", ".markdown", ".mdown")),
    "html": ("html", "read", (".html", ".htm", ".xhtml")),
    "po": ("gettext", "read", (".po", ".pot")),
}
"""Name -> the file beside this one, its function, and the endings of files."""


def told(path: str) -> str | None:
    """The format that the ending of a file's name says."""
    ending = PurePath(path).suffix.lower()
    return next((name for name, (_, _, endings) in FORMATS.items() if ending in endings), None)


def named(name: str, path: str | None = None) -> str:
    """The name of a format; "auto" goes by the ending of a file. UserError says what there is."""
    if name in FORMATS:
        return name
    if name != "auto":
        raise UserError(f"there is no format {name!r}; known: auto, {', '.join(FORMATS)}")
    found = told(path or "")
    if found is None:
        raise UserError(f"the name {path or '(stdin)'} does not tell the format: say --format {'|'.join(FORMATS)}")
    return found


def read(name: str, text: str, attributes: bool = False) -> Document:
    """A document of a format (a name of FORMATS). attributes: of HTML, translate alt texts, titles and the like too.
    UserError: no such format, or the text is none of it, or a library is missing."""
    file, function, _ = FORMATS[named(name)]
    reader: Callable[..., Document] = getattr(import_module(f"regard.text.formats.{file}"), function)
    lead = "\ufeff" if text.startswith("\ufeff") else ""
    document = reader(text[len(lead) :], **({"attributes": True} if attributes and name == "html" else {}))
    document.lead = lead
    return document

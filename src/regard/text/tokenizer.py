"""Tokenizers: text to ids and back without loss, over the `tokenizers` library."""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Encoding
from tokenizers import Tokenizer as Backend

from regard.errors import UserError
from regard.files import read_plain, write_text
from regard.text.bounds import check_file, highest
from regard.text.dropout import Segmenter
from regard.text.pieces import (
    SPACE,
    between_spaces,
    numbered,
    one_character_each,
    piece_bytes,
    steps,
    strips_a_space,
)
from regard.text.specials import CONFIG, MAP, mark, ordinary, read_config, renamed, special_ids
from regard.text.template import Template, edged_template, read_template
from regard.text.vocabulary import SPECIALS, Plan, train_backend

__all__ = ["Plan", "Stream", "Tokenizer", "Tokenizers", "Tokens", "train_tokenizer"]

LARGEST = 256 << 20
"""Bytes that a tokenizer.json may have."""


@dataclass(frozen=True)
class Tokens:
    """What a text became: `ids`, for each the half-open range of characters of the text that it stands for (`offsets`; the
    bytes of one character share its range), and the number of its word from 0 (`words`)."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    words: list[int]


def train_tokenizer(lines: Iterable[str], plan: Plan, extra: Sequence[str] = ()) -> Tokenizer:
    """Learn a tokenizer from `lines`. `extra` symbols, such as "<2fr>", are found in every text and get the last ids; the
    space after one belongs to it. The same lines and plan give the same file. UserError if there is no text."""
    return Tokenizer(train_backend(lines, plan, extra), dropout=plan.dropout)


class Tokenizer:
    """One vocabulary. Text never becomes a special symbol, whatever it holds; `decode(encode(text))` is the text as the
    normaliser in tokenizer.json leaves it (characters and words outside a vocabulary of `words` or `characters`: U+FFFD).

    pad, unk, bos, eos, mask: ids, or None where the vocabulary, made by another program, has no such symbol. config: the
    tokenizer_config.json that came with it.
    """

    def __init__(self, backend: Backend, dropout: float = 0.0, config: Mapping[str, Any] | None = None) -> None:
        backend.encode_special_tokens = True
        if getattr(backend.model, "dropout", None):
            backend.model.dropout = None  # of training: the library would go on leaving merges out at random
        self._file = json.loads(backend.to_str())
        backend.no_padding()
        backend.no_truncation()
        self.backend = backend
        self.dropout = dropout
        self.config = None if config is None else dict(config)
        found = special_ids(backend, config)
        self.pad, self.unk, self.bos, self.eos, self.mask = (found[role] for role in ("pad", "unk", "bos", "eos", "mask"))
        self.vocab_size = highest(self._file) + 1
        added = self._file["added_tokens"]
        self.extra: list[str] = [token["content"] for token in added if not token["special"]]
        self.template = self._template()
        self._prefixed = any(step.get("type") == "Prepend" for step in steps(self._file["normalizer"], "normalizers"))
        self._strips = strips_a_space(self._file)
        self._pieces = piece_bytes(backend, self._file)
        named = {number for number in found.values() if number is not None}
        self._specials = named | {token["id"] for token in added if token["special"]}
        own = [backend.token_to_id(name) for name in SPECIALS] == [0, 1, 2, 3]
        self._silent = self._specials - ({self.unk} if own else set())
        self._segmenter: Segmenter | None = None

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, without specials."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str], sample: int | None = None) -> list[list[int]]:
        """Ids of each text, without specials, computed in parallel. With `sample`, a random seed, and a tokenizer that has
        `dropout`, merges are left out at random (training only): equal texts and seed give equal ids."""
        encodings = self._encode(texts)
        if sample is None or not self.dropout:
            return [encoding.ids for encoding in encodings]
        if self._segmenter is None:
            self._segmenter = Segmenter(self._file["model"])
        return self._segmenter.sample(encodings, self.dropout, sample)

    def wrap(self, first: Sequence[int], second: Sequence[int] | None = None) -> tuple[list[int], list[int]]:
        """Ids of a text, or of a pair of texts, with the special symbols that a model of this vocabulary reads around them,
        and the segment (token type) of each."""
        return self.template.wrap(first, second)

    @property
    def special_names(self) -> list[str]:
        """The names of all special symbols."""
        return [self.piece(number) for number in sorted(self._specials)]

    def encode_marked(self, text: str, names: Collection[str], dropped: str = "") -> list[int]:
        """Ids of a text in which these special symbols stand for themselves (a mask, the marks of a chat); all else is
        ordinary text, as in `encode`. dropped: a string that breaks a name up and is taken out afterwards."""
        if not names:
            return self.encode(text)
        marks = {name: mark(number) for name in names if (number := self.backend.token_to_id(name)) is not None}
        pattern = "|".join(re.escape(name) for name in sorted(marks, key=lambda name: (-len(name), name)))
        marked = re.sub(pattern, lambda found: marks[found[0]], ordinary(text)) if marks else ordinary(text)
        marked = marked.replace(dropped, "") if dropped else marked
        return self._safe.encode(marked, add_special_tokens=False).ids

    def tokens(self, text: str) -> Tokens:
        """Ids of `text` with the characters and the word of each."""
        encoding = self._encode([text])[0]
        ids, offsets = encoding.ids, one_character_each(text, encoding)
        if not self._prefixed:
            return Tokens(ids, offsets, between_spaces(text, offsets))
        for place, (start, end) in enumerate(offsets):
            # The space that the normaliser puts in front stands for nothing in the text.
            if self.piece(ids[place]) in (" ", "Ġ", SPACE) and (place == 0 or not text[start:end].isspace()):
                offsets[place] = (start, start)
        return Tokens(ids, offsets, numbered(encoding.word_ids))

    def decode(self, ids: Sequence[int], skip_specials: bool = True) -> str:
        """The text of `ids`. Bytes that form no character become one U+FFFD each run. `skip_specials` leaves out pad, bos
        and eos (of a vocabulary made by another program: all its special symbols)."""
        kept = [number for number in ids if not (skip_specials and number in self._silent)]
        self._check(kept)
        if self._pieces is None:
            with _sound():
                return self.backend.decode(kept, skip_special_tokens=skip_specials)
        text = b"".join(self._pieces[number] for number in kept).decode("utf-8", "replace")
        return text.removeprefix(" ") if self._strips else text

    def decode_batch(self, batch: Sequence[Sequence[int]], skip_specials: bool = True) -> list[str]:
        """The text of each list of ids."""
        return [self.decode(ids, skip_specials) for ids in batch]

    def stream(self, before: Sequence[int] = ()) -> Stream:
        """A decoder that takes one id at a time; what it gives, joined, is `decode` of all, or of what follows the ids
        `before`."""
        return Stream(self, before)

    def normalize(self, text: str) -> str:
        """The text as this tokenizer sees it, and as `decode` gives it back."""
        if self.backend.normalizer is None or not text:
            return text
        with _sound():
            normal = self.backend.normalizer.normalize_str(text)
        if any(step.get("pattern") == {"String": " "} for step in steps(self._file["normalizer"], "normalizers")):
            normal = normal.replace(SPACE, " ")
        return normal.removeprefix(" ") if self._prefixed else normal

    def piece(self, number: int) -> str:
        """The symbol with this id as the vocabulary spells it."""
        self._check([number])
        return self.backend.id_to_token(number) or ""

    @property
    def hash(self) -> str:
        """SHA-256 of everything that decides the ids, in hexadecimal."""
        return hashlib.sha256(self.backend.to_str().encode("utf-8")).hexdigest()

    def save(self, folder: str | Path, name: str = "tokenizer.json") -> Path:
        """Write the one file of this vocabulary; the folder is made if missing."""
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = self.backend.to_str(pretty=True)
        kept = {key: self._file[key] for key in ("truncation", "padding") if self._file[key] is not None}
        if kept:
            text = json.dumps(json.loads(text) | kept, indent=2, ensure_ascii=False)
        write_text(path, text + "\n")
        return path

    @classmethod
    def open(cls, path: str | Path, dropout: float = 0.0) -> Tokenizer:
        """Read a tokenizer.json, or the folder that holds one. UserError if it is missing or not a tokenizer."""
        path = Path(path)
        if path.is_dir():
            path = path / "tokenizer.json"
        config = read_config(path.parent)
        try:
            text = read_plain(path, LARGEST).decode("utf-8")
            check_file(json.loads(text))
            return cls(Backend.from_str(text), dropout, config)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from None
        except BaseException as error:  # a panic of the library in Rust is no Exception
            if isinstance(error, Exception) or type(error).__name__ == "PanicException":
                raise UserError(f"{path}: is not a tokenizer file ({_one_line(error)})") from None
            raise

    def _template(self) -> Template:
        config = self.config or {}
        if "add_bos_token" in config or "add_eos_token" in config:
            return edged_template(
                self.bos if config.get("add_bos_token") else None, self.eos if config.get("add_eos_token") else None
            )
        found = read_template(self._file["post_processor"])
        for what, _ in (*found.single, *found.pair):
            if not isinstance(what, str):
                self._check(what)
        return found

    def _encode(self, texts: Sequence[str]) -> list[Encoding]:
        try:
            with _sound():
                encodings = self.backend.encode_batch(list(texts), add_special_tokens=False)
        except (UnicodeEncodeError, TypeError) as error:
            for number, text in enumerate(texts, 1):
                if not isinstance(text, str):
                    raise TypeError(f"text {number} is {type(text).__name__}, not str") from None
                if any("\ud800" <= character <= "\udfff" for character in text):
                    raise UserError(f"text {number} holds half a surrogate pair: it is not valid Unicode") from None
            raise error
        except Exception as error:
            if type(error) is not Exception:  # what the library in Rust raises
                raise
            raise UserError(f"the tokenizer cannot cut a text into tokens ({_one_line(error)})") from None
        for place, encoding in enumerate(encodings):
            if self._suspicious(encoding.ids, texts[place]):
                encodings[place] = self._safe.encode(ordinary(texts[place]), add_special_tokens=False)
        return encodings

    @cached_property
    def _safe(self) -> Backend:
        return renamed(self.backend, self._specials)

    def _suspicious(self, ids: Sequence[int], text: str) -> bool:
        """Whether a text was taken for a special symbol. The unknown symbol counts only if its name stands there."""
        hit = self._specials.intersection(ids)
        return bool(hit) and (hit != {self.unk} or any(self.piece(number) in self.normalize(text) for number in hit))

    def _check(self, ids: Sequence[int]) -> None:
        for number in ids:
            if not 0 <= number < self.vocab_size:
                raise UserError(f"id {number} is outside the vocabulary (0 to {self.vocab_size - 1})")


NEAR = 16
"""So many ids before a text decide how it begins (a space in front of its first word)."""


class Stream:
    """Decoding one id at a time: a character is given as soon as its last byte is there, and never half of it."""

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")
        before = [number for number in before if number not in tokenizer._silent][-NEAR:]
        self._first = tokenizer._strips and not before
        self._ids = before if tokenizer._pieces is None else []
        self._given = tokenizer.decode(self._ids) if self._ids else ""

    def push(self, number: int) -> str:
        """Take an id; the text that is now certain, often empty."""
        tokenizer = self._tokenizer
        if number in tokenizer._silent:
            return ""
        tokenizer._check([number])
        if tokenizer._pieces is not None:
            return self._cut(self._bytes.decode(tokenizer._pieces[number]))
        self._ids.append(number)
        text = tokenizer.decode(self._ids)
        return "" if text.endswith("\ufffd") else self._new(text)

    def end(self) -> str:
        """The rest: U+FFFD if the last character is incomplete, else nothing."""
        if self._tokenizer._pieces is not None:
            return self._cut(self._bytes.decode(b"", final=True))
        return self._new(self._tokenizer.decode(self._ids))

    def _cut(self, text: str) -> str:
        if text and self._first:
            self._first = False
            return text.removeprefix(" ")
        return text

    def _new(self, text: str) -> str:
        new, self._given = text[len(self._given) :], text
        return new


OWN_CONFIG: dict[str, Any] = {
    "clean_up_tokenization_spaces": False,
    "split_special_tokens": True,
    "padding_side": "right",
    "truncation_side": "right",
    "model_input_names": ["input_ids", "attention_mask"],
    "model_max_length": 1_000_000,
}
"""What tokenizer_config.json says of a tokenizer that regard trained, besides its symbols."""


@dataclass
class Tokenizers:
    """The tokenizers of a translator: one object twice when the vocabulary is shared."""

    source: Tokenizer
    target: Tokenizer
    shared: bool

    def save(self, folder: str | Path) -> None:
        """Write tokenizer.json (source), target_tokenizer.json if separate, and tokenizer_config.json: as it came, or such
        that transformers.AutoTokenizer gives the source's ids with </s> at the end."""
        folder = Path(folder)
        self.source.save(folder)
        if not self.shared:
            self.target.save(folder, "target_tokenizer.json")
        config = self.source.config
        if config is None:
            its = self.source
            ids = {"pad": its.pad, "unk": its.unk, "bos": its.bos, "eos": its.eos, "mask": its.mask}
            names = {f"{role}_token": its.piece(number) for role, number in ids.items() if number is not None}
            config = {"tokenizer_class": "PreTrainedTokenizerFast"} | names | OWN_CONFIG
        symbols = {key: value for key, value in config.items() if key.endswith("_token") and isinstance(value, (str, dict))}
        for name, document in ((CONFIG, config), (MAP, symbols)):
            write_text(folder / name, json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    @classmethod
    def open(cls, folder: str | Path) -> Tokenizers:
        """Read what `save` or another program wrote. UserError if there is none."""
        folder = Path(folder)
        if not (folder / "tokenizer.json").is_file() and (folder / "source.spm").is_file():
            from regard.text.spm import open_spm

            return open_spm(folder)
        source = Tokenizer.open(folder / "tokenizer.json")
        separate = folder / "target_tokenizer.json"
        target = Tokenizer.open(separate) if separate.exists() else source
        return cls(source, target, shared=target is source)


@contextmanager
def _sound() -> Iterator[None]:
    """Where the library may panic over a vocabulary that contradicts itself: that is a UserError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise UserError(f"this tokenizer contradicts itself ({_one_line(error)})") from None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]

"""Tokenizers: text to ids and back without loss, over the `tokenizers` library."""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from tokenizers import Encoding
from tokenizers import Tokenizer as Backend

from regard.errors import UserError
from regard.files import write_text
from regard.text.dropout import Segmenter
from regard.text.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Plan, train_backend

__all__ = ["Plan", "Stream", "Tokenizer", "Tokenizers", "Tokens", "train_tokenizer"]

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>\Z")


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
    normaliser in tokenizer.json leaves it (characters and words outside a vocabulary of `words` or `characters`: U+FFFD)."""

    def __init__(self, backend: Backend, dropout: float = 0.0, names: Sequence[str] = SPECIALS) -> None:
        backend.encode_special_tokens = True
        self.backend = backend
        self.dropout = dropout
        ids = [backend.token_to_id(name) for name in names]
        missing = [name for name, number in zip(names, ids) if number is None]
        if missing:
            raise UserError(f"the tokenizer lacks {', '.join(missing)}; regard trains them as ids 0 to 3")
        self.pad, self.unk, self.bos, self.eos = (int(number) for number in ids if number is not None)
        self.vocab_size: int = backend.get_vocab_size(with_added_tokens=True)
        self._file = json.loads(backend.to_str())
        self.extra: list[str] = [token["content"] for token in self._file["added_tokens"] if not token["special"]]
        self._prefixed = any(step.get("type") == "Prepend" for step in _steps(self._file["normalizer"], "normalizers"))
        self._pieces = _piece_bytes(backend, self._file)
        self._silent = {self.pad, self.bos, self.eos}
        self._segmenter: Segmenter | None = None

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, without specials."""
        return self._encode([text])[0].ids

    def encode_batch(self, texts: Sequence[str], sample: int | None = None) -> list[list[int]]:
        """Ids of each text, without specials, computed in parallel. With `sample`, a random seed, and a tokenizer that has
        `dropout`, merges are left out at random (training only): equal texts and seed give equal ids."""
        encodings = self._encode(texts)
        if sample is None or not self.dropout:
            return [encoding.ids for encoding in encodings]
        if self._segmenter is None:
            self._segmenter = Segmenter(self._file["model"])
        return self._segmenter.sample(encodings, self.dropout, sample)

    def tokens(self, text: str) -> Tokens:
        """Ids of `text` with the characters and the word of each."""
        encoding = self._encode([text])[0]
        offsets = _one_character_each(text, encoding)
        if not self._prefixed:
            return Tokens(encoding.ids, offsets, _between_spaces(text, offsets))
        for place, (start, end) in enumerate(offsets):
            # The space that the normaliser puts in front stands for nothing in the text.
            if self.piece(encoding.ids[place]) in (" ", "Ġ") and (place == 0 or not text[start:end].isspace()):
                offsets[place] = (start, start)
        words = _numbered(encoding.word_ids)
        return Tokens(encoding.ids, offsets, words)

    def decode(self, ids: Sequence[int], skip_specials: bool = True) -> str:
        """The text of `ids`. Bytes that form no character become one U+FFFD each run. `skip_specials` leaves out pad, bos
        and eos."""
        kept = [number for number in ids if not (skip_specials and number in self._silent)]
        self._check(kept)
        if self._pieces is None:
            return self.backend.decode(kept, skip_special_tokens=skip_specials)
        text = b"".join(self._pieces[number] for number in kept).decode("utf-8", "replace")
        return text.removeprefix(" ") if self._prefixed else text

    def decode_batch(self, batch: Sequence[Sequence[int]], skip_specials: bool = True) -> list[str]:
        """The text of each list of ids."""
        return [self.decode(ids, skip_specials) for ids in batch]

    def stream(self) -> Stream:
        """A decoder that takes one id at a time; what it gives, joined, is `decode` of all."""
        return Stream(self)

    def normalize(self, text: str) -> str:
        """The text as this tokenizer sees it, and as `decode` gives it back."""
        if self.backend.normalizer is None or not text:
            return text
        normal = self.backend.normalizer.normalize_str(text)
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
        write_text(path, self.backend.to_str(pretty=True) + "\n")
        return path

    @classmethod
    def open(cls, path: str | Path, dropout: float = 0.0) -> Tokenizer:
        """Read a tokenizer.json, or the folder that holds one. UserError if it is missing or not a tokenizer."""
        path = Path(path)
        if path.is_dir():
            path = path / "tokenizer.json"
        try:
            backend = Backend.from_str(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from None
        except Exception as error:
            raise UserError(f"{path}: is not a tokenizer file ({_one_line(error)})") from None
        return cls(backend, dropout, _special_names(path))

    def _encode(self, texts: Sequence[str]) -> list[Encoding]:
        try:
            return self.backend.encode_batch(list(texts), add_special_tokens=False)
        except (UnicodeEncodeError, TypeError) as error:
            for number, text in enumerate(texts, 1):
                if not isinstance(text, str):
                    raise TypeError(f"text {number} is {type(text).__name__}, not str") from None
                if any("\ud800" <= character <= "\udfff" for character in text):
                    raise UserError(f"text {number} holds half a surrogate pair: it is not valid Unicode") from None
            raise error

    def _check(self, ids: Sequence[int]) -> None:
        for number in ids:
            if not 0 <= number < self.vocab_size:
                raise UserError(f"id {number} is outside the vocabulary (0 to {self.vocab_size - 1})")


class Stream:
    """Decoding one id at a time: a character is given as soon as its last byte is there, and never half of it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")
        self._first = tokenizer._prefixed
        self._ids: list[int] = []
        self._given = ""

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


@dataclass
class Tokenizers:
    """The tokenizers of a translator: one object twice when the vocabulary is shared."""

    source: Tokenizer
    target: Tokenizer
    shared: bool

    def save(self, folder: str | Path) -> None:
        """Write tokenizer.json (source), target_tokenizer.json if separate, and what transformers.AutoTokenizer needs to
        give the source's ids with </s> at the end."""
        folder = Path(folder)
        self.source.save(folder)
        if not self.shared:
            self.target.save(folder, "target_tokenizer.json")
        names = [self.source.piece(n) for n in (self.source.pad, self.source.unk, self.source.bos, self.source.eos)]
        symbols = dict(zip(("pad_token", "unk_token", "bos_token", "eos_token"), names))
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **symbols,
            "clean_up_tokenization_spaces": False,
            "split_special_tokens": True,
            "padding_side": "right",
            "truncation_side": "right",
            "model_input_names": ["input_ids", "attention_mask"],
            "model_max_length": 1_000_000,
        }
        write_text(folder / "tokenizer_config.json", json.dumps(config, indent=2, ensure_ascii=False) + "\n")
        write_text(folder / "special_tokens_map.json", json.dumps(symbols, indent=2, ensure_ascii=False) + "\n")

    @classmethod
    def open(cls, folder: str | Path) -> Tokenizers:
        """Read what `save` wrote. UserError if there is none."""
        folder = Path(folder)
        source = Tokenizer.open(folder / "tokenizer.json")
        separate = folder / "target_tokenizer.json"
        target = Tokenizer.open(separate) if separate.exists() else source
        return cls(source, target, shared=target is source)


def _special_names(path: Path) -> Sequence[str]:
    """pad, unk, bos, eos as tokenizer_config.json beside the file names them, else regard's own."""
    config = path.with_name("tokenizer_config.json")
    if not config.exists():
        return SPECIALS
    known = json.loads(config.read_text(encoding="utf-8"))
    names = []
    for key, default in zip(("pad_token", "unk_token", "bos_token", "eos_token"), (PAD, UNK, BOS, EOS)):
        value = known.get(key) or default
        names.append(value["content"] if isinstance(value, dict) else value)
    return names


def _steps(part: dict | None, key: str) -> list[dict]:
    if part is None:
        return []
    return part[key] if part["type"] == "Sequence" else [part]


def _piece_bytes(backend: Backend, file: dict) -> list[bytes] | None:
    """The bytes that each id adds to the text, for the decoders that regard writes; None for any other pipeline."""
    steps = _steps(file["decoder"], "decoders")
    kinds = [step["type"] for step in steps]
    rest = [kind for kind in kinds if kind != "Replace"]
    strips = [step for step in steps if step["type"] == "Strip"]
    known = (["ByteLevel"], ["ByteFallback", "Fuse"], ["Fuse"])
    prefixed = any(step["type"] == "Prepend" for step in _steps(file["normalizer"], "normalizers"))
    if [kind for kind in rest if kind != "Strip"] not in known or bool(strips) != prefixed:
        return None
    if strips and (strips[0]["content"], strips[0]["start"], strips[0]["stop"]) != (" ", 1, 0):
        return None
    replaced = {}
    for step in steps:
        if step["type"] == "Replace":
            pattern = step["pattern"].get("Regex", "")
            if not (pattern.startswith(r"\A") and pattern.endswith(r"\z")):
                return None
            name = re.sub(r"\\x\{([0-9A-F]+)\}", lambda found: chr(int(found[1], 16)), pattern[2:-2])
            replaced[name] = step["content"]
    added = {token["content"] for token in file["added_tokens"]}
    table = []
    for number in range(backend.get_vocab_size(with_added_tokens=True)):
        name = backend.id_to_token(number)
        table.append(b"" if name is None else _bytes_of(name, rest[0], name in added, replaced))
    return table


def _bytes_of(name: str, decoder: str, added: bool, replaced: dict[str, str]) -> bytes:
    if name in replaced:
        return replaced[name].encode("utf-8")
    if not added and decoder == "ByteLevel":
        return bytes(_BYTE_OF[character] for character in name)
    byte = _BYTE_TOKEN.match(name) if decoder == "ByteFallback" else None
    return bytes([int(byte[1], 16)]) if byte and not added else name.encode("utf-8")


def _byte_table() -> dict[str, int]:
    """GPT-2's spelling of bytes: printable Latin-1 as itself, the others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in printable]
    return {chr(value): value for value in printable} | {chr(256 + n): value for n, value in enumerate(others)}


_BYTE_OF = _byte_table()


def _one_character_each(text: str, encoding: Encoding) -> list[tuple[int, int]]:
    """Offsets in which a run of byte tokens that stands for several characters is shared out among them."""
    offsets = list(encoding.offsets)
    start = 0
    while start < len(offsets):
        end = start
        while end < len(offsets) and offsets[end] == offsets[start] and _BYTE_TOKEN.match(encoding.tokens[end]):
            end += 1
        first, last = offsets[start]
        if end - start > 1 and last - first > 1:
            owners = [n for n in range(first, last) for _ in text[n].encode("utf-8")]
            if len(owners) == end - start:
                offsets[start:end] = [(n, n + 1) for n in owners]
        start = max(end, start + 1)
    return offsets


def _numbered(words: Sequence[int | None]) -> list[int]:
    """Word numbers from 0 in steps of one (an extra symbol starts the library's count anew)."""
    numbers: list[int] = []
    for place, word in enumerate(words):
        same = place > 0 and word is not None and word == words[place - 1]
        numbers.append((numbers[-1] if numbers else -1) + (not same))
    return numbers


def _between_spaces(text: str, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """Word numbers where the pipeline knows no words: a space begins the next one."""
    at = list(accumulate(int(character == " ") for character in text))
    return [at[start] for start, _ in offsets]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]

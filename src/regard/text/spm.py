"""SentencePiece vocabularies with a numbering of their own, as OPUS-Marian folders have them.

source.spm and target.spm divide text into pieces; vocab.json numbers the pieces of both, or of the source's, and then
target_vocab.json those of the target.

The `sentencepiece` library does the work; it is not needed for anything else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.files import parsed, read_plain, write_text
from regard.text.bounds import HOLES
from regard.text.specials import CONFIG, read_config
from regard.text.template import edged_template
from regard.text.tokenizer import LARGEST, Tokenizer, Tokenizers, Tokens

SOURCE, TARGET, VOCABULARY, TARGET_VOCABULARY = "source.spm", "target.spm", "vocab.json", "target_vocab.json"
SPACE = "▁"
ROLES = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>"}


def _library() -> Any:
    try:
        import sentencepiece
    except ImportError:
        raise UserError(
            "this folder's vocabulary (source.spm) needs the sentencepiece library: pip install 'regard[spm]'"
        ) from None
    return sentencepiece


class SpmTokenizer(Tokenizer):
    """The vocabulary of one side. A piece that it has no number for is unknown. A text may begin with the code of the
    language to translate into, such as ">>fra<<", where the vocabulary has such codes; nothing else in a text becomes a
    special symbol. There is no start mark: a model with such a vocabulary starts from the id its configuration names."""

    def __init__(self, model: bytes, numbers: Mapping[str, int], config: Mapping[str, Any] | None, where: Path) -> None:
        self.model, self.numbers, self.dropout = model, dict(numbers), 0.0
        self.config = None if config is None else dict(config)
        self._pieces, self._strips = None, False  # what a Stream asks for
        try:
            self._processor = _library().SentencePieceProcessor(model_proto=model)
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{where}: is not a SentencePiece model ({' '.join(str(error).split())[:100]})") from None
        self._names = {number: piece for piece, number in self.numbers.items()}
        self.vocab_size = max(self._names) + 1
        self.pad, self.unk, self.eos = (self.numbers.get(_symbol(self.config, role)) for role in ROLES)
        self.bos = self.mask = None
        if self.unk is None or self.eos is None:
            lacks = ", ".join(_symbol(self.config, role) for role in ("unk", "eos") if getattr(self, role) is None)
            raise UserError(f"{where.with_name(VOCABULARY)}: has no {lacks}, which every such vocabulary needs")
        self.extra = sorted(piece for piece in self.numbers if piece.startswith(">>") and piece.endswith("<<"))
        self.template = edged_template(None, self.eos)
        self._silent = {number for number in (self.pad, self.unk, self.eos) if number is not None}

    def encode_batch(self, texts: Sequence[str], sample: int | None = None) -> list[list[int]]:
        """Ids of each text, without specials. sample: is not looked at, nothing is left out at random."""
        split = [self._code(text, number) for number, text in enumerate(texts, 1)]
        pieces = self._processor.encode([rest for _, rest in split], out_type=str)
        return [self._ids([*code, *its]) for (code, _), its in zip(split, pieces, strict=True)]

    def encode_marked(self, text: str, names: Collection[str], dropped: str = "") -> list[int]:
        """As `encode`: such a vocabulary has no symbols that stand within a text."""
        return self.encode(text.replace(dropped, "") if dropped else text)

    def tokens(self, text: str) -> Tokens:
        """Ids of `text` with the characters and the word of each. Pieces that one character became share its range."""
        code, rest = self._code(text, 1)
        found = _ranges(self._processor.encode(rest, out_type="serialized_proto"))
        first = len(text) - len(rest)
        at = [first + number for number, character in enumerate(rest) for _ in character.encode("utf-8")] + [len(text)]
        offsets, words, word = [(0, first)] * len(code), [0] * len(code), len(code) - 1
        for piece, start, end in found:
            word += piece.startswith(SPACE) or word < 0
            offsets.append((at[start], at[end]))
            words.append(word)
        return Tokens(self._ids([*code, *(piece for piece, _, _ in found)]), _shared(offsets, len(code)), words)

    def decode(self, ids: Sequence[int], skip_specials: bool = True) -> str:
        """The text of `ids`. skip_specials leaves out pad, end mark and unknown."""
        self._check(ids)
        parts: list[str] = []
        run: list[str] = []
        for number in ids:
            if number not in self._silent:
                run.append(self.piece(number))
            elif not skip_specials:
                parts += [self._processor.decode_pieces(run), self.piece(number), " "]
                run = []
        parts.append(self._processor.decode_pieces(run))
        return "".join(parts).replace(SPACE, " ").strip()

    def normalize(self, text: str) -> str:
        """The text as this vocabulary sees it (SentencePiece's normalisation is in the .spm file)."""
        return self._processor.normalize(text).replace(SPACE, " ").strip()

    def piece(self, number: int) -> str:
        """The symbol with this id as the vocabulary spells it."""
        self._check([number])
        return self._names.get(number, "")

    @property
    def hash(self) -> str:
        """SHA-256 of everything that decides the ids, in hexadecimal."""
        numbers = json.dumps(self.numbers, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(self.model + numbers.encode("utf-8")).hexdigest()

    def save(self, folder: str | Path, name: str = SOURCE) -> Path:
        """Write the pieces of this side; `SpmTokenizers.save` writes their numbers too."""
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.model)
        return path

    def _code(self, text: str, number: int) -> tuple[list[str], str]:
        """The language code that a text begins with, and the rest."""
        if not isinstance(text, str):
            raise TypeError(f"text {number} is {type(text).__name__}, not str")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise UserError(f"text {number} holds half a surrogate pair: it is not valid Unicode")
        end = text.find("<<") if text.startswith(">>") else -1
        return ([], text) if end < 0 else ([text[: end + 2]], text[end + 2 :])

    def _ids(self, pieces: Sequence[str]) -> list[int]:
        unk, specials = self.unk, ROLES.values()
        assert unk is not None
        return [self.numbers.get(piece, unk) if piece not in specials else unk for piece in pieces]


def _ranges(data: bytes) -> list[tuple[str, int, int]]:
    """The pieces of a serialised SentencePieceText (its field 2), each (field 1) with the bytes of the text that it stands
    for (fields 4 and 5): the one form with offsets that every version of the library gives without protobuf."""
    pieces = (dict(_fields(value)) for number, value in _fields(data) if number == 2 and isinstance(value, bytes))
    return [(bytes(piece[1]).decode("utf-8"), int(piece.get(4, 0)), int(piece.get(5, 0))) for piece in pieces]


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The numbers and the bytes in a protobuf message, by the number of their field."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, data[at : at + size]
        at += size


def _shared(offsets: list[tuple[int, int]], first: int) -> list[tuple[int, int]]:
    """Pieces of no width take the range of the next one that has some: together they are one character of the text."""
    for place in range(len(offsets) - 2, first - 1, -1):
        start, end = offsets[place]
        if start == end and offsets[place + 1][0] == start:
            offsets[place] = offsets[place + 1]
    return offsets


def _symbol(config: Mapping[str, Any] | None, role: str) -> str:
    value = (config or {}).get(f"{role}_token") or ROLES[role]
    return value["content"] if isinstance(value, dict) else value


class SpmTokenizers(Tokenizers):
    """The two sides of such a folder."""

    def save(self, folder: str | Path) -> None:
        """Write the files that `open_spm` reads, and tokenizer_config.json as it came or such that AutoTokenizer of
        transformers opens them."""
        folder = Path(folder)
        self.source.save(folder, SOURCE)
        self.target.save(folder, TARGET)
        numbers = [_numbers(side) for side in (self.source, self.target)]
        config: dict[str, Any] = dict(self.source.config or {"tokenizer_class": "MarianTokenizer"})
        if numbers[0] != numbers[1]:
            config["separate_vocabs"] = True
            _write(folder / TARGET_VOCABULARY, numbers[1])
        _write(folder / VOCABULARY, numbers[0])
        _write(folder / CONFIG, config)


def _numbers(side: Tokenizer) -> dict[str, int]:
    return {side.piece(number): number for number in range(side.vocab_size) if side.piece(number)}


def _write(path: Path, document: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def open_spm(folder: str | Path) -> SpmTokenizers:
    """Both sides of a folder. UserError: a file is missing or damaged, or sentencepiece is not installed."""
    folder = Path(folder)
    _library()
    config = read_config(folder)
    separate = bool((config or {}).get("separate_vocabs")) and (folder / TARGET_VOCABULARY).is_file()
    numbers = _read(folder / VOCABULARY)
    others = _read(folder / TARGET_VOCABULARY) if separate else numbers
    return spm_tokenizers(folder, numbers, others, config)


def spm_tokenizers(
    folder: Path, source: Mapping[str, int], target: Mapping[str, int], config: Mapping[str, Any] | None
) -> SpmTokenizers:
    """The .spm files of a folder with these numbers of their pieces."""
    pairs = ((folder / SOURCE, source), (folder / TARGET, target))
    return SpmTokenizers(*(SpmTokenizer(_bytes(path), its, config, path) for path, its in pairs), shared=False)


def _bytes(path: Path) -> bytes:
    try:
        return read_plain(path, LARGEST)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def _read(path: Path) -> dict[str, int]:
    try:
        found = parsed(_bytes(path).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not JSON ({error})") from None
    if not isinstance(found, dict) or not found or not all(type(number) is int for number in found.values()):
        raise UserError(f"{path}: should be an object of pieces with their numbers")
    if min(found.values()) < 0 or max(found.values()) > len(found) + HOLES:
        raise UserError(f"{path}: has {len(found):,} pieces and numbers from {min(found.values())} to {max(found.values())}")
    return found

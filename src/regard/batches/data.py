"""Tokenised corpora: flat arrays of ids, memory-mapped and cached by content."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import zlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.text.corpus import Pair

_FORMAT = "regard-pairs-1"
_PIECE = 10_000
_TYPES = {"U16": np.uint16, "I32": np.int32, "I64": np.int64}
_ARRAYS = ("source", "source_offsets", "target", "target_offsets", "lines")

Arrays = dict[str, np.ndarray]


class Examples(Protocol):
    """A corpus of pairs, perhaps split into subwords anew each epoch. key: identity of its content; lines: Int[N], the
    line of each example in its file; name: what to call it in messages."""

    name: str
    key: str
    lines: np.ndarray

    @property
    def plain(self) -> TokenisedPairs:
        """The corpus without sampling."""
        ...

    def at(self, epoch: int) -> TokenisedPairs:
        """The corpus as it is in an epoch; the same for the same epoch, whenever asked."""
        ...

    def __len__(self) -> int: ...


def _named(*arrays: np.ndarray) -> Arrays:
    return dict(zip(_ARRAYS, arrays, strict=True))


def _flat(ids: Sequence[Sequence[int]], kind: type) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.fromiter((len(one) for one in ids), dtype=np.int64, count=len(ids))
    return np.fromiter(chain.from_iterable(ids), dtype=kind, count=int(lengths.sum())), lengths


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


def _encode(texts: Sequence[str], tokenizer: Any, seed: tuple[int, ...] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Texts -> ids end to end and offsets Int[N + 1], read in pieces so that lists of Python numbers stay few."""
    kind = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.int32
    flat, lengths = [np.zeros(0, dtype=kind)], [np.zeros(0, dtype=np.int64)]
    for at in range(0, len(texts), _PIECE):
        piece = texts[at : at + _PIECE]
        sample = None if seed is None else int(np.random.SeedSequence((*seed, at)).generate_state(1)[0])
        ids, counts = _flat(tokenizer.encode_batch(piece, sample=sample), kind)
        flat.append(ids)
        lengths.append(counts)
    return np.concatenate(flat), _offsets(np.concatenate(lengths))


def content_key(pairs: Sequence[Pair], tokenizers: Any) -> str:
    """sha256 of the texts, their line numbers and both tokenizers: what the cache is found by."""
    found = hashlib.sha256(f"{_FORMAT} {tokenizers.source.hash} {tokenizers.target.hash}\n".encode())
    for pair in pairs:
        source, target = pair.source.encode(), pair.target.encode()
        found.update(b"%d %d %d\n%b%b" % (pair.line, len(source), len(target), source, target))
    return found.hexdigest()


class TokenisedPairs:
    """Pairs of token ids without specials.

    Each side is one flat array (uint16, or int32 for vocabularies above 65,536) and offsets Int64[N + 1]; lines: Int64[N].
    Read from a cache they are memory-mapped, so that many processes share them. source_lengths, target_lengths: Int64[N].
    cut: the lines of examples that lost their ends when they were encoded.
    """

    cut: Sequence[int] = ()

    def __init__(self, arrays: Arrays, key: str, name: str = "corpus", path: Path | None = None) -> None:
        self.source, self.source_offsets, self.target, self.target_offsets, self.lines = (arrays[a] for a in _ARRAYS)
        self.key, self.name, self.path = key, name, path
        self.source_lengths, self.target_lengths = np.diff(self.source_offsets), np.diff(self.target_offsets)

    @classmethod
    def build(
        cls,
        pairs: Sequence[Pair],
        tokenizers: Any,
        cache_dir: str | Path | None = None,
        key: str | None = None,
        name: str = "corpus",
    ) -> TokenisedPairs:
        """Encode pairs, or open what was encoded before from the same texts with the same tokenizers.

        cache_dir: folder of `<key>.safetensors` files, made where missing; None: memory only. key: identity of texts and
        tokenizers where the caller knows one (a hash); None: content_key. A cache file is written aside and renamed, so
        that a broken-off or simultaneous build harms nothing; a damaged one (its checksum is read at every opening) is
        built anew.
        """
        key = content_key(pairs, tokenizers) if key is None else key
        path = None if cache_dir is None else Path(cache_dir) / f"{key}.safetensors"
        if path is not None and (arrays := _opened(path, key)) is not None:
            return cls(arrays, key, name, path)
        source, source_offsets = _encode([pair.source for pair in pairs], tokenizers.source)
        target, target_offsets = _encode([pair.target for pair in pairs], tokenizers.target)
        lines = np.array([pair.line for pair in pairs], dtype=np.int64)
        arrays = _named(source, source_offsets, target, target_offsets, lines)
        if path is not None:
            _written(path, key, arrays)
            arrays = _opened(path, key) or arrays
        return cls(arrays, key, name, path)

    @classmethod
    def from_ids(
        cls,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        lines: Sequence[int] | None = None,
        name: str = "corpus",
    ) -> TokenisedPairs:
        """From ids at hand, without specials. lines: default 1, 2, …; unequal numbers of sides are a ValueError."""
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources and {len(targets)} targets")
        (source, ns), (target, nt) = _flat(sources, np.int32), _flat(targets, np.int32)
        numbers = np.arange(1, len(sources) + 1) if lines is None else np.array(lines, dtype=np.int64)
        arrays = _named(source, _offsets(ns), target, _offsets(nt), numbers)
        key = hashlib.sha256(b"".join(array.tobytes() for array in arrays.values())).hexdigest()
        return cls(arrays, key, name)

    @property
    def arrays(self) -> Arrays:
        """What it is made of, by name."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @property
    def tokens(self) -> tuple[int, int]:
        """How many there are on either side."""
        return len(self.source), len(self.target)

    @property
    def plain(self) -> TokenisedPairs:
        """Itself."""
        return self

    def at(self, epoch: int) -> TokenisedPairs:
        """Itself: the same in every epoch."""
        return self

    def __len__(self) -> int:
        return len(self.lines)

    def pair(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids of example i, without specials; views of the flat arrays, not to be written to."""
        one, two = self.source_offsets, self.target_offsets
        return self.source[one[i] : one[i + 1]], self.target[two[i] : two[i + 1]]


def _seal(key: str, arrays: Arrays) -> dict[str, str]:
    # One entry, for safetensors writes several in a random order, and equal content should make equal files.
    crc = 0
    for name in _ARRAYS:
        array = np.ascontiguousarray(arrays[name])
        crc = zlib.crc32(f"{name} {array.dtype} {array.shape}".encode(), crc)
        crc = zlib.crc32(array.view(np.uint8).data, crc)
    return {"regard": f"{_FORMAT} {key} {crc:08x}"}


def _written(path: Path, key: str, arrays: Arrays) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            save_file(arrays, aside, metadata=_seal(key, arrays))
            with open(aside, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: the tokenised corpus cannot be written: {error}") from error


def _opened(path: Path, key: str) -> Arrays | None:
    """The arrays of a cache file as memory maps; None if it is missing, damaged or of another content."""
    try:
        # A plain array over the map: slices of the memmap class itself cost ten times as much.
        raw = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
        begin = 8 + int(raw[:8].view("<u8")[0])
        header = json.loads(raw[8:begin].tobytes())
        kept = header.pop("__metadata__")
        arrays: Arrays = {}
        for name, told in header.items():
            first, last = told["data_offsets"]
            arrays[name] = raw[begin + first : begin + last].view(_TYPES[told["dtype"]]).reshape(told["shape"])
        return arrays if kept == _seal(key, arrays) else None
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None


def write_shard(path: Path, key: str, arrays: Arrays) -> None:
    """Write the five arrays of a TokenisedPairs, whole or not at all."""
    _written(path, key, arrays)


def read_shard(path: Path, key: str) -> TokenisedPairs:
    """What `write_shard` wrote, memory-mapped. UserError if it is missing, damaged or of another key."""
    arrays = _opened(path, key)
    if arrays is None:
        raise UserError(f"{path}: is missing or damaged; delete its folder, and the corpus is prepared anew")
    return TokenisedPairs(arrays, key, path.name, path)


class ResampledPairs:
    """A corpus that is split into subwords anew each epoch: BPE-dropout (Provilkov et al. 2020), on both sides.

    The texts stay in memory; an epoch's ids are drawn from a seed made of `seed` and the epoch's number alone, so that a
    resumed run sees the same ones. While an epoch is in use the next is encoded in the background (ahead=False: not).
    """

    def __init__(
        self, pairs: Sequence[Pair], tokenizers: Any, seed: int, plain: TokenisedPairs | None = None, ahead: bool = True
    ) -> None:
        self.plain = TokenisedPairs.build(pairs, tokenizers) if plain is None else plain
        if len(self.plain) != len(pairs):
            raise ValueError(f"{len(pairs)} pairs, but {len(self.plain)} in their plain encoding")
        self.name = self.plain.name
        dropped = tokenizers.source.dropout, tokenizers.target.dropout
        self.key = f"{self.plain.key}-sampled-{seed}-{dropped[0]}-{dropped[1]}"
        self.lines = self.plain.lines
        self._texts = [pair.source for pair in pairs], [pair.target for pair in pairs]
        self._tokenizers, self._seed = tokenizers, seed & (1 << 64) - 1
        self._ahead, self._known = ahead, {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="resample")

    def __len__(self) -> int:
        return len(self.plain)

    def at(self, epoch: int) -> TokenisedPairs:
        """The corpus as drawn for an epoch."""
        wanted = (epoch, epoch + 1) if self._ahead else (epoch,)
        known: dict[int, Future[TokenisedPairs]] = {}
        for one in wanted:
            known[one] = self._known.get(one) or self._pool.submit(self._drawn, one)
        self._known = known
        return known[epoch].result()

    def _drawn(self, epoch: int) -> TokenisedPairs:
        arrays: Arrays = {"lines": self.lines}
        sides = ("source", self._tokenizers.source), ("target", self._tokenizers.target)
        for number, (side, tokenizer) in enumerate(sides):
            seed = (self._seed, epoch, number)
            arrays[side], arrays[f"{side}_offsets"] = _encode(self._texts[number], tokenizer, seed)
        return TokenisedPairs(arrays, f"{self.key}-{epoch}", self.name)

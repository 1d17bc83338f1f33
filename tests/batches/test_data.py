from __future__ import annotations

import mmap

import numpy as np
import pytest

import regard.batches.data as data_module
from regard.batches import ResampledPairs, TokenisedPairs
from regard.batches.data import content_key
from regard.errors import UserError
from regard.text.corpus import Pair
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer


def _ids(data):
    return [tuple(side.tolist() for side in data.pair(i)) for i in range(len(data))]


def _plain(words, pairs):
    return [(words.source.encode_batch([pair.source])[0], words.target.encode_batch([pair.target])[0]) for pair in pairs]


@pytest.mark.parametrize("count", [1, 9, 10, 11])
def test_s_data_03_reading_in_pieces_loses_nothing(monkeypatch, words, numbered, count):
    """S-DATA-03: 11 lines with a piece size of 3, also 9 and 10: all come back, in order."""
    monkeypatch.setattr(data_module, "_PIECE", 3)
    pairs = numbered(count)
    data = TokenisedPairs.build(pairs, words)
    assert sum(words.source.calls) == count
    assert max(words.source.calls) <= 3
    assert _ids(data) == _plain(words, pairs)
    assert data.lines.tolist() == list(range(1, count + 1))
    assert data.source_lengths.tolist() == [len(source) for source, _ in _plain(words, pairs)]
    assert data.target_lengths.tolist() == [len(target) for _, target in _plain(words, pairs)]


def test_no_pairs_are_an_empty_corpus(words, tmp_path):
    for _ in range(2):
        data = TokenisedPairs.build([], words, tmp_path)
        assert (len(data), len(data.source), data.source_lengths.tolist()) == (0, 0, [])


def test_ids_take_two_bytes_where_they_fit(words, numbered):
    words.target.vocab_size = 70_000
    data = TokenisedPairs.build(numbered(50), words)
    assert (data.source.dtype, data.target.dtype) == (np.uint16, np.int32)
    assert _ids(data) == _plain(words, numbered(50))


def test_a_cache_is_opened_not_built_and_memory_mapped(words, numbered, tmp_path):
    built = TokenisedPairs.build(numbered(20), words, tmp_path / "new" / "folder")
    words.source.calls.clear()
    opened = TokenisedPairs.build(numbered(20), words, tmp_path / "new" / "folder", name="train")
    assert words.source.calls == []
    assert _ids(opened) == _ids(built) == _plain(words, numbered(20))
    assert opened.name == "train"
    assert [file.name for file in (tmp_path / "new" / "folder").iterdir()] == [f"{opened.key}.safetensors"]
    base = opened.source
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, mmap.mmap)
    assert not opened.source.flags.writeable


def test_the_key_is_of_texts_lines_and_tokenizers(words, numbered):
    line = type(numbered(1)[0])
    key = content_key(numbered(3), words)
    assert key == content_key(numbered(3), words)
    others = [
        content_key(numbered(4), words),
        content_key([line("ab", "c", 1)], words),
        content_key([line("a", "bc", 1)], words),
        content_key([line("ab", "c", 2)], words),
    ]
    words.target.hash = "other"
    others.append(content_key(numbered(3), words))
    assert len({key, *others}) == 6


def test_a_given_key_names_the_cache(words, numbered, tmp_path):
    TokenisedPairs.build(numbered(5), words, tmp_path, key="abc")
    assert (tmp_path / "abc.safetensors").exists()
    assert TokenisedPairs.build(numbered(5), words, tmp_path, key="abc").key == "abc"


@pytest.mark.parametrize("damage", ["empty", "short", "flipped", "other", "text"])
def test_a_damaged_cache_is_built_anew(words, numbered, tmp_path, damage):
    built = TokenisedPairs.build(numbered(20), words, tmp_path)
    raw = bytearray(built.path.read_bytes())
    wanted = _ids(built)
    del built
    path = next(tmp_path.iterdir())
    sound = bytes(raw)
    if damage == "flipped":
        raw[-3] ^= 1
    elif damage == "other":
        raw = bytearray(TokenisedPairs.build(numbered(21), words, tmp_path / "o").path.read_bytes())
    else:
        raw = {"empty": b"", "short": raw[:-40], "text": b"no such format at all"}[damage]
    path.unlink()
    path.write_bytes(raw)
    assert _ids(TokenisedPairs.build(numbered(20), words, tmp_path)) == wanted
    assert path.read_bytes() == sound


def test_no_damaged_byte_goes_unnoticed(words, numbered, tmp_path):
    path = TokenisedPairs.build(numbered(20), words, tmp_path).path
    raw = path.read_bytes()
    key = path.stem
    assert data_module._opened(path, key) is not None
    for at in range(0, len(raw), 3):
        other = tmp_path / f"{at}.safetensors"
        other.write_bytes(raw[:at] + bytes([raw[at] ^ 1 << at % 8]) + raw[at + 1 :])
        assert data_module._opened(other, key) is None, at


def test_a_build_that_breaks_off_leaves_nothing(words, numbered, tmp_path, monkeypatch):
    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(data_module.os, "replace", broken)
    with pytest.raises(UserError, match="No space left"):
        TokenisedPairs.build(numbered(5), words, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_folder_that_is_a_file_is_told(words, numbered, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be written"):
        TokenisedPairs.build(numbered(5), words, tmp_path / "file")


def test_from_ids():
    data = TokenisedPairs.from_ids([[5, 6], []], [[7], [8, 9]], lines=[3, 8], name="toy")
    assert _ids(data) == [([5, 6], [7]), ([], [8, 9])]
    assert (data.lines.tolist(), data.name, data.plain is data, data.at(4) is data) == ([3, 8], "toy", True, True)
    assert data.key != TokenisedPairs.from_ids([[5], [6]], [[7], [8, 9]], lines=[3, 8]).key
    with pytest.raises(ValueError, match="1 sources and 2 targets"):
        TokenisedPairs.from_ids([[5]], [[5], [6]])


@pytest.mark.parametrize("ahead", [True, False])
def test_resampling_depends_on_seed_and_epoch_alone(words, numbered, ahead):
    pairs = numbered(30)
    data = ResampledPairs(pairs, words, seed=5, ahead=ahead)
    epochs = [_ids(data.at(epoch)) for epoch in range(3)]
    assert _ids(data.plain) == _plain(words, pairs)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    assert all(epoch != _ids(data.plain) for epoch in epochs)
    assert _ids(data.at(0)) == epochs[0]
    again = ResampledPairs(pairs, words, seed=5, plain=data.plain, ahead=False)
    assert _ids(again.at(2)) == epochs[2]
    assert again.key == data.key
    other = ResampledPairs(pairs, words, seed=6)
    assert _ids(other.at(0)) != epochs[0]
    words.target.dropout = 0.2
    assert len({data.key, other.key, ResampledPairs(pairs, words, seed=5, plain=data.plain).key}) == 3


def test_resampling_draws_pieces_and_sides_apart(words, numbered, monkeypatch):
    monkeypatch.setattr(data_module, "_PIECE", 1)
    same = type(numbered(1)[0])("one two three four five six seven", "one two three four five six seven", 1)
    drawn = _ids(ResampledPairs([same] * 8, words, seed=1).at(0))
    assert len({str(source) for source, _ in drawn}) > 1
    assert any(source != target for source, target in drawn)


def test_resampling_needs_the_encoding_of_the_same_pairs(words, numbered):
    with pytest.raises(ValueError, match="3 pairs"):
        ResampledPairs(numbered(3), words, seed=1, plain=TokenisedPairs.build(numbered(4), words))


def test_with_the_real_tokenizer(numbered, tmp_path):
    lines = ["the old harbour wakes before the sun", "boats leave the harbour at dawn"] * 5
    tokenizer = train_tokenizer(lines, Plan(kind="bpe", vocab_size=300, dropout=0.5))
    both = Tokenizers(tokenizer, tokenizer, shared=True)
    pairs = [Pair(line, line[::-1], number) for number, line in enumerate(lines, 1)]
    plain = TokenisedPairs.build(pairs, both, tmp_path)
    drawn = [ResampledPairs(pairs, both, 1, plain).at(3) for _ in range(2)]
    assert _ids(drawn[0]) == _ids(drawn[1]) != _ids(plain)
    for data in (plain, drawn[0]):
        texts = [(tokenizer.decode(source), tokenizer.decode(target)) for source, target in _ids(data)]
        assert texts == [(pair.source, pair.target) for pair in pairs]

"""Named data sets, as they lie in a folder and as they are fetched."""

from __future__ import annotations

import gzip
import http.server
import re
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.text.corpus import Pair, PairFiles, open_corpus
from regard.text.named import NAMED, data_root, find, text

CASES = {
    "multi30k": ("en", "cs", (29000, 1014, 1000)),
    "tatoeba-en-fr": ("en", "fr", (156943, 3328, 3443)),
    "tatoeba-en-zh": ("en", "zh", (23263, 528, 513)),
    "pythondocs-fr": ("en", "fr", (20755, 619, 631)),
    "cmudict": ("spelling", "phonemes", (121537, 6783, 6844)),
    "sigmorphon2018": ("german", "german", (10000, 1000, 1000)),
    "sst2": ("text", "label", (6920, 872, 1821)),
    "trec": ("text", "label", (4907, 545, 500)),
    "shakespeare-turns": ("turn", "answer", (6386, 355, 355)),
    "pythondocs-files": ("text", "folder", (290, 66, 66)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_split_has_its_pairs(data_root: Path, name: str) -> None:
    source, target, counts = CASES[name]
    for split, count in zip(("train", "valid", "test"), counts):
        if count < 50_000:
            assert len(open_corpus(find(name, split, source, target, data_root), source, target)) == count


def test_all_names_are_covered() -> None:
    assert {*CASES, "shakespeare", "mnist", "docstrings"} == set(NAMED)


def first(data_root: Path, name: str, source: str, target: str, split: str = "val", **more) -> Pair:
    return open_corpus(find(name, split, source, target, data_root, **more), source, target)[0]


def test_what_pairs_are(data_root: Path) -> None:
    there, back = first(data_root, "tatoeba-en-zh", "en", "zh"), first(data_root, "tatoeba-en-zh", "zh", "en")
    assert (there.source, there.target) == (back.target, back.source)
    assert "CC-BY" not in there.target
    assert re.fullmatch(r"\S+( \S+)? [A-Z.]+(;[A-Z0-9]+)+", first(data_root, "sigmorphon2018", "fr", "french").source)
    assert first(data_root, "sst2", "text", "label").target in "01"
    question = first(data_root, "trec", "text", "fine")
    assert question.source.endswith("?")
    assert question.target.islower()


def test_stress_can_be_left_out(data_root: Path) -> None:
    assert re.search(r"\d", first(data_root, "cmudict", "en", "phonemes").target)
    pairs = open_corpus(find("cmudict", "val", "en", "phonemes", data_root, stress=False), "", "")
    assert not any(re.search(r"\d", pair.target) for pair in pairs)
    assert len({phoneme for pair in pairs for phoneme in pair.target.split(" ")}) == 39


def test_escapes_of_pythondocs_are_undone(data_root: Path, tmp_path: Path) -> None:
    (tmp_path / "pythondocs-fr").mkdir()
    row = "a\\nb\\tc\\\\n\tfine\tx.po\n"
    (tmp_path / "pythondocs-fr" / "en-fr.val.tsv").write_text(row, encoding="utf-8")
    assert first(tmp_path, "pythondocs-fr", "en", "fr") == Pair("a\nb\tc\\n", "fine", 1)
    plain = [first(data_root, "pythondocs-fr", "en", "fr", split) for split in ("train", "val", "test")]
    assert all("\\\\" not in pair.source for pair in plain)


def test_shakespeare_is_running_text(data_root: Path) -> None:
    train, rest, whole = (text("shakespeare", split, data_root) for split in ("train", "val", "all"))
    assert (len(train), len(rest)) == (1003854, 111540)
    assert train + rest == whole
    with pytest.raises(UserError, match="no running text"):
        text("multi30k", "train", data_root)


def test_mnist_is_two_files(data_root: Path) -> None:
    found = find("mnist", "test", "images", "labels", data_root)
    assert isinstance(found, PairFiles)
    assert found.source.endswith("t10k-images-idx3-ubyte.gz")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("wmt", "train", "en", "fr"), "data.name='wmt' is not a named data set; known: multi30k, tatoeba-en-fr"),
        (("multi30k", "test2017", "en", "fr"), "multi30k has no split 'test2017'; it has train, val, test"),
        (("multi30k", "train", "en", "it"), "multi30k has no 'it'; source and target are among en, fr, de, cs"),
        (("sigmorphon2018", "train", "french", "german"), "must be equal"),
    ],
)
def test_unknown_names_are_refused(tmp_path: Path, arguments: tuple, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        find(*arguments, root=tmp_path)


def test_the_folder_is_the_argument_or_regard_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    assert data_root() == tmp_path
    with pytest.raises(UserError, match=r"tatoeba/eng-fra\.val\.tsv\.gz: no such file; tatoeba-en-fr is read from"):
        find("tatoeba-en-fr", "val", "en", "fr")
    with pytest.raises(UserError, match="nowhere: no such folder"):
        data_root(tmp_path / "nowhere")
    monkeypatch.delenv("REGARD_DATA")
    assert data_root() is None
    with pytest.raises(UserError, match="REGARD_DATA is not set; sst2 is read from"):
        find("sst2", "val", "text", "label")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A server of the folder `mirror`, an empty cache, and no data folder."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setenv("REGARD_ORIGIN", f"http://127.0.0.1:{server.server_address[1]}")
        monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
        monkeypatch.delenv("REGARD_DATA", raising=False)
        yield folder
        server.shutdown()
        thread.join()


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_multi30k_is_fetched(data_root: Path, mirror: Path) -> None:
    there = mirror / "multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
    for side in ("en", "fr"):
        name = f"test_2016_flickr.{side}.gz"
        put(there / name, (data_root / "multi30k" / name).read_bytes())
    pairs = open_corpus(find("multi30k", "test", "en", "fr"), "en", "fr")
    assert pairs == open_corpus(find("multi30k", "test", "en", "fr", data_root), "en", "fr")
    put(there / "val.en.gz", b"something else")
    with pytest.raises(UserError, match=r"val\.en\.gz: has sha256"):
        find("multi30k", "val", "en", "fr")


def test_cmudict_is_fetched_and_split(data_root: Path, mirror: Path) -> None:
    content = gzip.decompress((data_root / "cmudict" / "cmudict.dict.gz").read_bytes())
    put(mirror / "cmusphinx/cmudict/0f8072f814306c5ee4fbf992ed853601b12c01f9/cmudict.dict", content)
    for split in ("val", "test", "train"):
        made = find("cmudict", split, "en", "phonemes")
        given = find("cmudict", split, "en", "phonemes", data_root)
        assert Path(made.path).read_bytes() == gzip.decompress(Path(given.path).read_bytes())


def test_shakespeare_is_fetched(data_root: Path, mirror: Path) -> None:
    content = gzip.decompress((data_root / "shakespeare" / "input.txt.gz").read_bytes())
    place = "karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/input.txt"
    put(mirror / place, content)
    assert text("shakespeare", "all").encode() == content

"""Named data sets: what they are, where they lie and where they come from."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from regard.errors import UserError
from regard.files import write_bytes
from regard.text.corpus import PairFiles, Table
from regard.text.download import cache_root, fetch
from regard.text.lines import read_lines
from regard.text.made import docstrings, long_documents, turns

_STRESS = re.compile(r"(?<=[A-Z])[012](?=\s|$)")

Place = Callable[[str], Path]
"""From a file's path inside the data folder, as "multi30k/train.en.gz", to where it lies on this machine."""


@dataclass(frozen=True)
class Named:
    """A named data set. `sides`: what can be source or target; `splits`: by their own names; `licence`: as stated at the
    origin; `fetched`: it is fetched from its origin when no folder has it."""

    what: str
    sides: tuple[str, ...]
    splits: tuple[str, ...]
    licence: str
    fetched: bool
    open: Callable[[Place, str, str, str], PairFiles | Table | str]


def data_root(override: str | Path | None = None) -> Path | None:
    """The folder of data sets: `override`, or the one that REGARD_DATA names; None where neither is given. UserError if it
    does not exist."""
    told = override or os.environ.get("REGARD_DATA")
    if not told:
        return None
    root = Path(told).expanduser()
    if not root.is_dir():
        raise UserError(f"{root}: no such folder ({'data.root' if override else 'REGARD_DATA'} names it)")
    return root


def find(
    name: str, split: str, source: str, target: str, root: str | Path | None = None, stress: bool = True
) -> PairFiles | Table | str:
    """Where a split of a named data set lies, for `open_corpus`. `split`: train, val (valid, validation, dev) or test. Read
    from `root` or REGARD_DATA; multi30k, cmudict and shakespeare are fetched where neither has them. `stress=False` removes
    the digits of stress from phonemes. UserError for an unknown name, split or side, and for data that is not there."""
    if name not in NAMED:
        raise UserError(f"data.name={name!r} is not a named data set; known: {', '.join(NAMED)}")
    named = NAMED[name]
    split = "val" if split in ("valid", "validation", "dev") else split
    if split not in named.splits:
        raise UserError(f"{name} has no split {split!r}; it has {', '.join(named.splits)}")
    source, target = (_SIDES.get(name, {}).get(side, side) for side in (source, target))
    for side in (source, target):
        if side not in named.sides:
            raise UserError(f"{name} has no {side!r}; source and target are among {', '.join(named.sides)}")
    folder = data_root(root)
    found = named.open(lambda path: _place(path, folder, name), split, source, target)
    if name == "cmudict" and not stress and isinstance(found, Table):
        return Table(found.path, found.source, found.target, edit=_without_stress)
    return found


def text(name: str, split: str, root: str | Path | None = None) -> str:
    """All text of a data set for language modelling (shakespeare): the first 90 % of its characters as "train", the rest as
    "val", everything as "all"."""
    if name != "shakespeare" or split not in ("train", "val", "valid", "all"):
        raise UserError(f"{name} has no running text of split {split!r}; shakespeare has train, val and all")
    path = Path(str(find(name, "all", "text", "text", root)))
    whole = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode("utf-8")
    cut = len(whole) * 9 // 10
    return {"train": whole[:cut], "all": whole}.get(split, whole[cut:])


def _place(path: str, folder: Path | None, name: str) -> Path:
    """A file in `folder`, packed or not; else in the cache, fetched if it can be."""
    for base in ([folder] if folder else []) + [cache_root()]:
        for candidate in (base / path, base / path.removesuffix(".gz")):
            if candidate.is_file():
                return candidate
    if not NAMED[name].fetched:
        where = f"{folder / path}: no such file" if folder else "REGARD_DATA is not set"
        raise UserError(f"{where}; {name} is read from the folder that REGARD_DATA or data.root names")
    if name == "cmudict":
        return _made_cmudict(path)
    if path not in _FETCHED:
        raise UserError(f"{name} has no file {path}")
    origin, sha256 = _FETCHED[path]
    return fetch(origin, sha256, cache_root() / (path if origin.endswith(".gz") else path.removesuffix(".gz")))


def _multi30k(place: Place, split: str, source: str, target: str) -> PairFiles:
    stem = "multi30k/" + {"test": "test_2016_flickr"}.get(split, split)
    return PairFiles(*(str(place(f"{stem}.{side}.gz")) for side in (source, target)))


def _tatoeba(second: str, columns: tuple[str, str]) -> Callable[[Place, str, str, str], Table]:
    def open_table(place: Place, split: str, source: str, target: str) -> Table:
        path = str(place(f"tatoeba/eng-{second}.{split}.tsv.gz"))
        return Table(path, columns.index(source) + 1, columns.index(target) + 1)

    return open_table


def _cmudict(place: Place, split: str, source: str, target: str) -> Table:
    columns = ("spelling", "phonemes")
    return Table(str(place(f"cmudict/g2p.{split}.tsv.gz")), columns.index(source) + 1, columns.index(target) + 1)


def _sigmorphon(place: Place, split: str, source: str, target: str) -> Table:
    if source != target:
        raise UserError(f"sigmorphon2018 inflects within one language: source={source} and target={target} must be equal")
    return Table(str(place(f"sigmorphon2018/{source}.{split}.tsv.gz")), edit=_with_features)


def _pythondocs(place: Place, split: str, source: str, target: str) -> Table:
    columns = ("en", "fr")
    path = str(place(f"pythondocs-fr/en-fr.{split}.tsv.gz"))
    return Table(path, columns.index(source) + 1, columns.index(target) + 1, edit=_unescaped)


def _classes(folder: str, columns: tuple[str, ...]) -> Callable[[Place, str, str, str], Table]:
    def open_table(place: Place, split: str, source: str, target: str) -> Table:
        return Table(str(place(f"{folder}/{folder}.{split}.tsv.gz")), columns.index(source) + 1, columns.index(target) + 1)

    return open_table


def _shakespeare(place: Place, split: str, source: str, target: str) -> str:
    return str(place("shakespeare/input.txt.gz"))


def _mnist(place: Place, split: str, source: str, target: str) -> PairFiles:
    names = {"images": "images-idx3-ubyte.gz", "labels": "labels-idx1-ubyte.gz"}
    stem = {"train": "train", "test": "t10k"}[split]
    return PairFiles(*(str(place(f"mnist/{stem}-{names[side]}")) for side in (source, target)))


def _turns(place: Place, split: str, source: str, target: str) -> str:
    return turns(place("shakespeare/input.txt.gz"), split)


def _long_documents(place: Place, split: str, source: str, target: str) -> str:
    return long_documents([place(f"pythondocs-fr/en-fr.{part}.tsv.gz") for part in _THREE], split)


def _docstrings(place: Place, split: str, source: str, target: str) -> str:
    return docstrings(split)


def _with_features(lemma: str, form: str, cells: list[str]) -> tuple[str, str]:
    return f"{lemma} {cells[2]}", form


def _unescaped(source: str, target: str, cells: list[str]) -> tuple[str, str]:
    return _unescape(source), _unescape(target)


def _unescape(text: str) -> str:
    parts = text.split("\\\\")
    return "\\".join(part.replace("\\n", "\n").replace("\\t", "\t") for part in parts)


def _without_stress(source: str, target: str, cells: list[str]) -> tuple[str, str]:
    return _STRESS.sub("", source), _STRESS.sub("", target)


def _made_cmudict(path: str) -> Path:
    """The splits of the dictionary: without comments and marks of variants, no pair twice, a word's split by its SHA-256
    (of 100 parts 5 val, 5 test). Each split is checked against its known sum before it is written."""
    origin, sha256 = _CMUDICT
    dictionary = fetch(origin, sha256, cache_root() / "cmudict" / "cmudict.dict")
    splits: dict[str, dict[str, None]] = {"train": {}, "val": {}, "test": {}}
    for line in read_lines(dictionary):
        word, _, phonemes = line.partition(" #")[0].strip().partition(" ")
        word = word.partition("(")[0]
        part = int(hashlib.sha256(word.encode("utf-8")).hexdigest()[:8], 16) % 100
        splits["val" if part < 5 else "test" if part < 10 else "train"][f"{word}\t{phonemes}\n"] = None
    for split, rows in splits.items():
        content = "".join(rows).encode("utf-8")
        if hashlib.sha256(content).hexdigest() != _CMUDICT_SPLITS[split]:
            raise UserError(f"{dictionary}: does not give the known {split} split; delete it and run again")
        write_bytes(cache_root() / "cmudict" / f"g2p.{split}.tsv", content)
    return cache_root() / path.removesuffix(".gz")


_CMUDICT = (
    "cmusphinx/cmudict/0f8072f814306c5ee4fbf992ed853601b12c01f9/cmudict.dict",
    "81917843c7f44ce2b094ac63873c2c7a4cf802040792c455ba3ca406891c3d22",
)
_CMUDICT_SPLITS = {
    "train": "ab240daeb5daa6941616b385030ca4e8ff2149155b2d81139f195d263ac735ed",
    "val": "f8aac4352591036c7c29ec510003dbf33eef2a6827ec8bdf1115fb0f01bec9d2",
    "test": "9d3ba958fff78f9d4de722cb00ae07a69aedb59449b8ebae886fd4a0a3cad5af",
}
_MULTI30K = "multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
_SUMS = {
    "test_2016_flickr.cs.gz": "200a4a74cc9560f051924abb9803be008d1908d77f747e9141aeb86dfd2797f1",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
    "train.cs.gz": "a65adb8b32e3bc664f21ecba7a6e7f6950fd1f405e135f7c312faabdb6255077",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.cs.gz": "b63226e05c4bd5dd6a42897d74b86a1b9d2c31498252c572b1ea7f7996927fcc",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
}
_FETCHED = {f"multi30k/{name}": (_MULTI30K + name, sha256) for name, sha256 in _SUMS.items()} | {
    "shakespeare/input.txt.gz": (
        "karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/input.txt",
        "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    )
}

_SIDES: dict[str, dict[str, str]] = {
    "cmudict": {"en": "spelling", "source": "spelling", "target": "phonemes"},
    "sigmorphon2018": {"fr": "french", "de": "german"},
    "tatoeba-en-zh": {"cmn": "zh"},
}
_THREE = ("train", "val", "test")
NAMED: dict[str, Named] = {
    "multi30k": Named(
        "29,000 image captions in four languages",
        ("en", "fr", "de", "cs"),
        _THREE,
        "no licence file; non-commercial research and educational purposes",
        True,
        _multi30k,
    ),
    "tatoeba-en-fr": Named(
        "157,000 everyday sentences", ("en", "fr"), _THREE, "CC BY 2.0 (France)", False, _tatoeba("fra", ("en", "fr"))
    ),
    "tatoeba-en-zh": Named(
        "23,000 everyday sentences", ("en", "zh"), _THREE, "CC BY 2.0 (France)", False, _tatoeba("cmn", ("en", "zh"))
    ),
    "pythondocs-fr": Named(
        "21,000 technical paragraphs, some long",
        ("en", "fr"),
        _THREE,
        "translations CC0; English text: Python documentation (PSF)",
        False,
        _pythondocs,
    ),
    "cmudict": Named(
        "122,000 English words with their phonemes",
        ("spelling", "phonemes"),
        _THREE,
        "BSD 2-clause style (CMU)",
        True,
        _cmudict,
    ),
    "sigmorphon2018": Named(
        "10,000 inflected forms a language: lemma and features to form (source and target: the language)",
        ("french", "german"),
        _THREE,
        "none stated; UniMorph, its source, is CC BY-SA 3.0",
        False,
        _sigmorphon,
    ),
    "shakespeare": Named(
        "1.1 million characters of plays, for language modelling",
        ("text",),
        ("all",),
        "repository MIT; text in the public domain",
        True,
        _shakespeare,
    ),
    "shakespeare-turns": Named(
        "7,000 turns of dialogue: what is said and who is next, and what that one says",
        ("turn", "answer"),
        _THREE,
        "repository MIT; text in the public domain",
        True,
        _turns,
    ),
    "pythondocs-files": Named(
        "420 pages of documentation with the folder they lie in; a quarter has more than 1,000 words",
        ("text", "folder"),
        _THREE,
        "Python documentation (PSF)",
        False,
        _long_documents,
    ),
    "docstrings": Named(
        "docstrings of the installed Python and its packages: what follows the first line, and that line",
        ("body", "summary"),
        _THREE,
        "those of the packages",
        True,
        _docstrings,
    ),
    "sst2": Named(
        "6,920 film reviews of one sentence, good (1) or bad (0)",
        ("text", "label"),
        _THREE,
        "repository MIT; none stated for the data",
        False,
        _classes("sst2", ("label", "text")),
    ),
    "trec": Named(
        "4,907 questions by what they ask for: 6 classes (label), 50 finer ones (fine)",
        ("text", "label", "fine"),
        _THREE,
        "repository MIT; none stated for the data",
        False,
        _classes("trec", ("label", "fine", "text")),
    ),
    "mnist": Named(
        "70,000 images of digits (idx files)",
        ("images", "labels"),
        ("train", "test"),
        "repository MIT; none stated for the images",
        False,
        _mnist,
    ),
}

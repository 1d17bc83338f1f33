"""What a model can do, and what may be asked of it."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regard.errors import UserError
from regard.serving.generating import Prompt
from regard.serving.limits import Limits
from regard.serving.served import Served, Source, Wish, open_models


def test_a_model_can_do_what_it_has_a_method_for(models: list[Served]) -> None:
    assert [served.verbs for served in models] == [("translate",), ("generate",), ("embed",), ("classify",)]
    assert [served.chats for served in models] == [False, True, False, False]
    assert (models[0].source, models[0].target, models[1].source) == ("en", "fr", None)
    with pytest.raises(UserError, match="odd: this model can do none of translate, generate"):
        Served("odd", SimpleNamespace(meta={}))


def test_sizes_are_tokens(models: list[Served]) -> None:
    ids = models[0].loaded.tokenizer.encode("A dog runs .")
    assert models[0].sizes("translate", [Source("A dog runs ."), Source("")]) == [len(ids) + 1, 1]
    assert models[1].sizes("generate", [Prompt("A dog runs .", 4)]) == [len(models[1].loaded.prompt_ids("A dog runs ."))]
    assert models[2].fits("A dog runs .")
    assert not models[2].fits("A dog runs in the park . " * 20)


@pytest.mark.parametrize("value", [10_000, -1, 0, "abc", True, 2.5])
@pytest.mark.parametrize("name", ["num_beams", "num_return", "max_length"])
def test_wishes_have_bounds_s_serve_04(models: list[Served], name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"{name} must be a whole number from 1 to"):
        models[0].wish("translate", Limits(), **{name: value})


def test_wishes_are_values(models: list[Served]) -> None:
    wish = models[0].wish("translate", Limits(), num_beams=3, length_penalty=None)
    assert wish == Wish("translate", (("num_beams", 3),))
    assert hash(wish) == hash(models[0].wish("translate", Limits(), num_beams=3))
    assert not wish.alone
    assert models[0].wish("translate", Limits(), sample=True).alone
    assert models[1].wish("generate", Limits(), num_beams=2).alone
    assert not models[1].wish("generate", Limits(), sample=True).alone
    with pytest.raises(UserError, match="top_p must be a number from 0 to 1"):
        models[0].wish("translate", Limits(), top_p=7)


def test_models_are_opened_by_name_and_once_each_s_serve_01(
    tmp_path: Path, translator: Any, caplog: pytest.LogCaptureFixture
) -> None:
    translator.save(tmp_path / "one")
    with caplog.at_level("INFO", logger="regard.serving"):
        found = open_models([str(tmp_path / "one"), f"twin={tmp_path / 'one'}"], "cpu")
    assert [served.name for served in found] == ["one", "twin"]
    assert found[0].loaded is found[1].loaded
    assert caplog.text.count("loaded ") == 1
    assert (found[0].source, found[0].target) == ("en", "fr")
    bare = type(translator)(translator.model, translator.tokenizers, translator.search, {})
    bare.save(tmp_path / "bare")
    [named, other] = open_models([f"de-en={tmp_path / 'bare'}", f"my-model={tmp_path / 'bare'}"], "cpu")
    assert (named.source, named.target, other.source) == ("de", "en", None)


def test_folders_joined_by_a_plus_are_an_ensemble(tmp_path: Path, translator: Any) -> None:
    for name in ("one", "two", "odd+name"):
        translator.save(tmp_path / name)
    both, odd = open_models([f"{tmp_path / 'one'}+{tmp_path / 'two'}", f"x={tmp_path / 'odd+name'}"], "cpu")
    assert (both.name, both.source, odd.name) == ("one+two", "en", "x")
    texts = ["a dog", "the cat sees"]
    assert len(both.loaded.members) == 2
    assert both.loaded.translate(texts) == odd.loaded.translate(texts) == translator.translate(texts)


def test_models_in_compiled_code(tmp_path: Path, translator: Any) -> None:
    pytest.importorskip("numba")
    for name in ("one", "two"):
        translator.save(tmp_path / name)
    [served] = open_models([str(tmp_path / "one")], "cpu", None, "compiled")
    assert served.loaded.model.compiled is not None
    texts = ["a dog", "the cat sees"]
    assert served.loaded.translate(texts) == translator.translate(texts)
    with pytest.raises(UserError, match="engine compiled: serves Transformers"):
        open_models([f"{tmp_path / 'one'}+{tmp_path / 'two'}"], "cpu", None, "compiled")
    with pytest.raises(UserError, match="engine gpu: is not known; known: regard, compiled"):
        open_models([str(tmp_path / "one")], "cpu", None, "gpu")


def archives(folder: Path) -> list[Path]:
    """Archives whose members lead outside."""
    with zipfile.ZipFile(folder / "model.zip", "w") as file:
        file.writestr("../evil.txt", "x")
        file.writestr("/tmp/evil.txt", "x")
    with tarfile.open(folder / "model.tar.gz", "w:gz") as file:
        for name in ("../evil.txt", "/tmp/evil.txt"):
            file.addfile(tarfile.TarInfo(name), io.BytesIO())
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "../.."
        file.addfile(link)
    return [folder / "model.zip", folder / "model.tar.gz"]


def test_archives_are_refused_and_nothing_is_unpacked_s_serve_07(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    for path in archives(inner):
        with pytest.raises(UserError, match=r"is a file; a model is a folder"):
            open_models([str(path)])
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["inner", "model.tar.gz", "model.zip"]

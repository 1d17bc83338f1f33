"""Folders in other number types, shards and files; which of them load, and which are refused."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from regard.checkpoints.folders import load_model, named_tensors, save_model
from regard.checkpoints.resave import read_pickles, resave
from regard.errors import UserError
from regard.models import transformer

SIZES = {"vocab_size": 23, "num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 4}


def make(**arguments):
    torch.manual_seed(1)
    return transformer.describe(**SIZES, **arguments).build().eval()


def answer(model):
    with torch.no_grad():
        return model(torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]]), torch.tensor([[2, 9, 9], [2, 4, 0]])).logits


def spelt(folder, dtype="float32", sharded=False, pickled=False):
    """A folder as transformers, or an old version of it, would have written it."""
    transformers = pytest.importorskip("transformers")
    save_model(folder / "first", make(), meta={"ids": {"bos": 2, "eos": 3}})
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder / "first", dtype=getattr(torch, dtype))
    theirs.save_pretrained(folder / "made", max_shard_size="10KB" if sharded else "1GB")
    if pickled:
        tensors = theirs.state_dict()
        names = [f"pytorch_model-0000{n}-of-00002.bin" for n in (1, 2)] if sharded else ["pytorch_model.bin"]
        where = {name: names[number % len(names)] for number, name in enumerate(tensors)}
        for file in names:
            torch.save({name: tensor for name, tensor in tensors.items() if where[name] == file}, folder / "made" / file)
        if sharded:
            index = json.dumps({"weight_map": where})
            (folder / "made" / "pytorch_model.bin.index.json").write_text(index, encoding="utf-8")
        for file in (folder / "made").glob("model*"):
            file.unlink()
    return folder / "made"


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_half_precision_and_shards_load(tmp_path, dtype, sharded):
    """As stored, and in another number type; derived tables in half precision are understood."""
    folder = spelt(tmp_path, dtype, sharded)
    assert len(list(folder.glob("*.safetensors"))) == 1 or sharded
    model, _, _ = load_model(folder)
    assert {t.dtype for t in named_tensors(model).values()} == {getattr(torch, dtype)}
    wide, _, _ = load_model(folder, dtype="float32")
    close = 0.05 if dtype != "float64" else 1e-6
    assert (answer(wide) - answer(make())).abs().max() < close
    assert all(t.float().equal(named_tensors(wide)[name]) for name, t in named_tensors(model).items())


@pytest.mark.parametrize("sharded", [False, True])
def test_pickles_load_behind_an_option_alone(tmp_path, sharded):
    """A .bin-only folder is refused in words; with the option its tensors come out, and nothing else is opened."""
    folder = spelt(tmp_path, sharded=sharded, pickled=True)
    with pytest.raises(UserError, match="allow-pickle") as error:
        resave(folder, tmp_path / "new")
    assert "is not opened, because such files can run code" in str(error.value)
    assert not (tmp_path / "new").exists()
    resave(folder, tmp_path / "new", allow_pickle=True)
    assert torch.equal(answer(load_model(tmp_path / "new")[0]), answer(make()))
    assert not [file for file in (tmp_path / "new").iterdir() if ".bin" in file.name]


class Trap:
    """What a pickle does when it is opened carelessly."""

    def __reduce__(self):
        return (open, ("/dev/null",))


def test_pickles_with_more_than_tensors_are_refused(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    for content in (Trap(), {"weight": Trap()}):
        torch.save(content, path)
        with pytest.raises(UserError, match="holds more than tensors, which is never opened"):
            read_pickles(tmp_path)
    torch.save({"epoch": 3}, path)
    with pytest.raises(UserError, match="should hold tensors by name"):
        read_pickles(tmp_path)
    path.write_bytes(b"nonsense")
    with pytest.raises(UserError, match="damaged"):
        read_pickles(tmp_path)
    path.unlink()
    with pytest.raises(UserError, match=r"there is no pytorch_model\.bin"):
        read_pickles(tmp_path)


def test_errors_in_pickles_name_the_folder_itself(tmp_path):
    folder = spelt(tmp_path, pickled=True)
    tensors = torch.load(folder / "pytorch_model.bin", weights_only=True)
    del tensors["model.encoder.layers.0.fc1.bias"]
    torch.save(tensors, folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"missing: model\.encoder\.layers\.0\.fc1\.bias") as error:
        resave(folder, tmp_path / "new", allow_pickle=True)
    assert str(error.value).startswith(str(folder))


@pytest.mark.parametrize("arguments", [{}, {"gated": True}])
def test_between_spellings(tmp_path, arguments):
    """Number type and shards change, all other files stay as they are, the certificate of other weights goes."""
    save_model(tmp_path / "a", make(**arguments), meta={"ids": {"bos": 2, "eos": 3}, "source": "en", "target": "fr"})
    for name in ("tokenizer.json", "merges.txt", "verify.json"):
        (tmp_path / "a" / name).write_text(name, encoding="utf-8")
    (tmp_path / "a" / "README.md").write_text("mine", encoding="utf-8")
    meta = resave(tmp_path / "a", tmp_path / "b", "bfloat16", shard_bytes=4_000)
    assert (meta["source"], meta["target"]) == ("en", "fr")
    assert len(list((tmp_path / "b").glob("*.safetensors"))) > 2
    model, description, told = load_model(tmp_path / "b")
    assert description == make(**arguments).description
    assert told["source"] == "en"
    old = named_tensors(make(**arguments))
    assert all(t.equal(old[name].bfloat16()) for name, t in named_tensors(model).items())
    kept = {name: (tmp_path / "b" / name).read_text(encoding="utf-8") for name in ("tokenizer.json", "merges.txt")}
    assert kept == {"tokenizer.json": "tokenizer.json", "merges.txt": "merges.txt"}
    assert (tmp_path / "b" / "README.md").read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "b" / "verify.json").exists()
    resave(tmp_path / "b", tmp_path / "c", "float32")
    assert torch.equal(answer(load_model(tmp_path / "c")[0]), answer(model.float()))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b", "c"]


def test_what_is_there_stays(tmp_path):
    save_model(tmp_path / "a", make())
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(UserError, match="is not empty"):
        resave(tmp_path / "a", tmp_path / "b")
    with pytest.raises(UserError, match="dtype 'float8'"):
        resave(tmp_path / "a", tmp_path / "c", "float8")
    assert not (tmp_path / "c").exists()


def test_ckpt_08_a_folder_that_does_not_fit_ends_with_2(tmp_path, capsys):
    """S-CKPT-08: a renamed, a removed and a misshapen tensor refuse the folder with their names; nothing stays random."""
    from safetensors.torch import load_file, save_file

    from regard.cli import main

    save_model(tmp_path / "a", make())
    tensors = load_file(tmp_path / "a" / "model.safetensors")
    tensors["model.encoder.layers.0.fc3.bias"] = tensors.pop("model.encoder.layers.0.fc1.bias")
    del tensors["model.decoder.layers.1.fc2.weight"]
    tensors["model.decoder.layers.0.fc1.bias"] = torch.zeros(5)
    save_file(tensors, tmp_path / "a" / "model.safetensors", metadata={"format": "pt"})
    assert main(["convert", str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    said = capsys.readouterr().err
    assert "missing: model.decoder.layers.1.fc2.weight, model.encoder.layers.0.fc1.bias" in said
    assert "unexpected: model.encoder.layers.0.fc3.bias" in said
    assert "misshapen: model.decoder.layers.0.fc1.bias (5, should be 32)" in said
    assert not (tmp_path / "b").exists()

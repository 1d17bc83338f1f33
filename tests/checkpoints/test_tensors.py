"""Tensors on disk."""

from __future__ import annotations

import json

import pytest
import torch

from regard.checkpoints.folders import load_model, save_model
from regard.checkpoints.tensors import TensorFiles, read_json, write_tensors
from regard.errors import UserError
from regard.models import transformer


def make(**arguments):
    torch.manual_seed(1)
    sizes = {"vocab_size": 23, "num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 4}
    return transformer.describe(**sizes, **arguments).build().eval()


def answer(model):
    with torch.no_grad():
        return model(torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]]), torch.tensor([[2, 9, 9], [2, 4, 0]])).logits


@pytest.mark.parametrize("arguments", [{}, {"gated": True}])
def test_shards_with_an_index(tmp_path, arguments):
    """Several files with an index, by transformers' names; one file again leaves no old ones, and foreign files stay."""
    model = make(**arguments)
    save_model(tmp_path, model, shard_bytes=6_000)
    shards = sorted(f.name for f in tmp_path.glob("model-0*.safetensors"))
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text(encoding="utf-8"))
    assert len(shards) > 2
    assert set(index["weight_map"].values()) == set(shards)
    assert not (tmp_path / "model.safetensors").exists()
    assert torch.equal(answer(load_model(tmp_path)[0]), answer(model))
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    save_model(tmp_path, model)
    assert not list(tmp_path.glob("model-0*"))
    assert not (tmp_path / "model.safetensors.index.json").exists()
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert torch.equal(answer(load_model(tmp_path)[0]), answer(model))
    save_model(tmp_path, model, shard_bytes=6_000)
    (tmp_path / shards[1]).unlink()
    with pytest.raises(UserError, match=f"names {shards[1]}, which is missing"):
        load_model(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(index.read_text(encoding="utf-8").replace(shards[1], "a" * 300 + ".safetensors"), encoding="utf-8")
    with pytest.raises(UserError, match="File name too long"):
        load_model(tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_transformers_reads_the_shards(tmp_path):
    transformers = pytest.importorskip("transformers")
    model = make()
    save_model(tmp_path, model, shard_bytes=6_000)
    its = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    ids, outputs = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 9, 9]])
    with torch.no_grad():
        assert (its(input_ids=ids, decoder_input_ids=outputs).logits - model(ids, outputs).logits).abs().max() < 1e-5


def test_views_are_stored_whole(tmp_path):
    """Slices of one tensor, turned ones among them, come back as they were."""
    whole = torch.arange(24.0).view(6, 4)
    tensors = {"a": whole[:2], "b": whole[2:], "c": whole.T, "d": torch.tensor(3.0)}
    assert write_tensors(tmp_path, tensors) == ["model.safetensors"]
    files = TensorFiles(tmp_path)
    assert files.shapes == {"a": (2, 4), "b": (4, 4), "c": (4, 6), "d": ()}
    assert all(files.read(name).equal(tensor) for name, tensor in tensors.items())


def test_tensors_are_aligned(tmp_path):
    """Products of a tensor that lies askew in memory differ in their last bits from those of the one that was saved."""
    write_tensors(tmp_path, {"a": torch.zeros(3, dtype=torch.uint8), "b": torch.randn(5, 5), "c": torch.randn(7)})
    files = TensorFiles(tmp_path)
    assert all(files.read(name).data_ptr() % 16 == 0 for name in files.shapes)


def test_json_is_read_strictly(tmp_path):
    path = tmp_path / "config.json"
    for content, message in (
        (b'{"a": 1}\n}', "config.json:2: not JSON"),
        (b'"a"', "should hold one JSON object, has str"),
        (b'{"\xff": 1}', "not UTF-8 at byte 2"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=message):
            read_json(path)
    path.unlink()
    with pytest.raises(UserError, match=r"there is no config\.json in this folder"):
        read_json(path)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.ckpt", "weights.pkl"])
def test_pickles_are_never_opened(tmp_path, name):
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'touch opened'\ntR.")
    with pytest.raises(UserError, match=f"{name} is not opened, because such files can run code"):
        TensorFiles(tmp_path)


def test_a_tensor_that_stands_in_two_files_is_refused(tmp_path):
    """Which of the two is meant would be decided by the names of the files."""
    write_tensors(tmp_path, {name: torch.ones(500) for name in "abc"}, 2_000)
    shards = sorted(tmp_path.glob("model-0*"))
    shards[1].write_bytes(shards[0].read_bytes())
    with pytest.raises(UserError, match="holds a, and so does a file before it"):
        TensorFiles(tmp_path)

"""Model folders: written whole, read strictly."""

from __future__ import annotations

import errno
import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from regard import models
from regard.checkpoints import folders
from regard.checkpoints.folders import load_model, load_weights, locate, named_tensors, save_model, unwrap
from regard.errors import UserError

SIZES = {"vocab_size": 23, "num_layers": 2, "d_model": 16}
TRANSFORMER = SIZES | {"d_ff": 32, "num_heads": 4}
KINDS = {
    "post": ("transformer", TRANSFORMER),
    "pre": ("transformer", TRANSFORMER | {"placement": "pre"}),
    "gated": ("transformer", TRANSFORMER | {"gated": True}),
    "learned": ("transformer", TRANSFORMER | {"positions": "learned", "max_positions": 32, "target_vocab_size": 19}),
    "untied": ("transformer", TRANSFORMER | {"target_vocab_size": 19, "tied": "no"}),
    "rnn": ("rnn", SIZES),
}


def make(kind: str = "post", seed: int = 1):
    name, arguments = KINDS[kind]
    torch.manual_seed(seed)
    return models.find(name).describe(**arguments).build().eval()


def answer(model):
    inputs, outputs = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]]), torch.tensor([[2, 9, 9], [2, 4, 0]])
    with torch.no_grad():
        return model(inputs, outputs).logits


def files(folder):
    return {f.name: f.read_bytes() for f in folder.iterdir()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_is_bit_for_bit(tmp_path, kind, dtype):
    model = make(kind).to(dtype)
    save_model(tmp_path / "a", model, meta={"source": "en", "target": "fr", "ids": {"bos": 2, "eos": 3}})
    back, description, meta = load_model(tmp_path / "a")
    assert description == model.description
    assert not back.training
    assert (meta["source"], meta["target"], meta["ids"]) == ("en", "fr", {"pad": 0, "bos": 2, "eos": 3})
    mine, its = named_tensors(model), named_tensors(back)
    assert mine.keys() == its.keys()
    assert all(t.dtype == dtype and t.equal(its[name]) for name, t in mine.items())
    assert torch.equal(answer(model), answer(back))
    save_model(tmp_path / "b", back, meta=meta)
    assert files(tmp_path / "a") == files(tmp_path / "b")


@pytest.mark.parametrize("kind", KINDS)
def test_tied_tensors_are_stored_once(tmp_path, kind):
    model = make(kind)
    save_model(tmp_path, model)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
    tables = {"no": 3, "head": 2, "all": 1}[model.description.tied]
    assert sum(shape in ([23, 16], [19, 16]) for shape in shapes) == tables
    back, _, _ = load_model(tmp_path)
    for one in (model, back):
        ids = {id(one.encoder.embed.tokens.weight), id(one.decoder.embed.tokens.weight), id(one.head.project.weight)}
        assert len(ids) == tables
    assert sum(p.numel() for p in back.parameters()) == sum(p.numel() for p in model.parameters())


def test_a_loaded_model_trains(tmp_path):
    """Gradients reach tied weights through one parameter, and an optimiser step changes all their places."""
    save_model(tmp_path, make())
    model, _, _ = load_model(tmp_path)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    before = model.head.project.weight.clone()
    model.train()(torch.tensor([[5, 3]]), torch.tensor([[2, 5]])).logits.square().sum().backward()
    optimizer.step()
    assert not model.head.project.weight.equal(before)
    assert model.encoder.embed.tokens.weight is model.head.project.weight


class Full:
    """Tokenizers on a disk that is full."""

    def __init__(self):
        self.source = self.target = self
        self.pad, self.bos, self.eos, self.vocab_size = 0, 2, 3, 23

    def save(self, folder):
        (folder / "tokenizer.json").write_text("{", encoding="utf-8")
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_failed_write_changes_nothing(tmp_path):
    """A full disk: one line, the old model whole, nothing half written beside it."""
    folder = tmp_path / "model"
    with pytest.raises(UserError, match=r"cannot write the model .No space left"):
        save_model(folder, make(), Full())
    assert list(tmp_path.iterdir()) == []
    save_model(folder, make())
    before = files(folder)
    with pytest.raises(UserError, match="No space left"):
        save_model(folder, make(seed=2), Full())
    assert files(folder) == before
    assert [f.name for f in tmp_path.iterdir()] == ["model"]


def test_a_new_folder_has_usual_rights(tmp_path):
    save_model(tmp_path / "deep" / "er", make())
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "deep" / "er").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "plain" / "f").touch()
    usual = (tmp_path / "plain" / "f").stat().st_mode
    assert {f.stat().st_mode for f in (tmp_path / "deep" / "er").iterdir()} == {usual}


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "model").write_text("x", encoding="utf-8")
    with pytest.raises(UserError, match="is a file"):
        save_model(tmp_path / "model", make())
    with pytest.raises(UserError, match="is a file"):
        locate(tmp_path / "model")


@pytest.mark.filterwarnings("ignore")
def test_res_08_names_have_no_prefix(tmp_path):
    """S-RES-08: a compiled and a distributed-wrapped model are saved under the same names as a plain one."""
    model = make()
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        distributed = torch.nn.parallel.DistributedDataParallel(model)
        wrapped = {"plain": model, "compiled": torch.compile(model), "distributed": distributed}
        wrapped["both"] = torch.compile(distributed)
        for name, it in wrapped.items():
            assert unwrap(it) is model
            save_model(tmp_path / name, it)
    finally:
        torch.distributed.destroy_process_group()
    model.decoder = torch.compile(model.decoder)
    save_model(tmp_path / "part", model)
    plain = files(tmp_path / "plain")
    assert all(files(tmp_path / name) == plain for name in ("compiled", "distributed", "both", "part"))
    assert torch.equal(answer(load_model(tmp_path / "part")[0]), answer(make()))
    load_weights(tmp_path / "plain", torch.compile(make(seed=3)))


def test_weights_into_a_model_that_is_there(tmp_path):
    save_model(tmp_path, make())
    model = make(seed=5)
    kept = model.encoder.embed.tokens.weight
    load_weights(tmp_path, model)
    assert torch.equal(answer(model), answer(make()))
    assert model.head.project.weight is kept
    with pytest.raises(UserError, match="holds another model"):
        load_weights(tmp_path, make("pre"))


def test_number_types(tmp_path):
    save_model(tmp_path, make().to(torch.bfloat16))
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["dtype"] == "bfloat16"
    assert load_model(tmp_path)[0].head.project.weight.dtype == torch.bfloat16
    assert load_model(tmp_path, dtype="float32")[0].head.project.weight.dtype == torch.float32
    with pytest.raises(UserError, match="dtype 'single'"):
        load_model(tmp_path, dtype="single")


def test_ckpt_08_a_wrong_tensor_is_refused(tmp_path):
    """S-CKPT-08 on a folder: nothing loads while one tensor is missing, unexpected or misshapen."""
    save_model(tmp_path, make())
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    tensors["model.encoder.layers.0.fc1.wieght"] = tensors.pop("model.encoder.layers.0.fc1.weight")
    tensors["model.decoder.layers.1.encoder_attn.v_proj.bias"] = torch.zeros(4)
    save_file(tensors, path)
    with pytest.raises(UserError) as error:
        load_model(tmp_path)
    for part in (
        "missing: model.encoder.layers.0.fc1.weight",
        "unexpected: model.encoder.layers.0.fc1.wieght",
        "misshapen: model.decoder.layers.1.encoder_attn.v_proj.bias (4, should be 16)",
    ):
        assert part in str(error.value)
    assert "\n" not in str(error.value)


def put(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")


def change(folder, name, **values):
    document = json.loads((folder / name).read_text(encoding="utf-8"))
    put(folder, name, json.dumps(document | values))


REFUSED = {
    "no config": ("gated", lambda f: (f / "config.json").unlink(), "there is no config.json in this folder"),
    "bad json": ("gated", lambda f: put(f, "config.json", '{\n"a": 1,\n}'), "config.json:3: not JSON"),
    "list": ("gated", lambda f: put(f, "config.json", "[]"), "should hold one JSON object"),
    "not utf-8": ("gated", lambda f: (f / "config.json").write_bytes(b'{"a": "\xe9"}'), "not UTF-8 at byte 7"),
    "unknown type": ("gated", lambda f: change(f, "config.json", model_type="clip"), "model_type is 'clip'; regard reads"),
    "no description": ("gated", lambda f: (f / "regard.json").unlink(), "no regard.json describes the model"),
    "future": ("gated", lambda f: change(f, "regard.json", version=9), "version 9; this regard reads version 1"),
    "unknown part": ("gated", lambda f: change(f, "regard.json", description={"part": "Heart"}), "unknown part 'Heart'"),
    "two models": ("post", lambda f: change(f, "config.json", dropout=0.7), "describe different models"),
    "many ends": ("post", lambda f: change(f, "config.json", eos_token_id=[1, 2]), r"eos_token_id is \[1, 2\]"),
    "no weights": ("post", lambda f: (f / "model.safetensors").unlink(), "there is no model.safetensors"),
    "damaged": ("post", lambda f: (f / "model.safetensors").write_bytes(b"x" * 99), "damaged or no safetensors file"),
    "cut off": (
        "post",
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-9]),
        "damaged or no safetensors file",
    ),
    "pickle": (
        "post",
        lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"),
        "pytorch_model.bin is not opened, because such files can run code",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_line(tmp_path, case):
    kind, spoil, message = REFUSED[case]
    save_model(tmp_path, make(kind))
    spoil(tmp_path)
    with pytest.raises(UserError, match=message) as error:
        load_model(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/place", "a/b/c"])
def test_missing_folder_says_what_was_looked_for(name):
    with pytest.raises(UserError, match="there is no such folder"):
        locate(name)


def test_hub_names_are_fetched(tmp_path, monkeypatch):
    import huggingface_hub

    asked = []

    def fetch(name, allow_patterns):
        asked.append(name)
        assert not any(pattern.endswith((".bin", ".pt", ".py")) for pattern in allow_patterns)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    assert locate("nobody/en-fr") == tmp_path
    assert asked == ["nobody/en-fr"]


def test_hub_name_that_cannot_be_fetched():
    with pytest.raises(UserError, match="nobody/en-fr-x: there is no such folder, and no such model could be fetched") as e:
        locate("nobody/en-fr-x")
    assert "\n" not in str(e.value)


def test_generation_settings(tmp_path):
    meta = {"ids": {"bos": 2, "eos": 3}, "search": {"num_beams": 2, "max_length": 40}}
    save_model(tmp_path, make(), meta=meta)
    found = json.loads((tmp_path / "generation_config.json").read_text(encoding="utf-8"))
    assert found == {
        "bos_token_id": 2,
        "eos_token_id": 3,
        "pad_token_id": 0,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": None,
        "num_beams": 2,
        "length_penalty": 1.0,
        "max_length": 41,
        "early_stopping": False,
    }


def test_a_folder_asks_for_the_search_that_regard_uses():
    from regard.decoding.options import Search

    assert {"num_beams": Search().num_beams, "length_penalty": Search().length_penalty} == folders.SEARCH

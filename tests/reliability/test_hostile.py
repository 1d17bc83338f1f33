"""Folders and files made to do harm: refused in one line, before memory is taken, and nothing outside is touched."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import zstandard
from tokenizers import Tokenizer as Backend

from regard import models
from regard.checkpoints.adapters import load_adapter
from regard.checkpoints.folders import load_model, save_model
from regard.checkpoints.generation import settings_of
from regard.checkpoints.preprocessor import PIXELS, Preparation
from regard.checkpoints.resave import read_pickles
from regard.checkpoints.tensors import TensorFiles
from regard.decoding.options import read_options
from regard.errors import UserError
from regard.files import read_plain
from regard.text.chat import chat_ids
from regard.text.corpus import open_corpus
from regard.text.lines import LONGEST, read_lines
from regard.text.tokenizer import Plan, Tokenizer, train_tokenizer
from regard.training import resume
from regard.training.recipe import load_recipe
from regard.training.yaml_source import MOST, parse_yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # benchmarks are no installed package

from benchmarks.measure import peak


def test_memory_that_is_taken_is_seen() -> None:
    before = peak(anew=True)
    bytearray(b"x") * (300 << 20)
    assert peak() - before > 250


def refused(call: Callable[[], Any], words: str = "") -> str:
    """The one line of a refusal that took less than 200 MB."""
    before = peak(anew=True)
    with pytest.raises(UserError, match=words or None) as refusal:
        call()
    assert peak() - before < 200
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder in four files of weights."""
    torch.manual_seed(1)
    model = models.find("transformer").describe(vocab_size=23, num_layers=1, d_model=8, d_ff=16, num_heads=2).build()
    save_model(tmp_path / "model", model, shard_bytes=2_000)
    return tmp_path / "model"


def change(path: Path, **values: Any) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(document | values), encoding="utf-8")


@pytest.mark.parametrize("name", ["../other/model.safetensors", "/etc/passwd", "sub/model.safetensors", "..", "", "a\0b"])
def test_names_that_lead_out_of_the_folder(folder: Path, name: str) -> None:
    index = folder / "model.safetensors.index.json"
    listed = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    change(index, weight_map=listed | {next(iter(listed)): name})
    refused(lambda: load_model(folder), "leads out of the folder|is not a file")


@pytest.mark.parametrize("listed", [None, [], {}, {"a": 1}, {"a": None}, "model.safetensors"], ids=str)
def test_an_index_that_is_none(folder: Path, listed: Any) -> None:
    change(folder / "model.safetensors.index.json", weight_map=listed)
    refused(lambda: load_model(folder), "weight_map should say")


@pytest.mark.parametrize("name", ["config.json", "model-00001-of-00004.safetensors"])
def test_devices_and_pipes_are_no_files(folder: Path, name: str) -> None:
    """A link to a device without an end, or a pipe that nobody writes to, would be read for ever."""
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    refused(lambda: load_model(folder), "not a file")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    refused(lambda: load_model(folder), "not a file")


def test_a_link_to_an_ordinary_file_is_read_and_never_written_through(folder: Path, tmp_path: Path) -> None:
    """The Hub's cache is made of links; saving replaces the link and leaves alone what it leads to."""
    (folder / "config.json").rename(tmp_path / "kept.json")
    (folder / "config.json").symlink_to(tmp_path / "kept.json")
    before = (tmp_path / "kept.json").read_bytes()
    model, _, meta = load_model(folder)
    change(tmp_path / "kept.json", note="theirs")
    save_model(folder, model, None, meta)
    assert json.loads((tmp_path / "kept.json").read_bytes())["note"] == "theirs"
    assert (folder / "config.json").read_bytes() == before
    assert not (folder / "config.json").is_symlink()


@pytest.mark.parametrize(
    "head",
    [
        (2**63).to_bytes(8, "little") + b"{}",
        (10**8 + 1).to_bytes(8, "little") + b" " * 100,
        (2).to_bytes(8, "little") + b"{}",
        b"",
        (90).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[1000000000,1000000000],"data_offsets":[0,4]}}'.ljust(90),
        (90).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,99999999999999999]}}'.ljust(90),
    ],
    ids=["size", "long", "empty", "nothing", "shape", "offsets"],
)
def test_absurd_heads_of_safetensors(folder: Path, head: bytes) -> None:
    (folder / "model-00001-of-00004.safetensors").write_bytes(head)
    refused(lambda: load_model(folder), "damaged or no safetensors file|do not fit")


@pytest.mark.parametrize(
    "value", [[], {}, 7, ["x"], {"part": []}, {"part": "Stack", "d_model": "x"}, {"part": "os"}], ids=str
)
def test_descriptions_that_are_none(folder: Path, value: Any) -> None:
    change(folder / "config.json", model_type="regard")
    change(folder / "regard.json", description=value)
    refused(lambda: load_model(folder))


def test_json_nested_without_end(folder: Path) -> None:
    (folder / "config.json").write_text("[" * 100_000, encoding="utf-8")
    refused(lambda: load_model(folder), "not JSON")
    (folder / "config.json").write_text('{"a": ' + "9" * 10_000 + "}", encoding="utf-8")
    refused(lambda: load_model(folder), "not JSON")


def test_a_file_larger_than_any_of_its_kind(tmp_path: Path) -> None:
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(1 << 40)  # a terabyte of nothing takes no room on the disk
    refused(lambda: read_plain(tmp_path / "config.json"), "no such file needs more")


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_small_files_that_unpack_to_much(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    block = pack(bytes(8 << 20))
    (tmp_path / "a").write_bytes(block * 40)  # 320 MB in one line
    refused(lambda: list(read_lines(tmp_path / "a")), f"a line of more than {LONGEST:,} bytes")


def test_lines_up_to_the_limit_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * LONGEST + b"\n" + b"y\n")
    with pytest.raises(UserError, match="more than"):
        list(read_lines(tmp_path / "a"))
    (tmp_path / "a").write_bytes(b"x" * (LONGEST - 1) + b"\n" + b"y")
    assert [len(line) for line in read_lines(tmp_path / "a")] == [LONGEST - 1, 1]


def test_anchors_that_hold_each_other() -> None:
    """A billion laughs: nine lines that stand for ten to the ninth values."""
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10))]
    refused(lambda: parse_yaml("\n".join(lines), "bomb.yaml"), f"more than {MOST:,} values")
    refused(lambda: parse_yaml("a: &a [*a]", "loop.yaml"), "not valid YAML|more than")
    refused(lambda: parse_yaml("a: !!python/object/apply:os.system [x]", "code.yaml"), "is not understood")


def normaliser(path: Path, steps: list[dict[str, Any]]) -> None:
    train_tokenizer(["a b c"] * 3, Plan("words", vocab_size=20)).save(path.parent, path.name)
    change(path, normalizer={"type": "Sequence", "normalizers": steps})


def test_normalisers_that_double_forty_times(tmp_path: Path) -> None:
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    normaliser(tmp_path / "tokenizer.json", [step] * 40)
    refused(lambda: Tokenizer.open(tmp_path), "its normaliser could make a text more than 1,000 times longer")
    normaliser(tmp_path / "tokenizer.json", [step, {"type": "Prepend", "prepend": "b"}])
    assert Tokenizer.open(tmp_path).normalize("a") in ("baa", "aa")


def test_templates_with_ids_that_there_are_not(tmp_path: Path) -> None:
    train_tokenizer(["a b c"] * 3, Plan("words", vocab_size=20)).save(tmp_path)
    mark = {"id": "</s>", "ids": [10**6], "tokens": ["</s>"]}
    single = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    processor = {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": {"</s>": mark}}
    change(tmp_path / "tokenizer.json", post_processor=processor)
    refused(lambda: Tokenizer.open(tmp_path), "id 1000000 is outside the vocabulary")


@pytest.mark.parametrize("labels", [{"1": "x", "2": "y"}, {"0": "x", "00": "y"}, {"0": "x", "-1": "y"}], ids=str)
def test_names_of_classes_that_would_shift(tmp_path: Path, labels: dict[str, str]) -> None:
    """Without a name for class 0 all the others would be told under the name of the next."""
    from benchmarks.readers import family

    family("bert", tmp_path)
    change(tmp_path / "config.json", id2label=labels)
    refused(lambda: load_model(tmp_path), "id2label should give each number of a class, from 0 on, its name")


@pytest.mark.parametrize("template", [[7], [{}], {"a": 1}, [{"name": "default", "template": 7}]], ids=str)
def test_chat_templates_that_are_none(template: Any) -> None:
    its = train_tokenizer(["a b c"] * 3, Plan("words", vocab_size=20))
    its.config = {"chat_template": template}
    refused(lambda: chat_ids(its, [{"role": "user", "content": "a"}]), "chat template|chat_template")


class Harm:
    """Runs something when unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("harm-was-done",))


@pytest.mark.filterwarnings("ignore")
def test_pickles_run_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"w": torch.ones(2)}, tmp_path / "pytorch_model.bin")
    assert set(read_pickles(tmp_path)) == {"w"}
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps({"w": Harm()}))
    refused(lambda: read_pickles(tmp_path), "more than tensors|never opened")
    torch.save({"w": Harm()}, tmp_path / "pytorch_model.bin")
    refused(lambda: read_pickles(tmp_path), "more than tensors|never opened")
    assert not (tmp_path / "harm-was-done").exists()


def test_packed_pickles_are_not_unpacked(tmp_path: Path) -> None:
    torch.save({"w": torch.zeros(2_000_000)}, tmp_path / "whole.bin")
    with (
        zipfile.ZipFile(tmp_path / "whole.bin") as old,
        zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
    refused(lambda: read_pickles(tmp_path), "unpacks to more than it is")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lora_alpha": "x"}, "lora_alpha is 'x', should be a number"),
        ({"lora_alpha": None}, "lora_alpha is None"),
        ({"lora_dropout": float("nan")}, "lora_dropout is nan"),
        ({"alpha_pattern": [1]}, "alpha_pattern should be an object"),
        ({"peft_type": "IA3"}, "is not known"),
    ],
    ids=str,
)
def test_adapters_that_are_none(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    from regard.checkpoints.adapters import save_adapter
    from regard.layers.lora import adapt

    def model() -> Any:
        return models.find("transformer").describe(vocab_size=13, num_layers=1, d_model=8, d_ff=12, num_heads=2).build()

    learned = model()
    adapt(learned, ["q"], 2, 4.0)
    save_adapter(tmp_path, learned)
    path = tmp_path / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | change), encoding="utf-8")
    refused(lambda: load_adapter(tmp_path, model()), said)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"nothing")
    refused(lambda: load_adapter(tmp_path, model()), "damaged|is not|should be|not known")


def test_pictures_that_unpack_to_billions_of_pixels(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    told = {"size": {"height": 8, "width": 8}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    its = Preparation.of(told, 3)
    small = io.BytesIO()
    image.new("1", (1, 1)).save(small, "PNG")
    png = bytearray(small.getvalue())
    for side in (9_000, 60_000):
        png[16:24] = side.to_bytes(4, "big") * 2
        png[29:33] = zlib.crc32(png[12:29]).to_bytes(4, "big")
        (tmp_path / "a.png").write_bytes(png)
        assert side**2 > PIXELS
        refused(lambda: its.pixels(tmp_path / "a.png"), "pixels")
    (tmp_path / "a.png").write_bytes(small.getvalue()[:40])
    refused(lambda: its.pixels(tmp_path / "a.png"), "cannot be opened")
    os.mkfifo(tmp_path / "pipe.png")
    refused(lambda: its.pixels(tmp_path / "pipe.png"), "is not a file")
    narrow = Preparation.of(told | {"size": {"shortest_edge": 224}}, 3)
    refused(lambda: narrow.pixels(image.new("L", (100_000, 1))), "would become 22400000×224; 12,000,000 pixels at most")
    refused(lambda: Preparation.of(told | {"do_center_crop": True, "crop_size": 6000}, 3), "whole number from 1 to 2,048")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"size": {"height": 10**9, "width": 10**9}}, "a height is 1000000000"),
        ({"size": {"height": -1, "width": 2}}, "a height is -1"),
        ({"size": "x"}, "a size is 'x'"),
        ({"size": {"shortest_edge": 1e9}}, "shortest_edge is"),
        ({"image_mean": 0.5}, "image_mean should be a list"),
        ({"image_std": [1, None, 2]}, "image_std is None"),
        ({"resample": 99}, "resample is 99"),
        ({"rescale_factor": "x"}, "rescale_factor is 'x'"),
    ],
    ids=str,
)
def test_preparations_that_are_none(change: dict[str, Any], said: str) -> None:
    told = {"size": {"height": 8, "width": 8}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    refused(lambda: Preparation.of(told | change, 3), said)


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'x' * 10000000000 }}",
        "{{ 10 ** 100000000 }}",
        "{{ messages.__class__.__mro__ }}",
        "{{ 1 / 0 }}",
        "{{ messages[0].content.missing() }}",
        "{% for a in range(100000000) %}{% endfor %}",
        "{% include '/etc/passwd' %}",
        "{{",
    ],
)
def test_chat_templates_that_do_harm(template: str) -> None:
    pytest.importorskip("jinja2")
    its = train_tokenizer(["a b c"] * 3, Plan("words", vocab_size=20))
    its.config = {"chat_template": template}
    refused(lambda: chat_ids(its, [{"role": "user", "content": "a"}]), "chat template")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("bert", {"architectures": 12}),
        ("bert", {"id2label": 7}),
        ("bert", {"id2label": {"x": "y"}}),
        ("bart", {"model_type": []}),
        ("mistral", {"rope_parameters": 0.5}),
        ("roberta", {"max_position_embeddings": "relu"}),
        ("mixtral", {"num_local_experts": []}),
        ("mixtral", {"head_dim": 0.0}),
        ("llama", {"head_dim": []}),
        ("llama", {"torch_dtype": "\ud800"}),
    ],
    ids=str,
)
def test_configurations_that_once_ended_in_a_traceback(tmp_path: Path, name: str, change: dict[str, Any]) -> None:
    """Each was found by the fuzzer."""
    from benchmarks.readers import family

    family(name, tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | change), encoding="utf-8")
    refused(lambda: load_model(tmp_path))


@pytest.mark.parametrize(
    "told",
    [{"bad_words_ids": [{"part": "Stack"}]}, {"bad_words_ids": [7]}, {"max_length": [0]}, {"min_length": "x"}],
    ids=str,
)
def test_settings_that_once_ended_in_a_traceback(told: dict[str, Any]) -> None:
    """Each was found by the fuzzer."""
    refused(lambda: settings_of(told, "here"), "here: generation_config.json has a value of the wrong kind")


@pytest.mark.parametrize("banned", [7, "7", [None], [-1], [[1]], {"a": 1}, [True]], ids=str)
def test_tokens_that_cannot_be_suppressed(banned: Any) -> None:
    """The first was found by the fuzzer."""
    refused(lambda: read_options({"suppress_tokens": banned}), "suppress_tokens must be a list of ids")


def test_parquet_whose_text_is_not_utf8(tmp_path: Path) -> None:
    """Found by the fuzzer."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    buffers = [None, pyarrow.py_buffer(struct.pack("<ii", 0, 2)), pyarrow.py_buffer(b"\xc9x")]
    bad = pyarrow.Array.from_buffers(pyarrow.string(), 1, buffers)
    write_table(pyarrow.table({"en": bad, "fr": ["un"]}), tmp_path / "pairs.parquet")
    refused(lambda: open_corpus(tmp_path / "pairs.parquet", "en", "fr"), "cannot be read as parquet")


@pytest.mark.parametrize("name", ["a" * 300, "\ud800.safetensors"], ids=["long", "half a pair"])
def test_shards_that_no_file_can_be_called(tmp_path: Path, name: str) -> None:
    """Found by the fuzzer."""
    index = {"weight_map": {"a": name}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    refused(lambda: TensorFiles(tmp_path))


def test_updates_with_a_dropout_that_is_none(tmp_path: Path) -> None:
    """Found by the fuzzer."""
    from benchmarks.readers import READERS

    reader = READERS["adapter"]
    reader.make(tmp_path)
    change(tmp_path / "adapter_config.json", lora_dropout=2.0)
    refused(lambda: reader.read(tmp_path), "lora_dropout is 2.0, should be from 0 to below 1")


@pytest.mark.parametrize("name", ["w" * 5000, True, "a\0b", 7], ids=["long", "true", "zero", "number"])
def test_checkpoints_that_list_what_is_no_file(tmp_path: Path, name: Any) -> None:
    """Found by the fuzzer."""
    (tmp_path / "training.json").write_text(json.dumps({"files": [[name, "0"]]}), encoding="utf-8")
    assert f"{name} is missing" in str(resume.damage(tmp_path))


def test_recipes_with_paths_that_no_file_can_have(tmp_path: Path) -> None:
    """Found by the fuzzer."""
    path = tmp_path / "recipe.yaml"
    path.write_text(f"task:\n  kind: translation\ndata:\n  train: {'x' * 5000}\n", encoding="utf-8")
    refused(lambda: load_recipe(path))


def test_vocabularies_without_the_word_for_unknown_ones() -> None:
    """Found by the fuzzer: the library notices where a text has such a word."""
    file = json.loads(train_tokenizer(["a b c"] * 3, Plan("words", vocab_size=20)).backend.to_str())
    file["model"]["unk_token"] = "[UNK]"
    its = Tokenizer(Backend.from_str(json.dumps(file)))
    assert its.decode(its.encode("a b")) == "a b"
    refused(lambda: its.encode("a z"), "cannot cut a text into tokens")

"""The readers that `fuzz` feeds, each with a folder of valid files."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import lzma
import runpy
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import yaml
import zstandard

from benchmarks.fuzz import Reader
from regard import models
from regard.batches.images import read_idx
from regard.checkpoints.adapters import load_adapter, save_adapter
from regard.checkpoints.binary import read_binary
from regard.checkpoints.convert import convert_folder
from regard.checkpoints.folders import load_model, save_model
from regard.checkpoints.generation import settings_of
from regard.checkpoints.preprocessor import Preparation
from regard.checkpoints.tensors import read_json
from regard.decoding.options import read_options
from regard.documents import DocumentJob
from regard.inspection.look import inspect
from regard.inspection.trace import Trace
from regard.layers.lora import adapt
from regard.loading import load
from regard.serving.bodies import form, parsed, validated
from regard.serving.deepl import DeepLBody
from regard.serving.export import export_ctranslate2
from regard.serving.native import TranslateBody
from regard.serving.refusals import RefusalError
from regard.text import formats
from regard.text.corpus import open_corpus
from regard.text.formats.document import MARK
from regard.text.glossary import Glossary
from regard.text.spm import SOURCE, TARGET, VOCABULARY, open_spm
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.training import resume
from regard.training.machines import read_machines
from regard.training.recipe import load_recipe

with contextlib.suppress(ImportError):  # asked about keys that no table names; it takes seconds to import
    from transformers import CONFIG_MAPPING  # noqa: F401

TINY = Path(__file__).resolve().parents[1] / "tests" / "contract" / "tiny"
LINES = ["A dog runs in the park .", "Two men play football , and a girl looks on .", "The red house is near the sea ."]


@cache
def tiny(name: str) -> Any:
    """A tiny model of an architecture, with the first of its sets of tiny arguments."""
    arguments = runpy.run_path(str(TINY / f"{name}.py"))["TINY"][0]
    torch.manual_seed(1)
    return models.find(name).describe(**arguments).build().eval()


@cache
def tokenizers(kind: str = "words") -> Tokenizers:
    """One small tokenizer for both sides."""
    made = train_tokenizer(LINES * 3, Plan(kind, vocab_size=300))
    return Tokenizers(made, made, True)


def family(name: str, folder: Path) -> None:
    """The folder of a tiny model, as another program would leave it where there is a class for it."""
    save_model(folder, tiny(name))
    if read_json(folder / "config.json")["model_type"] != "regard":
        (folder / "regard.json").unlink()


def translator(folder: Path, kind: str = "words", shard_bytes: int = 5_000_000) -> None:
    """The folder of a tiny translator."""
    sizes = {"vocab_size": tokenizers(kind).source.vocab_size, "num_layers": 1, "d_model": 8, "d_ff": 16, "num_heads": 2}
    torch.manual_seed(1)
    model = models.find("transformer").describe(**sizes).build().eval()
    save_model(folder, model, tokenizers(kind), {"source": "en", "target": "en"}, shard_bytes)


def translated(folder: Path) -> Any:
    """Open a folder and use it."""
    return load(folder).translate(["A dog", "the sea"], max_length=4)


def opened(folder: Path) -> Any:
    """Open a tokenizer and use it."""
    its = Tokenizers.open(folder).source
    ids = its.encode("A dog runs 🙂 in the park")
    return its.decode(ids), its.tokens("A dog"), its.wrap(ids[:2], ids[2:4]), [its.piece(number) for number in ids]


def text(name: str, content: bytes) -> Callable[[Path], None]:
    """A folder with one file."""
    return lambda folder: (folder / name).write_bytes(content) and None


def corpus(name: str, content: bytes) -> Reader:
    """A corpus in one file."""
    return Reader(text(name, content), [name], lambda folder: open_corpus(folder / name, "en", "fr"))


def adapter(folder: Path) -> None:
    """The updates of a tiny model."""
    model = _updated()
    save_adapter(folder, model, "base")


def _updated() -> Any:
    torch.manual_seed(1)
    model = models.find("transformer").describe(vocab_size=13, num_layers=1, d_model=8, d_ff=12, num_heads=2).build()
    adapt(model, ["q", "expand"], 2, 4.0)
    return model


def _base() -> Any:
    torch.manual_seed(1)
    return models.find("transformer").describe(vocab_size=13, num_layers=1, d_model=8, d_ff=12, num_heads=2).build()


def recipe(folder: Path) -> None:
    """A recipe with anchors, lists and numbers of all kinds."""
    value = {
        "data": {"source": "xx", "target": "yy", "train": "train.tsv", "valid": "valid.tsv", "preprocess": []},
        "tokenizer": {"kind": "words", "vocab_size": 32},
        "model": {"architecture": "transformer", "num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2, "dropout": 0.3},
        "training": {"max_steps": 12, "batch_tokens": 40, "learning_rate": 3e-3, "save_every": 4, "lora": {"rank": 0}},
        "evaluation": {"metrics": ["chrf"]},
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(value), encoding="utf-8")


def parquet(folder: Path) -> None:
    """A parquet file of pairs."""
    import pyarrow
    from pyarrow.parquet import write_table

    write_table(pyarrow.table({"en": LINES, "fr": LINES}), folder / "pairs.parquet")


def picture(folder: Path) -> None:
    """A picture in three formats, and how it is prepared."""
    from PIL import Image

    image = Image.frombytes("RGB", (9, 7), bytes(range(189)))
    for name in ("a.png", "a.jpg", "a.gif"):
        image.save(folder / name)
    told = {"size": {"height": 8, "width": 8}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "do_center_crop": True}
    (folder / "preprocessor_config.json").write_text(json.dumps(told | {"crop_size": 6}), encoding="utf-8")


def pixels(folder: Path) -> Any:
    """Read all pictures of a folder."""
    its = Preparation.of(read_json(folder / "preprocessor_config.json"), 3)
    return [its.pixels(folder / name) for name in ("a.png", "a.jpg", "a.gif")]


def checkpoint(folder: Path) -> None:
    """A run with two checkpoints, of which the newer one is fed."""
    for step in (1, 2):
        tensors = {"optimizer.exp_avg/w": torch.ones(3)}
        resume.write(
            resume.folder_of(folder, step), lambda at: (at / "a").write_bytes(b"a") and None, tensors, {"progress": {}}
        )


def binary(folder: Path) -> None:
    """A model.bin of CTranslate2 with one array and an alias."""

    def word(one: str) -> bytes:
        return (len(one) + 1).to_bytes(2, "little") + one.encode() + b"\0"

    array = word("w") + bytes([2]) + (2).to_bytes(4, "little") * 2 + bytes([0]) + (16).to_bytes(4, "little") + bytes(16)
    head = (6).to_bytes(4, "little") + word("TransformerSpec") + (7).to_bytes(4, "little") + (1).to_bytes(4, "little")
    (folder / "model.bin").write_bytes(head + array + (1).to_bytes(4, "little") + word("v") + word("w"))


def generation(folder: Path) -> None:
    """Settings of a search as transformers writes them."""
    told = {
        "num_beams": 4,
        "length_penalty": 1.0,
        "early_stopping": False,
        "max_length": 64,
        "min_length": 0,
        "do_sample": False,
    }
    told |= {"bad_words_ids": [[5]], "suppress_tokens": [7], "temperature": 1.0, "forced_bos_token_id": 3}
    (folder / "generation_config.json").write_text(json.dumps(told), encoding="utf-8")


def settings(folder: Path) -> Any:
    """Read them as a search."""
    return read_options(settings_of(read_json(folder / "generation_config.json"), folder))


def exported(folder: Path) -> None:
    """A folder of CTranslate2."""
    translator(folder / "model")
    export_ctranslate2(load(folder / "model"), folder / "export")
    shutil.rmtree(folder / "model")
    for file in list((folder / "export").iterdir()):
        file.rename(folder / file.name)
    (folder / "export").rmdir()


def converted(folder: Path) -> Any:
    """Convert it."""
    try:
        return convert_folder(folder, folder / "converted")
    finally:
        shutil.rmtree(folder / "converted", ignore_errors=True)


def document(name: str, content: str) -> Reader:
    """A document of a format: read, written back, and written with other words."""

    def read(folder: Path) -> Any:
        text = (folder / name).read_bytes().decode("utf-8", "replace")
        job = DocumentJob.of(text, formats.named("auto", name), "no", name.endswith(".html"))
        if job.document.write([None] * len(job.document.segments)) != text:
            raise AssertionError("the document does not come back as it was")
        return job.finish([Upper(MARK.sub("", source).upper()) for source in job.job.sources])

    return Reader(text(name, content.encode("utf-8")), [name], read)


@dataclass
class Upper:
    """A translation that has lost its marks."""

    text: str
    flags: tuple[str, ...] = ()
    unkept: tuple[str, ...] = ()
    truncated: bool = False
    finished: bool = True
    unknown: int = 0


def trace(folder: Path) -> None:
    """What is seen of a tiny translator."""
    place = folder / "model"
    translator(place)
    inspect(load(place), "A dog runs", "A dog").write(folder / "trace.json")
    shutil.rmtree(place)


def seen(folder: Path) -> Any:
    """Read a trace and show it."""
    its = Trace.read(folder / "trace.json")
    return its.to_text(), its.to_json()


def body(folder: Path) -> Any:
    """A request to the server, JSON and a form."""
    with contextlib.suppress(RefusalError):
        validated(TranslateBody, parsed((folder / "body.json").read_bytes()), True)
    with contextlib.suppress(RefusalError):
        validated(DeepLBody, form((folder / "body.txt").read_bytes(), DeepLBody), False)


def bodies(folder: Path) -> None:
    """Bodies of two requests."""
    told = {"text": ["A dog", "the sea"], "source": "en", "num_beams": 2, "temperature": 0.5, "stream": False}
    (folder / "body.json").write_text(json.dumps(told), encoding="utf-8")
    (folder / "body.txt").write_bytes(b"text=A+dog&text=the+sea&target_lang=FR&tag_handling=xml&split_sentences=0")


def machine(folder: Path) -> None:
    """What there is to train on."""
    told = {"name": "x", "count": 8, "memory_gb": 80.0, "peak_tflops": 990, "host_gb_s": 450, "network_gb_s": 50}
    (folder / "machines.yaml").write_text(yaml.safe_dump(told), encoding="utf-8")


def spm(folder: Path) -> None:
    """The vocabulary of an OPUS folder."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 20), model_writer=model, vocab_size=40, hard_vocab_limit=False, minloglevel=2
    )
    its = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    names = ["</s>", "<unk>", ">>fra<<", *(its.id_to_piece(n) for n in range(3, its.get_piece_size())), "<pad>"]
    for side in (SOURCE, TARGET):
        (folder / side).write_bytes(model.getvalue())
    (folder / VOCABULARY).write_text(json.dumps({name: number for number, name in enumerate(names)}), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer"}), encoding="utf-8")


def divided(folder: Path) -> Any:
    """Open an OPUS vocabulary and use it."""
    its = open_spm(folder)
    ids = its.source.encode(">>fra<< A dog")
    its.save(folder / "again")
    return its.target.decode(ids), its.source.tokens("A dog")


def images(folder: Path) -> None:
    """Two pictures in an idx file."""
    (folder / "a.idx").write_bytes(b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (2, 3, 4)) + bytes(24))
    (folder / "a.idx.gz").write_bytes(gzip.compress((folder / "a.idx").read_bytes()))


PAIRS = b"A dog\tUn chien\nThe sea\tLa mer\n"
JSONL = b'{"en": "A dog", "fr": "Un chien"}\n{"translation": {"en": "The sea", "fr": "La mer"}}\n'
PAGE = (
    "<!DOCTYPE html><html><head><title>A &amp; B</title><meta name='description' content=\"Dogs\"></head><body><!-- c -->"
    "<p>Two <b>big</b> <img alt='a dog' src=x> dogs<br>&nbsp;run <code>x</code></p><script>a < b</script></body></html>"
)
NOTES = """---
t: x
---
# Two *big* dogs

See [it](u "t") and `code` [^1], <b>now</b>\\
here.

| a | b\\|c |
|---|---|
| d | e |
"""
CUES = """1
00:00:01,000 --> 00:00:02,000 X1:1
- A <i>dog</i>
- goes on

2
00:00:02,000 --> 00:00:03,000
and on {x} here.
"""
CATALOGUE = (
    'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n"Plural-Forms: nplurals=2;"\n\n#, fuzzy\n'
    'msgid "a dog\\n"'
    '\nmsgstr ""\n\nmsgid "%d dog"\nmsgid_plural "%d dogs"\nmsgstr[0] ""\nmsgstr[1] ""\n'
)
ONE, SHARDS, INDEX = "model.safetensors", "model-00001-of-00004.safetensors", "model.safetensors.index.json"

READERS: dict[str, Reader] = {
    "recipe": Reader(recipe, ["recipe.yaml"], lambda folder: load_recipe(folder / "recipe.yaml")),
    "tsv": corpus("a.tsv", PAIRS),
    "jsonl": corpus("a.jsonl", JSONL),
    "gzip": corpus("a.tsv.gz", gzip.compress(PAIRS)),
    "xz": corpus("a.tsv.xz", lzma.compress(PAIRS)),
    "zstd": corpus("a.tsv.zst", zstandard.compress(PAIRS)),
    "parquet": Reader(parquet, ["pairs.parquet"], lambda folder: open_corpus(folder / "pairs.parquet", "en", "fr")),
    "glossary": Reader(text("g.tsv", b"dog\tchien|chienne\nsea\tmer\n"), ["g.tsv"], lambda f: Glossary.open(f / "g.tsv")),
    "weights": Reader(translator, [ONE], load_model),
    "index": Reader(partial(translator, shard_bytes=2_000), [INDEX, SHARDS], load_model),
    "translator": Reader(translator, ["config.json", "generation_config.json"], translated),
    "own description": Reader(translator, ["regard.json", "config.json"], translated),
    "tokenizer of words": Reader(translator, ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"], opened),
    "tokenizer of pieces": Reader(partial(translator, kind="bpe"), ["tokenizer.json", "tokenizer_config.json"], opened),
    "tokenizer of unigrams": Reader(partial(translator, kind="unigram"), ["tokenizer.json"], opened),
    "tokenizer and model": Reader(translator, ["tokenizer.json", "tokenizer_config.json"], translated),
    "folder of ctranslate2": Reader(exported, ["model.bin", "config.json", "shared_vocabulary.json"], converted),
    "opus": Reader(spm, [VOCABULARY, SOURCE, "tokenizer_config.json"], divided),
    "html": document("a.html", PAGE),
    "markdown": document("a.md", NOTES),
    "srt": document("a.srt", CUES),
    "vtt": document("a.vtt", "WEBVTT\n\n" + CUES.replace(",000", ".000")),
    "po": document("a.po", CATALOGUE),
    "trace": Reader(trace, ["trace.json"], seen),
    "body": Reader(bodies, ["body.json", "body.txt"], body),
    "machines": Reader(machine, ["machines.yaml"], lambda folder: read_machines(folder / "machines.yaml")),
    "idx": Reader(images, ["a.idx", "a.idx.gz"], lambda folder: [read_idx(folder / "a.idx"), read_idx(folder / "a.idx.gz")]),
    "generation": Reader(generation, ["generation_config.json"], settings),
    "adapter": Reader(adapter, ["adapter_config.json", "adapter_model.safetensors"], lambda f: load_adapter(f, _base())),
    "pictures": Reader(picture, ["a.png", "a.jpg", "a.gif", "preprocessor_config.json"], pixels),
    "checkpoint": Reader(
        checkpoint,
        [f"checkpoints/step-00000002/{name}" for name in (resume.FACTS, resume.TENSORS, "a")],
        lambda folder: resume.read(resume.newest(folder, lambda said: None) or folder),
    ),
    "ctranslate2": Reader(binary, ["model.bin"], lambda folder: read_binary(folder / "model.bin")),
}
READERS |= {
    f"folder of {name}": Reader(partial(family, name), ["config.json", ONE], load_model)
    for name in models.names()
    if runpy.run_path(str(TINY / f"{name}.py"))["TINY"]
}

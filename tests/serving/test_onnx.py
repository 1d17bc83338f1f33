"""Encoders in ONNX answer as they do here, whatever the batch and the padding; what cannot be written is named."""

from __future__ import annotations

import json
import warnings

import pytest
import torch

import regard
from regard import models
from regard.architecture import Description
from regard.errors import UserError
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Gated
from regard.layers.heads import Classify, Embedding
from regard.layers.norms import RMSNorm
from regard.layers.positions import Sinusoidal
from regard.layers.stack import Stack
from regard.layout import Layout
from regard.loaded import Loaded
from regard.serving.export import export_folder
from regard.serving.onnx import FILE, export_onnx

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
IDS = torch.tensor([[4, 9, 7, 5, 6], [8, 3, 0, 0, 0]])
REAL = torch.tensor([[1] * 5, [1, 1, 0, 0, 0]])


def answers(folder, ids: torch.Tensor, real: torch.Tensor, segments: torch.Tensor | None = None) -> torch.Tensor:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(str(folder / FILE), options, providers=["CPUExecutionProvider"])
    given = {"input_ids": ids.numpy(), "attention_mask": real.numpy()}
    if segments is not None:
        given["token_type_ids"] = segments.numpy()
    (found,) = session.run(None, given)
    return torch.from_numpy(found)


def compare(model, folder, segments: torch.Tensor | None = None, whole: bool = True) -> None:
    """Both rows at once, and each alone."""
    layout = Layout.padded([5, 2])
    with torch.inference_mode():
        answer = model.eval()(IDS, segments=segments, layout=layout)
    want = answer.logits if answer.vectors is None else answer.vectors
    got = answers(folder, IDS, REAL, segments)
    for row, count in enumerate((5, 2)):
        mine, its = (t[row] if whole else t[row, :count] for t in (want, got))
        torch.testing.assert_close(its, mine, rtol=1e-4, atol=1e-5)
        part = None if segments is None else segments[row : row + 1, :count]
        alone = answers(folder, IDS[row : row + 1, :count], REAL[row : row + 1, :count], part)[0]
        torch.testing.assert_close(alone, mine, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "architecture", "settings"),
    [
        ("bert", "BertForSequenceClassification", {"num_labels": 3}),
        ("bert", "BertForTokenClassification", {"num_labels": 4}),
        ("bert", "BertModel", {}),
        ("roberta", "RobertaForMaskedLM", {}),
    ],
)
def test_folders_of_others_answer_alike(foreign, tmp_path, kind, architecture, settings) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = foreign(kind, architecture, **settings)
    folder = export_folder(source, tmp_path / "out", "onnx")
    model = regard.load(source, device="cpu").model
    about = json.loads((folder / "onnx.json").read_text(encoding="utf-8"))
    segments = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 0, 0, 0]]) if "token_type_ids" in about["inputs"] else None
    assert (segments is not None) == (model.description.encoder.embed.segments > 1)
    compare(model, folder, segments, whole=architecture in ("BertForSequenceClassification", "BertModel"))
    assert (folder / "tokenizer.json").is_file()


@pytest.mark.parametrize("pool", ["first", "last", "mean"])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_all_parts_are_written(shared, tmp_path, pool, placement) -> None:
    block = Block(Attention(2), Gated(24), norm=RMSNorm(1e-5), placement=placement)
    embed = Tokens(60, Sinusoidal(), scaled=True)
    last = RMSNorm() if placement == "pre" else None
    head = Embedding(pool=pool, normalise=True) if placement == "pre" else Classify(3, pool=pool, between="gelu")
    torch.manual_seed(0)
    model = Description(encoder=Stack(16, embed, (block, block), last), head=head).build()
    compare(model, export_onnx(Loaded(model, shared), tmp_path / "out"))


def test_what_cannot_be_written_is_named(shared, model_for, tmp_path) -> None:
    with pytest.raises(UserError, match="decoder"):
        export_onnx(Loaded(model_for(shared), shared), tmp_path / "out")
    sizes = {"vocab_size": 60, "num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2}
    model = models.find("bert").describe(**sizes).build()
    with pytest.raises(UserError, match="float32"):
        export_onnx(Loaded(model, shared), tmp_path / "out", "int8")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(UserError, match="not empty"):
        export_onnx(Loaded(model, shared), tmp_path / "full")
    assert not (tmp_path / "out").exists()

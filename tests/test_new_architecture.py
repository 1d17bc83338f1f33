"""A made-up architecture is one file: this test writes it, and everything else takes it as it is.

Its blocks do attention and feed-forward side by side on one norm (Wang & Komatsuzaki 2021, GPT-J), which no family here has.
"""

from __future__ import annotations

import ast
import json
import sys

import pytest
import torch

from regard import models
from regard.architecture import Targets
from regard.checkpoints.folders import load_model, save_model
from regard.checkpoints.tensors import TensorFiles
from regard.cli import main
from regard.decoding.options import Search
from regard.decoding.search import search
from regard.errors import UserError
from regard.inspection.flops import flops
from regard.inspection.outline import outline
from regard.layers import part as parts
from regard.layout import Layout

FILE = '''
"""A decoder whose blocks add attention and feed-forward of the same vectors (Wang & Komatsuzaki 2021, GPT-J)."""

from regard.architecture import Description, inverse
from regard.checkpoints.formats import Format
from regard.checkpoints.rules import Rule, Weights, table
from regard.layers.attention import Attention
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense
from regard.layers.heads import NextToken
from regard.layers.initial import normal_
from regard.layers.masks import Causal
from regard.layers.norms import LayerNorm
from regard.layers.part import part
from regard.layers.positions import Rotary
from regard.layers.stack import Stack
from torch import nn

SIZES = {"tiny": {"num_layers": 2, "d_model": 16, "num_heads": 2}}
initialise = normal_


def describe(*, vocab_size: int, num_layers: int = 2, d_model: int = 16, num_heads: int = 2, pad: int = 0) -> Description:
    block = SideBySide(Attention(num_heads, mask=Causal()), Dense(4 * d_model, "gelu"))
    stack = Stack(d_model, Tokens(vocab_size), (block,) * num_layers, LayerNorm(), Rotary())
    return Description(NextToken(vocab_size), decoder=stack, tied="head", pad=pad)


@part
class SideBySide:
    attention: Attention
    feedforward: Dense

    def build(self, d_model):
        return SideBySideBlock(self, d_model)


class SideBySideBlock(nn.Module):
    cross = None

    def __init__(self, its, d_model):
        super().__init__()
        self.attention, self.feedforward = its.attention.build(d_model), its.feedforward.build(d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x, frame, cache=None, memory=None):
        y = self.norm(x)
        return x + self.attention(y, frame, cache) + self.feedforward(y, frame)


arguments = inverse(describe)

CONFIG = {"vocab": "vocab_size", "layers": "num_layers", "width": "d_model", "heads": "num_heads", "pad_token_id": "pad"}
BLOCK = {
    "norm": "ln",
    "attention.qkv": "attn q k v",
    "attention.output": "attn.out",
    "feedforward.expand": "fc_in",
    "feedforward.contract": "fc_out",
}


def weights(**arguments):
    rules = table("decoder.blocks.#.", "h.#.", BLOCK) + table("decoder.", "", {"last_norm": "ln_f"})
    return Weights((*rules, Rule("wte.weight", "decoder.embed.tokens.weight", also=("lm_head.weight",))))


FORMATS = (Format("sidebyside", "SideBySideForCausalLM", CONFIG, weights),)
'''


@pytest.fixture
def family(tmp_path, monkeypatch):
    """The module of the new file, found by its name among the others; all traces go with the test."""
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "sidebyside.py").write_text(FILE, encoding="utf-8")
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(folder)])
    monkeypatch.setattr(parts, "_PARTS", dict(parts._PARTS))
    assert "sidebyside" in models.names()
    yield models.find("sidebyside")
    del sys.modules["regard.models.sidebyside"]
    del models.sidebyside


def rows(count=32, length=12):
    """Sequences that go up by one: what comes next follows from what is there."""
    first = torch.randint(4, 8, (count, 1), generator=torch.Generator().manual_seed(1))
    return first + torch.arange(length)


def test_one_file_is_enough(family, tmp_path, capsys):
    """Found, built, trained, saved, loaded, searched, shown: nothing else had to know it."""
    assert len([line for line in ast.unparse(ast.parse(FILE)).split("\n") if line.strip()]) < 60
    torch.manual_seed(0)
    model = family.describe(vocab_size=24).build()
    family.initialise(model)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    ids, losses = rows(), []
    for _ in range(60):
        answer = model.train()(ids[:, :-1], targets=Targets(ids[:, 1:]))
        losses.append((answer.loss_sum / answer.count).item())
        optimizer.zero_grad()
        answer.loss_sum.div(answer.count).backward()
        optimizer.step()
    assert losses[-1] < 0.2 < 2.0 < losses[0]
    save_model(tmp_path / "model", model.eval(), meta={"ids": {"bos": 2, "eos": 3}, "architecture": "sidebyside"})
    back, description, _ = load_model(tmp_path / "model")
    assert description == model.description
    with torch.no_grad():
        assert torch.equal(back(ids).logits, model(ids).logits)
    prompts = rows(3, 4)
    for beams in (1, 3):
        found = search(back, prompts, Layout.unpadded(4), Search(num_beams=beams, max_length=5), 2, 3)
        assert [one[0].ids for one in found] == [list(range(int(row[-1]) + 1, int(row[-1]) + 6)) for row in prompts]
    assert outline(description).flops == sum(flops(description).values()) > 0
    assert main(["info", str(tmp_path / "model")]) == 0
    assert "blocks × 2: SideBySide" in capsys.readouterr().out


def test_reading_in_steps_equals_reading_at_once(family):
    torch.manual_seed(0)
    model = family.describe(vocab_size=24).build().double().eval()
    ids = rows(2, 9)
    with torch.no_grad():
        whole = model(ids).logits
        state = model.start(None, 9)
        for at in range(9):
            assert torch.allclose(model.step(ids[:, at : at + 1], state), whole[:, at], atol=1e-12)


def test_a_folder_of_an_architecture_that_is_gone_says_so(family, tmp_path, monkeypatch):
    save_model(tmp_path / "model", family.describe(vocab_size=24).build())
    monkeypatch.setattr(models, "__path__", models.__path__[:-1])
    monkeypatch.setattr(parts, "_PARTS", {name: cls for name, cls in parts._PARTS.items() if name != "SideBySide"})
    with pytest.raises(UserError, match="unknown part 'SideBySide'"):
        load_model(tmp_path / "model")


def test_its_tables_make_a_folder_of_another_library(family, tmp_path):
    """The file's own keys and names stand on the disk, and are enough to open the folder without regard.json."""
    torch.manual_seed(0)
    model = family.describe(vocab_size=24, num_layers=3).build().eval()
    save_model(tmp_path / "model", model, meta={"ids": {"bos": 2, "eos": 3}})
    config = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))
    told = {"model_type": "sidebyside", "architectures": ["SideBySideForCausalLM"], "vocab": 24, "layers": 3, "width": 16}
    assert told.items() <= config.items()
    names = TensorFiles(tmp_path / "model").shapes
    assert {"wte.weight", "ln_f.bias", "h.2.ln.weight", "h.2.fc_in.bias"} < names.keys()
    assert names["h.0.attn.k.weight"] == (16, 16)
    assert not any(name.startswith("decoder") for name in names)
    (tmp_path / "model" / "regard.json").unlink()
    back, description, _ = load_model(tmp_path / "model")
    assert description == model.description
    with torch.no_grad():
        assert torch.equal(back(rows()).logits, model(rows()).logits)
    assert family.arguments(description)["num_layers"] == 3

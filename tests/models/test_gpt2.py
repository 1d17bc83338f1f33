"""GPT-2 against transformers' GPT2LMHeadModel and GPT2ForSequenceClassification."""

from __future__ import annotations

import pytest
import torch

from regard.checkpoints.folders import load_model
from regard.models import gpt2

transformers = pytest.importorskip("transformers")

PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-10)]
SHAPE = {"vocab_size": 23, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 48, "pad_token_id": 0}
SHAPE |= {"bos_token_id": 2, "eos_token_id": 3}
OURS = {"vocab_size": 23, "d_model": 16, "num_layers": 2, "num_heads": 2, "max_positions": 48, "pad": 0}


@pytest.fixture
def theirs(randomised, tmp_path):
    """A tiny random model of transformers, saved in tmp_path / "theirs"."""

    def make(kind: str = "GPT2LMHeadModel", **config):
        model = randomised(getattr(transformers, kind)(transformers.GPT2Config(**(SHAPE | config))))
        model.save_pretrained(tmp_path / "theirs")
        return model

    return make


@pytest.fixture
def check(hidden_states, recorded, padded_ids):
    """Logits of real tokens, and what the embedding, each block and the last norm give, are equal."""

    def compare(mine, other, side, dtype=torch.float32, tolerance=1e-5, body="transformer"):
        mine, other = mine.to(dtype), other.to(dtype)
        ids = padded_ids(side, 0, 23)
        real = ids != 0
        its = getattr(other, body)
        where = (real.cumsum(1) - 1).clamp(min=0)
        modules = (its.drop, *its.h, its.ln_f)
        want, wanted = recorded(modules, lambda: other(ids, attention_mask=real.long(), position_ids=where))
        answer, states = hidden_states(mine, ids)
        assert len(wanted) == len(states["decoder"]) == 4
        for a, b in zip(states["decoder"], wanted):
            assert (a - b)[real].abs().max() < tolerance
        difference = answer.logits - want.logits
        assert (difference if difference.dim() == 2 else difference[real]).abs().max() < tolerance
        assert want.logits.std() > 0.1

    return compare


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("side", ["no", "left", "right"])
def test_transformers_folder_opens_here(theirs, check, tmp_path, side, dtype, tolerance):
    other = theirs()
    model, description, meta = load_model(tmp_path / "theirs")
    assert description == gpt2.describe(**OURS)
    assert meta["ids"] == {"pad": 0, "bos": 2, "eos": 3}
    check(model, other, side, dtype, tolerance)

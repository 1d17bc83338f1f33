"""Keys that no table names, against what the reference class reads."""

from __future__ import annotations

import json
import sys

import pytest
import torch

from regard import models
from regard.checkpoints.folders import load_model
from regard.checkpoints.formats import unknown_keys
from regard.checkpoints.known import sifted
from regard.errors import UserError

FORMATS = [form for name in models.names() for form in getattr(models.find(name), "FORMATS", ())]
KINDS = {form.model_type: form for form in reversed(FORMATS)}


def test_a_key_that_the_reference_reads_is_refused_unless_it_says_the_usual(monkeypatch):
    transformers = pytest.importorskip("transformers")
    form = KINDS["marian"]
    usual = transformers.MarianConfig().to_dict()
    told = transformers.MarianConfig.to_dict
    monkeypatch.setattr(transformers.MarianConfig, "to_dict", lambda self: told(self) | {"wobble": 3, "tilt": None})
    assert sifted(form, usual | {"wobble": 3, "moon": 1}, "FILE") == usual | {"moon": 1}
    with pytest.raises(UserError) as error:
        sifted(form, usual | {"wobble": 4, "tilt": 0.5, "moon": 1}, "FILE")
    assert str(error.value) == (
        "FILE: keys that transformers reads and regard does not compute: tilt is 0.5, must be None; wobble is 4, must be 3"
    )


def test_without_transformers_unknown_keys_stay(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    config = {"model_type": "marian", "wobble": 4}
    assert sifted(KINDS["marian"], config, "FILE") == config


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_of_the_reference_is_known_or_usual(kind):
    """No usual configuration of transformers is refused or warned about; every other value of an unnamed key is refused."""
    transformers = pytest.importorskip("transformers")
    form = KINDS[kind]
    config = json.loads(transformers.CONFIG_MAPPING[kind]().to_json_string())
    for key in unknown_keys(form, sifted(form, config, "FILE")):
        raise AssertionError(f"{key} would give a warning")
    for key in unknown_keys(form, config):
        with pytest.raises(UserError, match=f"{key} is 'another'"):
            sifted(form, config | {key: "another"}, "FILE")


def test_a_folder_says_one_line_or_one_warning(tmp_path):
    """S-CKPT-08: an unknown key that the class reads refuses the folder; one that nobody reads gives one warning."""
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 23, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16}
    torch.manual_seed(0)
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=1, eos_token_id=1)).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"moon_phase": 3, "sun": 1}), encoding="utf-8")
    with pytest.warns(UserWarning, match="moon_phase, sun") as seen:
        load_model(tmp_path)
    assert len(seen) == 1
    path.write_text(json.dumps(config | {"scale_attn_by_inverse_layer_idx": True, "moon": 1}), encoding="utf-8")
    with pytest.raises(UserError, match="scale_attn_by_inverse_layer_idx is True") as error:
        load_model(tmp_path)
    assert "\n" not in str(error.value)

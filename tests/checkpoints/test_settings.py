"""Settings kept in a folder, whoever wrote it."""

from __future__ import annotations

import json
import shutil

import pytest

import regard
from regard.checkpoints.settings import store
from regard.errors import UserError


def test_a_folder_of_ours_keeps_them_everywhere(shared, translator_for, tmp_path) -> None:
    translator_for(shared).save(tmp_path / "model")
    weights = (tmp_path / "model" / "model.safetensors").read_bytes()
    store(tmp_path / "model", {"length_penalty": 0.6, "num_beams": 3})
    its = regard.load(tmp_path / "model")
    assert (its.search.length_penalty, its.search.num_beams) == (0.6, 3)
    told = json.loads((tmp_path / "model" / "generation_config.json").read_text(encoding="utf-8"))
    assert (told["length_penalty"], told["num_beams"]) == (0.6, 3)
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "- length_penalty: 0.6" in card
    assert "- length_penalty: 1.0" not in card
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == weights
    its.save(tmp_path / "again")
    assert regard.load(tmp_path / "again").search == its.search


@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_others_keeps_its_own_settings_too(foreign, tmp_path) -> None:
    shutil.copytree(foreign("t5", "T5ForConditionalGeneration"), tmp_path / "t5")
    place = tmp_path / "t5" / "generation_config.json"
    place.write_text(json.dumps(json.loads(place.read_text("utf-8")) | {"no_repeat_ngram_size": 3}), encoding="utf-8")
    before = regard.load(tmp_path / "t5").search
    store(tmp_path / "t5", {"length_penalty": 1.6, "num_beams": 4})
    after = regard.load(tmp_path / "t5").search
    assert (after.length_penalty, after.num_beams, after.no_repeat_ngram_size) == (1.6, 4, 3)
    assert (before.length_penalty, before.no_repeat_ngram_size) == (1.0, 3)
    place.unlink()  # then they stand in config.json, and are not to be lost
    config = json.loads((tmp_path / "t5" / "config.json").read_text("utf-8")) | {"num_beams": 7}
    (tmp_path / "t5" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    store(tmp_path / "t5", {"length_penalty": 0.8})
    assert (regard.load(tmp_path / "t5").search.num_beams, regard.load(tmp_path / "t5").search.length_penalty) == (7, 0.8)


def test_no_folder(tmp_path) -> None:
    with pytest.raises(UserError, match="no model folder"):
        store(tmp_path, {"length_penalty": 1.0})

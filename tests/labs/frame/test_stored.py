"""Results that are kept."""

from __future__ import annotations

import json

import pytest

from regard import labs
from regard.labs.frame import stored
from regard.labs.frame.lab import Setting, run
from regard.labs.frame.table import lines

KEPT = ("ladder", "finetune")


@pytest.fixture
def empty(monkeypatch, tmp_path):
    monkeypatch.setattr(stored.stored, "__defaults__", (tmp_path,))
    return tmp_path


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("broken", [False, True])
def test_without_a_kept_result_words_say_so_and_no_figure_is_made_up(empty, name, broken):
    its = run(labs.find(name), Setting(broken, "usual"))
    assert its.rows == its.checks == its.plots == []
    assert "No stored result is there yet" in its.finding.en
    assert its.verdict == "inconclusive"
    assert its.as_documented
    assert its.sabotage is None
    assert "Nothing was measured yet." in "\n".join(lines(its))


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_has_the_lab_s_form(name):
    its = stored.stored(name)
    if its is not None:
        assert its.lab == name
        assert its.settings["size"] == "full"
        assert its.sabotage is None


def test_a_kept_result_is_judged_anew_and_sabotage_turns_its_arms_round(empty, ladder_rows):
    from regard.labs import ladder

    measured = ladder.told(ladder_rows, [])
    kept = run(labs.find("ladder"))
    whole = kept.model_copy(update={"rows": measured.rows, "checks": [], "settings": {"size": "full", "seed": 0}})
    (empty / "ladder.json").write_text(json.dumps(whole.json_value()), encoding="utf-8")
    assert run(labs.find("ladder")).verdict == "holds"
    turned = run(labs.find("ladder"), Setting(True))
    assert turned.verdict == "not_as_written"
    assert turned.as_documented


def test_a_folder_that_is_finished_is_used_as_it_is(tmp_path):
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert stored.trained("no-such-recipe", tmp_path, []) == tmp_path

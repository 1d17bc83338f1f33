"""regard shortlist learns from the recipe's pairs or from others, and translate uses what it wrote."""

from __future__ import annotations

import pytest

from regard import cli


@pytest.fixture
def folder(translator_for, shared, tmp_path):
    translator_for(shared).save(tmp_path / "model")
    return tmp_path / "model"


def test_it_is_learned_and_used(folder, few_lines, tmp_path, capsys) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(*few_lines)), encoding="utf-8")
    assert cli.main(["translate", str(folder), "A dog .", "--shortlist"]) == 2
    assert "has no shortlist; make one with regard shortlist" in capsys.readouterr().err
    assert cli.main(["shortlist", str(folder), "--data", str(tmp_path / "pairs.tsv"), "--near", "3", "--common", "5"]) == 0
    assert "from 9 pairs" in capsys.readouterr().err
    assert cli.main(["translate", str(folder), "A dog .", "--shortlist", "--max-length", "4", "--num-beams", "2"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_without_a_recipe_the_data_must_be_named(folder, tmp_path, capsys) -> None:
    assert cli.main(["shortlist", str(folder)]) == 2
    assert "has no recipe.yaml that names its training data: give --data" in capsys.readouterr().err
    assert cli.main(["shortlist", str(tmp_path / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err

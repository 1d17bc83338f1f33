"""`regard train`: its arguments, and what it refuses before the first update. The loop itself is stood in for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import regard
from regard.cli import main
from regard.training.recipe import Recipe, load_recipe


@dataclass(frozen=True)
class Result:
    folder: Path
    steps: int
    scores: dict[str, float]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Recipe, Path, bool]]:
    """Trainings that the verb asked for; each leaves its recipe and a checkpoint."""
    asked: list[tuple[Recipe, Path, bool]] = []

    def train(recipe: Recipe, output: Path, resumed: bool = False, **more: Any) -> Result:
        asked.append((recipe, output, resumed))
        (output / "recipe.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
        (output / "checkpoint").write_text("weights", encoding="utf-8")
        return Result(output, 10, {"bleu": 1.5})

    loop = ModuleType("regard.training.loop")
    loop.train = train
    monkeypatch.setitem(sys.modules, "regard.training.loop", loop)
    return asked


def failed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr of a call that ends with 2."""
    capsys.readouterr()
    assert main(["train", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    return err


def test_settings_reach_the_loop_and_the_result_is_written(
    tmp_path: Path, runs: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    code = main(["train", "multi30k-en-fr", f"output={output}", "training.max_steps=7", "model.dropout=0.3", "--json", "-"])
    assert code == 0
    recipe, folder, resumed = runs[0]
    assert (recipe.training.max_steps, recipe.model.arguments["dropout"], folder, resumed) == (7, 0.3, output, False)
    assert json.loads(capsys.readouterr().out) == {"folder": str(output), "steps": 10, "scores": {"bleu": 1.5}}


def test_s_res_09_resuming_from_the_saved_recipe_alone(tmp_path: Path, runs: list[Any]) -> None:
    output = tmp_path / "out"
    assert main(["train", "multi30k-en-fr", f"output={output}", "training.seed=5"]) == 0
    for _ in range(3):
        assert main(["train", str(output / "recipe.yaml"), f"output={output}", "--resume"]) == 0
    assert [resumed for _, _, resumed in runs] == [False, True, True, True]
    assert {recipe.to_yaml() for recipe, _, _ in runs} == {load_recipe("multi30k-en-fr", ["training.seed=5"]).to_yaml()}


def test_resume_on_a_missing_or_empty_folder_starts_anew(tmp_path: Path, runs: list[Any]) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "missing"):
        assert main(["train", "multi30k-en-fr", f"output={tmp_path / name}", "--resume"]) == 0
    assert len(runs) == 2


def test_s_cli_03_other_settings_in_an_existing_folder(
    tmp_path: Path, runs: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    output = f"output={tmp_path / 'out'}"
    assert main(["train", "multi30k-en-fr", output, "model.d_model=8"]) == 0
    said = failed(["multi30k-en-fr", output, "model.d_model=16"], capsys)
    for part in (str(tmp_path / "out"), "model.d_model: 8, now 16", "--resume", "another folder"):
        assert part in said
    assert len(runs) == 1
    capsys.readouterr()
    assert main(["train", "multi30k-en-fr", output, "model.d_model=8", "training.learning_rate=5e-4", "--resume"]) == 0
    assert "setting changed: training.learning_rate: 0.008, now 0.0005" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more",
    [["--resume", "false"], ["--resume=false"], ["--overwrite", "false"], ["--overwrite"], ["--no-resume"], ["false"]],
)
def test_s_cli_06_no_form_of_a_yes_or_no_option_overwrites(
    more: list[str], tmp_path: Path, runs: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    output = f"output={tmp_path / 'out'}"
    assert main(["train", "multi30k-en-fr", output]) == 0
    (tmp_path / "out/notes.txt").write_text("mine", encoding="utf-8")
    failed(["multi30k-en-fr", output, *more], capsys)
    assert len(runs) == 1
    assert (tmp_path / "out/checkpoint").read_text(encoding="utf-8") == "weights"
    assert (tmp_path / "out/notes.txt").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["multi30k-en-fr"], "output=DIR is missing"),
        (["multi30k-en-fr", "output="], "output=DIR is missing"),
        (["multi30k-en-fr", "output=a", "output=b"], "output=DIR is given twice"),
        (["output=a", "multi30k-en-fr"], "the recipe comes first"),
        (["multi30k-en-rf", "output=a"], "no recipe is named 'multi30k-en-rf'"),
        (["missing.yaml", "output=a"], "missing.yaml: no such recipe file"),
        (["multi30k-en-fr", "output=a", "training.larning_rate=1"], "unknown key training.larning_rate; did you mean"),
        (["multi30k-en-fr", "output=a", "training.seed"], "is not an override"),
        (["multi30k-en-fr", "output=a", "--resme"], "No such option: --resme"),
        ([], "Missing argument"),
    ],
)
def test_s_cli_07_every_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], said: str, tmp_path: Path, runs: list[Any], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert said in failed(arguments, capsys)
    assert runs == []
    assert list(tmp_path.iterdir()) == []


def test_s_cli_07_also_in_a_console_without_utf8(tmp_path: Path) -> None:
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG"))}
    plain |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    plain["PYTHONPATH"] = str(Path(regard.__file__).parents[1])
    call = [sys.executable, "-m", "regard", "train", "żółć.yaml", "output=o"]
    ended = subprocess.run(call, cwd=tmp_path, env=plain, capture_output=True)
    assert ended.returncode == 2
    assert ended.stdout == b""
    said = ended.stderr.decode("utf-8")  # the name itself may be escaped: such a console gives programs no letters
    assert said.startswith("regard: error: ")
    assert said.endswith(".yaml: no such recipe file\n")
    assert said.count("\n") == 1


def test_s_cli_01_an_output_that_is_a_file(tmp_path: Path, runs: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert f"{tmp_path / 'file'}: not a folder" in failed(["multi30k-en-fr", f"output={tmp_path / 'file'}"], capsys)
    assert runs == []


def test_s_cli_02_the_working_folder_as_output_is_refused(
    tmp_path: Path, runs: list[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    failed(["multi30k-en-fr", "output=."], capsys)
    failed(["multi30k-en-fr", "output=.", "--resume"], capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert runs == []

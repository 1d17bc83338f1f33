"""The benchmarks run at toy size: what they print can be read, and tables are made from it. No figure is asserted."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOY = '{"num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2}'


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """bench(name): a module of the benchmarks."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


def run(*arguments: str) -> dict[str, Any]:
    """What a benchmark tells, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout[done.stdout.index("{") :])


def test_figures_become_tables_and_plots(bench: Any, tmp_path: Path) -> None:
    tables = bench("tables")
    numbers = {"median": 2000.0, "min": 1500.0, "max": 2500.0}
    report = {
        "benchmark": "train",
        "machine": {"cpu": "Two", "cores": 2, "torch": "2.13"},
        "versions": {"torch": "2.13"},
        "systems": {"regard": {"target": numbers, "of_ceiling": dict.fromkeys(numbers, 0.8)}, "torch": {"target": numbers}},
        "ratios": {"torch": {"median": 1.0, "min": 0.5, "max": 1.5}},
    }
    for language in ("en", "zh"):
        (tmp_path / language).mkdir()
        (tmp_path / language / "speed.md").write_text("a\n<!-- figures: train -->\nold\n<!-- end -->\nb\n", encoding="utf-8")
    (tmp_path / "train.json").write_text(json.dumps(report), encoding="utf-8")
    assert tables.main([str(tmp_path / "train.json"), "--docs", str(tmp_path)]) == 0
    page = (tmp_path / "en" / "speed.md").read_text(encoding="utf-8")
    assert "| regard | 2,000 (1,500–2,500) | 80% |  |" in page
    assert "| torch | 2,000 (1,500–2,500) |  | 1.00 (0.50–1.50) |" in page
    assert "old" not in page
    assert page.startswith("a\n")
    assert page.endswith("b\n")
    assert "目标词元/秒" in (tmp_path / "zh" / "speed.md").read_text(encoding="utf-8")
    assert "(../pictures/train.svg)" in page
    assert (tmp_path / "pictures" / "train.svg").is_file()


@pytest.mark.parametrize("kind", ["transformer", "rnn"])
@pytest.mark.parametrize("tool", ["eole", "opennmt", "joeynmt"])
def test_tools_are_told_the_shape_and_their_rates_are_read(bench: Any, tool: str, kind: str, tmp_path: Path) -> None:
    """A stand-in for the tool's own Python prints what the tool prints."""
    tools, shape = bench("peers.tools"), bench("train").SHAPES[kind]
    line = "Tokens per Sec:     716," if tool == "joeynmt" else "Step 5/20; bsz: 3350/3400/200; 1500/1800 tok/s; 20 sec;"
    stand_in = tmp_path / "python"
    script = f"#!{sys.executable}\nimport sys, yaml\nfrom pathlib import Path\n"
    script += "path = next(a for a in sys.argv if a.endswith('settings.yaml'))\n"
    script += f"assert yaml.safe_load(Path(path).read_text())\nprint('\\n'.join([{line!r}] * 4))\n"
    stand_in.write_text(script, encoding="utf-8")
    stand_in.chmod(0o755)
    found = tools.run(tool, str(stand_in), tmp_path, kind, shape, (4096, 15, 5))
    assert found["target"] == (716 if tool == "joeynmt" else 1800)
    assert found["source"] == (0 if tool == "joeynmt" else 1500)
    assert found["peak_mib"] > 0


def test_requirements_are_pinned_and_found(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environments = bench("environments")
    for path in (ROOT / "benchmarks" / "peers").glob("*.txt"):
        plain, apart = environments.requirements(path.stem)
        assert any("==" in line for line in [*plain, *apart]), path
    monkeypatch.setattr(environments, "PEERS", tmp_path)
    (tmp_path / "here.txt").write_text("numpy==0.0.1\n", encoding="utf-8")
    assert not environments.here("here")
    assert environments.here("here", exactly=False)
    assert environments.interpreter("here", installed=True) == sys.executable
    (tmp_path / "none.txt").write_text("# no-deps: surely-not-there==1\n", encoding="utf-8")
    assert not environments.here("none", exactly=False)


def test_operations_are_those_of_a_count_by_hand(bench: Any) -> None:
    """43.7 MFLOP for each target token of the shape that peers were measured in (issue 4)."""
    train = bench("train")
    assert train.flops_per_target(15.42, 17.65, train.SHAPES["transformer"]) == pytest.approx(43.7e6, rel=0.01)


@pytest.mark.slow
def test_training_runs_beside_its_peers(data_root: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    small = ["--shape", TOY, "--budget", "300", "--updates", "3", "--warm", "2", "--rounds", "1", "--installed"]
    small += ["--cache", str(tmp_path), "--set", "data.max_pairs=400", "--set", "tokenizer.vocab_size=300"]
    found = run("train", *small, "--peers", "torch,transformers,trainer", "--json", str(tmp_path / "train.json"))
    assert set(found["ratios"]) == {"torch", "transformers", "trainer"}
    assert all(system["target"]["median"] > 0 for system in found["systems"].values())
    rnn = run("train", *small[2:], "--kind", "rnn", "--shape", '{"d_model": 16}', "--peers", "")
    assert rnn["systems"]["regard"]["of_ceiling"]["median"] > 0


@pytest.mark.slow
def test_decoding_runs_beside_its_peers(shared: Any, model_for: Any, few_lines: Any, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("ctranslate2")
    from regard.decoding.shortlist import Shortlist
    from regard.translator import Translator

    Translator(model_for(shared), shared).save(tmp_path / "model")
    ids = [shared.source.encode_batch(lines) for lines in few_lines]
    Shortlist.learn(zip(*ids), shared.source.vocab_size, 4, 4).save(tmp_path / "model")
    for name, lines in zip(("a.en", "a.fr"), few_lines):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines[:3]), encoding="utf-8")
    systems = "regard@1x1,regard:int8+shortlist@1x1,regard@2x1,transformers@1x1,ctranslate2:float32@1x1"
    data = f"{tmp_path / 'a.en'},{tmp_path / 'a.fr'}"
    found = run(
        "decode",
        str(tmp_path / "model"),
        "--data",
        data,
        "--rounds",
        "1",
        "--systems",
        systems,
        "--installed",
        "--beams",
        "2",
    )
    assert found["same_answers"]["regard@2x1"] == 1.0
    assert found["same_answers"]["ctranslate2:float32@1x1"] > 0.5
    assert set(found["ratios"]["regard@1x1"]) == set(systems.split(",")[1:])


@pytest.mark.slow
def test_language_models_run_beside_their_peer() -> None:
    pytest.importorskip("transformers")
    shape = '{"num_layers": 1, "num_heads": 2, "d_model": 16, "width": 8, "rows": 2}'
    found = run("lm", "--rounds", "1", "--updates", "10", "--warm", "1", "--shape", shape, "--installed")
    assert set(found["tasks"]) == {"train", "generate"}


@pytest.mark.slow
def test_starts_and_peaks_are_measured(data_root: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    found = run("start", "--rounds", "1", "--peers", "ctranslate2", "--installed")
    assert found["systems"]["regard --help"]["seconds"]["median"] > 0
    more = f"--shape {TOY} --budget 300 --updates 1 --warm 1 --cache {tmp_path} --set data.max_pairs=400"
    found = run("memory", "--peers", "torch", "--installed", "--more", more.replace(": ", ":").replace(", ", ","))
    assert set(found["train"]) == {"regard", "torch"}


@pytest.mark.slow
def test_the_script_for_gpus_runs_dry() -> None:
    pytest.importorskip("transformers")
    found = run("gpu", "--dry", "--rounds", "1")
    assert list(found["parts"]) == ["translation", "language", "decoding", "attention"]
    assert found["left_out"] == []


def test_faults_are_planted_as_they_are_named(bench: Any) -> None:
    flags = bench("flags")
    good = ["a b c d", "e f g h", "i j k l"]
    made = flags.planted(["s", "t", "u"], good, 1)
    assert set(made) == set(flags.FAULTS)
    assert made["copy"] == ["s", "t", "u"]
    assert made["half"] == ["a b", "e f", "i j"]
    assert sorted(made["swapped"]) == good
    assert all(one != other for one, other in zip(made["swapped"], good))
    assert all(len(one.split()) >= 8 for one in made["loop"])
    assert flags.auc([3.0, 4.0], [1.0, 2.0]) == 1.0
    assert flags.auc([1.0, 2.0], [3.0, 4.0]) == 0.0
    assert flags.auc([1.0, 1.0], [1.0]) == 0.5


def test_figures_of_flags(bench: Any) -> None:
    class Judged:
        def __init__(self, *names: str) -> None:
            self.flags, self.explained = list(names), 0.1 if names else 0.9

    found = bench("flags").figures([Judged(), Judged("detached")], [Judged("detached")] * 2, ("detached",))
    assert found == {"recall": 1.0, "alarms": 0.5, "precision": 0.6667, "auc": 0.75}


def test_cases_of_constraints(bench: Any) -> None:
    constraints = bench("constraints")
    found = constraints.cases(["one", "two"], ["un grand chien", "le chat noir"], ["un petit chien", "le chat noir"], 5, 1)
    assert [(case.source, case.forbid) for case in found] == [("one", ["petit"])]
    assert found[0].require[0] in ("grand", "un grand", "grand chien")
    assert constraints.kept(found, ["un grand chien"]) == (2, 2)
    assert constraints.kept(found, ["un petit chien"]) == (2, 0)
    assert constraints.phrases("a, b c", 2) == ["b c"]


@pytest.mark.parametrize(("language", "head"), [("en", "| system | BLEU |"), ("zh", "| 系统 | BLEU |")])
def test_what_the_craft_gains_becomes_tables(bench: Any, language: str, head: str) -> None:
    score = {"score": 60.126, "difference": 1.5, "interval": [0.5, 2.5], "p": 0.01}
    craft = {"systems": {"first": {"seconds": 8.0, "bleu": score, "chrf": score}}}
    craft["systems"]["ensemble"] = craft["systems"]["first"]
    lines = bench("craft").table(craft, language).splitlines()
    assert lines[0].startswith(head)
    assert lines[2].startswith("| first | 60.13 |  |  |")
    assert "| +1.50 (0.50 … 2.50) | 0.010 |" in lines[3]
    kept = {"kept": 0.995, "seconds": 1.0, "scores": {"bleu": {"value": 60.0}, "chrf": {"value": 70.0}}}
    report = {
        "cases": 500,
        "promises": 939,
        "plain": kept,
        "constrained": kept,
        "time": {"median": 1.6, "min": 1.5, "max": 1.7},
    }
    start = {"systems": {"regard --help": {"seconds": report["time"]}}, "after_torch": report["time"]}
    lines = bench("start").table(start, language).splitlines()
    assert lines[2] == "| `regard --help` | 1.60 s (1.50–1.70) | ≤ 0.3 s |"
    assert len(lines) == 4
    lines = bench("constraints").table(report, language).splitlines()
    assert "99.5 %" in lines[2]
    assert "1.60 × (1.50–1.70)" in lines[-1]
    flags, row = bench("flags"), {"recall": 0.98, "alarms": 0.014, "precision": 0.986}
    lines = flags.table({origin: dict.fromkeys(flags.FAULTS, row) for origin in flags.ORIGINS}, language).splitlines()
    assert len(lines) == 2 + len(flags.FAULTS)
    assert lines[2].endswith("| 98.0 % | 1.4 % | 98.6 % | 98.0 % | 1.4 % | 98.6 % |")


def test_slopes_are_those_of_powers(bench: Any) -> None:
    growth = bench("growth")
    x = [10.0, 20.0, 40.0, 80.0]
    exact = growth.slope(x, [3 * one**2 for one in x])
    assert exact["slope"] == pytest.approx(2.0)
    assert (exact["low"], exact["high"]) == pytest.approx((2.0, 2.0))
    bent = growth.slope(x, [one + one**2 / 40 for one in x])
    assert bent["low"] < bent["slope"] < bent["high"]
    assert growth.slope(x[:2], x[:2]) is None
    assert growth.slope(x, [0.0, -1.0, 1.0, 2.0]) is None


def test_growth_becomes_a_table_and_a_picture_in_both_languages(bench: Any, tmp_path: Path) -> None:
    growth, tables = bench("growth"), bench("tables")
    runs = {size: [{"x": size, "seconds": size / 1000, "mib": 0.0 if size == 8 else size}] for size in (8, 16, 32, 64)}
    report: dict[str, Any] = {"benchmark": "growth", "machine": {"cpu": "Two", "cores": 2, "torch": "2.13"}}
    report["axes"] = {name: growth.grown(runs) for name in growth.AXES}
    for language in ("en", "zh"):
        (tmp_path / language).mkdir()
        (tmp_path / language / "scale.md").write_text("<!-- figures: growth -->\n<!-- end -->\n", encoding="utf-8")
    (tmp_path / "growth.json").write_text(json.dumps(report), encoding="utf-8")
    assert tables.main([str(tmp_path / "growth.json"), "--docs", str(tmp_path)]) == 0
    page = (tmp_path / "en" / "scale.md").read_text(encoding="utf-8")
    line = "| training, one pair of sentences | 8–64 tokens | 0.008–0.064 | 1.00 (1.00 – 1.00), 1.00 → 1.00 | 0–64 MiB |"
    assert line in page
    assert "进程" in (tmp_path / "zh" / "scale.md").read_text(encoding="utf-8")
    assert (tmp_path / "pictures" / "growth.svg").read_text(encoding="utf-8").count("tokens") > 0


def test_forecasts_and_large_corpora_become_tables(bench: Any) -> None:
    numbers = {"median": 2e6, "min": 1e6, "max": 3e6}
    its = {"forecast": numbers, "measured": numbers, "ratio": dict.fromkeys(numbers, 1.0)}
    page = bench("plan").table({"ways": {"ddp": {"memory": its, "seconds": its}}}, "en")
    assert "| ddp | 2.0 MB | 2.0 MB | 1.00 (1.00–1.00) | 2000000.000 |" in page
    part = {"prepare": {"seconds": 2.0, "mib": 300.0}, "train": {"mib": 500.0, "target_per_second": 1000.0}}
    report = {"pairs": 10**7, "few": part, "all": part, "pairs_per_second": 5e6, "more_mib": 10.0, "times_training": 20.0}
    assert "| 10,000,000 | 2 | 300 MiB | 500 MiB | 1,000 |" in bench("corpus").table(report, "zh")


def test_windows_and_peaks_become_tables(bench: Any) -> None:
    attention, memory = bench("attention"), bench("memory")
    found = {
        (body, length): [{"seconds": factor * length / 8192, "mib": 100.0}] * 3
        for body, factor in (("blocks", 1.0), ("dense", 6.0))
        for length in (8192, 16384)
    }
    report = attention.tell(found, {"window": 8})
    page = attention.table(report, "en")
    assert "| in blocks, 16,384 tokens | 2.00 s (2.00–2.00), 100 MiB (100–100) |  |" in page
    assert "| dense over blocks, the longest | 6.0 × | ≥ 4 × |" in page
    assert "| 分块：最长与最短之比 | 2.0 × (2.0–2.0) | 2 × |" in attention.table(report, "zh")
    report = {"train": {"regard": 900.0, "torch": 1500.0, "eole": 1200.0}, "decode": {"regard@1x2": 1.0, "ctranslate2": 2.0}}
    page = memory.table(report, "en")
    assert "| training, regard | 900 MiB | ≤ 1,200 MiB |" in page
    assert "| translating, regard@1x2 | 1 MiB |  |" in page


@pytest.mark.slow
def test_growth_is_measured(tmp_path: Path) -> None:
    small = ["--lengths", "8,16,32", "--written", "4,8", "--widths", "32,64", "--pairs", "200,400", "--ranks", "1,2"]
    small += ["--rounds", "1", "--updates", "1", "--folder", str(tmp_path), *SHARED]
    found = run("growth", *small, "--json", str(tmp_path / "growth.json"))
    assert set(found["axes"]) == {"length", "written", "weights", "held", "streamed", "ddp", "fsdp"}
    assert found["left_out"] == []
    for its in found["axes"].values():
        assert all(point["seconds"]["median"] > 0 for point in its["points"])
    assert found["axes"]["length"]["seconds"]["low"] <= found["axes"]["length"]["seconds"]["slope"]


SHARED = [part for one in ("data.max_pairs=300", "model.d_model=16", "model.num_layers=1") for part in ("--set", one)]


@pytest.mark.slow
def test_forecasts_are_compared_with_ranks() -> None:
    found = run("plan", "--rounds", "1", "--updates", "1", *SHARED)
    assert set(found["ways"]) == {"ddp", "ddp + checkpointing", "fsdp", "fsdp + checkpointing"}
    for way in found["ways"].values():
        assert all(its["measured"]["median"] > 0 and its["forecast"]["median"] > 0 for its in way.values())


@pytest.mark.slow
def test_a_large_corpus_is_measured(tmp_path: Path) -> None:
    found = run("corpus", "--pairs", "400", "--updates", "2", "--folder", str(tmp_path))
    assert found["all"]["train"]["mib"] > 0
    assert set(found["reached"]) == {"preparation", "training", "pipeline"}


def test_eole_is_given_the_recipe_s_shape_and_scores_become_a_table(bench: Any, tmp_path: Path) -> None:
    from regard.models.transformer import SIZES
    from regard.training.recipe import load_recipe

    quality = bench("quality")
    assert {key: SIZES["tiny"][key] for key in ("d_model", "d_ff", "num_heads")}.items() <= quality.SHAPE.items()
    its, recipe = quality.settings(tmp_path, tmp_path, 700), load_recipe(quality.RECIPE)
    assert its["model"]["hidden_size"] == quality.SHAPE["d_model"]
    assert (its["model"]["encoder"]["layers"], its["model"]["decoder"]["layers"]) == (3, 2)
    assert its["training"]["train_steps"] == 700
    assert its["training"]["batch_size"] == quality.BATCH == recipe.training.batch_tokens
    assert its["training"]["warmup_steps"] == quality.WARMUP == recipe.training.warmup_steps
    assert recipe.tokenizer.vocab_size == quality.PIECES
    assert quality.plain("▁Un ▁ch ien .") == "Un chien."
    lines = ["Un chien court.", "Une femme rit aux éclats."]
    found = {"regard": quality.scored({"hypotheses": lines, "minutes": 12.0}, [lines])}
    told = quality.table({"results": found, "threads": 1, "beside": True}, "en").splitlines()
    assert told[-1] == "| regard | 12.0 | 100.00 | 100.00 |"


def test_products_are_measured_both_ways(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.layers import kernels

    products, before = bench("products"), kernels.LARGE
    monkeypatch.setattr(products, "SHAPES", ((64, 32, 48),))
    rows = products.measure(2, 0.01)
    assert before == kernels.LARGE
    assert [row["pass"] for row in rows] == list(products.PASSES)
    assert all(row[library]["median"] > 0 for row in rows for library in ("mkl", "onednn"))
    assert "| 64 × 32 × 48 | 前向 |" in products.table({"products": rows}, "zh")

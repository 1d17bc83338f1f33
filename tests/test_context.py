"""From data.context to `translate --context`: a language whose second sentence depends on the first one."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import httpx
import pytest
import yaml

from regard import cli
from regard.serving.engine import Engine
from regard.serving.limits import Limits
from regard.serving.served import Served
from regard.serving.server import application
from regard.serving.service import Service
from regard.training.loop import train
from regard.training.recipe import load_recipe
from regard.translator import load

NOUNS = {"dog": "le chien", "boy": "le garçon", "king": "le roi", "cow": "la vache", "girl": "la fille", "queen": "la reine"}
VERBS = {"runs": "court", "eats": "mange", "sleeps": "dort", "sings": "chante"}


def documents(count: int, seed: int) -> list[tuple[str, str]]:
    """Pairs of two sentences each: of whom is spoken, and what "it" does then; an empty pair between two documents."""
    draw, rows = random.Random(seed), []
    for _ in range(count):
        noun, verbs = draw.choice(list(NOUNS)), draw.sample(list(VERBS), 2)
        pronoun = "il" if NOUNS[noun].startswith("le ") else "elle"
        rows.append((f"the {noun} {verbs[0]} .", f"{NOUNS[noun]} {VERBS[verbs[0]]} ."))
        rows += [(f"it {verbs[1]} .", f"{pronoun} {VERBS[verbs[1]]} ."), ("", "")]
    return rows


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("context")
    for name, count in (("train", 400), ("valid", 20), ("test", 20)):
        rows = documents(count, len(name) + count)
        (folder / f"{name}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8")
    recipe = {
        "data": {name: f"{name}.tsv" for name in ("train", "valid", "test")}
        | {"context": 1, "clean": {"drop_duplicates": False}},
        "tokenizer": {"kind": "words", "vocab_size": 64},
        "model": {"architecture": "transformer", "num_layers": 1, "d_model": 32, "d_ff": 64, "num_heads": 2, "dropout": 0.0},
        "training": {"max_steps": 160, "batch_tokens": 500, "learning_rate": 1e-2, "warmup_steps": 20, "schedule": "linear"}
        | {"save_every": 160, "evaluate_every": 160, "threads": 1},
        "search": {"num_beams": 2},
        "evaluation": {"during": False, "metrics": ["exact_match"]},
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        train(load_recipe(folder / "recipe.yaml"), folder / "out")
    return folder


def test_the_first_sentence_decides_about_the_second(model: Path) -> None:
    rows = documents(40, 7)
    its, sources, wanted = load(model / "out"), [a for a, _ in rows], [b for _, b in rows]
    read, bare = its.translate(sources, context=1), its.translate(sources)
    after = [n for n in range(len(rows)) if n % 3 == 1]
    assert sum(read[n] == wanted[n] for n in after) >= 38
    assert sum(bare[n] == wanted[n] for n in after) <= 30
    assert sum(bare[n] == wanted[n] for n in range(0, len(rows), 3)) >= 38
    told = json.loads((model / "out" / "regard.json").read_text(encoding="utf-8"))
    assert told["context"] == {"sentences": 1, "tokens": 256}
    assert told["scores"]["exact_match"]["value"] >= 90
    page = its.translate_document("<p>the queen sleeps .</p><p>it runs .</p>", "html", context=1, split="no")
    assert page.text == "<p>la reine dort .</p><p>elle court .</p>"


def test_from_a_server(model: Path) -> None:
    """Sentences of several clients in one batch, each after its own, and some after none."""
    rows = documents(6, 11)
    calls = [{"text": b[0], "context": [a]} for a, b in zip(rows[::3], rows[1::3])] + [{"text": a[0]} for a in rows[::3]]
    wanted = [b[1] for b in rows[1::3]] + [a[1] for a in rows[::3]]
    with Engine([Served("it", load(model / "out"))], Limits(grace=5.0)) as engine:
        app = application(Service(engine))

        async def run() -> list[httpx.Response]:
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60) as client:
                told = await client.get("/api/models")
                assert told.json()["models"][0]["context"] == 1
                wrong = [
                    {"text": "it runs . it eats .", "split": "marks", "context": [["a", "b"]]},
                    {"text": "it runs .", "context": [["a", "b"]], "attention": True},
                    {"text": "it runs .", "context": [["a"]]},
                    {"text": "it runs .", "context": [["a", "b"]], "format": "text"},
                ]
                for one in wrong:
                    answer = await client.post("/api/translate", json=one)
                    assert (answer.status_code, answer.json()["error"].startswith("context")) == (400, True)
                return await asyncio.gather(*(client.post("/api/translate", json=one) for one in calls))

        found = [one.json()["translations"][0]["text"] for one in asyncio.run(run())]
    assert sum(a == b for a, b in zip(found, wanted)) >= 11
    assert found[:6] == load(model / "out").translate(
        [one["text"] for one in calls[:6]], context=[one["context"] for one in calls[:6]]
    )


def test_from_the_command_line(model: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for number, name in enumerate(("en", "fr")):
        lines = [row[number] for row in documents(20, 9)][:-1]
        (tmp_path / f"t.{name}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    source, reference, out = str(tmp_path / "t.en"), str(tmp_path / "t.fr"), str(tmp_path / "out.fr")
    assert cli.main(["translate", str(model / "out"), "-i", source, "-o", out, "--context", "1"]) == 0
    wanted, found = (Path(path).read_text(encoding="utf-8").split("\n") for path in (reference, out))
    assert len(found) == len(wanted) == 60
    assert sum(a == b for a, b in zip(found, wanted)) >= 57
    given = ["evaluate", str(model / "out"), "-s", source, "-r", reference, "--metrics", "exact_match", "--allow-empty"]
    values = []
    for more in (["--context", "1"], []):
        assert cli.main([*given, *more, "--json", str(tmp_path / "found.json")]) == 0
        values.append(json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["scores"]["exact_match"]["value"])
    assert values[0] > values[1] + 8
    assert cli.main(["translate", str(model / "out"), "--context", "2", "x"]) == 2
    assert "context is 2; this model has learned with 1 at most" in capsys.readouterr().err

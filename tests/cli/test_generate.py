"""regard generate: prompts in, what follows out; streams, stop strings, chats."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import cli

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def folder(foreign: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    its = tmp_path_factory.mktemp("chat") / "its"
    shutil.copytree(foreign("llama", "LlamaForCausalLM"), its)
    (its / "chat_template.jinja").write_text(
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}{{ eos_token }}{% endfor %}", "utf-8"
    )
    return its


def run(capsysbinary: Any, folder: Path, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    capsysbinary.readouterr()
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="ascii")
    try:
        code = cli.main(["generate", str(folder), *arguments])
    finally:
        sys.stdin = before
    out, err = capsysbinary.readouterr()
    return code, out.decode("utf-8"), err.decode("utf-8")


@pytest.fixture(scope="module")
def answers(folder: Path) -> list[str]:
    return regard.load(folder).generate(["Hello world", "The fox", "żółć"], max_new_tokens=9)


def test_one_prompt_is_shown_as_it_is_written(folder: Path, answers: list[str], capsysbinary: Any) -> None:
    assert run(capsysbinary, folder, "Hello world", "--max-new-tokens", "9") == (0, answers[0] + "\n", "")


def test_several_are_a_line_each_in_order(folder: Path, answers: list[str], capsysbinary: Any) -> None:
    lines = "".join(" ".join(text.split("\n")) + "\n" for text in answers)
    assert run(capsysbinary, folder, "--max-new-tokens", "9", stdin="Hello world\nThe fox\nżółć\n".encode()) == (
        0,
        lines,
        "",
    )
    assert run(capsysbinary, folder, "Hello world", "The fox", "żółć", "--max-new-tokens", "9")[1] == lines


def test_json(folder: Path, answers: list[str], capsysbinary: Any, tmp_path: Path) -> None:
    code, out, _ = run(capsysbinary, folder, "Hello world", "The fox", "--jsonl", "--max-length", "9")
    found = [json.loads(line) for line in out.splitlines()]
    assert (code, [one["text"] for one in found], found[1]["line"]) == (0, answers[:2], 2)
    assert len(found[0]["token_log_probs"]) == 9
    code, out, _ = run(capsysbinary, folder, "The fox", "--max-new-tokens", "9", "--json", "-")
    assert json.loads(out)["answers"][0]["text"] == answers[1]
    run(capsysbinary, folder, "The fox", "--max-new-tokens", "9", "-o", str(tmp_path / "out"))
    assert (tmp_path / "out").read_text("utf-8") == answers[1] + "\n"


def test_stop_strings_and_sampling_options(folder: Path, answers: list[str], capsysbinary: Any) -> None:
    stop = answers[0][3:6]
    _, out, _ = run(capsysbinary, folder, "Hello world", "--max-new-tokens", "9", "--stop", stop)
    assert out == answers[0][: answers[0].find(stop)] + "\n"
    sampled = [run(capsysbinary, folder, "Hello world", "--temperature", "2", "--seed", seed)[1] for seed in "112"]
    assert sampled[0] == sampled[1] != sampled[2]
    code, out, _ = run(capsysbinary, folder, "Hello world", "--sample", "--n-best", "3", "--max-new-tokens", "4")
    assert (code, out.count(" ||| ")) == (0, 2)


def test_a_chat_remembers_its_turns(folder: Path, capsysbinary: Any) -> None:
    given = ("--chat", "--system", "Be brief.", "--max-new-tokens", "6")
    _, out, _ = run(capsysbinary, folder, *given, "--jsonl", stdin=b"Hello world\nThe fox\n")
    first, second = (json.loads(line)["text"] for line in out.splitlines())
    its = regard.load(folder)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello world"}]
    assert its.generate([messages], max_new_tokens=6) == [first]
    messages += [{"role": "assistant", "content": first}, {"role": "user", "content": "The fox"}]
    assert its.generate([messages], max_new_tokens=6) == [second]
    assert run(capsysbinary, folder, *given, stdin=b"Hello world\nThe fox\n")[1] == f"{first}\n{second}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["a", "--temperature", "-1"], "temperature must be"),
        (["a", "--max-new-tokens", "0"], "max-new-tokens"),
        (["a", "--system", "b"], "add --chat"),
        (["a", "--input", "b"], "not both"),
        (["a", "--stop", ""], "at least one character"),
        (["a", "--engine", "tensorrt"], "engine tensorrt: is not known; known: regard, compiled"),
        (["a", "--num-beams", "1", "--n-best", "2"], "num_return"),
    ],
)
def test_mistakes_are_one_line(folder: Path, capsysbinary: Any, arguments: list[str], says: str) -> None:
    code, out, err = run(capsysbinary, folder, *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.strip().split("\n")) == 1


def test_other_models_name_their_verb(foreign: Any, capsysbinary: Any) -> None:
    code, _, err = run(capsysbinary, foreign("bart", "BartForConditionalGeneration"), "a")
    assert code == 2
    assert "holds a translator, not a language model: use regard translate" in err
    assert cli.main(["translate", str(foreign("gpt2", "GPT2LMHeadModel")), "a"]) == 2
    assert b"holds a language model, not a translator: use regard generate" in capsysbinary.readouterr().err

"""Prompts in, what follows out: as transformers, as stories260K was documented, whatever is batched."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.errors import UserError
from regard.generator import Generation, Generator, Writing

pytestmark = pytest.mark.filterwarnings("ignore")
PROMPTS = ["Once upon a time", "One day, a dog", "The", "Lily and her mom went to the"]


@pytest.fixture(scope="module")
def stories(data_root: Path) -> Generator:
    return regard.load(data_root / "checkpoints" / "stories260K")


@pytest.fixture(scope="module", params=[("gpt2", "GPT2LMHeadModel"), ("llama", "LlamaForCausalLM")])
def tiny(request: pytest.FixtureRequest, foreign: Any) -> tuple[Generator, Path]:
    folder = foreign(*request.param)
    return regard.load(folder), folder


def test_the_documented_story(stories: Generator, data_root: Path) -> None:
    told = json.loads((data_root / "checkpoints" / "stories260K" / "expected.json").read_text("utf-8"))
    (found,) = stories.generate([""], max_new_tokens=256, details=True)
    assert found.text == told["greedy_text"]
    assert [stories.tokenizer.backend.token_to_id(token) for token in found.tokens] == told["greedy_ids"]
    assert -found.log_prob / 256 == pytest.approx(told["mean_nll_of_greedy_ids"], abs=1e-4)


def test_the_documented_story_in_compiled_code(stories: Generator, data_root: Path) -> None:
    pytest.importorskip("numba")
    told = json.loads((data_root / "checkpoints" / "stories260K" / "expected.json").read_text("utf-8"))
    its = regard.load(data_root / "checkpoints" / "stories260K").compile()
    (found,) = its.generate([""], max_new_tokens=256, details=True)
    assert found.text == told["greedy_text"]
    assert -found.log_prob / 256 == pytest.approx(told["mean_nll_of_greedy_ids"], abs=1e-4)
    drawn = {"sample": True, "seed": 2, "max_new_tokens": 12}
    assert its.generate(PROMPTS, **drawn) == stories.generate(PROMPTS, **drawn)
    assert "".join(its.stream(PROMPTS[1], max_new_tokens=12)) == stories.generate(PROMPTS[1:2], max_new_tokens=12)[0]


@pytest.mark.parametrize("beams", [1, 3])
def test_ids_equal_transformers(tiny: tuple[Generator, Path], beams: int) -> None:
    import transformers

    its, folder = tiny
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    for prompt in ("Hello world", "The quick brown fox", "a"):
        ids = torch.tensor([its.prompt_ids(prompt)])
        with torch.no_grad():
            settings = {"num_beams": beams, "do_sample": False, "length_penalty": 1.0, "max_new_tokens": 12}
            want = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)[0, ids.shape[1] :].tolist()
        (found,) = its.generate([prompt], num_beams=beams, max_new_tokens=12, details=True)
        got = [its.tokenizer.backend.token_to_id(token) for token in found.tokens]
        assert got == want[: len(got)]
        assert set(want[len(got) :]) <= set(its.ends)


def test_neighbours_and_streams_change_nothing(stories: Generator) -> None:
    alone = [stories.generate([prompt], max_new_tokens=20)[0] for prompt in PROMPTS]
    assert stories.generate(PROMPTS, max_new_tokens=20) == alone
    assert stories.generate(PROMPTS, max_new_tokens=20, batch_tokens=1) == alone
    assert list(stories.stream_all(iter(PROMPTS), window=3, max_new_tokens=20)) == alone
    assert ["".join(stories.stream(prompt, max_new_tokens=20)) for prompt in PROMPTS] == alone
    assert len(list(stories.stream(PROMPTS[0], max_new_tokens=20))) > 10


def test_samples_depend_on_seed_and_number_alone(stories: Generator) -> None:
    drawn = stories.generate(["Lily"] * 4, temperature=1.5, seed=3, max_new_tokens=10)
    assert len(set(drawn)) > 1
    assert stories.generate(["Lily"] * 2, temperature=1.5, seed=3, max_new_tokens=10, first=2) == drawn[2:]
    assert "".join(stories.stream("Lily", temperature=1.5, seed=3, max_new_tokens=10, first=1)) == drawn[1]
    (several,) = stories.generate(["Lily"], top_k=20, num_return=3, max_new_tokens=6, details=True)
    assert len(several.alternatives) == 2
    assert stories.generate(["Lily"], max_new_tokens=8) == stories.generate(["Lily"], temperature=0.0, max_new_tokens=8)


@pytest.mark.parametrize("stop", [".", ["named Li", "xyz"], ["a little", " upon a", "zzz"]])
def test_stop_strings_end_an_answer_and_are_not_in_it(stories: Generator, stop: Any) -> None:
    whole = stories.generate([""], max_new_tokens=40)[0]
    first = min(whole.find(one) for one in ([stop] if isinstance(stop, str) else stop) if one in whole)
    (found,) = stories.generate([""], max_new_tokens=40, stop=stop, details=True)
    assert (found.text, found.finish) == (whole[:first], "stop")
    assert len(found.tokens) < 30
    assert "".join(stories.stream("", max_new_tokens=40, stop=stop)) == whole[:first]
    (beams,) = stories.generate([""], max_new_tokens=40, stop=stop, num_beams=2, details=True)
    assert not any(one in beams.text for one in ([stop] if isinstance(stop, str) else stop))


def test_an_end_mark_ends_an_answer(tiny: tuple[Generator, Path]) -> None:
    its, _ = tiny
    (found,) = its.generate(["Hello"], max_new_tokens=20, details=True)
    assert found.finish == "length"
    assert isinstance(found, Generation)
    its.meta["ends"] = [its.tokenizer.backend.token_to_id(found.tokens[5])]
    try:
        (cut,) = its.generate(["Hello"], max_new_tokens=20, details=True)
        assert cut.finish == "end"
        assert cut.tokens == found.tokens[: found.tokens.index(found.tokens[5]) + 1]
        assert found.text.startswith(cut.text)
        (longer,) = its.generate(["Hello"], max_new_tokens=20, min_length=8, details=True)
        assert len(longer.tokens) >= 8
    finally:
        del its.meta["ends"]


def test_s_tok_02_a_prompt_is_ordinary_text(stories: Generator) -> None:
    ids = stories.prompt_ids("a </s> b <s>")
    assert ids.count(1) == 1
    assert 2 not in ids


def test_a_chat(foreign: Any, tmp_path: Path) -> None:
    shutil.copytree(foreign("llama", "LlamaForCausalLM"), tmp_path / "its")
    (tmp_path / "its" / "chat_template.jinja").write_text(
        "{{ bos_token }}{{ messages[-1]['content'] }}{{ eos_token }}", "utf-8"
    )
    its = regard.load(tmp_path / "its")
    messages = [{"role": "user", "content": "Hello world"}]
    ids = its.prompt_ids(messages)
    assert (ids[0], ids[-1], ids.count(1), ids.count(2)) == (1, 2, 1, 1)
    assert its.tokenizer.decode(ids) == "Hello world"
    (answer,) = its.generate([messages], max_new_tokens=6)
    assert "".join(its.stream(messages, max_new_tokens=6)) == answer
    assert not answer.startswith(" ")


def test_mistakes(stories: Generator, tiny: tuple[Generator, Path]) -> None:
    for wrong, says in (
        ({"stop": ""}, "at least one character"),
        ({"temperatur": 1}, "did you mean temperature"),
        ({"max_new_tokens": 0}, "max_length must be"),
    ):
        with pytest.raises(UserError, match=says):
            stories.generate(["a"], **wrong)
    with pytest.raises(UserError, match="takes a list of prompts"):
        stories.generate("a")
    with pytest.raises(UserError, match="use generate, not stream"):
        list(stories.stream("a", num_beams=2))
    with pytest.raises(UserError, match=r"prompt 1 has .* tokens, the model has positions for"):
        regard_limit(tiny[0])


def regard_limit(its: Generator) -> Any:
    its.model.decoder.limit = 64
    return its.generate(["a dog " * 100])


def test_a_writing_holds_back_what_may_be_a_stop_string(stories: Generator) -> None:
    writing = Writing(stories.tokenizer, [1], ["little boy"], [2])
    ids = stories.tokenizer.encode("a little")
    given = [writing.push(number, -0.5) for number in ids]
    assert "".join(given) == "a "
    assert writing.close() == "little"
    assert writing.generation().log_prob == pytest.approx(-0.5 * len(ids))

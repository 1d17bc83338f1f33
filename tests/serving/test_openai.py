"""OpenAI's dialect, on the wire; its own client is in test_clients."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest

PROMPT = {"model": "tales", "prompt": "A dog", "temperature": 0}
CHAT = {"model": "tales", "messages": [{"role": "user", "content": "A dog"}], "temperature": 0}


def chunks(text: str) -> list[Any]:
    found = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert found[-1] == "[DONE]"
    return [json.loads(line) for line in found[:-1]]


def test_models(client: Any) -> None:
    found = client.get("/v1/models").json()
    assert [one["id"] for one in found["data"]] == ["en-fr", "tales", "vectors", "marks"]
    assert client.get("/v1/models/tales").json() == found["data"][1]
    missing = client.get("/v1/models/none")
    assert (missing.status_code, missing.json()["error"]["type"]) == (404, "not_found_error")


def test_completions(client: Any, generator: Any) -> None:
    found = client.post("/v1/completions", PROMPT | {"logprobs": 1}).json()
    [wanted] = generator.generate(["A dog"], max_new_tokens=16, details=True)
    [choice] = found["choices"]
    assert (found["object"], choice["text"], choice["finish_reason"]) == ("text_completion", wanted.text, "length")
    assert choice["logprobs"]["tokens"] == wanted.tokens
    asked = len(generator.prompt_ids("A dog"))
    assert found["usage"] == {"prompt_tokens": asked, "completion_tokens": 16, "total_tokens": asked + 16}
    several = client.post("/v1/completions", PROMPT | {"prompt": ["A dog", "Two"], "max_tokens": 4, "echo": True}).json()
    assert [one["text"] for one in several["choices"]] == [
        text + generator.generate([text], max_new_tokens=4)[0] for text in ("A dog", "Two")
    ]
    copies = client.post("/v1/completions", PROMPT | {"n": 2}).json()["choices"]
    assert [one["index"] for one in copies] == [0, 1]
    assert copies[0]["text"] == copies[1]["text"]


def test_samples(client: Any, generator: Any) -> None:
    body = {"model": "tales", "prompt": "A dog", "n": 3, "temperature": 1.5, "seed": 4}
    found = [one["text"] for one in client.post("/v1/completions", body).json()["choices"]]
    [best] = generator.generate(
        ["A dog"], max_new_tokens=16, details=True, sample=True, temperature=1.5, seed=4, num_return=3
    )
    assert found == [best.text, *(one.text for one in best.alternatives)]
    free = [client.post("/v1/completions", {"model": "tales", "prompt": "A dog"}).json() for _ in range(3)]
    assert len({one["choices"][0]["text"] for one in free}) > 1


def test_chat(client: Any, generator: Any) -> None:
    found = client.post("/v1/chat/completions", CHAT | {"max_tokens": 5, "logprobs": True}).json()
    [wanted] = generator.generate([CHAT["messages"]], max_new_tokens=5, details=True)
    [choice] = found["choices"]
    assert choice["message"] == {"role": "assistant", "content": wanted.text, "refusal": None}
    assert [one["token"] for one in choice["logprobs"]["content"]] == wanted.tokens
    parts = [{"role": "user", "content": [{"type": "text", "text": "A "}, {"type": "text", "text": "dog"}]}]
    again = client.post("/v1/chat/completions", CHAT | {"messages": parts, "max_completion_tokens": 5}).json()
    assert again["choices"][0]["message"]["content"] == wanted.text


def test_streams(client: Any, generator: Any) -> None:
    [wanted] = generator.generate(["A dog"], max_new_tokens=16)
    body = PROMPT | {"stream": True, "stream_options": {"include_usage": True}, "echo": True}
    found = chunks(client.post("/v1/completions", body).text)
    assert "".join(one["choices"][0]["text"] for one in found if one["choices"]) == "A dog" + wanted
    assert [one["choices"][0]["finish_reason"] for one in found if one["choices"]][-1] == "length"
    assert found[-1]["usage"]["completion_tokens"] == 16
    [wanted] = generator.generate([CHAT["messages"]], max_new_tokens=5)
    found = chunks(client.post("/v1/chat/completions", CHAT | {"stream": True, "max_tokens": 5}).text)
    assert {one["object"] for one in found} == {"chat.completion.chunk"}
    assert found[0]["choices"][0]["delta"]["role"] == "assistant"
    assert "".join(one["choices"][0]["delta"].get("content", "") for one in found) == wanted


def test_embeddings(client: Any, embedder: Any) -> None:
    texts = ["A dog .", "Two men play ."]
    found = client.post("/v1/embeddings", {"model": "vectors", "input": texts}).json()
    for one, row in zip(found["data"], embedder.embed(texts)):
        assert one["embedding"] == pytest.approx(row.tolist(), abs=1e-5)
    packed = client.post("/v1/embeddings", {"model": "vectors", "input": texts[0], "encoding_format": "base64"}).json()
    raw = base64.b64decode(packed["data"][0]["embedding"])
    assert struct.unpack(f"<{len(raw) // 4}f", raw) == pytest.approx(found["data"][0]["embedding"], abs=1e-6)
    long = client.post("/v1/embeddings", {"model": "vectors", "input": "A dog runs . " * 30})
    assert (long.status_code, "the model reads 40" in long.json()["error"]["message"]) == (400, True)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("completions", PROMPT | {"prompt": [1, 2]}, "prompt"),
        ("completions", PROMPT | {"prompt": []}, "prompt"),
        ("completions", PROMPT | {"prompt": None}, "prompt"),
        ("completions", PROMPT | {"n": 10_000}, "n"),
        ("completions", PROMPT | {"n": 0}, "n"),
        ("completions", PROMPT | {"n": "abc"}, "n"),
        ("completions", PROMPT | {"n": 2, "stream": True}, "n"),
        ("completions", PROMPT | {"max_tokens": -1}, "max_tokens"),
        ("completions", PROMPT | {"max_tokens": 10**9}, "max_tokens"),
        ("completions", PROMPT | {"stop": [""]}, "stop"),
        ("completions", PROMPT | {"suffix": "x"}, "suffix"),
        ("completions", PROMPT | {"frequency_penalty": 1.0}, "frequency_penalty"),
        ("completions", PROMPT | {"model": "en-fr"}, "model"),
        ("completions", PROMPT | {"temperature": -1.0}, None),
        ("chat/completions", CHAT | {"tools": [{"type": "function"}]}, "tools"),
        ("chat/completions", CHAT | {"response_format": {"type": "json_object"}}, "response_format"),
        ("chat/completions", CHAT | {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ("chat/completions", CHAT | {"messages": "A dog"}, "messages"),
        ("embeddings", {"model": "vectors", "input": "a", "dimensions": 3}, "dimensions"),
        ("embeddings", {"model": "tales", "input": "a"}, "model"),
    ],
)
def test_refusals_name_the_field_s_serve_04(client: Any, path: str, body: dict[str, Any], field: str | None) -> None:
    found = client.post(f"/v1/{path}", body)
    assert found.status_code == 400
    assert found.json()["error"]["param"] == field
    assert client.get("/healthz").status_code == 200


def test_a_model_without_a_template_does_not_chat(client_of: Any, generator: Any) -> None:
    from regard.serving.served import Served

    plain = type(generator)(generator.model, generator.tokenizers, {})
    config, plain.tokenizer.config = plain.tokenizer.config, None
    try:
        found = client_of([Served("tales", plain)]).post("/v1/chat/completions", CHAT)
        assert "no chat template: use /v1/completions" in found.json()["error"]["message"]
    finally:
        plain.tokenizer.config = config

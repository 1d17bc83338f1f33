"""Real clients from PyPI against a running server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import httpx
import pytest

TEXT = "A dog runs . Two men ."


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy stands between the tests and this machine."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def wanted(translator: Any) -> str:
    return " ".join(translator.translate(["A dog runs .", "Two men ."]))


def test_libretranslatepy(running_of: Callable[..., Any], wanted: str) -> None:
    library = pytest.importorskip("libretranslatepy")
    server = running_of(keys=("k",))
    api = library.LibreTranslateAPI(server.address, api_key="k")
    assert api.translate(TEXT, "en", "fr") == wanted
    assert api.languages() == [{"code": "en", "name": "English", "targets": ["fr"]}]
    with pytest.raises(Exception, match="400"):
        api.detect("Bonjour")
    with pytest.raises(Exception, match="403"):
        library.LibreTranslateAPI(server.address, api_key="no").translate(TEXT, "en", "fr")


def test_deepl(running_of: Callable[..., Any], wanted: str, translator: Any) -> None:
    deepl = pytest.importorskip("deepl")
    server = running_of(keys=("k",))
    with closing(deepl.DeepLClient("k", server_url=server.address)) as client:
        found = client.translate_text([TEXT, "A red house"], target_lang="FR")
        assert [one.text for one in found] == [wanted, translator.translate(["A red house"])[0]]
        assert found[0].detected_source_lang == "EN"
        assert found[0].billed_characters == len(TEXT)
        assert client.translate_text(TEXT, source_lang="EN", target_lang="FR").text == wanted
        assert [one.code for one in client.get_source_languages()] == ["EN"]
        assert [one.code for one in client.get_target_languages()] == ["FR"]
        usage = client.get_usage()
        assert usage.character.count == 2 * len(TEXT) + len("A red house")
        assert not usage.any_limit_reached
        with pytest.raises(deepl.DeepLException, match="no model translates into this language"):
            client.translate_text(TEXT, target_lang="DE")
    with (
        closing(deepl.DeepLClient("wrong", server_url=server.address)) as client,
        pytest.raises(deepl.AuthorizationException, match="this server needs an API key"),
    ):
        client.translate_text(TEXT, target_lang="FR")


def test_openai(running_of: Callable[..., Any], generator: Any, embedder: Any) -> None:
    openai = pytest.importorskip("openai")
    server = running_of(keys=("k",))
    messages = [{"role": "user", "content": "A dog"}]
    with openai.OpenAI(api_key="k", base_url=f"{server.address}/v1", max_retries=0) as client:
        assert [one.id for one in client.models.list()] == ["en-fr", "tales", "vectors", "marks"]
        assert client.models.retrieve("tales").owned_by == "regard"
        [wanted] = generator.generate(["A dog"], max_new_tokens=7)
        body = {"model": "tales", "prompt": "A dog", "max_tokens": 7, "temperature": 0}
        assert client.completions.create(**body).choices[0].text == wanted
        assert "".join(one.choices[0].text for one in client.completions.create(**body, stream=True)) == wanted
        [wanted] = generator.generate([messages], max_new_tokens=7)
        body = {"model": "tales", "messages": messages, "max_tokens": 7, "temperature": 0}
        whole = client.chat.completions.create(**body)
        assert (whole.choices[0].message.content, whole.usage.completion_tokens) == (wanted, 7)
        stream = client.chat.completions.create(**body, stream=True)
        assert "".join(one.choices[0].delta.content or "" for one in stream) == wanted
        rows = client.embeddings.create(model="vectors", input=["A dog .", "Two men ."]).data
        for row, own in zip(rows, embedder.embed(["A dog .", "Two men ."])):
            assert row.embedding == pytest.approx(own.tolist(), abs=1e-5)
        with pytest.raises(openai.BadRequestError, match="cannot generate"):
            client.completions.create(model="en-fr", prompt="x")
        with pytest.raises(openai.NotFoundError, match="no model of this name"):
            client.completions.create(model="gpt-9", prompt="x")
    with (
        openai.OpenAI(api_key="no", base_url=f"{server.address}/v1", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError, match="needs an API key"),
    ):
        client.models.list()


def test_a_client_that_hangs_up_ends_its_stream(running_of: Callable[..., Any], slow: Any, models: list[Any]) -> None:
    from regard.serving.served import Served

    server = running_of([Served("slow", slow)], new_tokens=4000)
    engine = server.service.engine
    steps: list[int] = []
    slow.model.decoder.register_forward_pre_hook(lambda module, given: steps.append(1))
    body = {"text": "A dog", "stream": True, "num_beams": 1, "max_length": 4000}
    with httpx.Client(base_url=server.address, timeout=60) as client:
        with client.stream("POST", "/api/translate", json=body) as answer:
            for line in answer.iter_lines():
                if line == "event: piece":
                    break
        after = client.post("/api/translate", json={"text": "A dog", "num_beams": 1, "max_length": 3})
    assert after.status_code == 200
    assert len(steps) < 4000
    assert engine.lanes["slow"].statistics.cancelled == 1


def test_overload_answers_429_with_retry_after(running_of: Callable[..., Any], slow: Any) -> None:
    import threading

    from regard.serving.served import Served

    server = running_of([Served("slow", slow)], new_tokens=4000, waiting=1, seconds=2.0)
    begun = threading.Event()
    slow.model.decoder.register_forward_pre_hook(lambda module, given: begun.set())
    long = {"text": "A dog", "num_beams": 1, "max_length": 4000}
    found = []

    def ask(body: dict[str, Any]) -> None:
        found.append(httpx.post(f"{server.address}/api/translate", json=body, timeout=60))

    threads = [threading.Thread(target=ask, args=(long,))]
    threads[0].start()
    assert begun.wait(30)
    for _ in range(2):
        threads.append(threading.Thread(target=ask, args=(long | {"max_length": 2},)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    refused = [one for one in found if one.status_code == 429]
    assert len(refused) == 1
    assert 1 <= int(refused[0].headers["retry-after"]) <= 60
    assert {one.status_code for one in found if one is not refused[0]} <= {200, 504}
    assert httpx.get(f"{server.address}/healthz", timeout=60).json() == {"status": "ok"}


def test_what_was_begun_is_answered_when_the_server_stops(running_of: Callable[..., Any], slow: Any) -> None:
    import threading

    from regard.serving.served import Served

    server = running_of([Served("slow", slow)])
    begun = threading.Event()
    slow.model.decoder.register_forward_pre_hook(lambda module, given: begun.set())
    found = []
    body = {"text": "A dog", "num_beams": 1, "max_length": 150}
    thread = threading.Thread(
        target=lambda: found.append(httpx.post(f"{server.address}/api/translate", json=body, timeout=60))
    )
    thread.start()
    assert begun.wait(30)
    server.close()
    thread.join()
    assert found[0].status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.address}/healthz", timeout=5)

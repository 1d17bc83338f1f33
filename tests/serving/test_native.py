"""Our own dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from regard.serving.native import event, stream_of


def test_models(client: Any, translator: Any) -> None:
    found = client.get("/api/models").json()["models"]
    assert [(one["name"], one["can"]) for one in found][:2] == [("en-fr", ["translate"]), ("tales", ["generate"])]
    one = client.get("/api/models/en-fr").json()
    assert one == found[0]
    assert (one["source"], one["target"], one["alignment"], one["chats"]) == ("en", "fr", True, False)
    assert one["parameters"] == sum(p.numel() for p in translator.model.parameters())
    assert one["limits"]["beams"] == 16
    assert client.get("/api/models/marks").json()["labels"] == ["bad", "fair", "good"]
    assert client.get("/api/models/none").status_code == 404


def test_translate(client: Any, translator: Any) -> None:
    body = {"text": ["A dog runs. Two men.", ""], "alternatives": 2, "alignment": True, "num_beams": 3}
    answer = client.post("/api/translate", body)
    assert answer.status_code == 200
    [first, second] = answer.json()["translations"]
    wanted = translator.translate(["A dog runs.", "Two men."], num_beams=3, num_return=3, details=True)
    assert [part["text"] for part in first["sentences"]] == [one.text for one in wanted]
    assert first["text"] == " ".join(one.text for one in wanted)
    for part, one in zip(first["sentences"], wanted):
        assert [other["text"] for other in part["alternatives"]] == [other.text for other in one.alternatives]
        assert part["score"] == pytest.approx(one.score, abs=1e-5)
        assert [token["piece"] for token in part["tokens"]] == one.tokens
        assert 0 < part["confidence"] <= 1
        assert (part["truncated"], part["unknown"], part["finished"]) == (False, 0, one.finished)
        text = body["text"][0]
        assert text[part["start"] :].startswith(part["source"])
        for link in part["alignment"]:
            assert part["source"][slice(*link["source"])].strip()
            assert part["text"][slice(*link["target"])].strip()
        assert len(part["pharaoh"].split()) == len(part["alignment"])
    assert second == {"text": "", "confidence": 1.0, "alternatives": [], "truncated": False, "sentences": []}


def test_models_are_chosen_by_name_language_or_being_alone(client: Any) -> None:
    asked = {"text": "A dog ."}
    answers = [
        client.post("/api/translate", asked | more).json()
        for more in ({}, {"model": "en-fr"}, {"source": "en", "target": "fr"}, {"target": "FR"})
    ]
    assert all(answer == answers[0] for answer in answers)
    assert client.post("/api/translate", asked | {"target": "de"}).status_code == 400
    assert client.post("/api/translate", asked | {"model": "x"}).status_code == 404


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"alternatives": 10_000}, "alternatives must be a whole number from 0 to 10"),
        ({"alternatives": -1}, "alternatives must be a whole number from 0 to 10"),
        ({"alternatives": "abc"}, "alternatives: Input should be a valid integer"),
        ({"num_beams": 10_000}, "num_beams must be a whole number from 1 to 16"),
        ({"num_beams": 0}, "num_beams must be a whole number from 1 to 16"),
        ({"max_length": 10**9}, "max_length must be a whole number from 1 to 1,024"),
        ({"temperature": -1.0}, "temperature must be a number of at least 0"),
        ({"num_beems": 3}, "num_beems: Extra inputs are not permitted"),
        ({"text": None}, "text: Input should be a valid string"),
        ({"split": "words"}, "split: Input should be 'lines', 'marks' or 'no'"),
        ({"text": ["a", "b"], "stream": True}, "stream: takes one text"),
        ({"text": "A dog. Two men.", "prefix": "C"}, "prefix: begins the translation of one sentence, this text has 2"),
        ({"context": [["Un", "A"]]}, "context: the model en-fr has not learned to read sentences before"),
    ],
)
def test_what_is_wrong_is_named_s_serve_04_s_serve_08(client: Any, more: dict[str, Any], says: str) -> None:
    found = client.post("/api/translate", {"text": "A dog ."} | more)
    assert found.status_code == 400
    assert says in found.json()["error"]
    assert client.post("/api/translate", {"text": "A dog ."}).status_code == 200


def test_a_stream_says_what_is_certain(client: Any, events_of: Callable[[str], Any]) -> None:
    body = {"text": "A dog runs. Two men.", "alternatives": 1}
    answer = client.post("/api/translate", body | {"stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = events_of(answer.text)
    whole = client.post("/api/translate", body).json()["translations"][0]
    assert events[0] == ("sentences", [{"start": 0, "source": "A dog runs."}, {"start": 12, "source": "Two men."}])
    assert events[-1] == ("done", {"model": "en-fr", "translation": whole})
    for number, part in enumerate(whole["sentences"]):
        pieces = [data["text"] for kind, data in events if kind == "piece" and data["sentence"] == number]
        assert "".join(pieces) == part["text"]
        assert ("sentence", {"sentence": number} | part) in events
    assert client.post("/api/translate", {"text": "", "stream": True}).status_code == 200


def test_an_error_within_a_stream_is_its_last_event(events_of: Callable[[str], Any]) -> None:
    import asyncio

    async def events() -> Any:
        yield 0, "a", None
        raise ValueError("secret")

    async def run() -> str:
        return "".join([line async for line in stream_of(None, [], events(), 0)])  # type: ignore[arg-type]

    found = events_of(asyncio.run(run()))
    assert [kind for kind, _ in found] == ["sentences", "piece", "error"]
    assert "secret" not in found[-1][1]["error"]
    assert event("x", "é\n") == 'event: x\ndata: "é\\n"\n\n'


def test_generate(client: Any, generator: Any, events_of: Callable[[str], Any]) -> None:
    body = {"prompt": "A dog", "max_new_tokens": 6}
    found = client.post("/api/generate", body).json()
    [wanted] = generator.generate(["A dog"], max_new_tokens=6, details=True)
    assert (found["model"], found["text"], found["finish"]) == ("tales", wanted.text, wanted.finish)
    assert [token["piece"] for token in found["tokens"]] == wanted.tokens
    events = events_of(client.post("/api/generate", body | {"stream": True}).text)
    assert "".join(data["text"] for kind, data in events if kind == "piece") == wanted.text
    assert events[-1] == ("done", found)
    chat = client.post("/api/generate", {"messages": [{"role": "user", "content": "A dog"}], "max_new_tokens": 4}).json()
    assert chat["text"] == generator.generate([[{"role": "user", "content": "A dog"}]], max_new_tokens=4)[0]
    several = client.post("/api/generate", body | {"sample": True, "seed": 1, "alternatives": 2}).json()
    assert len(several["alternatives"]) == 2
    assert several == client.post("/api/generate", body | {"sample": True, "seed": 1, "alternatives": 2}).json()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "either a prompt or messages"),
        ({"prompt": "a", "messages": []}, "either a prompt or messages"),
        ({"prompt": "a", "max_new_tokens": 0}, "max_new_tokens must be a whole number from 1 to 1,024"),
        ({"prompt": "A dog " * 100}, "the model has positions for 128"),
        ({"prompt": "a", "model": "en-fr"}, "the model en-fr cannot generate"),
    ],
)
def test_generate_refuses(client: Any, body: dict[str, Any], says: str) -> None:
    found = client.post("/api/generate", body)
    assert found.status_code == 400
    assert says in found.json()["error"]


def test_classify(client: Any, classifier: Any) -> None:
    asked = ["A dog .", ["A dog .", "Two men ."]]
    found = client.post("/api/classify", {"text": asked[:1]}).json()["classifications"]
    [wanted] = classifier.classify(asked[:1], details=True)
    assert (found[0]["label"], found[0]["text"]) == (wanted.label, "A dog .")
    assert sum(found[0]["probabilities"].values()) == pytest.approx(1.0, abs=1e-5)
    pairs = client.post("/api/classify", {"text": asked[1:]}).json()["classifications"]
    assert pairs[0]["label"] == classifier.classify([tuple(asked[1])])[0]
    assert client.post("/api/classify", {"text": [["a"]]}).status_code == 400


def test_documents(client: Any, translator: Any) -> None:
    """Documents are translated in place, as from Python, and hold what was translated in them."""
    page = '<p>A <b>dog</b> runs. Two men.</p>\n<p>The red house <img alt="A dog ."></p>'
    found = client.post("/api/translate", {"text": page, "format": "html", "num_beams": 2}).json()["translations"][0]
    wanted = translator.translate_document(page, "html", num_beams=2)
    assert found["text"] == wanted.text
    assert [one["source"] for one in found["passages"]] == ["A <g1>dog</g1> runs. Two men.", "The red house <x1/>"]
    assert [one["text"] for one in found["passages"]] == [one.text for one in wanted.passages]
    assert 'alt="A dog ."' in found["text"]
    attributes = client.post("/api/translate", {"text": [page, ""], "format": "html", "attributes": True}).json()
    assert [len(one["passages"]) for one in attributes["translations"]] == [3, 0]


def test_what_does_not_go_with_documents_is_named_s_serve_08(client: Any) -> None:
    for more in ({"stream": True}, {"alternatives": 1}, {"alignment": True}, {"attention": True}, {"prefix": "Un"}):
        found = client.post("/api/translate", {"text": "A dog .", "format": "text"} | more)
        assert found.status_code == 400
        assert found.json()["error"] == f"{next(iter(more))}: is for sentences, not for documents"
    assert client.post("/api/translate", {"text": "A dog .", "format": "doc"}).status_code == 400
    found = client.post("/api/translate", {"text": "no catalogue", "format": "po"})
    assert found.status_code == 400
    assert "is no line of a .po file" in found.json()["error"]

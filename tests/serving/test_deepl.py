"""DeepL's dialect."""

from __future__ import annotations

from typing import Any

import pytest

ASK = {"text": ["A dog runs . Two men .", "A red house"], "target_lang": "FR", "source_lang": "EN"}


def test_translate(client_of: Any, translator: Any) -> None:
    client = client_of()
    wanted = [" ".join(translator.translate(["A dog runs .", "Two men ."])), translator.translate(["A red house"])[0]]
    found = client.post("/v2/translate", ASK).json()["translations"]
    assert found == [{"detected_source_language": "EN", "text": text} for text in wanted]
    form = client("POST", "/v2/translate", data=ASK | {"show_billed_characters": "1"}).json()["translations"]
    assert [(one["text"], one["billed_characters"]) for one in form] == list(zip(wanted, (22, 11)))
    assert (
        client.post("/v2/translate", {"text": "A red house", "target_lang": "fr-CA"}).json()["translations"][0]["text"]
        == (wanted[1])
    )
    assert client.get("/v2/usage").json() == {"character_count": 22 + 11 + 22 + 11 + 11, "character_limit": 10**12}


@pytest.mark.parametrize(
    ("cut", "parts"), [("0", ["A dog. Two men.\nOn"]), ("1", ["A dog.", "Two men.", "On"]), ("nonewlines", None)]
)
def test_splitting(client: Any, translator: Any, cut: str, parts: list[str] | None) -> None:
    found = client.post("/v2/translate", {"text": ["A dog. Two men.\nOn"], "target_lang": "FR", "split_sentences": cut})
    assert found.status_code == 200
    if parts:
        texts = translator.translate(parts)
        assert found.json()["translations"][0]["text"] == (texts[0] if cut == "0" else f"{texts[0]} {texts[1]}\n{texts[2]}")


@pytest.mark.parametrize(
    "more",
    [
        {"text": None},
        {"text": 5},
        {"target_lang": "DE"},
        {"target_lang": None},
        {"source_lang": "DE"},
        {"tag_handling": "xml"},
        {"glossary_id": "g"},
        {"formality": "more"},
        {"split_sentences": "2"},
    ],
)
def test_refusals_s_serve_08(client: Any, more: dict[str, Any]) -> None:
    found = client.post("/v2/translate", ASK | more)
    assert found.status_code == 400
    assert next(iter(more)) in found.json()["message"]


def test_languages(client: Any) -> None:
    assert client.get("/v2/languages").json() == [{"language": "EN", "name": "English"}]
    target = [{"language": "FR", "name": "French", "supports_formality": False}]
    assert client.get("/v2/languages", params={"type": "target"}).json() == target
    assert client("GET", "/v2/languages", data={"type": "target"}).json() == target
    assert client.get("/v2/languages", params={"type": "x"}).status_code == 400

"""LibreTranslate's dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

ASK = {"q": "A dog runs . Two men .", "source": "en", "target": "fr"}


def test_json_forms_and_lists(client: Any, translator: Any) -> None:
    wanted = " ".join(translator.translate(["A dog runs .", "Two men ."]))
    assert client.post("/translate", ASK).json() == {"translatedText": wanted}
    assert client("POST", "/translate", data=ASK).json() == {"translatedText": wanted}
    assert client.post("/translate", ASK | {"q": [ASK["q"], ""]}).json() == {"translatedText": [wanted, ""]}
    assert client.post("/translate", ASK | {"source": "auto"}).json() == {"translatedText": wanted}


def test_alternatives(client: Any, translator: Any) -> None:
    [best] = translator.translate(["Two men ."], num_return=3, details=True)
    found = client.post("/translate", ASK | {"q": "Two men .", "alternatives": 2}).json()
    assert found["translatedText"] == best.text
    assert found["alternatives"] == list(dict.fromkeys(one.text for one in best.alternatives if one.text != best.text))


@pytest.mark.parametrize(
    ("more", "status", "says"),
    [
        ({"alternatives": 10_000}, 400, "alternatives: must be a whole number from 0 to 10"),
        ({"alternatives": -1}, 400, "alternatives: must be"),
        ({"alternatives": "abc"}, 400, "alternatives: "),
        ({"q": None}, 400, "q: "),
        ({"q": 5}, 400, "q: "),
        ({"format": "html"}, 400, "format: only text"),
        ({"target": "de"}, 400, "target: no model translates into this language; there are: en to fr"),
        ({"source": "de"}, 400, "source: no model translates from this language"),
    ],
)
def test_refusals_s_serve_04_s_serve_08(client: Any, more: dict[str, Any], status: int, says: str) -> None:
    found = client.post("/translate", ASK | more)
    assert found.status_code == status
    assert found.json()["error"].startswith(says)


def test_languages_settings_and_no_detection(client: Any, client_of: Callable[..., Any]) -> None:
    assert client.get("/languages").json() == [{"code": "en", "name": "English", "targets": ["fr"]}]
    found = client.post("/detect", {"q": "Bonjour"})
    assert (found.status_code, "not detected" in found.json()["error"]) == (400, True)
    settings = client.get("/frontend/settings").json()
    assert (settings["charLimit"], settings["keyRequired"]) == (200_000, False)
    assert settings["language"]["target"] == {"code": "fr", "name": "French"}

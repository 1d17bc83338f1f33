"""Which model is meant, and whole texts through models that read sentences."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import pytest

from regard.serving.engine import Engine
from regard.serving.refusals import RefusalError
from regard.serving.served import Served, Translated
from regard.serving.service import How, Service, Text, confidence
from regard.text.sentences import split


@pytest.fixture
def service(engine: Engine) -> Service:
    return Service(engine)


def served(name: str, source: str | None, target: str | None) -> Any:
    return SimpleNamespace(name=name, source=source, target=target, verbs=("translate",))


def several(*pairs: tuple[str | None, str | None]) -> Service:
    models = {f"m{n}": served(f"m{n}", *pair) for n, pair in enumerate(pairs)}
    return Service(SimpleNamespace(models=models, limits=None))  # type: ignore[arg-type]


def refused(call: Any, *given: Any) -> str:
    with pytest.raises(RefusalError) as caught:
        call(*given)
    return caught.value.message


def test_models_by_name(service: Service) -> None:
    assert service.named("tales", "generate").name == "tales"
    assert service.named(None, "generate").name == "tales"
    assert "no model of this name; those that generate: tales" in refused(service.named, "x", "generate")
    assert "the model tales cannot embed; those that can: vectors" in refused(service.named, "tales", "embed")
    assert "name the model; those that translate: m0, m1" in refused(
        several(("en", "fr"), ("fr", "en")).named, None, "translate"
    )


def test_models_by_language_and_no_guess() -> None:
    one = several(("en", "fr"), ("fr", "en"), ("de", "en"))
    assert one.between("EN-US", "fr").name == "m0"
    assert one.between(None, "FR").name == "m0"
    assert one.between("de", "en-GB").name == "m2"
    assert "source: languages are not detected; name one of: fr to en, de to en" in refused(one.between, None, "en")
    assert "target: no model translates into this language; there are: en to fr" in refused(one.between, "en", "es")
    assert "from: no model translates from this language" in refused(one.between, "es", "en", ("from", "to"))
    assert "there are: ? to ?" in refused(several((None, None)).between, "en", "fr")


def test_texts_have_limits(service: Service) -> None:
    service.check_texts(["a"] * 2000, "q")
    assert "q: 2,001 texts in one request, at most 2,000" in refused(service.check_texts, ["a"] * 2001, "q")
    assert "q: 200,001 characters" in refused(service.check_texts, ["a" * 200_001], "q")
    assert "surrogate" in refused(service.check_texts, ["a\udc00"], "q")


def test_texts_are_cut_translated_and_joined(service: Service, translator: Any) -> None:
    text = "  A dog runs.\tTwo men.\n\n\u3000A red house.  "
    [first, second] = asyncio.run(
        service.translate(service.named(None, "translate"), [text, ""], service_wish(service), How())
    )
    a, b, c = translator.translate(["A dog runs.", "Two men.", "A red house."])
    assert first.text == f"  {a}\t{b}\n\n\u3000{c}  "
    assert second.text == ""
    assert service.characters == len(text)
    [whole] = asyncio.run(service.translate(service.named(None, "translate"), [text], service_wish(service), How("no")))
    assert whole.text == "  " + translator.translate([text.strip()])[0] + "  "


def service_wish(service: Service, **named: Any) -> Any:
    return service.named(None, "translate").wish("translate", service.engine.limits, **named)


def test_a_prefix_is_for_one_sentence(service: Service, translator: Any) -> None:
    model, wish = service.named(None, "translate"), service_wish(service)
    [found] = asyncio.run(service.translate(model, ["A dog runs ."], wish, How(prefix="La maison")))
    assert found.text == translator.translate(["A dog runs ."], prefix=["La maison"])[0]
    with pytest.raises(RefusalError, match="this text has 2"):
        asyncio.run(service.translate(model, ["A dog. A man."], wish, How(prefix="La maison")))


def test_following_gives_all_of_the_text(service: Service, translator: Any) -> None:
    async def run() -> tuple[Any, dict[int, str], dict[int, Any]]:
        said: dict[int, str] = {}
        done: dict[int, Any] = {}
        parts, events = await service.follow(service.named(None, "translate"), "A dog runs. Two men.", service_wish(service))
        async for number, text, value in events:
            said[number] = said.get(number, "") + text
            if value is not None:
                done[number] = value
        return parts, said, done

    parts, said, done = asyncio.run(run())
    wanted = translator.translate([part.core for part in parts])
    assert [done[n].translation.text for n in range(2)] == wanted
    assert all(wanted[n] == said[n] for n in range(2))


def translation(text: str, *others: str, logs: tuple[float, ...] = (math.log(0.5),)) -> Translated:
    made = [SimpleNamespace(text=one, token_log_probs=list(logs), alternatives=[]) for one in (text, *others)]
    made[0].alternatives = made[1:]
    return Translated(made[0])


def test_alternatives_of_a_text() -> None:
    text = Text(split("One. Two."), [translation("A.", "B.", "C."), translation("X.", "Y.")])
    assert text.text == "A. X."
    assert text.alternatives(2) == ["B. Y.", "C. Y."]
    same = Text(split("One."), [translation("A.", "A.", "B.")])
    assert same.alternatives(2) == ["B."]
    assert Text([], []).alternatives(3) == []


def test_confidence_is_a_mean_of_probabilities() -> None:
    assert confidence([math.log(0.25), math.log(1.0)]) == 0.5
    assert confidence([]) == 1.0
    both = [translation("A."), translation("B.", logs=(math.log(0.25),) * 3)]
    assert Text(split("One. Two."), both).confidence == pytest.approx((0.5 * 0.25**3) ** 0.25, abs=1e-5)


def test_a_served_model_is_found_by_what_it_can(models: list[Served]) -> None:
    assert [one.name for one in Service(SimpleNamespace(models={m.name: m for m in models})).translators] == ["en-fr"]  # type: ignore[arg-type]

"""Codes as clients write them."""

from __future__ import annotations

from regard.serving import languages


def test_codes() -> None:
    assert languages.plain(" zh_Hans ") == "zh-hans"
    assert languages.primary("EN-GB") == "en"
    assert languages.name("fr") == "French"
    assert languages.name("PT-BR") == "Portuguese"
    assert languages.name("xx") == "xx"


def test_the_nearest_code_is_the_same_or_the_only_kin() -> None:
    assert languages.nearest("EN-GB", ["de", "en"]) == "en"
    assert languages.nearest("en", ["en-us", "en-gb"]) is None
    assert languages.nearest("en-us", ["en-gb", "en-us"]) == "en-us"
    assert languages.nearest("en", ["en_US"]) == "en_US"
    assert languages.nearest("fr", ["en"]) is None
    assert languages.nearest("en", ["en", "en"]) == "en"

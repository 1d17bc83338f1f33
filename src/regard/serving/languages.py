"""Codes of languages as clients write them (en, EN-GB, zh_Hans) and what they are called."""

from __future__ import annotations

from collections.abc import Iterable

NAMES = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "bn": "Bengali",
    "ca": "Catalan",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "eo": "Esperanto",
    "es": "Spanish",
    "et": "Estonian",
    "eu": "Basque",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "ga": "Irish",
    "gl": "Galician",
    "he": "Hebrew",
    "hi": "Hindi",
    "hu": "Hungarian",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "ms": "Malay",
    "nb": "Norwegian Bokmål",
    "nl": "Dutch",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sq": "Albanian",
    "sr": "Serbian",
    "sv": "Swedish",
    "th": "Thai",
    "tl": "Tagalog",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "ur": "Urdu",
    "vi": "Vietnamese",
    "zh": "Chinese",
}


def plain(code: str) -> str:
    """A code in lower case with a hyphen: zh_Hans -> zh-hans."""
    return code.strip().lower().replace("_", "-")


def primary(code: str) -> str:
    """The language without its script or region: en-GB -> en."""
    return plain(code).split("-")[0]


def name(code: str) -> str:
    """The English name of a language; the code itself where it is not known."""
    return NAMES.get(primary(code), code)


def nearest(asked: str, known: Iterable[str]) -> str | None:
    """The code among `known` that is meant: the same, or else the only one of the same language. None: there is none."""
    known = list(dict.fromkeys(known))
    same = [code for code in known if plain(code) == plain(asked)]
    kin = [code for code in known if primary(code) == primary(asked)]
    return same[0] if same else kin[0] if len(kin) == 1 else None

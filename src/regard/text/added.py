"""A tokenizer with further entries, all ids of the old ones as they were."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from regard.errors import UserError
from regard.text.bounds import highest
from regard.text.pieces import steps
from regard.text.tokenizer import Tokenizer


def with_entries(tokenizer: Tokenizer, names: Sequence[str]) -> Tokenizer:
    """The same vocabulary with these names as its last entries. UserError: a name is no word or symbol, or is there, or a
    text would not come back as it was (SentencePiece's tokenizers lose the space before a word that was added).

    A name that begins and ends with a mark, such as <2de>, is found wherever it stands; in a tokenizer of regard's the space
    after it belongs to it. A word is found where it stands as a word; in a tokenizer that regard trained, which finds
    its words from the left, also at the beginning of a longer one.
    """
    backend = Backend.from_str(tokenizer.backend.to_str())
    file = json.loads(backend.to_str())
    size = highest(file) + 1
    prefixed = any(step.get("type") == "Prepend" for step in steps(file["normalizer"], "normalizers"))
    _check(tokenizer, names, prefixed)
    backend.add_tokens([_entry(name, prefixed) for name in names])
    if [backend.token_to_id(name) for name in names] != list(range(size, size + len(names))):
        raise UserError("this tokenizer's ids have holes, so that entries cannot be added at its end")
    if prefixed:
        file = json.loads(backend.to_str())
        words = [_spelled_with_a_space(name) for name in names if _is_word(name)]
        decoder = file["decoder"]
        known = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
        file["decoder"] = {"type": "Sequence", "decoders": [*words, *known]}
        backend = Backend.from_str(json.dumps(file))
    new = Tokenizer(backend, tokenizer.dropout, tokenizer.config)
    for name in filter(_is_word, names):
        _check_whole(tokenizer, new, name)
    return new


def _is_word(name: str) -> bool:
    return name[0].isalnum() or name[-1].isalnum()


def _check(tokenizer: Tokenizer, names: Sequence[str], prefixed: bool) -> None:
    for name in names:
        if not name or any(character.isspace() for character in name):
            raise UserError(f"{name!r} cannot be an entry of a tokenizer: give a word or a symbol without spaces")
        spellings = (name, f" {name}") if prefixed else (name,)
        if any(tokenizer.backend.token_to_id(one) is not None for one in spellings):
            raise UserError(f"{name!r} is an entry of this tokenizer already")
        if tokenizer.normalize(name) != name:
            raise UserError(f"{name!r} is no text as this tokenizer sees it, which is {tokenizer.normalize(name)!r}")
    if len(set(names)) < len(names):
        raise UserError("an entry is given twice")


def _check_whole(old: Tokenizer, new: Tokenizer, name: str) -> None:
    """UserError if a text with the word in it comes back otherwise than before."""
    for text in (name, f"a {name} a", f"a ({name}), {name}."):
        before = old.decode(old.encode(text))
        if "\ufffd" not in before and new.decode(new.encode(text)) != before:
            raise UserError(
                f"{name!r}: this tokenizer would lose the spaces around it; it can take symbols such as <2de> alone"
            )


def _entry(name: str, prefixed: bool) -> AddedToken:
    word = _is_word(name)
    # A tokenizer of regard's puts a space before each text. What is found in the text as it came would part it in two, and
    # the second half would get a space as well; what is found in the normalised text does not.
    return AddedToken(
        name,
        special=False,
        normalized=word and prefixed,
        single_word=word and not prefixed,
        rstrip=prefixed and not word,
    )


def _spelled_with_a_space(name: str) -> dict[str, Any]:
    quoted = "".join(c if c.isalnum() and c.isascii() else f"\\x{{{ord(c):X}}}" for c in name)
    return {"type": "Replace", "pattern": {"Regex": rf"\A{quoted}\z"}, "content": f" {name}"}

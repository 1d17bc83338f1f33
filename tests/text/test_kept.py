"""Parts that are carried through: found, taken out, put back, always whole and always nested."""

from __future__ import annotations

import random
import re
from functools import partial

import pytest

from regard.errors import UserError
from regard.text.kept import KINDS, find, pattern, put_back, take_out
from regard.text.words import word_spans

EVERY = pattern(list(KINDS))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a <b>bold</b> <br/> word", ["<b>", "</b>", "<br/>"]),
        ("{name}, {{user.id}} and ${HOME}", ["{name}", "{{user.id}}", "${HOME}"]),
        ("%s of %(count)d at %5.2f and 100% sure", ["%s", "%(count)d", "%5.2f"]),
        ("see https://a.io/x?y=1, or me@b.org.", ["https://a.io/x?y=1", "me@b.org"]),
        ("run `ls -l` when 3 < 4 and 5 > 4", ["`ls -l`"]),
    ],
)
def test_what_is_found(text, found) -> None:
    parts = find(text, EVERY)
    assert [part.text for part in parts] == found
    assert all(text[part.start : part.end] == part.text for part in parts)


def test_expressions_of_the_user() -> None:
    assert [part.text for part in find("AB-12 and CD-7", pattern([r"[A-Z]+-\d+"]))] == ["AB-12", "CD-7"]
    with pytest.raises(UserError, match="keep: '\\(' is neither tags"):
        pattern(["("])


def test_taking_out_leaves_single_spaces() -> None:
    text = "Two <b>big dogs</b> run <br/> fast"
    rest, outs = take_out(text, find(text, EVERY))
    assert rest == "Two big dogs run fast"
    assert [(out.text, out.place) for out in outs] == [("<b>", 4), ("</b>", 12), ("<br/>", 17)]


def test_put_back_follows_the_links() -> None:
    text = "The <b>red</b> house is <i>near the sea</i>.<br/>"
    rest, outs = take_out(text, find(text, EVERY))
    links = [(0, 0), (1, 2), (2, 1), (3, 3), (4, 4), (5, 5), (6, 6)]
    assert put_back(rest, outs, "La maison rouge est près de mer.", links) == (
        "La maison <b>rouge</b> est <i>près de mer</i>.<br/>"
    )


def test_put_back_without_links_keeps_the_order() -> None:
    text = "one <b>two three</b> four"
    rest, outs = take_out(text, find(text, EVERY))
    assert re.findall(r"<[^>]+>", put_back(rest, outs, "eins zwei drei vier", [])) == ["<b>", "</b>"]
    assert put_back(rest, outs, "", []) == "<b></b>"


def nested(text: str) -> bool:
    stack = []
    for close, name in re.findall(r"<(/?)(\w+)>", text):
        if not close:
            stack.append(name)
        elif not stack or stack.pop() != name:
            return False
    return not stack


def some_words(chance, most):
    return " ".join("w" * chance.randint(1, 4) for _ in range(chance.randint(0, most)))


def element(chance, words, depth=0):
    parts = []
    for _ in range(chance.randint(1, 3)):
        inner = words() if depth > 2 or chance.random() < 0.5 else element(chance, words, depth + 1)
        parts.append(inner if chance.random() < 0.4 else f"<{(name := chance.choice('bi'))}>{inner}</{name}>")
    return " ".join(parts)


def test_pairs_stay_nested_and_nothing_is_lost_or_made() -> None:
    """300 random texts with elements inside elements, random translations, random links."""
    for seed in range(300):
        chance = random.Random(seed)
        text = element(chance, partial(some_words, chance, 3))
        rest, outs = take_out(text, find(text, EVERY))
        target = some_words(chance, 12)
        froms, tos = len(word_spans(rest)), len(word_spans(target))
        links = sorted({(chance.randrange(froms), chance.randrange(tos)) for _ in range(tos)}) if froms and tos else []
        made = put_back(rest, outs, target, links)
        assert sorted(re.findall(r"<[^>]+>", made)) == sorted(re.findall(r"<[^>]+>", text))
        assert nested(made), (text, made)
        assert re.sub(r"<[^>]+>", "", made) == target


def test_a_pair_around_words_never_ends_up_around_nothing() -> None:
    text = "The <b>red</b> house is <i>here</i>."
    rest, outs = take_out(text, find(text, EVERY))
    assert put_back(rest, outs, "La maison rouge", [(0, 0), (2, 1)]) == "La <b>maison</b> <i>rouge</i>"
    assert put_back(rest, outs, "", []) == "<b></b><i></i>"


def test_punctuation_stays_on_its_side_of_a_tag() -> None:
    text = 'See (<b>the "<i>red</i>" house</b>), <u>now!</u>'
    rest, outs = take_out(text, find(text, EVERY))
    links = [(n, n) for n in range(5)]
    assert put_back(rest, outs, 'Voir (la "rouge" maison), là !', links) == (
        'Voir (<b>la "<i>rouge</i>" maison</b>), <u>là</u> !'
    )
    assert put_back(rest, outs, "Voir (maison)", [(1, 1), (2, 1), (3, 1)]) == "Voir (<b><i>maison</i></b>)<u></u>"
    rest, outs = take_out("See the <b>hotel</b>?", find("See the <b>hotel</b>?", EVERY))
    assert put_back(rest, outs, "看酒店？", [(0, 0), (2, 1), (2, 2), (2, 3)]) == "看<b>酒店</b>？"


def test_a_part_between_marks_stays_between_them() -> None:
    text = "It costs (<br/>), or (<hr/>)."
    rest, outs = take_out(text, find(text, EVERY))
    links = [(n, n) for n in range(5)]
    assert put_back(rest, outs, "Cela coûte (), ou ().", links) == "Cela coûte (<br/>), ou (<hr/>)."

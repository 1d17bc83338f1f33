"""Each rule finds what it is for, and the report says where."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.text.clean import EXAMPLES, Rules, check, clean
from regard.text.corpus import Pair

OFF = Rules(False, False, False, None, None, None)


def pairs(*rows: tuple[str, str]) -> list[Pair]:
    return [Pair(source, target, number) for number, (source, target) in enumerate(rows, 1)]


def test_s_data_06_copies_then_duplicates() -> None:
    rows = [("a", "A"), ("b", "b"), ("c", "C"), ("d", "d"), ("e", "E"), ("c", "C")]
    rows += [("f", "f"), ("g", "G"), ("h", "H"), ("i", "I")]
    copies = Rules(drop_copies=True, drop_duplicates=False)
    kept, report = clean(pairs(*rows), copies)
    assert (len(kept), report.kept, report.rules["copy"].count) == (7, 7, 3)
    kept, report = clean(pairs(*rows), Rules(drop_copies=True, drop_duplicates=True))
    assert [pair.line for pair in kept] == [1, 3, 5, 8, 9, 10]
    assert {name: found.lines for name, found in report.rules.items()} == {"copy": [2, 4, 7], "duplicate": [6]}
    assert report.lines() == [
        "10 pairs, 6 kept",
        "dropped 3 whose target is a copy of the source: lines 2, 4, 7",
        "dropped 1 that repeat an earlier pair: line 6",
    ]


@pytest.mark.parametrize(
    ("rule", "rules", "bad"),
    [
        ("empty", {"drop_empty": True}, ("a", " \u3000")),
        ("copy", {"drop_copies": True}, (" same", "same")),
        ("duplicate", {"drop_duplicates": True}, ("good one", "bonne")),
        ("max_words", {"max_words": 3}, ("a b c d", "x")),
        ("max_characters", {"max_characters": 12}, ("x", "abcdefghijklm")),
        ("max_ratio", {"max_ratio": 4.0}, ("ab", "abcdefghijk")),
        ("max_ratio", {"max_ratio": 4.0}, ("abcdefghijklm", "ab")),
    ],
)
def test_each_rule_finds_its_fault_and_nothing_else(rule: str, rules: dict, bad: tuple[str, str]) -> None:
    good = [("good one", "bonne"), ("a b c", "abcd"), ("twelve chars", "douze lettre")]
    rows = pairs(*good, bad)
    off = {"drop_empty": False, "drop_copies": False, "drop_duplicates": False}
    only = Rules(**{**off, "max_words": None, "max_characters": None, "max_ratio": None, **rules})
    kept, report = clean(rows, only)
    assert kept == rows[:3]
    assert report.dropped == [(4, rule)]
    checked = check(rows, only)
    assert checked.rules[rule].lines == [4]
    assert checked.lines()[0] == "4 pairs, 1 with faults"
    assert clean(rows, OFF)[0] == rows


def test_the_ratio_is_measured_against_what_is_usual() -> None:
    chinese = [("How are you today?", "你好吗"), ("What is your name?", "你叫什"), ("I like to read books.", "我喜欢")]
    assert clean(pairs(*chinese, ("ab", "甲乙丙丁戊己")), Rules(max_ratio=4.0))[1].dropped == [(4, "max_ratio")]


def test_a_check_counts_a_pair_under_every_rule_and_a_cleaning_under_the_first() -> None:
    rows = pairs(("a b", "a b"), ("a b", "a b"))
    assert {name: found.count for name, found in check(rows).rules.items()} == {"copy": 2, "duplicate": 1}
    assert clean(rows)[1].dropped == [(1, "copy"), (2, "copy")]


def test_remarks_cost_no_pair_its_place() -> None:
    rows = pairs(("a\u2028b", "x"), ("c\ufffd", "y"), ("cafe\u0301", "z"), (" d", "w"))
    kept, report = clean(rows)
    assert kept == rows
    assert {name: found.lines for name, found in report.remarks.items()} == {
        "separators": [1],
        "damaged": [2],
        "not_nfc": [3],
        "outer_spaces": [4],
    }


def test_a_report_shows_the_first_lines_and_is_one_document() -> None:
    report = check(pairs(*[("", f"x{number}") for number in range(1200)]))
    assert report.rules["empty"].lines == list(range(1, EXAMPLES + 1))
    assert report.lines()[1].endswith("8, 9, 10 and 1,190 more")
    assert json.loads(json.dumps(report.json())) == {
        "total": 1200,
        "kept": 0,
        "rules": {"empty": {"count": 1200, "lines": list(range(1, 11))}},
        "remarks": {},
    }
    assert check([]).lines() == ["0 pairs, 0 with faults"]


@pytest.mark.parametrize(
    "wrong", [{"max_words": 0}, {"max_characters": -1}, {"max_ratio": 0.5}, {"max_ratio": float("nan")}]
)
def test_wrong_rules_are_refused(wrong: dict) -> None:
    with pytest.raises(UserError, match=re.escape(next(iter(wrong)))):
        Rules(**wrong)


def test_missing_translations_of_multi30k_are_found(data_root: Path) -> None:
    from regard.text.corpus import open_corpus
    from regard.text.named import find

    report = check(open_corpus(find("multi30k", "train", "en", "de", data_root), "en", "de"))
    assert report.rules["max_ratio"].lines == [16510, 16664]

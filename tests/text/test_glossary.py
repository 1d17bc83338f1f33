"""Terms found in sources."""

from __future__ import annotations

import pytest

from regard.errors import UserError
from regard.text.glossary import Glossary

ENTRIES = {"dog": "chien|toutou", "guide dog": "chien guide", "Apple": "Apple", "US": "États-Unis", "足球": "football"}


def test_case_words_and_the_longest_term() -> None:
    its = Glossary(ENTRIES)
    assert its.wanted("A Guide Dog and a dog.") == {
        "guide dog": ("chien guide", "Chien guide"),
        "dog": ("chien", "Chien", "toutou", "Toutou"),
    }
    assert its.wanted("guide dogs, dogma, an apple, us") == {}
    assert its.wanted("Apple (US)") == {"Apple": ("Apple",), "US": ("États-Unis",)}
    assert list(its.wanted("他们踢足球")) == ["足球"]
    assert its.wanted("") == {}


def test_files(tmp_path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("# animals\ndog\tchien | toutou\tnoun\n\ndog\tclébard\n", encoding="utf-8")
    assert Glossary.of(str(path)).entries == {"dog": ("chien", "toutou", "clébard")}
    assert Glossary.of({"dog": ["chien"]}).entries == {"dog": ("chien",)}
    ready = Glossary(ENTRIES)
    assert Glossary.of(ready) is ready


@pytest.mark.parametrize("line", ["dog chien", "dog\t", "dog\t | ", "\tchien"])
def test_wrong_lines_are_named(tmp_path, line) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(f"cat\tchat\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"terms\.tsv, line 2: write a term, a tab"):
        Glossary.open(path)
    with pytest.raises(UserError, match="needs a term"):
        Glossary({"dog": ""})

"""Catalogues of gettext."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import UserError
from regard.text.formats.gettext import read

polib = pytest.importorskip("polib")

HEAD = """# A comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n > 1);\\n"

"""
BODY = """#. for translators
#: a.c:12
#, c-format
msgctxt "menu"
msgid "Open %s"
msgstr ""

msgid ""
"A long text with a \\"quote\\"\\n"
"and two lines\\n"
msgstr ""

#, python-format, no-wrap
msgid "%(count)d dog"
msgid_plural "%(count)d dogs"
msgstr[0] ""
msgstr[1] ""

msgid "Done"
msgstr   "Fertig"
#, fuzzy
#| msgid "Old"
msgid "Unsure"
msgstr "Vielleicht"

msgid "12"
msgstr ""

#~ msgid "Gone"
#~ msgstr ""
"""


def test_empty_translations_are_segments() -> None:
    document = read(HEAD + BODY)
    texts = ["Open %s", 'A long text with a "quote"\nand two lines\n', "%(count)d dog", "%(count)d dogs"]
    assert [one.text for one in document.segments] == texts
    assert document.write([None] * 4) == HEAD + BODY
    made = document.write(["Ouvrir %s", 'Un "texte"\nde deux lignes', "%(count)d chien", "%(count)d chiens"])
    assert not document.changed(made)
    wanted = BODY.replace('"Open %s"\nmsgstr ""', '"Open %s"\nmsgstr "Ouvrir %s"')
    wanted = wanted.replace('lines\\n"\nmsgstr ""', 'lines\\n"\nmsgstr ""\n"Un \\"texte\\"\\n"\n"de deux lignes\\n"')
    wanted = wanted.replace('msgstr[0] ""\nmsgstr[1] ""', 'msgstr[0] "%(count)d chien"\nmsgstr[1] "%(count)d chiens"')
    assert made == HEAD + wanted
    assert read(made).segments == []


def test_doubtful_ones_are_fuzzy() -> None:
    document = read(HEAD + BODY)
    texts = ["Ouvrir %s", "Deux lignes", "%(count)d chien", "%(count)d chiens"]
    made = document.write(texts, [0, 1, 2, 3])
    assert not document.changed(made)
    assert "#, fuzzy, c-format\nmsgctxt" in made
    assert '\n\n#, fuzzy\nmsgid ""\n"A long' in made
    assert "#, fuzzy, python-format, no-wrap\n" in made
    assert [entry.msgid[:4] for entry in polib.pofile(made).fuzzy_entries()] == ["Open", "A lo", "%(co", "Unsu"]


def test_other_changes_are_seen() -> None:
    document = read(HEAD + BODY)
    for old, new in (
        ("Fertig", "Weg"),
        ("a.c:12", "a.c:13"),
        ("Old", "New"),
        ("Gone", "Here"),
        ("c-format", "py"),
        ("menu", "m"),
    ):
        assert document.changed(HEAD + BODY.replace(old, new)), old
    assert document.changed(HEAD.replace("> 1", "!= 1") + BODY)


@pytest.mark.parametrize(("count", "texts"), [(1, ["dogs"]), (3, ["dog", "dogs", "dogs"])])
def test_other_numbers_of_plural_forms(count: int, texts: list[str]) -> None:
    forms = "".join(f'msgstr[{n}] ""\n' for n in range(count))
    document = read(HEAD.replace("nplurals=2", f"nplurals={count}") + f'msgid "dog"\nmsgid_plural "dogs"\n{forms}')
    assert [one.text for one in document.segments] == texts


def test_what_is_no_catalogue_is_refused() -> None:
    with pytest.raises(UserError, match=r"line 2 of the catalogue is no line of a \.po file: 'hello'"):
        read('msgid "x"\nhello\n')
    with pytest.raises(UserError, match="charset=ISO-8859-1; it should be UTF-8"):
        read(HEAD.replace("UTF-8", "ISO-8859-1") + BODY)


def test_a_plural_form_without_a_plural_is_refused() -> None:
    """Found by the fuzzer."""
    with pytest.raises(UserError, match=r"has msgstr\[1\] without msgid_plural, for msgid 'a dog'"):
        read('msgid "a dog"\nmsgstr[0] ""\nmsgstr[1] ""\n')


def test_windows_line_ends_stay() -> None:
    text = (HEAD + BODY).replace("\n", "\r\n")
    document = read(text)
    made = document.write(["a\nb", None, None, None], [0])
    assert made.replace("\r\n", "").count("\n") == 0
    assert not document.changed(made)


def test_catalogues_of_the_python_documentation(data_root: Path) -> None:
    """Rebuilt with polib from pairs of the documentation: filling in their own translations gives the file back."""
    lines = gzip.decompress((data_root / "pythondocs-fr" / "en-fr.val.tsv.gz").read_bytes()).decode().split("\n")[:300]
    full, empty = polib.POFile(), polib.POFile()
    pairs = {row[0]: row[1] for row in (line.split("\t") for line in lines if line)}
    for number, (source, target) in enumerate(pairs.items()):
        for file, text in ((full, target), (empty, "")):
            where = [(f"library/x{number}.rst", str(number))]
            file.append(
                polib.POEntry(msgid=source, msgstr=text, occurrences=where, flags=["python-format"] * (number % 3 == 0))
            )
    document = read(str(empty))
    asked = [one.text for one in document.segments]
    assert len(asked) > 250
    found = {source: target for source, target in pairs.items() if source in set(asked)}
    made = document.write([found[text] for text in asked])
    assert not document.changed(made)
    for entry in full:
        entry.msgstr = entry.msgstr if entry.msgid in found else ""
    assert made == str(full)


TEXT = st.text(alphabet=st.sampled_from(list('abc \n"\\é你\t%s{}')), min_size=1, max_size=40)


@given(TEXT, TEXT)
@settings(max_examples=150, deadline=None)
def test_any_strings_come_back(source: str, target: str) -> None:
    file = polib.POFile()
    file.append(polib.POEntry(msgid="x" + source, msgstr=""))
    document = read(str(file))
    [one] = document.segments
    assert one.text == "x" + source
    made = document.write([target])
    assert not document.changed(made)
    assert polib.pofile(made)[0].msgstr.strip("\n") == target.strip("\n")

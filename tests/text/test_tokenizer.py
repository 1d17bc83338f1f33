"""Text to ids and back: nothing lost, nothing special, the same in transformers."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import UserError
from regard.text.tokenizer import Plan, Tokenizer, Tokenizers, train_tokenizer

LINES_WITH_TAGS = "I like </s> and <pad> tags, <s> and <unk>, <0x41> too"
TRICKY = [
    "",
    " ",
    "   ",
    " a  b ",
    "x : 'y' , z .",
    "do n't",
    "\t tab and \u00a0 no-break",
    "▁ Ġ ## @@ ￭",
    "日本語🙂 and Ĝ",
    "line\u2028sep\u0085nel\x0bvt\x0cff\x1cfs",
    LINES_WITH_TAGS,
    "e\u0301 é ﬁ ½",
    "\ufffd",
    "\0",
]
KINDS = ("unigram", "bpe", "words", "characters", "bytes")
LOSSLESS = ("unigram", "bpe", "bytes")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def line_of(*points: int) -> str:
    return "".join(map(chr, points))


@pytest.mark.parametrize("kind", LOSSLESS)
@pytest.mark.parametrize("text", TRICKY)
def test_s_tok_06_decoding_gives_back_exactly_what_was_typed(made: dict[str, Tokenizer], kind: str, text: str) -> None:
    assert made[kind].decode(made[kind].encode(text)) == text


@pytest.mark.parametrize("kind", LOSSLESS)
@given(text=TEXT)
@settings(max_examples=60, deadline=None)
def test_any_text_comes_back(made: dict[str, Tokenizer], kind: str, text: str) -> None:
    tokenizer = made[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert {tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.eos}.isdisjoint(ids)
    assert tokenizer.decode(ids, skip_specials=False) == text


@pytest.mark.parametrize("kind", ["words", "characters"])
@given(text=TEXT)
@settings(max_examples=60, deadline=None)
def test_s_tok_03_a_second_pass_settles_for_any_text(made: dict[str, Tokenizer], kind: str, text: str) -> None:
    tokenizer = made[kind]
    ids = tokenizer.encode(text)
    again = tokenizer.decode(ids)
    assert tokenizer.encode(again) == ids
    assert again.count(" ") == text.count(" ")
    assert {tokenizer.pad, tokenizer.bos, tokenizer.eos}.isdisjoint(ids)


@pytest.mark.parametrize("normalization", ["nfc", "nfkc", "nfd"])
@pytest.mark.parametrize("lowercase", [False, True])
@given(text=TEXT)
@settings(max_examples=30, deadline=None)
def test_any_text_comes_back_normalised(normalized, normalization: str, lowercase: bool, text: str) -> None:
    for tokenizer in normalized(normalization, lowercase):
        assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.normalize(text)


@pytest.fixture(scope="module")
def normalized():
    from functools import cache

    lines = ["Une échelle est là, l'eau est BLEUE."] * 3

    @cache
    def make(normalization: str, lowercase: bool) -> list[Tokenizer]:
        return [
            train_tokenizer(lines, Plan(kind, 400, lowercase, normalization))  # type: ignore[arg-type]
            for kind in LOSSLESS
        ]

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_s_tok_01_joiners_stay(kind: str) -> None:
    words = [
        line_of(0x0D9A, 0x0DCA, 0x200D, 0x0DBB, 0x0DB8),
        line_of(0x0645, 0x06CC, 0x200C, 0x0631, 0x0648, 0x0645),
        line_of(0x1F468, 0x200D, 0x1F469),
    ]
    for normalization in ("nfc", "nfkc", "nfd", "none"):
        plan = Plan(kind=kind, vocab_size=400, lowercase=True, normalization=normalization)  # type: ignore[arg-type]
        tokenizer = train_tokenizer([*words, f"so {words[1]} and {words[0]} go"] * 2, plan)
        for word in words:
            for text in (word, f"so {word} go"):
                assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_s_tok_02_specials_typed_by_the_user_are_ordinary_text(made: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = made[kind]
    ids = tokenizer.encode(LINES_WITH_TAGS)
    assert {tokenizer.pad, tokenizer.bos, tokenizer.eos}.isdisjoint(ids)
    if kind in LOSSLESS:
        assert tokenizer.unk not in ids
        assert tokenizer.decode(ids) == LINES_WITH_TAGS


@pytest.mark.parametrize("kind", KINDS)
def test_s_tok_02_specials_in_the_training_text_are_ordinary_text(kind: str) -> None:
    text = "</s> <pad> <s> <unk> <0x41> a</s>b</s> <s><s>"
    tokenizer = train_tokenizer([text] * 50, Plan(kind=kind, vocab_size=400))  # type: ignore[arg-type]
    ids = tokenizer.encode(text)
    assert min(ids) > 3
    assert tokenizer.decode(ids) == text


def test_s_tok_03_an_unknown_character_leaves_its_neighbours_alone() -> None:
    lines = ["uito is high", "what is high"] * 3
    for kind in ("characters", "words"):
        tokenizer = train_tokenizer(lines, Plan(kind=kind))
        ids = tokenizer.encode("Quito is high")
        text = tokenizer.decode(ids)
        assert text == ("\ufffduito is high" if kind == "characters" else "\ufffd is high")
        assert tokenizer.encode(text) == ids
    for kind in LOSSLESS:
        tokenizer = train_tokenizer(lines, Plan(kind=kind, vocab_size=320))  # type: ignore[arg-type]
        assert tokenizer.decode(tokenizer.encode("Quito is high")) == "Quito is high"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["Hello big world", "  two  spaces ", "A man in a blue shirt.", "日本🙂"])
def test_s_tok_04_the_stream_joined_is_the_whole_decoding(made: dict[str, Tokenizer], kind: str, text: str) -> None:
    tokenizer = made[kind]
    ids = [tokenizer.bos, *tokenizer.encode(text), tokenizer.eos]
    stream = tokenizer.stream()
    assert "".join([stream.push(number) for number in ids] + [stream.end()]) == tokenizer.decode(ids)


@pytest.mark.parametrize("kind", LOSSLESS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_s_tok_04_any_ids_stream_as_they_decode(made: dict[str, Tokenizer], kind: str, data) -> None:
    tokenizer = made[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=12))
    stream = tokenizer.stream()
    assert "".join([stream.push(number) for number in ids] + [stream.end()]) == tokenizer.decode(ids)


@pytest.mark.parametrize("kind", LOSSLESS)
def test_s_tok_05_a_character_of_four_bytes_is_streamed_whole(made: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = made[kind]
    ids = tokenizer.encode("🙂")[-4:]
    stream = tokenizer.stream()
    assert [stream.push(number) for number in ids] == ["", "", "", "🙂"]
    assert stream.end() == ""
    stream = tokenizer.stream()
    assert [stream.push(number) for number in ids[:2]] == ["", ""]
    assert stream.end() == "\ufffd"
    assert tokenizer.decode(ids[:2]) == "\ufffd"


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_s_tok_07_long_lines_are_learnt_from(kind: str) -> None:
    long = ("abcdefghij" * 1000)[:10000]
    for lines in ([long] * 20, [long] * 19 + ["short"]):
        tokenizer = train_tokenizer(lines, Plan(kind=kind, vocab_size=330))  # type: ignore[arg-type]
        assert len(tokenizer.encode(long)) < 5000
        assert tokenizer.decode(tokenizer.encode(long)) == long


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bytes"])
def test_s_tok_07_nothing_to_learn_from_is_said(kind: str) -> None:
    for lines in ([], ["", "  ", ""]):
        with pytest.raises(UserError, match="nothing but empty lines"):
            train_tokenizer(lines, Plan(kind=kind))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_s_tok_08_odd_spaces_survive_saving(tmp_path: Path, kind: str) -> None:
    lines = ["a\u2028b c\u0085d e\u00a0f g\u3000h \u2028x"] * 5
    tokenizer = train_tokenizer(lines, Plan(kind=kind, vocab_size=400, normalization="none"))  # type: ignore[arg-type]
    opened = Tokenizer.open(tokenizer.save(tmp_path))
    assert opened.vocab_size == tokenizer.vocab_size
    assert opened.backend.get_vocab() == tokenizer.backend.get_vocab()
    assert opened.encode(lines[0]) == tokenizer.encode(lines[0])
    assert opened.decode(opened.encode(lines[0])) == lines[0]
    assert opened.hash == tokenizer.hash


@pytest.mark.parametrize("kind", LOSSLESS)
@pytest.mark.parametrize("normalization", ["none", "nfc", "nfd"])
def test_s_tok_09_only_the_stated_normaliser_is_applied(tmp_path: Path, kind: str, normalization: str) -> None:
    from transformers import AutoTokenizer

    one, two = "café", "cafe\u0301"
    plan = Plan(kind=kind, vocab_size=400, normalization=normalization)  # type: ignore[arg-type]
    tokenizer = train_tokenizer([one, two] * 3, plan)
    Tokenizers(tokenizer, tokenizer, True).save(tmp_path)
    reference = AutoTokenizer.from_pretrained(tmp_path)
    for text in (one, two):
        assert reference(text).input_ids == [*tokenizer.encode(text), tokenizer.eos]
        expected = text if normalization == "none" else unicodedata.normalize(normalization.upper(), text)
        assert tokenizer.decode(tokenizer.encode(text)) == expected
        assert reference.decode(reference(text).input_ids, skip_special_tokens=True) == expected
    assert (tokenizer.encode(one) == tokenizer.encode(two)) == (normalization != "none")


@pytest.mark.parametrize("kind", KINDS)
def test_s_tok_10_no_stray_space_beside_a_tag(made: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = made[kind]
    tag = tokenizer.backend.token_to_id("<2xx>")
    ids = tokenizer.encode("<2xx> a man")
    assert ids == [tag, *tokenizer.encode("a man")]
    assert tokenizer.encode("<2xx>a man") == ids
    assert tokenizer.decode(ids) == "<2xx> a man"
    assert tokenizer.extra == ["<2xx>"]
    assert tag == tokenizer.vocab_size - 1


@pytest.mark.parametrize("kind", LOSSLESS)
@given(text=TEXT)
@settings(max_examples=40, deadline=None)
def test_offsets_cover_the_text_in_order(made: dict[str, Tokenizer], kind: str, text: str) -> None:
    tokenizer = made[kind]
    tokens = tokenizer.tokens(text)
    assert tokens.ids == tokenizer.encode(text)
    assert len(tokens.ids) == len(tokens.offsets) == len(tokens.words)
    reached = 0
    for start, end in tokens.offsets:
        assert start <= reached <= max(end, reached)
        reached = max(reached, end)
    assert reached == len(text)
    assert all(later - word in (0, 1) for word, later in zip(tokens.words, tokens.words[1:]))


def test_offsets_are_characters_and_words_are_numbered(made: dict[str, Tokenizer]) -> None:
    text = "a man 日本"
    for kind in ("unigram", "bpe"):
        tokens = made[kind].tokens(text)
        spans = [text[start:end] for start, end in tokens.offsets]
        assert spans == ["a", " man", " ", "日", "日", "日", "本", "本", "本"]
        assert tokens.words == [0, 1, 2, 2, 2, 2, 2, 2, 2]
        assert made[kind].tokens("日").offsets == [(0, 0), (0, 1), (0, 1), (0, 1)]
    tokens = made["words"].tokens("a man is")
    assert tokens.offsets == [(0, 1), (1, 5), (5, 8)]
    tokens = made["characters"].tokens("a ma")
    assert tokens.offsets == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert tokens.words == [0, 1, 1, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_equals_its_texts_one_by_one(made: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = made[kind]
    assert tokenizer.encode_batch(TRICKY) == [tokenizer.encode(text) for text in TRICKY]
    ids = tokenizer.encode_batch(TRICKY)
    assert tokenizer.decode_batch(ids) == [tokenizer.decode(one) for one in ids]


@pytest.mark.parametrize("kind", KINDS)
def test_our_decoding_is_the_one_stated_in_the_file(made: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = made[kind]
    for text in (*TRICKY, "<2xx> a man", "A man in a blue shirt is <2xx> standing."):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == tokenizer.backend.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("model_type", ["marian", "pegasus", "regard", None])
@pytest.mark.parametrize("kind", KINDS)
def test_transformers_opens_the_folder_as_it_is(
    made: dict[str, Tokenizer], tmp_path: Path, kind: str, model_type: str | None
) -> None:
    from transformers import AutoTokenizer

    tokenizer = made[kind]
    Tokenizers(tokenizer, tokenizer, True).save(tmp_path)
    if model_type:
        (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}), encoding="utf-8")
    reference = AutoTokenizer.from_pretrained(tmp_path)
    for text in (*TRICKY, "A man in a blue shirt.", "<2xx> a man"):
        ids = tokenizer.encode(text)
        assert reference(text).input_ids == [*ids, tokenizer.eos]
        assert reference(text_target=text).input_ids == [*ids, tokenizer.eos]
        if tokenizer.unk not in ids:
            decoded = reference.decode([*ids, tokenizer.eos, tokenizer.pad], skip_special_tokens=True)
            assert decoded == tokenizer.decode(ids)
    both = reference(["a man", "a blue shirt is standing"], padding=True)
    assert {len(row) for row in both.input_ids} == {max(map(len, both.input_ids))}
    assert (reference.pad_token_id, reference.unk_token_id, reference.bos_token_id, reference.eos_token_id) == (0, 1, 2, 3)
    assert len(reference) == tokenizer.vocab_size


def test_shared_and_separate_vocabularies_come_back(tmp_path: Path, made: dict[str, Tokenizer]) -> None:
    Tokenizers(made["bpe"], made["bpe"], True).save(tmp_path / "one")
    one = Tokenizers.open(tmp_path / "one")
    assert one.shared
    assert one.source is one.target
    Tokenizers(made["characters"], made["words"], False).save(tmp_path / "two")
    two = Tokenizers.open(tmp_path / "two")
    assert not two.shared
    assert (two.source.hash, two.target.hash) == (made["characters"].hash, made["words"].hash)
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == [
        "special_tokens_map.json",
        "target_tokenizer.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_special_ids_are_fixed(made: dict[str, Tokenizer]) -> None:
    for tokenizer in made.values():
        assert (tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.eos) == (0, 1, 2, 3)
        assert [tokenizer.piece(number) for number in range(4)] == ["<pad>", "<unk>", "<s>", "</s>"]
        assert tokenizer.decode([2, 3, 0, 0]) == ""
        assert tokenizer.decode([2, 3], skip_specials=False) == "<s></s>"


def test_ids_outside_the_vocabulary_are_refused(made: dict[str, Tokenizer]) -> None:
    for bad in (-1, made["bpe"].vocab_size):
        with pytest.raises(UserError, match="outside the vocabulary"):
            made["bpe"].decode([bad])
        with pytest.raises(UserError, match="outside the vocabulary"):
            made["bpe"].stream().push(bad)


def test_text_that_is_not_text_is_refused(made: dict[str, Tokenizer]) -> None:
    with pytest.raises(UserError, match="text 2 holds half a surrogate pair"):
        made["bpe"].encode_batch(["fine", "a\udce9b"])
    with pytest.raises(TypeError, match="text 1 is int"):
        made["bpe"].encode_batch([5])  # type: ignore[list-item]


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere.*cannot be read"):
        Tokenizer.open(tmp_path / "nowhere" / "tokenizer.json")
    (tmp_path / "tokenizer.json").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match="is not a tokenizer file"):
        Tokenizer.open(tmp_path)
    foreign = {"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(foreign), encoding="utf-8")
    its = Tokenizer.open(tmp_path)
    assert (its.pad, its.unk, its.bos, its.eos, its.mask) == (None, None, None, None, None)


def test_a_foreign_pipeline_decodes_and_streams_by_the_library(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, pre_tokenizers

    vocab = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "▁good": 4, "▁day": 5}
    backend = Backend(models.WordLevel(vocab, "[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    (tmp_path / "tokenizer.json").write_text(backend.to_str(), encoding="utf-8")
    names = {"pad_token": "[PAD]", "unk_token": {"content": "[UNK]"}, "bos_token": "[CLS]", "eos_token": "[SEP]"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names), encoding="utf-8")
    tokenizer = Tokenizer.open(tmp_path)
    assert (tokenizer.pad, tokenizer.eos) == (0, 3)
    ids = tokenizer.encode("good day")
    assert tokenizer.decode(ids) == "good day"
    stream = tokenizer.stream()
    assert "".join([stream.push(number) for number in ids] + [stream.end()]) == "good day"


def test_s_data_05_files_are_utf8_whatever_the_platform_says(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from regard.text.corpus import open_corpus
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
folder = Path(sys.argv[1])
pairs = open_corpus(folder / "t.tsv", "pl", "en")
for kind in ("unigram", "bpe", "words", "characters"):
    made = train_tokenizer([pair.source for pair in pairs], Plan(kind=kind, vocab_size=400))
    Tokenizers(made, made, True).save(folder / kind)
    again = Tokenizers.open(folder / kind).source
    assert again.decode(again.encode(pairs[0].source)) == "\\u017c\\u00f3\\u0142\\u0107"
"""
    (tmp_path / "t.tsv").write_bytes("żółć\tbile\n".encode() * 3)
    source = Path(__file__).parents[2] / "src"
    environment = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(source), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-X", "utf8=0", "-c", program, str(tmp_path)]
    ended = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert ended.returncode == 0, ended.stderr.decode()
    for kind in ("unigram", "bpe", "words", "characters"):
        (tmp_path / kind / "tokenizer.json").read_bytes().decode("utf-8")
    assert "żółć" in (tmp_path / "words" / "tokenizer.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", LOSSLESS)
def test_real_sentences_come_back(data_root: Path, kind: str) -> None:
    from regard.text.corpus import PairFiles, open_corpus

    folder = data_root / "multi30k"
    pairs = open_corpus(PairFiles(str(folder / "val.en.gz"), str(folder / "val.fr.gz")), "en", "fr")
    lines = [side for pair in pairs for side in (pair.source, pair.target)]
    tokenizer = train_tokenizer(lines, Plan(kind=kind, vocab_size=1000, normalization="none"))  # type: ignore[arg-type]
    ids = tokenizer.encode_batch(lines)
    assert tokenizer.decode_batch(ids) == lines
    if kind != "bytes":
        assert sum(map(len, ids)) < 2.5 * sum(len(line.split()) for line in lines)


def test_merges_are_left_out_in_training_alone(tmp_path: Path) -> None:
    """A file whose model says dropout: the library would go on with it, and equal texts get other ids each time."""
    train_tokenizer(["the lazy dogs are sleeping"] * 5, Plan("bpe", vocab_size=300)).save(tmp_path)
    plain = Tokenizer.open(tmp_path)
    file = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    file["model"]["dropout"] = 0.9
    (tmp_path / "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
    its = Tokenizer.open(tmp_path)
    assert [its.encode("the lazy dogs") for _ in range(10)] == [plain.encode("the lazy dogs")] * 10
    assert its.encode_marked("the lazy dogs", ["</s>"]) == plain.encode_marked("the lazy dogs", ["</s>"])
    assert its.hash == plain.hash


def test_a_vocabulary_that_contradicts_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library panics in the middle of a text: one line."""

    class PanicException(BaseException):
        """As pyo3 raises it."""

    class Broken:
        def encode_batch(self, texts: list[str], add_special_tokens: bool) -> None:
            raise PanicException("index out of\nbounds")

    its = train_tokenizer(["a b c"] * 3, Plan("words", vocab_size=20))
    monkeypatch.setattr(its, "backend", Broken())
    with pytest.raises(UserError, match="this tokenizer contradicts itself \\(index out of bounds\\)"):
        its.encode("a")

"""OPUS-Marian vocabularies against transformers' MarianTokenizer."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.text.spm import SOURCE, TARGET, TARGET_VOCABULARY, VOCABULARY, open_spm
from regard.text.tokenizer import Tokenizers

sentencepiece = pytest.importorskip("sentencepiece")

ENGLISH = ["hello world this is a test", "the quick brown fox jumps over the lazy dog", "naïve café words"] * 20
FRENCH = ["bonjour le monde ceci est un test", "le renard brun saute par dessus", "l'été est là , n'est-ce pas ?"] * 20
TEXTS = ["hello world", "hello  naïve ﬁx 漢 l'été", ">>fra<< the dog", ">>deu<< the dog", "", " ", "a\nb", "a << b", ">> a"]


def pieces_of(lines: list[str]) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=60, hard_vocab_limit=False, minloglevel=2
    )
    return model.getvalue()


def numbered(*models: bytes) -> dict[str, int]:
    """As in OPUS folders: the end mark first, pad last (of one side alone: in one place on both), and one piece that the
    model knows left out."""
    names = ["</s>", "<unk>", ">>fra<<", *(["<pad>"] if len(models) == 1 else [])]
    for model in models:
        its = sentencepiece.SentencePieceProcessor(model_proto=model)
        names += [its.id_to_piece(n) for n in range(4, its.get_piece_size()) if its.id_to_piece(n) not in names]
    return {name: number for number, name in enumerate(dict.fromkeys([*names, "<pad>"]))}


@pytest.fixture(scope="module")
def models() -> tuple[bytes, bytes]:
    return pieces_of(ENGLISH), pieces_of(FRENCH)


@pytest.fixture(params=["one", "two"])
def folder(request, models, tmp_path) -> Path:
    """A folder with one vocabulary, or one for each side."""
    for name, model in zip((SOURCE, TARGET), models, strict=True):
        (tmp_path / name).write_bytes(model)
    config = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "fr"}
    vocabularies = {VOCABULARY: numbered(*models)}
    if request.param == "two":
        vocabularies = {VOCABULARY: numbered(models[0]), TARGET_VOCABULARY: numbered(models[1])}
        config["separate_vocabs"] = True
    for name, numbers in {**vocabularies, "tokenizer_config.json": config}.items():
        (tmp_path / name).write_text(json.dumps(numbers, ensure_ascii=False), encoding="utf-8")
    return tmp_path


def test_ids_and_texts_are_those_of_transformers(folder):
    transformers = pytest.importorskip("transformers")
    theirs, ours = transformers.MarianTokenizer.from_pretrained(folder), open_spm(folder)
    for text in TEXTS:
        assert ours.source.wrap(ours.source.encode(text))[0] == theirs(text).input_ids, text
        ids = ours.target.wrap(ours.target.encode(text))[0]
        assert ids == theirs(text_target=text).input_ids, text
        assert ours.target.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
        if theirs.separate_vocabs:  # else transformers joins the target's pieces by the source's rules
            assert ours.target.decode(ids, skip_specials=False) == theirs.decode(ids, skip_special_tokens=False)
    assert ours.source.encode_batch(TEXTS) == [ours.source.encode(text) for text in TEXTS]
    assert (ours.source.pad, ours.source.unk, ours.source.eos) == (theirs.pad_token_id, 1, 0)
    assert ours.source.bos is None
    assert ours.source.extra == [">>fra<<"]


def test_the_tokenizer_of_a_folder_is_found_by_its_files(folder):
    found = Tokenizers.open(folder)
    assert found.source.encode("hello") == open_spm(folder).source.encode("hello")
    assert found.source.hash != found.target.hash


def test_a_whole_folder_translates_as_transformers_does(folder, tmp_path):
    """The decoder starts from pad, which bad_words_ids forbids to write although this model would write it always."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    import regard

    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    sizes = [len(tokenizer.encoder), len(tokenizer.target_encoder if tokenizer.separate_vocabs else tokenizer.encoder)]
    pad = tokenizer.pad_token_id
    shape = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    shape |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "activation_function": "swish"}
    shape |= {"vocab_size": sizes[0], "decoder_vocab_size": sizes[1], "scale_embedding": True, "max_length": 20}
    shape |= {"share_encoder_decoder_embeddings": not tokenizer.separate_vocabs, "max_position_embeddings": 64}
    config = transformers.MarianConfig(**shape, pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad)
    torch.manual_seed(1)
    model = transformers.MarianMTModel(config).eval()
    for name, tensor in model.named_parameters():
        if "embed_positions" not in name:
            tensor.data.normal_(1.0 if name.endswith("norm.weight") else 0.0, 0.5)
    model.final_logits_bias[0, pad] = 30.0
    chosen = {"num_beams": 3, "bad_words_ids": [[pad]], "max_length": 20, "length_penalty": 0.6, "forced_eos_token_id": None}
    ids = {"pad_token_id": pad, "eos_token_id": 0, "decoder_start_token_id": pad}
    model.generation_config = transformers.GenerationConfig(**chosen, **ids)
    model.save_pretrained(tmp_path / "opus")
    tokenizer.save_pretrained(tmp_path / "opus")
    ours = regard.load(tmp_path / "opus", dtype="float64")
    ours.save(tmp_path / "ours")
    texts = ["hello world", "the quick brown fox", "naïve words this is a test"]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    want = model.double().generate(**inputs)[:, 1:].tolist()
    assert not any(pad in row[:4] for row in want)
    for its in (ours, regard.load(tmp_path / "ours", dtype="float64")):
        found = its.translate(texts, details=True)
        for row, one, text in zip(want, found, tokenizer.batch_decode(want, skip_special_tokens=True), strict=True):
            wanted = row[: row.index(0)] if 0 in row else [number for number in row if number != pad]
            assert one.tokens == [its.tokenizers.target.piece(number) for number in wanted]
            assert one.text == text
    again = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "ours").double()
    assert type(again).__name__ == "MarianMTModel"
    opened = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert again.generate(**opened(texts, padding=True, return_tensors="pt"))[:, 1:].tolist() == want


def test_what_is_saved_opens_again_here_and_there(folder, tmp_path):
    transformers = pytest.importorskip("transformers")
    ours = open_spm(folder)
    ours.save(tmp_path / "copy")
    again = open_spm(tmp_path / "copy")
    assert (again.source.hash, again.target.hash) == (ours.source.hash, ours.target.hash)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "copy")
    assert theirs("hello world").input_ids == again.source.wrap(again.source.encode("hello world"))[0]


def test_no_text_becomes_a_special_symbol(folder):
    ours = open_spm(folder).source
    ids = ours.encode("the </s> <pad> <unk> dog")
    assert not {ours.pad, ours.eos} & set(ids)


def test_ranges_of_characters_and_words(folder):
    ours = open_spm(folder).source
    text = ">>fra<< the ﬁx"
    tokens = ours.tokens(text)
    assert tokens.ids == ours.encode(text)
    assert tokens.offsets[0] == (0, 7)
    assert tokens.offsets[-1] == (13, 14)
    assert tokens.offsets[-2] == tokens.offsets[-3] == (12, 13)  # one character that became f and i
    covered = {n for start, end in tokens.offsets for n in range(start, end)}
    assert covered == set(range(len(text))) - {7}  # a space that begins a text stands for nothing
    assert tokens.words[0] == 0
    assert tokens.words[-1] == 2
    assert ours.normalize("ﬁx   it ") == "fix it"


def test_a_stream_gives_what_decode_gives(folder):
    ours = open_spm(folder).target
    for text in ("le renard brun", "l'été est là", ""):
        stream, ids = ours.stream(), ours.encode(text)
        assert "".join(stream.push(number) for number in ids) + stream.end() == ours.decode(ids)


def test_ids_outside_the_vocabulary_are_refused(folder):
    ours = open_spm(folder).target
    with pytest.raises(UserError, match=f"id {ours.vocab_size} is outside"):
        ours.decode([ours.vocab_size])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (VOCABULARY, None, "vocab.json: cannot be read"),
        (VOCABULARY, b"{", "vocab.json: is not JSON"),
        (VOCABULARY, b'["a"]', "vocab.json: should be an object"),
        (VOCABULARY, b'{"a": 0}', "vocab.json: has no <unk>, </s>"),
        (SOURCE, b"abc", "source.spm: is not a SentencePiece model"),
        (TARGET, None, "target.spm: cannot be read"),
    ],
)
def test_damaged_folders_are_refused_in_one_line(folder, name, content, words):
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        open_spm(folder)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_the_missing_library_is_named_with_its_command(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(UserError, match=r"pip install 'regard\[spm\]'"):
        open_spm(folder)


def test_half_a_surrogate_pair_is_no_text(folder):
    with pytest.raises(UserError, match="text 2 holds half a surrogate pair"):
        open_spm(folder).source.encode_batch(["a", "\ud800"])

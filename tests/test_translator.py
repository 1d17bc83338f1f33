"""Texts in, texts out; the same in transformers."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest
import torch

import regard
from regard.checkpoints.folders import save_model
from regard.decoding.options import Search
from regard.errors import UserError
from regard.models import rnn, transformer
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.translator import Translation, Translator, load

SIZES = {"num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 4}
LINES = ["A dog runs in the park .", "Two men play football , and a girl looks on .", "The red house is near the sea ."] * 3
FRENCH = ["Un chien court dans le parc .", "Deux hommes jouent au football .", "La maison rouge est près de la mer ."] * 3
TEXTS = ["A dog plays near the red sea .", "", "Two men .", "The girl runs in the house , and the men look on .", "   "]


@pytest.fixture(scope="module")
def shared():
    made = train_tokenizer(LINES + FRENCH, Plan("bpe", vocab_size=300))
    return Tokenizers(made, made, True)


@pytest.fixture(scope="module")
def separate():
    source = train_tokenizer(LINES, Plan("unigram", vocab_size=310))
    return Tokenizers(source, train_tokenizer(FRENCH, Plan("words", vocab_size=60)), False)


def model_for(tokenizers, seed=1, **arguments):
    """Random weights, large enough that answers differ, with an end mark that comes in time."""
    torch.manual_seed(seed)
    target = {} if tokenizers.shared else {"target_vocab_size": tokenizers.target.vocab_size}
    sizes = {"vocab_size": tokenizers.source.vocab_size} | target | SIZES | arguments
    model = transformer.describe(**sizes).build().eval()
    for name, tensor in model.named_parameters():
        if not name.endswith("norm.weight"):
            tensor.data.normal_(0.0, 0.4)
    return model


def translator(tokenizers, seed=1, search=None, **arguments):
    return Translator(model_for(tokenizers, seed, **arguments), tokenizers, search or Search(max_length=12))


def test_as_many_translations_as_texts(shared):
    its = translator(shared)
    found = its.translate(TEXTS)
    assert len(found) == len(TEXTS)
    assert all(isinstance(text, str) for text in found)
    assert (found[1], found[4]) == ("", "")
    assert found[0]
    assert [its.translate([text])[0] for text in TEXTS] == found
    assert its.translate([]) == []
    assert list(its.stream(iter(TEXTS * 2), window=3)) == found * 2
    assert its.tokenizer is shared.source


def test_samples_depend_on_the_number_of_the_text_alone(shared):
    its = translator(shared)
    texts = [TEXTS[0]] * 5
    drawn = its.translate(texts, sample=True, seed=1)
    assert len(set(drawn)) > 1
    assert list(its.stream(texts, window=2, sample=True, seed=1)) == drawn
    assert its.translate(texts[3:], sample=True, seed=1, first=3) == drawn[3:]


def test_details(shared):
    its = translator(shared, search=Search(num_beams=4, max_length=12))
    found = its.translate(TEXTS, details=True, n_best=3)
    assert [one.text for one in found] == its.translate(TEXTS)
    first = found[0]
    assert isinstance(first, Translation)
    assert first.source == TEXTS[0]
    assert len(first.alternatives) == 2
    assert first.score >= first.alternatives[0].score >= first.alternatives[1].score
    assert len(first.token_log_probs) == len(first.tokens) + first.finished
    assert first.log_prob == pytest.approx(sum(first.token_log_probs), abs=1e-4)
    assert first.score == pytest.approx(first.log_prob / len(first.token_log_probs), abs=1e-4)
    assert json.loads(json.dumps(first.json()))["alternatives"][1]["text"] == first.alternatives[1].text
    assert (found[1].text, found[1].tokens, found[1].score, found[1].finished) == ("", [], 0.0, True)


def test_pos_01_long_sources_are_cut_and_flagged(shared, caplog):
    """S-POS-01, S-DATA-07: past the position table a source loses its end and an answer stops; both are flagged."""
    its = translator(shared, search=Search(num_beams=2), positions="learned", max_positions=16)
    torch.nn.init.constant_(its.model.head.project.weight[3], 0.0)
    long = " ".join(["The red house is near the sea ."] * 6)
    with caplog.at_level(logging.WARNING):
        found = its.translate([TEXTS[2], long], details=True)
    assert [one.truncated for one in found] == [False, True]
    assert all(len(one.tokens) <= 16 for one in found)
    assert [one.finished for one in found] == [len(one.tokens) < 16 for one in found]
    assert "1 of 2 sources were longer than the model reads" in caplog.text
    assert its.translate([TEXTS[2]]) == [found[0].text]


def test_progress_tells_the_beginning_of_each_translation(shared):
    its, heard = translator(shared, search=Search(num_beams=3, max_length=12)), {}
    found = its.translate(TEXTS, progress=lambda number, text: heard.update({number: heard.get(number, "") + text}))
    assert found == its.translate(TEXTS)
    assert all(found[number].startswith(text) for number, text in heard.items())
    its.translate(TEXTS[:1], num_beams=1, progress=lambda number, text: heard.update({-1: heard.get(-1, "") + text}))
    assert heard[-1].rstrip("\ufffd") == its.translate(TEXTS[:1], num_beams=1)[0].rstrip("\ufffd")


def test_unknown_tokens_are_counted(separate):
    words = Tokenizers(separate.target, separate.target, True)
    found = translator(words).translate(["Un xyzzy court dans le plugh .", "Un chien"], details=True)
    assert [one.unknown for one in found] == [2, 0]


def test_prefix_begins_the_translation(shared):
    found = translator(shared).translate([TEXTS[0], TEXTS[2]], prefix=["La maison", ""])
    assert found[0].startswith("La maison")
    assert found[1] == translator(shared).translate([TEXTS[2]])[0]
    with pytest.raises(UserError, match="1 prefixes were given for 2 sources"):
        translator(shared).translate(TEXTS[:2], prefix=["La"])


def test_wrong_calls(shared):
    with pytest.raises(UserError, match="takes a list of texts"):
        translator(shared).translate("A dog")
    with pytest.raises(UserError, match="unknown search option 'num_beems': did you mean num_beams"):
        translator(shared).translate(["A dog"], num_beems=3)


@pytest.mark.parametrize("sides", ["shared", "separate"])
def test_save_and_load(tmp_path, request, sides):
    tokenizers = request.getfixturevalue(sides)
    its = translator(tokenizers, search=Search(num_beams=3, length_penalty=0.6, max_length=9))
    its.meta |= {"source": "en", "target": "fr"}
    its.save(tmp_path / "model")
    back = regard.load(tmp_path / "model")
    assert back.search == its.search
    assert back.meta["source"] == "en"
    assert back.tokenizers.shared == tokenizers.shared
    assert back.translate(TEXTS) == its.translate(TEXTS)
    assert (tmp_path / "model" / "target_tokenizer.json").exists() == (sides == "separate")
    back.save(tmp_path / "again")
    first, second = ({f.name: f.read_bytes() for f in (tmp_path / name).iterdir()} for name in ("model", "again"))
    assert first == second


def test_a_shared_vocabulary_leaves_no_old_target_tokenizer(tmp_path, shared, separate):
    translator(separate).save(tmp_path)
    translator(shared).save(tmp_path)
    assert load(tmp_path).translate(TEXTS) == translator(shared).translate(TEXTS)


def test_half_precision_is_read_as_float32_on_a_cpu(tmp_path, shared):
    its = translator(shared)
    its.model.to(torch.bfloat16)
    its.save(tmp_path)
    assert load(tmp_path, device="cpu").model.head.project.weight.dtype == torch.float32
    assert load(tmp_path, device="cpu", dtype="bfloat16").model.head.project.weight.dtype == torch.bfloat16


def test_entries_that_no_text_has_are_never_written(shared):
    """A vocabulary filled up to a round size: the model may know more rows than there are tokens."""
    its = Translator(model_for(shared, vocab_size=320), shared, Search(max_length=9))
    with torch.no_grad():
        its.model.head.project.weight[300:] = 50 * its.model.head.project.weight[7]
    assert all(isinstance(text, str) for text in its.translate(TEXTS))
    assert all(isinstance(text, str) for text in its.translate(TEXTS, sample=True))


def test_no_tokenizer(tmp_path, shared):
    save_model(tmp_path, model_for(shared))
    with pytest.raises(UserError, match=r"tokenizer\.json: cannot be read"):
        load(tmp_path)


def test_an_rnn_is_loaded_alike(tmp_path, shared):
    torch.manual_seed(3)
    model = rnn.describe(vocab_size=shared.source.vocab_size, num_layers=1, d_model=16).build().eval()
    its = Translator(model, shared, Search(max_length=9))
    its.save(tmp_path)
    assert load(tmp_path).translate(TEXTS) == its.translate(TEXTS)
    transformers = pytest.importorskip("transformers")
    with pytest.raises((ValueError, KeyError), match="regard"):
        transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)


# ---------------------------------------------------------------------------------------------------- transformers


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("placement", ["post", "pre"])
def test_transformers_opens_the_folder_and_answers_alike(tmp_path, shared, placement):
    """AutoTokenizer gives our ids with the end mark, AutoModelForSeq2SeqLM our logits (1e-5), greedy and beam ids."""
    transformers = pytest.importorskip("transformers")
    search = Search(num_beams=3, length_penalty=0.6, max_length=20)
    its = translator(shared, seed=3, search=search, placement=placement)
    last = its.model.decoder.last_norm or its.model.decoder.blocks[-1].feedforward_norm
    last.bias.data += its.model.head.project.weight.data[3]  # the end mark comes now and then
    its.save(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    texts = [text for text in TEXTS if text.strip()] + LINES[:3]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    ours = [[*ids, 3] for ids in shared.source.encode_batch(texts)]
    assert [row[mask.bool()].tolist() for row, mask in zip(batch["input_ids"], batch["attention_mask"])] == ours
    start = torch.tensor([[2, 9, 8, 7]] * len(texts))
    with torch.no_grad():
        want = model(**batch, decoder_input_ids=start).logits
        got = its.model(batch["input_ids"], start).logits
    assert (want - got).abs().max() < 1e-5
    ends = []
    for beams in (1, 3):
        theirs = model.generate(**batch, num_beams=beams)
        found = its.translate(texts, num_beams=beams, details=True)
        assert theirs.shape[1] <= 21
        for row, one in zip(theirs.tolist(), found):
            row = row[1 : row.index(3)] if 3 in row else row[1:21]
            assert [shared.target.piece(i) for i in row] == one.tokens
            ends.append(one.finished)
        assert tokenizer.batch_decode(theirs, skip_special_tokens=True) == [one.text for one in found]
    assert 2 < sum(ends) < len(ends)


@pytest.mark.filterwarnings("ignore")
def test_transformers_default_search_is_ours(tmp_path, shared):
    transformers = pytest.importorskip("transformers")
    translator(shared, search=Search(num_beams=2, length_penalty=0.5, max_length=9)).save(tmp_path)
    its = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path).generation_config
    assert (its.num_beams, its.length_penalty, its.max_length) == (2, 0.5, 10)
    assert (its.pad_token_id, its.bos_token_id, its.eos_token_id, its.decoder_start_token_id) == (0, 2, 3, 2)


# ----------------------------------------------------------------------------------------------------- public names


def test_import_needs_no_torch():
    code = "import regard, sys; assert 'torch' not in sys.modules; regard.UserError; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names():
    from regard import loading

    assert regard.load is loading.load
    for name in regard.__all__:
        assert getattr(regard, name).__name__ == name
    assert set(regard.__all__) <= set(dir(regard))
    assert regard.__version__
    with pytest.raises(AttributeError, match="no attribute 'transformer_xl'"):
        _ = regard.transformer_xl


def test_judging_what_is_there(shared):
    from regard.decoding.alignment import forced

    its = translator(shared)
    [one] = its.judge([TEXTS[0]], [FRENCH[0]])
    ids, framed = shared.target.encode(FRENCH[0]), its.frame(shared.source.encode(TEXTS[0]))[0][0]
    [wanted] = forced(its.model, [framed], [(ids, True)], *its.marks())
    assert (one.text, one.ids) == (FRENCH[0], ids)
    assert one.token_log_probs == pytest.approx(wanted.log_probs, abs=1e-5)
    assert one.log_prob == pytest.approx(sum(wanted.log_probs), abs=1e-4)
    assert one.alignment is not None
    assert one.explained is not None
    [copy] = its.judge(["A dog runs in the park ."], ["A dog runs in the park ."])
    assert "copied" in copy.flags
    assert "empty" in its.judge(["Two men ."], [""])[0].flags
    assert its.judge([], []) == []
    with pytest.raises(UserError, match="1 translations for 2 texts"):
        its.judge(["a", "b"], ["c"])


def test_an_estimate_of_quality_comes_with_confidence(shared):
    from regard.decoding.quality import FEATURES, VERSION

    count = len(FEATURES)
    formula = {"version": VERSION, "features": list(FEATURES), "length": 0.0, "knots": [[0.0, 42.0]]}
    formula |= {"weights": [0.0] * count, "means": [0.0] * count, "scales": [1.0] * count}
    its = translator(shared)
    assert its.translate(["A dog ."], details=True, confidence=True)[0].quality is None
    its.meta["quality"] = formula
    assert its.translate(["A dog ."], details=True, confidence=True)[0].quality == 42.0
    assert its.translate(["A dog ."], details=True)[0].quality is None
    its.meta["quality"] = {"version": 0}
    with pytest.raises(UserError, match="regard evaluate --calibrate"):
        its.translate(["A dog ."], details=True)


def test_documents_in_place(shared):
    page = "# A *dog* runs\n\n- Two `men` play. The red house.\n"
    found = translator(shared).translate_document(page, "markdown")
    assert found.text.startswith("# ")
    assert found.text.count("*") == 2
    assert found.text.count("`men`") == 1
    assert [one.source for one in found.passages] == ["A <g1>dog</g1> runs", "Two <x1/> play. The red house."]


def test_one_beginning_for_all(shared):
    its = translator(shared)
    assert its.translate(TEXTS[:2], prefix="La maison") == its.translate(TEXTS[:2], prefix=["La maison"] * 2)


def test_unknown_words_are_replaced_where_the_folder_says_so(tmp_path, separate):
    """Key search.replace_unknown of a recipe; a call may say otherwise."""
    words = Tokenizers(separate.target, separate.target, True)
    its, begun = translator(words), {"prefix": "xyzzy"}  # which is unknown, and so is the first token of each
    texts = ["Un xyzzy court .", "Le plugh ."]
    plain = its.translate(texts, **begun)
    replaced = its.translate(texts, replace_unknown=True, **begun)
    assert all(text.startswith("\ufffd") for text in plain)
    assert all(text.split()[0] in source.split() for text, source in zip(replaced, texts))
    its.meta["search"] = {"replace_unknown": True}
    assert its.replaces_unknown
    assert its.translate(texts, **begun) == its.translate(texts, replace_unknown=None, **begun) == replaced
    assert its.translate(texts, replace_unknown=False, **begun) == plain
    its.save(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "regard.json").read_text())["search"]["replace_unknown"] is True
    back = load(tmp_path / "model")
    assert back.search == its.search
    assert back.translate(texts, **begun) == replaced


def test_texts_alone_cost_no_look_at_them(shared, monkeypatch):
    """Phrases are kept by the search; what is told of translations is found where somebody asks for details."""
    from regard.decoding.confidence import Judge
    from regard.text.surfaces import occurs

    its, looked = translator(shared), []
    monkeypatch.setattr(Judge, "complete", lambda *given: looked.append(given))
    found = its.translate(TEXTS, require="chien", forbid="mer")
    assert looked == []
    assert all(occurs("chien", one) for one in found if one)
    its.translate(["A <b>dog</b> ."], keep="tags")
    its.translate(TEXTS, require="chien", details=True)
    assert len(looked) == 2


def test_compiled_code_translates_the_same(shared):
    pytest.importorskip("numba")
    its, plain = translator(shared), translator(shared)
    assert its.compile() is its
    for options in ({}, {"num_beams": 1}, {"num_beams": 3, "num_return": 2}, {"sample": True, "seed": 4}):
        fast, slow = its.translate(TEXTS, details=True, **options), plain.translate(TEXTS, details=True, **options)
        assert [one.text for one in fast] == [one.text for one in slow]
        assert [one.score for one in fast] == pytest.approx([one.score for one in slow], abs=1e-5)
        assert [len(one.alternatives) for one in fast] == [len(one.alternatives) for one in slow]
    assert its.translate(TEXTS[:1], confidence=True) == plain.translate(TEXTS[:1], confidence=True)


def test_smaller_weights_end_compiled_code(shared):
    pytest.importorskip("numba")
    its = translator(shared).compile().quantize()
    assert its.model.compiled is None
    assert its.translate(TEXTS) == translator(shared).quantize().translate(TEXTS)


def test_compiled_code_without_numba_or_for_another_model(shared, separate, monkeypatch):
    with pytest.raises(UserError, match="engine compiled: serves Transformers"):
        Translator(rnn.describe(vocab_size=300, d_model=8, num_layers=1).build(), shared).compile()
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in [name for name in sys.modules if name.startswith("regard.compiled")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UserError, match=r"needs numba, which is not installed: pip install 'regard\[compiled\]'"):
        translator(separate).compile()

"""CTranslate2 as an engine: the same answers and scores as regard's own search, for random and for trained models."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard import models
from regard.architecture import Targets
from regard.decoding.options import Search
from regard.errors import UserError
from regard.serving.ctranslate import ENGINES, ExportedTranslator, engine, exported
from regard.text.grammar import sentences
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.translator import Translator

pytest.importorskip("ctranslate2")
SMALL = {"num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 4}
TEXTS = [
    "A dog runs in the park .",
    "Two men play football , and a girl looks on .",
    "",
    "the park dog the",
    "A girl looks near the sea , and two men play in the red house . A dog . A dog .",
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ctranslate2"


@pytest.fixture
def random(shared):
    """random(family, **arguments): a translator whose weights are large enough for its answers to differ."""

    def made(family: str, seed: int = 1, **arguments: Any) -> Translator:
        size = shared.source.vocab_size
        description = models.find(family).describe(**{"vocab_size": size} | SMALL | arguments)
        torch.manual_seed(seed)
        model = description.build().eval()
        with torch.no_grad():
            for tensor in model.parameters():
                tensor.normal_(0.0, 0.3) if tensor.dim() > 1 else tensor.add_(0.2 * torch.randn_like(tensor))
        return Translator(model, shared)

    return made


@pytest.fixture(scope="module")
def trained() -> tuple[Translator, list[str]]:
    """A translator of made-up English that has learned some sentences by heart within seconds, and those sentences."""
    pairs = [(pair.source, pair.target) for pair in sentences("en-fr", 48, seed=3)]
    made = [train_tokenizer([pair[side] for pair in pairs], Plan("words", vocab_size=600)) for side in (0, 1)]
    tokenizers = Tokenizers(made[0], made[1], False)
    torch.manual_seed(0)
    family, sizes = models.find("transformer"), {"num_layers": 1, "d_model": 48, "d_ff": 96, "num_heads": 4, "dropout": 0.0}
    sizes |= {"vocab_size": made[0].vocab_size, "target_vocab_size": made[1].vocab_size, "placement": "pre"}
    model = family.describe(**sizes).build()
    family.initialise(model)
    translator = Translator(model, tokenizers)
    start, end = translator.marks()
    steps = torch.optim.Adam(model.parameters(), 5e-3)
    for step in range(130):
        rows = [pairs[(16 * step + n) % len(pairs)] for n in range(16)]
        source = [translator.frame(ids)[0][0] for ids in made[0].encode_batch([row[0] for row in rows])]
        target = made[1].encode_batch([row[1] for row in rows])
        fill = [torch.zeros(len(rows), 1 + max(map(len, its)), dtype=torch.long) for its in (source, target, target)]
        fill[2].fill_(-100)
        for n, (ids, answer) in enumerate(zip(source, target, strict=True)):
            fill[0][n, : len(ids)] = torch.tensor(ids)
            fill[1][n, : len(answer) + 1] = torch.tensor([start, *answer])
            fill[2][n, : len(answer) + 1] = torch.tensor([*answer, end])
        answer = model(fill[0], fill[1], targets=Targets(fill[2]))
        steps.zero_grad()
        (answer.loss_sum / answer.count).backward()
        steps.step()
    model.eval()
    return translator, [source for source, _ in pairs]


def assert_same(ours: list[Any], theirs: list[Any]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        pairs = zip((one, *one.alternatives), (other, *other.alternatives), strict=True)
        for a, b in pairs:
            assert (a.ids, a.text, a.tokens, a.finished) == (b.ids, b.text, b.tokens, b.finished)
            assert abs(a.score - b.score) < 1e-4
            assert a.token_log_probs == pytest.approx(b.token_log_probs, abs=1e-4)
            assert a.log_prob == pytest.approx(b.log_prob, rel=1e-4, abs=1e-4)


KINDS = [
    ("transformer", {}),
    ("transformer", {"placement": "pre", "gated": True, "activation": "silu", "num_kv_heads": 2}),
    ("transformer", {"positions": "learned", "max_positions": 40, "tied": "no", "head_bias": True, "decoder_layers": 1}),
    ("transformer", {"positions": "none", "num_kv_heads": 1}),
    ("bart", {"max_positions": 40}),
    ("bart", {"max_positions": 40, "placement": "pre", "scaled": True}),
    ("t5", {"head_dim": 4, "buckets": 8, "farthest": 12}),
    ("t5", {"head_dim": 3, "buckets": 8, "farthest": 12, "gated": True, "activation": "gelu_tanh", "tied": "embeddings"}),
]


@pytest.mark.parametrize(("family", "arguments"), KINDS)
def test_random_models_answer_alike(random, family, arguments):
    ours = random(family, **arguments)
    theirs = engine("ctranslate2")(ours)
    for options in (
        {"num_beams": 1, "max_length": None if "max_positions" in arguments else 16},
        {"num_beams": 4, "num_return": 4, "max_length": 12, "stopping": "first"},
        {"num_beams": 3, "length_penalty": 0.0, "max_length": 9, "stopping": "first"},
    ):
        assert_same(ours.translate(TEXTS, details=True, **options), theirs.translate(TEXTS, details=True, **options))


def test_marian_folders_end_with_the_pad_they_start_from(random, shared):
    """Their pad is the last row, and the decoder starts from it."""
    last = shared.source.vocab_size
    ours = random("transformer", vocab_size=last + 1, pad=last, head_bias=True)
    ours.meta["ids"] = {"bos": last, "eos": shared.target.eos, "pad": last}
    found = engine("ctranslate2")(ours).translate(TEXTS, num_beams=1, max_length=12)
    assert found == ours.translate(TEXTS, num_beams=1, max_length=12)
    assert any(found)


def test_a_mark_of_the_target_language_comes_first_and_is_free(random):
    ours = random("bart", max_positions=40)
    theirs = engine("ctranslate2")(ours)
    for options in ({"num_beams": 1}, {"num_beams": 3, "stopping": "first"}):
        options |= {"first_token": 9, "max_length": 9}
        found = theirs.translate(TEXTS, details=True, **options)
        assert_same(ours.translate(TEXTS, details=True, **options), found)
        assert all(one.ids[0] == 9 and one.token_log_probs[0] == 0.0 for one in found if one.source)


def test_tokens_that_are_suppressed_are_not_written(random):
    ours = random("transformer")
    theirs = engine("ctranslate2")(ours)
    usual = {one for each in theirs.translate(TEXTS, details=True, num_beams=1) for one in each.ids}
    some = tuple(sorted(usual))[:3]
    found = theirs.translate(TEXTS, details=True, num_beams=1, suppress_tokens=some)
    assert [each.ids for each in found] == [
        each.ids for each in ours.translate(TEXTS, details=True, num_beams=1, suppress_tokens=some)
    ]
    assert not {one for each in found for one in each.ids} & set(some)


def test_a_trained_model_answers_alike(trained):
    ours, texts = trained
    theirs = engine("ctranslate2")(ours)
    for options in ({"num_beams": 1}, {"num_beams": 4, "num_return": 2, "stopping": "first"}):
        found = ours.translate(texts, details=True, **options)
        assert_same(found, theirs.translate(texts, details=True, **options))
        assert sum(one.finished for one in found) > 30
    options = {"num_beams": 4}  # regard goes on a little longer here; the answers are the same but for rare ones
    same = [a == b for a, b in zip(ours.translate(texts, **options), theirs.translate(texts, **options), strict=True)]
    assert sum(same) >= 0.9 * len(texts)


def test_int8_chooses_the_same_tokens_nearly_always(trained):
    """Of the tokens that float32 chooses, int8 weights choose nine in ten too, up to where an answer parts."""
    ours, texts = trained
    small = engine("ctranslate2:int8")(ours)
    assert str(small.folder).endswith("-int8")
    wanted = ours.translate(texts, details=True, num_beams=1)
    found = small.translate(texts, details=True, num_beams=1)
    pairs = [(a, b) for one, other in zip(wanted, found, strict=True) for a, b in zip(one.ids, other.ids)]
    assert len(pairs) > 150
    assert sum(a == b for a, b in pairs) > 0.9 * len(pairs)
    gaps = [abs(one.score - other.score) for one, other in zip(wanted, found, strict=True) if one.ids == other.ids]
    assert len(gaps) > 20
    assert max(gaps) < 0.2
    assert any(gap > 0 for gap in gaps)  # it really is another arithmetic


def test_the_export_is_made_once_and_known_by_the_weights(random, cache):
    ours = random("transformer")
    first = engine("ctranslate2")(ours).folder
    stamp = (first / "model.bin").stat().st_mtime_ns
    assert exported(random("transformer")) == first
    assert (first / "model.bin").stat().st_mtime_ns == stamp
    assert exported(ours, "int8") != first
    with torch.no_grad():
        ours.model.encoder.embed.tokens.weight[5, 3] += 1e-3
    assert exported(ours) not in (first, exported(ours, "int8"))
    assert first.parent == cache
    assert len(list(cache.iterdir())) == 4


def test_workers_and_batches_change_no_answer(random):
    ours = engine("ctranslate2")(random("transformer"))
    usual = ours.translate(TEXTS * 3, num_beams=2, max_length=9)
    assert ours.translate(TEXTS * 3, num_beams=2, max_length=9, workers=2, batch_tokens=16) == usual
    assert list(ours.stream(iter(TEXTS * 3), window=4, num_beams=2, max_length=9)) == usual
    assert usual[2] == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sample": True}, "search option sample: "),
        ({"num_beams": 1, "temperature": 0.5}, "search option temperature: "),
        ({"min_length": 3}, "search option min_length: "),
        ({"length_form": "gnmt"}, "search option length_form: "),
        ({"beta": 0.2}, "search option coverage_penalty: "),
        ({"no_repeat_ngram": 3}, "search option no_repeat_ngram_size: "),
        ({"repetition_penalty": 1.2}, "search option repetition_penalty: "),
        ({"early_stopping": False}, 'search option stopping: CTranslate2 has "first" alone, not "standard"'),
        ({"prefix": ["Un"]}, "prefixes and required or forbidden phrases"),
        ({"progress": print}, "progress: "),
        ({"beems": 3}, "unknown search option 'beems'"),
    ],
)
def test_options_that_ctranslate2_lacks_are_refused(random, options, words):
    ours = engine("ctranslate2")(random("transformer"))
    with pytest.raises(UserError, match=words):
        ours.translate(["A dog"], **options)


def test_what_the_folder_asks_for_is_refused_too(random, shared):
    ours = random("transformer")
    asks = Translator(ours.model, shared, Search(no_repeat_ngram_size=3))
    with pytest.raises(UserError, match="search option no_repeat_ngram_size: CTranslate2 has none that means the same"):
        engine("ctranslate2")(asks).translate(["A dog"])


def test_engines_by_name(random):
    ours = random("transformer")
    assert engine("regard")(ours) is ours
    assert isinstance(engine("ctranslate2:int8")(ours), ExportedTranslator)
    with pytest.raises(UserError, match="engine tensorrt: is not known; known: regard, compiled, ctranslate2, "):
        engine("tensorrt")
    assert ENGINES[0] == "regard"

"""Translators together: one vocabulary or one clear error, and all that a translator promises."""

from __future__ import annotations

import pytest

import regard
from regard.ensemble import Ensemble
from regard.errors import UserError
from regard.models import rnn
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.translator import Translator

TEXTS = ["A dog runs in the park .", "", "Two men play football , and a girl looks on .", "The red house is near the sea ."]


@pytest.fixture
def two(shared, model_for):
    """A Transformer and an LSTM that share a vocabulary."""
    recurrent = rnn.describe(vocab_size=shared.source.vocab_size, d_model=16, attention="dot", cell="lstm").build().eval()
    members = [Translator(model, shared) for model in (model_for(shared, 5), recurrent)]
    for member in members:
        for parameter in member.model.parameters():
            parameter.data.normal_(0.0, 0.4)
        member.search = regard.Search(num_beams=3, max_length=14)
    return members


def test_a_list_of_folders_is_an_ensemble(two, tmp_path) -> None:
    for number, member in enumerate(two):
        member.save(tmp_path / str(number))
    made = regard.load([tmp_path / "0", tmp_path / "1"])
    assert isinstance(made, Ensemble)
    assert made.translate(TEXTS) == Ensemble(two).translate(TEXTS)
    assert made.translate(TEXTS) != two[0].translate(TEXTS)
    assert made.translate(TEXTS)[1] == ""
    assert regard.load([tmp_path / "1"]).translate(TEXTS) == two[1].translate(TEXTS)
    with pytest.raises(UserError, match="an ensemble is several models"):
        made.save(tmp_path / "both")
    assert not (tmp_path / "both").exists()
    with pytest.raises(UserError, match="leave the shortlist away"):
        made.use_shortlist(tmp_path / "0")


def test_constraints_prefixes_and_details_are_kept(two) -> None:
    made = Ensemble(two)
    assert all("chien" in text for text in made.translate(TEXTS[::2], require="chien", forbid="parc"))
    assert not any("parc" in text for text in made.translate(TEXTS[::2], forbid="parc"))
    assert made.translate(TEXTS[:1], prefix=["La maison"])[0].startswith("La maison")
    one = made.translate(TEXTS[2:3], details=True, confidence=True, num_return=2)[0]
    assert one.alignment is not None
    assert one.explained is not None
    assert len(one.alternatives) == 1


def test_an_ensemble_of_one_translator_twice_is_the_translator(two) -> None:
    for member in two:
        plain, both = (its.translate(TEXTS, details=True, num_return=3) for its in (member, Ensemble([member, member])))
        assert [one.json() for one in plain] == [one.json() for one in both]


def test_another_vocabulary_is_one_clear_error(two, shared, model_for, few_lines) -> None:
    other = train_tokenizer(few_lines[0], Plan("words", vocab_size=40))
    alien = Translator(model_for(Tokenizers(other, other, True)), Tokenizers(other, other, True))
    with pytest.raises(UserError, match=r"^b: its tokenizers differ from those of a; an ensemble needs the same$"):
        Ensemble([two[0], alien], ["a", "b"])
    prepared = Translator(model_for(shared), shared, None, {"preprocess": ["moses-lc"]})
    with pytest.raises(UserError, match="2: its steps of preparing text differ from those of 1"):
        Ensemble([two[0], prepared])
    started = Translator(model_for(shared), shared, None, {"ids": {"bos": 5}})
    with pytest.raises(UserError, match="2: its start and end marks differ"):
        Ensemble([two[0], started])
    with pytest.raises(UserError, match="2 models need as many shares above 0, not 1, 0"):
        Ensemble(two, shares=[1, 0])
    with pytest.raises(UserError, match="at least one model"):
        Ensemble([])


def test_scores_and_likelihoods_of_an_ensemble(two) -> None:
    from regard.evaluation.evaluate import Evaluating, evaluate
    from regard.evaluation.task import Task

    task = Task([["Un chien court ."] * 2], TEXTS[:1] * 2)
    found = evaluate(Ensemble(two), task, Evaluating(("bleu", "perplexity")))
    alone = [evaluate(member, task, Evaluating(("perplexity",))).scores["perplexity"].value for member in two]
    assert min(alone) * 0.9 < found.scores["perplexity"].value < max(alone)


def test_sentences_before_are_read_if_all_have_learned_to(two) -> None:
    before = [[(TEXTS[2], "Deux hommes jouent au football .")], [], [], []]
    for member in two:
        member.meta["context"] = {"sentences": 1, "tokens": 60}
    made = Ensemble(two)
    read, bare = (made.translate(TEXTS, details=True, context=given)[0] for given in (before, None))
    assert abs(read.log_prob - bare.log_prob) > 1e-3
    assert made.translate(TEXTS[1:], context=before[1:]) == made.translate(TEXTS[1:])
    del two[1].meta["context"]
    with pytest.raises(UserError, match="has not learned to read sentences before"):
        Ensemble(two).translate(TEXTS, context=before)

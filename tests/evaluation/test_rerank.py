"""Reranking: features against forced passes, weights against every order that they can make."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU

from regard.decoding import Search
from regard.decoding.alignment import forced
from regard.errors import UserError
from regard.evaluation.rerank import Reranker, Scorer, of_pairs, of_texts, tune
from regard.generator import Generator
from regard.models import gpt2
from regard.translator import Translation

TEXTS = ["A dog runs in the park .", "", "Two men play football ."]


@pytest.fixture
def its(shared, translator_for) -> Any:
    made = translator_for(shared, 3)
    for parameter in made.model.parameters():
        parameter.data.normal_(0.0, 0.4)
    made.search = Search(num_beams=2, max_length=8)
    return made


@pytest.fixture
def language(shared) -> Generator:
    torch.manual_seed(2)
    sizes = {"num_layers": 1, "d_model": 16, "num_heads": 2, "max_positions": 16}
    model = gpt2.describe(vocab_size=shared.source.vocab_size, **sizes).build().eval()
    for parameter in model.parameters():
        parameter.data.normal_(0.0, 0.4)
    return Generator(model, shared)


def test_likelihoods_of_pairs_and_texts(its, language, shared) -> None:
    sources, answers = ["A dog .", "the sea ."], ["la maison rouge .", ""]
    framed = [its.frame(ids)[0][0] for ids in shared.source.encode_batch(sources)]
    ids = shared.target.encode_batch(answers)
    wanted = [forced(its.model, [one], [(two, True)], *its.marks())[0].log_probs for one, two in zip(framed, ids)]
    assert of_pairs(its, sources, answers) == pytest.approx([sum(logs) / len(logs) for logs in wanted])
    found = of_texts(language, [*answers, "un chien"])
    for text, value in zip([*answers, "un chien"], found):
        row = [*language.prompt_ids(""), *shared.source.encode(text), shared.source.eos]
        with torch.no_grad():
            logs = language.model(torch.tensor([row])).logits[0].log_softmax(-1)
        assert value == pytest.approx(float(logs[:-1].gather(1, torch.tensor(row[1:])[:, None]).mean()), abs=1e-5)
    assert len(of_texts(language, ["un chien " * 30])) == 1  # longer than it reads


def test_features_and_the_choice(its, language) -> None:
    scorers = [Scorer("reverse", its), Scorer("language", language)]
    made = Reranker(its, scorers, {"language": 2.0, "length": 0.3}, candidates=4)
    lists = made.lists(TEXTS)
    for one, table in zip(lists, made.features(lists)):
        every = [one, *one.alternatives]
        texts = [each.text for each in every]
        assert table.shape == (len(every), 4)
        assert table[:, 0].tolist() == [each.score for each in every]
        assert table[:, 2] == pytest.approx(of_pairs(its, texts, [one.source] * len(texts)), abs=1e-4)
        assert table[:, 3] == pytest.approx(of_texts(language, texts), abs=1e-4)
    weights = np.array([1.0, 0.3, 0.0, 2.0])
    found = made.translate(TEXTS, details=True, num_return=2)
    for one, of, table in zip(found, lists, made.features(made.lists(TEXTS))):
        best = int((table @ weights).argmax())
        assert one.text == [of, *of.alternatives][best].text
        assert one.score == pytest.approx(float((table @ weights).max()))
        assert len(one.alternatives) == (1 if one.text else 0)
    assert made.translate(TEXTS) == [one.text for one in found]
    plain = Reranker(its, scorers, candidates=4).translate(TEXTS)
    assert plain == its.translate(TEXTS, num_beams=4)


class Told:
    """Four answers to each text; the best one has the best `hint`, which the translator's score knows nothing of."""

    search = Search(num_beams=4)
    meta: ClassVar[dict[str, Any]] = {"target": "fr"}
    tokenizer = SimpleNamespace(encode_batch=lambda texts: [text.split() for text in texts])
    tokenizers = SimpleNamespace(target=None)

    def translate(self, texts: list[str], **options: Any) -> list[Translation]:
        assert options == {"details": True, "num_return": 4, "num_beams": 4}
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> Translation:
        words = text.split()
        right = int(words[-1]) // 2 % 4  # alike in both halves
        every = [
            Translation(text, " ".join(words if n == right else [*words[:2], f"x{n}"]), -0.1 * n, -1.0, ids=[1] * 3)
            for n in range(4)
        ]
        every[0].alternatives = every[1:]
        return every[0]


SOURCES = [f"the word number {n} of {n % 7} and {n}" for n in range(40)]


def hinting(sources: Any, answers: Any, trust: float = 1.0) -> list[float]:
    return [trust * (source == answer) for source, answer in zip(sources, answers)]


def reranker(monkeypatch: pytest.MonkeyPatch, trust: float = 1.0) -> Reranker:
    monkeypatch.setattr(Scorer, "__call__", lambda self, sources, answers: hinting(sources, answers, trust))
    return Reranker(Told(), [Scorer("reverse", None)], candidates=4)


@pytest.mark.parametrize("trust", [1.0, -0.2])
def test_weights_find_what_helps_also_on_the_other_half(monkeypatch: pytest.MonkeyPatch, trust: float) -> None:
    its = reranker(monkeypatch, trust)
    found = tune(its, SOURCES, [SOURCES])
    assert found.before == pytest.approx(BLEU().corpus_score(found.first, [SOURCES]).score)
    assert found.after == pytest.approx(100)
    assert found.held_out == SOURCES
    assert found.weights["model"] == 1.0
    assert found.weights["reverse"] * trust > 0.3
    assert Reranker(Told(), its.scorers, found.weights, 4).translate(SOURCES) == SOURCES


def test_useless_models_get_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tune(reranker(monkeypatch, 0.0), SOURCES, [[one.text for one in Told().translate(
        SOURCES, details=True, num_return=4, num_beams=4)]])  # fmt: skip
    assert found.weights == {"model": 1.0, "length": 0.0, "reverse": 0.0}
    assert found.before == found.after == pytest.approx(100)
    assert found.held_out == found.first


def test_mistakes(its, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="unknown kind of scorer 'back'"):
        Scorer("back", its)
    with pytest.raises(UserError, match="two models of one kind"):
        Reranker(its, [Scorer("reverse", its)] * 2)
    with pytest.raises(UserError, match="the weight of 'language' has no model; there are model, length"):
        Reranker(its, [], {"language": 1.0})
    with pytest.raises(UserError, match="2 candidates at least, not 1"):
        Reranker(its, [], candidates=1)
    with pytest.raises(UserError, match="unknown metric 'wer'"):
        tune(Reranker(its, []), TEXTS, [TEXTS], "wer")
    with pytest.raises(UserError, match="3 sentences to score but 2 lines"):
        tune(Reranker(its, []), TEXTS, [TEXTS[:2]])


def test_a_reranker_translates_documents(its) -> None:
    from regard.documents import translate_document

    made = Reranker(its, [], candidates=2)
    assert made.search is its.search
    assert made.fits("a")
    assert translate_document(made, "<p>Two <b>men</b></p>", "html").text.count("<b>") == 1

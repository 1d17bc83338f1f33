"""A model that has learned a dictionary: unknown words, alignments, tags, and planted faults that are found."""

from __future__ import annotations

import random

import pytest
import torch

from regard.decoding import Search
from regard.decoding.confidence import Judge, spelled
from regard.decoding.wishes import Plan, Wishes, lexicon_of
from regard.errors import UserError
from regard.models import rnn
from regard.text.tokenizer import Plan as Vocabulary
from regard.text.tokenizer import Tokenizers, train_tokenizer
from regard.translator import Translation, Translator

PAIRS = """dog chien, cat chat, house maison, sea mer, red rouge, green vert, man homme, girl fille, runs court, sees voit,
old vieux, new neuf, big grand, small petit, tree arbre, park parc, and et, with avec, near près, under sous"""
WORDS = dict(pair.split() for pair in PAIRS.split(","))
ENGLISH = list(WORDS)


def sentence(chance, low=4, high=8):
    return chance.sample(ENGLISH, chance.randint(low, high))


@pytest.fixture(scope="module")
def learned():
    """A recurrent model that translates word by word, an unknown word as an unknown word."""
    made = train_tokenizer([" ".join([*WORDS, *WORDS.values()])] * 3, Vocabulary("words", vocab_size=80))
    torch.manual_seed(0)
    model = rnn.describe(vocab_size=made.vocab_size, d_model=48, attention="dot").build()
    ids = {word: made.encode(word)[0] for pair in [*WORDS.items(), ("xyzzy", "xyzzy")] for word in pair}
    chance, optimizer = random.Random(0), torch.optim.Adam(model.parameters(), 1e-2)
    for step in range(280):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * min(1, (step + 1) / 20, (280 - step) / 110)
        length = chance.randint(1, 8)
        words = [[w if chance.random() > 0.08 else "xyzzy" for w in sentence(chance, length, length)] for _ in range(32)]
        source = torch.tensor([[*(ids[w] for w in row), made.eos] for row in words])
        target = torch.tensor([[*(ids[WORDS.get(w, w)] for w in row), made.eos] for row in words])
        outputs = torch.cat([torch.full((32, 1), made.bos), target[:, :-1]], 1)
        loss = torch.nn.functional.cross_entropy(model(source, outputs).logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.2
    return Translator(model.eval(), Tokenizers(made, made, True), Search(num_beams=3))


def cases(count, seed=5):
    chance = random.Random(seed)
    sources = [" ".join(sentence(chance)) for _ in range(count)]
    return sources, [" ".join(WORDS[w] for w in source.split()) for source in sources]


def judged(its, sources, texts):
    """Flags of texts that stand beside sources, whoever wrote them."""
    target = its.tokenizers.target
    made = [Translation(s, t, 0.0, 0.0, ids=target.encode(t)) for s, t in zip(sources, texts)]
    framed = [its.frame(its.tokenizer.encode(source))[0][0] for source in sources]
    judge = Judge(
        its.model, its.tokenizers, lambda ids: its.frame(ids)[0][0], its.marks(), Wishes(confidence=True), batch_tokens=500
    )
    judge.complete([Plan(source) for source in sources], framed, made)
    return [one.flags for one in made]


def test_planted_faults_are_flagged_and_good_translations_are_not(learned) -> None:
    """60 of each kind: precision and recall of at least 95 %."""
    sources, right = cases(60)
    kinds = {
        "repetition": [" ".join([*text.split()[:2]] * 4) for text in right],
        "copied": sources,
        "detached": [*right[1:], right[0]],
        "uncovered": [" ".join(text.split()[: len(text.split()) // 2]) for text in right],
    }
    fine = judged(learned, sources, right)
    assert sum(not flags for flags in fine) >= 57
    for kind, texts in kinds.items():
        found = judged(learned, sources, texts)
        hits, alarms = (sum(kind in flags for flags in each) for each in (found, fine))
        assert hits >= 57, (kind, hits)
        assert hits / (hits + alarms) >= 0.95, (kind, hits, alarms)


def test_alignments_and_words(learned) -> None:
    sources, right = cases(40)
    found = learned.translate(sources, details=True, confidence=True)
    assert sum(one.text == text for one, text in zip(found, right)) >= 36
    pairs = good = 0
    for one in found:
        links = [tuple(map(int, pair.split("-"))) for pair in one.alignment.split()]
        pairs += len(links)
        good += sum(a == b for a, b in links)
        assert [word["text"] for word in one.words] == one.text.split()
        assert sum(word["log_prob"] for word in one.words) == pytest.approx(one.log_prob - one.token_log_probs[-1], abs=1e-4)
        assert one.explained is not None
    assert good / pairs > 0.8


def test_unknown_words_become_the_source_word_s_beam_12(learned) -> None:
    """S-BEAM-12: never an end mark or padding, in batches of unlike lengths."""
    sources, right = cases(40)
    texts, wanted = [], []
    for number, (source, target) in enumerate(zip(sources, right)):
        at = number % len(source.split())
        texts.append(" ".join("Xyzzy" if n == at else w for n, w in enumerate(source.split())))
        wanted.append(" ".join("Xyzzy" if n == at else w for n, w in enumerate(target.split())))
    found = learned.translate(texts, details=True, replace_unknown=True)
    assert sum(one.text == text for one, text in zip(found, wanted)) >= 34
    assert all("</s>" not in one.text and "<pad>" not in one.text for one in found)
    assert learned.translate(texts, replace_unknown=True) == [one.text for one in found]
    assert any("\ufffd" in text for text in learned.translate(texts))
    assert all("unknown-words" in one.flags for one in found)


def test_constraints_of_text(learned, tmp_path) -> None:
    sources, _ = cases(50, seed=8)
    path = tmp_path / "terms.tsv"
    path.write_text("dog\tchat|mer\nsea\tmaison rouge\nold\tsous\n", encoding="utf-8")
    found = learned.translate(sources, details=True, glossary=path, forbid=["vert|neuf"], require="parc")
    for source, one in zip(sources, found):
        padded = f" {one.text} "
        assert one.unkept == [], (source, one.text)
        assert " parc " in padded
        assert " vert " not in padded
        assert " neuf " not in padded
        assert "dog" not in source or " chat " in padded or " mer " in padded
        assert "sea" not in source or " maison rouge " in padded
    plain = learned.translate(sources, details=True)
    assert [one.text for one in plain] == learned.translate(sources, require=[[] for _ in sources])
    missing = learned.translate(sources[:2], details=True, require=[["plugh"], []])
    assert (missing[0].flags, missing[0].unkept) == (["required-missing"], ["plugh"])
    assert missing[1].flags == []


def test_tags_follow_their_words_and_spellings_that_no_vocabulary_has_come_back(learned) -> None:
    sources, _ = cases(30, seed=9)
    texts = []
    for source in sources:
        words = source.split()
        words[1], words[-1] = f"<b>{words[1]}", f"{words[-1]}</b>"
        texts.append(" ".join(["{name}", *words]))
    found = learned.translate(texts, details=True, keep=["tags", "variables"])
    plain = learned.translate(sources)
    for one, text in zip(found, plain):
        assert one.flags == []
        words = text.split()
        assert one.text == " ".join(["{name}", words[0], f"<b>{words[1]}", *words[2:-1], f"{words[-1]}</b>"])


def test_models_that_do_not_look_say_so(learned) -> None:
    torch.manual_seed(0)
    vocabulary = learned.tokenizers
    model = rnn.describe(vocab_size=vocabulary.source.vocab_size, d_model=8, attention="none").build()
    blind = Translator(model, vocabulary, Search(num_beams=1, max_length=5))
    with pytest.raises(UserError, match="replacing unknown words needs attention"):
        blind.translate(["dog"], replace_unknown=True)
    one = blind.translate(["dog <b>cat</b>"], details=True, keep="tags", confidence=True)[0]
    assert "kept-guessed" in one.flags
    assert one.alignment is None
    assert one.text.count("<b>") == one.text.count("</b>") == 1


def test_spelled_places(learned) -> None:
    target = learned.tokenizers.target
    ids = target.encode("dog xyzzy cat")
    assert spelled(lexicon_of(target), ids, {1: "Anna"}) == ("dog Anna cat", [(0, 3), (3, 8), (8, 12)])

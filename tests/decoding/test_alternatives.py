"""What else could stand at a place, against a forced pass and against translations that begin so."""

from __future__ import annotations

import pytest

from regard.decoding.alignment import forced
from regard.errors import UserError

TEXT = "Two men play football , and a girl looks on ."


@pytest.fixture
def its(shared, translator_for):
    made = translator_for(shared, 3)
    for parameter in made.model.parameters():
        parameter.data.normal_(0.0, 0.4)
    made.search = type(made.search)(num_beams=2, max_length=10)
    return made


def next_logs(its, prefix):
    source, target = its.frame(its.tokenizer.encode(TEXT))[0][0], its.tokenizers.target
    begun = target.encode(prefix)
    size = target.vocab_size
    passes = forced(its.model, [source] * size, [([*begun, token], False) for token in range(size)], *its.marks())
    return [one.log_probs[-1] for one in passes]


@pytest.mark.parametrize("prefix", ["", "Deux hommes", "la maison"])
def test_the_likeliest_next_tokens_and_their_sentences(its, prefix) -> None:
    logs = next_logs(its, prefix)
    found = its.alternatives(TEXT, prefix, 4)
    ranked = sorted(logs, reverse=True)[:4]
    assert [one.log_prob for one in found] == pytest.approx(ranked[: len(found)], abs=1e-4)
    assert len({one.text for one in found}) == len(found)
    for one in found:
        assert one.text.startswith((prefix + one.piece).strip() if one.piece else prefix)
        if one.piece.strip() and "�" not in one.piece:
            again = its.translate([TEXT], prefix=[(prefix + one.piece).strip()])[0]
            assert again == one.text
            assert one.word == one.piece.strip()


def test_mistakes(its) -> None:
    with pytest.raises(UserError, match="count must be a whole number"):
        its.alternatives(TEXT, "", 0)
    with pytest.raises(UserError, match="an empty text"):
        its.alternatives(" ")
    assert its.alternatives(TEXT, count=3, num_beams=1)[0].text == its.translate([TEXT], num_beams=1)[0]

"""Diverse beams against a search without cache or batch, which follows the definition group by group."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from regard.decoding import Hypothesis, Search
from regard.decoding.banks import Demand
from regard.decoding.generate import translate_ids
from regard.decoding.groups import joined
from regard.errors import UserError
from regard.layout import Layout
from regard.models import rnn, transformer

BOS, EOS = 2, 3
SOURCES = [[5, 3], [6, 7, 8, 9, 10, 11, 3], [4, 12, 13, 3], [15, 16, 17, 3]]


def tiny(seed, family):
    torch.manual_seed(seed)
    shape = {"num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2, "tied": "no"}
    its = (
        transformer.describe(vocab_size=20, **shape) if family == "transformer" else rnn.describe(vocab_size=20, d_model=16)
    )
    model = its.build().double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


@torch.inference_mode()
def log_probs(model, source, ids):
    layouts = {"layout": Layout.unpadded(len(source)), "output_layout": Layout.unpadded(len(ids) + 1)}
    return model(torch.tensor([source]), torch.tensor([[BOS, *ids]]), **layouts).logits[0, -1].log_softmax(0).tolist()


class Group:
    def __init__(self) -> None:
        self.running, self.pool, self.done, self.chosen = [(0.0, ())], [], False, []


def step_of(group, taken, model, source, its, width, step, limit):
    """One step of one group; `taken`: tokens that the groups before it went on with."""
    candidates = []
    for total, ids in group.running:
        for token, p in enumerate(log_probs(model, source, ids)):
            if p > -math.inf:
                candidates.append((total + p - its.diversity_penalty * taken.count(token), total + p, (*ids, token)))
    candidates.sort(key=lambda c: -c[0])
    candidates = candidates[: 2 * width]
    for _, total, ids in candidates[:width]:
        if ids[-1] == EOS or step == limit:
            group.pool.append((total / its.penalty(step), ids))
    group.pool = sorted(group.pool, key=lambda c: -c[0])[:width]
    group.running = [(total, ids) for _, total, ids in candidates if ids[-1] != EOS and step < limit][:width]
    group.chosen = [ids[-1] for _, ids in group.running]
    if not group.running:
        group.done = True
    elif len(group.pool) == width:
        group.done = max(total for total, _ in group.running) / its.penalty(step) <= group.pool[-1][0]


def slow(model, source, its, limit):
    """The pools of all groups: [(score, ids with the end mark)]."""
    width = its.num_beams // its.num_beam_groups
    groups = [Group() for _ in range(its.num_beam_groups)]
    for step in range(1, limit + 1):
        taken = []
        for group in groups:
            if not group.done:
                step_of(group, taken, model, source, its, width, step, limit)
                taken += group.chosen
    return [group.pool for group in groups]


@pytest.mark.parametrize("family", ["transformer", "rnn"])
@pytest.mark.parametrize(("beams", "count", "price"), [(4, 2, 0.7), (6, 3, 2.0), (3, 3, 1.5)])
def test_groups_equal_the_plain_search(family, beams, count, price) -> None:
    model, limit = tiny(7, family), 9
    its = Search(beams, num_return=beams, num_beam_groups=count, diversity_penalty=price, max_length=limit)
    found = translate_ids(model, SOURCES, its, BOS, EOS)
    for source, hypotheses in zip(SOURCES, found, strict=True):
        made = [
            [Hypothesis(list(ids[:-1] if ids[-1] == EOS else ids), score, 0.0, [], ids[-1] == EOS) for score, ids in pool]
            for pool in slow(model, source, its, limit)
        ]
        wanted = joined(made, beams)
        assert [(h.ids, h.finished) for h in hypotheses] == [(h.ids, h.finished) for h in wanted]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in wanted], abs=1e-9)


def test_batch_mates_change_nothing() -> None:
    model = tiny(3, "transformer")
    its = Search(4, num_return=4, num_beam_groups=2, diversity_penalty=1.0, max_length=14)
    together = translate_ids(model, SOURCES, its, BOS, EOS)
    alone = [translate_ids(model, [source], its, BOS, EOS)[0] for source in SOURCES]
    assert [[h.ids for h in each] for each in together] == [[h.ids for h in each] for each in alone]


def test_one_group_is_beam_search_and_a_price_makes_first_tokens_differ() -> None:
    model = tiny(3, "transformer")
    plain = Search(4, num_return=4, max_length=10)
    one, two = (translate_ids(model, SOURCES, its, BOS, EOS) for its in (plain, replace(plain, diversity_penalty=5.0)))
    assert [[h.ids for h in each] for each in one] == [[h.ids for h in each] for each in two]
    apart = Search(4, num_return=4, num_beam_groups=4, diversity_penalty=50.0, max_length=10)
    for hypotheses in translate_ids(model, SOURCES, apart, BOS, EOS):
        first = [(*h.ids, EOS)[0] for h in hypotheses]
        assert len(set(first)) == len(first) == 4


def test_coverage_and_prefixes_are_kept_in_groups() -> None:
    model = tiny(5, "transformer")
    its = Search(4, num_return=4, num_beam_groups=2, diversity_penalty=0.5, max_length=10, coverage_penalty=0.2)
    begin = [[6, 7], [], [8], [9, 9]]
    for wanted, hypotheses in zip(begin, translate_ids(model, SOURCES, its, BOS, EOS, prefix=begin), strict=True):
        assert all(h.ids[: len(wanted)] == wanted for h in hypotheses)


def test_phrases_are_refused_and_beams_must_share_out() -> None:
    from regard.decoding.wishes import Wishes
    from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer

    made = train_tokenizer(["a b c d e"] * 3, Plan("words", vocab_size=20))
    (plan,) = Wishes(require=["a"]).plans(["b"], Tokenizers(made, made, True))
    model = tiny(5, "transformer")
    with pytest.raises(UserError, match="leave num_beam_groups at 1"):
        translate_ids(model, [[5, 3]], Search(4, num_beam_groups=2), BOS, EOS, prefix=[Demand((), plan.rules)])
    with pytest.raises(UserError, match="num_beams is 5, which 2 groups"):
        Search(5, num_beam_groups=2)


def test_answers_of_groups_take_turns_and_none_stands_twice() -> None:
    def answer(*ids, score):
        return Hypothesis(list(ids), score, 0.0)

    groups = [
        [answer(1, score=-1.0), answer(2, score=-1.1), answer(3, score=-1.2)],
        [answer(1, score=-1.0), answer(4, score=-5.0)],
        [answer(5, score=-3.0)],
    ]
    assert [h.ids for h in joined(groups, 3)] == [[1], [2], [5]]
    assert [h.ids for h in joined(groups, 9)] == [[1], [2], [3], [5], [4]]

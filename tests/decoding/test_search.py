"""Search against exhaustive enumeration, against a slow beam search, and against itself in other batches."""

from __future__ import annotations

import copy
import itertools
import math
from functools import cache

import pytest
import torch

from regard.decoding import Search
from regard.decoding.generate import translate_ids
from regard.decoding.search import best_of, search
from regard.errors import UserError
from regard.layout import Layout
from regard.models import rnn, transformer

BOS, EOS = 2, 3
SOURCES = [[5, 3], [6, 7, 8, 9, 10, 11, 3], [4, 12, 13, 3], [14, 3], [15, 16, 17, 18, 19, 5, 6, 7, 8, 3]]


def tiny(seed, family="transformer", dtype=torch.float64, std=0.6, **more):
    """A random model with opinions: its distributions are peaked, end marks come at different times."""
    if family == "transformer":
        shape = {"num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2, "tied": "no", **more}
        description = transformer.describe(vocab_size=20, **shape)
    else:
        description = rnn.describe(vocab_size=20, d_model=16, **more)
    torch.manual_seed(seed)
    model = description.build().to(dtype).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=std)
    return model


FAMILIES = {
    "transformer": {"family": "transformer"},
    "rnn-additive-3": {"family": "rnn", "attention": "additive", "num_layers": 3},
    "lstm-dot-fed": {"family": "rnn", "attention": "dot", "cell": "lstm", "input_feeding": True},
    "gru-fixed": {"family": "rnn", "attention": "none", "context": "every_step"},
}


@torch.inference_mode()
def told(model, source, ids):
    """Log-probabilities [T+1 V] of what follows the start mark and each of ids, in one pass without search or cache."""
    outputs = torch.tensor([[BOS, *ids]])
    layouts = {"layout": Layout.unpadded(len(source)), "output_layout": Layout.unpadded(len(ids) + 1)}
    return model(torch.tensor([source]), outputs, **layouts).logits[0].log_softmax(-1)


def forced(model, source, tokens):
    """Log-probability of each of tokens (the end mark among them)."""
    return told(model, source, tokens[:-1])[torch.arange(len(tokens)), torch.tensor(tokens)].tolist()


def written(hypothesis):
    return hypothesis.ids + [EOS] * hypothesis.finished


# ---- hand-made tables ------------------------------------------------------------------------------------------------


def random_table(seed, vocab=6):
    generator = torch.Generator().manual_seed(seed)

    @cache
    def row(source, read):
        logits = torch.randn(vocab, generator=generator, dtype=torch.float64) * 1.5
        logits[:3] = -math.inf  # pad, unk, bos
        return dict(enumerate(logits.softmax(0).tolist()))

    return row


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("form", "alpha"), [("power", 1.0), ("power", 0.0), ("power", 2.5), ("power", -1.0), ("gnmt", 0.8)])
def test_wide_beams_equal_exhaustive_search(table, seed, form, alpha) -> None:
    limit, rule = 4, random_table(seed)
    model = table(rule, 6)
    options = Search(
        num_beams=200, num_return=50, length_penalty=alpha, length_form=form, max_length=limit, stopping="exhaustive"
    )
    every = []
    for length in range(1, limit + 1):
        for ids in itertools.product((4, 5), repeat=length - 1):
            for last in (EOS, 4, 5) if length == limit else (EOS,):
                whole = (*ids, last)
                p = sum(math.log(rule((5,), whole[:t])[whole[t]]) for t in range(length))
                every.append((p / (length if form == "power" else (5 + length) / 6) ** alpha, whole))
    every.sort(reverse=True)
    found = model.find([[5]], options)[0]
    assert len(found) == len(every) == 7 + 24
    for hypothesis, (score, whole) in zip(found, every, strict=True):
        assert tuple(written(hypothesis)) == whole
        assert hypothesis.score == pytest.approx(score, abs=1e-10)


def prompt_rule(source, read):
    """A: tokens 4 and the end, log-probability -1.0; B: tokens 5 6 7 and the end, -1.6; the rest is spread thinly."""
    others = range(8, 20)

    def spread(**sure):
        sure = {int(k[1:]): v for k, v in sure.items()}
        return sure | dict.fromkeys(others, (1 - sum(sure.values())) / len(others))

    answer = read[10:] if len(read) >= 10 else read
    return {
        (): {4: 0.6, 5: 0.4},
        (4,): spread(t3=math.exp(-1.0) / 0.6),
        (5,): {6: 1.0},
        (5, 6): {7: 1.0},
        (5, 6, 7): spread(t3=math.exp(-1.6) / 0.4),
    }.get(tuple(answer), dict.fromkeys(others, 1 / len(others)))


def test_prompt_does_not_count_in_the_length_s_beam_01(table) -> None:
    model = table(prompt_rule, 20, encoder=False)
    prompt = [1] * 10
    best = model.find([prompt], Search(num_beams=3, length_penalty=1.0, max_length=4))[0][0]
    assert best.ids == [5, 6, 7]
    assert best.score == pytest.approx(-0.40, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "ids", "score"),
    [
        ({"length_penalty": 0.0}, [4], -1.0),
        ({"length_penalty": 1.0}, [5, 6, 7], -0.40),
        ({"length_penalty": 1.0, "length_form": "gnmt"}, [4], -1.0 / (7 / 6)),
    ],
)
def test_what_length_penalty_means_s_beam_03(table, options, ids, score) -> None:
    found = table(prompt_rule, 20).find([[5, 3]], Search(num_beams=3, num_return=3, max_length=4, **options))[0]
    assert found[0].ids == ids
    assert found[0].score == pytest.approx(score, abs=1e-9)
    scores = {tuple(h.ids): h.score for h in found}
    if "length_form" in options:
        assert scores[5, 6, 7] == pytest.approx(-1.6 / 1.5, abs=1e-9)
    assert "n^length_penalty" in Search.__doc__
    assert "the end mark counts" in Search.__doc__


def test_batch_size_does_not_enter_the_penalty_s_beam_02(table) -> None:
    rule = random_table(3)
    options = Search(num_beams=3, length_penalty=3.0, max_length=8)
    alone = table(rule, 6).find([[5, 4]], options)[0]
    for twin in table(rule, 6).find([[5, 4], [5, 4]], options):
        assert [h.ids for h in twin] == [h.ids for h in alone]
        assert twin[0].score == pytest.approx(alone[0].score, abs=1e-10)


def unfinished_may_win(source, read):
    thin = {5: 0.3, 6: 0.3, 7: 0.4}
    return {(): {EOS: 0.5, 4: 0.4, 5: 0.1}, (4,): {4: 0.99, EOS: 0.01}, (4, 4): {EOS: 0.99, 5: 0.005, 6: 0.005}}.get(
        tuple(read), thin
    )


def test_search_goes_on_while_a_longer_answer_may_win_s_beam_04(table) -> None:
    model = table(unfinished_may_win, 8)
    found = model.find([[5, 3]], Search(num_beams=2, num_return=2, max_length=10))[0]
    assert [h.ids for h in found] == [[4, 4], []]
    assert found[0].score == pytest.approx(-0.312, abs=1e-3)
    assert found[1].score == pytest.approx(math.log(0.5))


def test_more_alternatives_change_nothing_s_beam_05() -> None:
    model = tiny(11)
    sources = [[4 + (i * 7 + j) % 16 for j in range(1 + i % 6)] + [3] for i in range(20)]
    one = translate_ids(model, sources, Search(num_beams=5, max_length=15), BOS, EOS)
    five = translate_ids(model, sources, Search(num_beams=5, num_return=5, max_length=15), BOS, EOS)
    for a, b in zip(one, five, strict=True):
        assert (a[0].ids, a[0].score) == (b[0].ids, b[0].score)
        assert len(a) == 1
        assert len(b) == 5


def test_beam_wider_than_the_vocabulary_s_beam_06(table) -> None:
    model = table(random_table(0), 6)
    found = model.find([[5, 3]], Search(num_beams=10, num_return=10, max_length=5))[0]
    assert len({tuple(written(h)) for h in found}) == len(found) == 10
    assert model.rows_seen[:3] == [1, 10, 10]
    few = table(lambda source, read: {4: 1.0} if not read else {EOS: 1.0}, 6)
    assert [h.ids for h in few.find([[5, 3]], Search(num_beams=10, num_return=10))[0]] == [[4]]


def test_exhaustive_stopping_is_never_worse_s_beam_07() -> None:
    model = tiny(5)
    sources = [[4 + j % 16 for j in range(n)] + [3] for n in (1, 3, 9, 20)]
    runs = {
        stopping: translate_ids(model, sources, Search(stopping=stopping, max_length=30), BOS, EOS)
        for stopping in ("first", "standard", "exhaustive")
    }
    for early, middle, late in zip(*runs.values(), strict=True):
        assert late[0].score >= middle[0].score >= early[0].score


def test_empty_answers_s_beam_08(table) -> None:
    model = table(lambda source, read: {EOS: 0.6, 4: 0.3, 5: 0.1}, 6)
    for beams in (1, 4):
        free = model.find([[5, 3]], Search(num_beams=beams))[0][0]
        assert (free.ids, free.finished) == ([], True)
        held = model.find([[5, 3]], Search(num_beams=beams, num_return=beams, min_length=1))[0]
        assert all(h.ids for h in held)
        assert held[0].ids == [4]
        assert held[0].log_prob == pytest.approx(math.log(0.3) + math.log(0.6))


def test_lists_hold_no_answer_twice_s_beam_10() -> None:
    for seed in range(5):
        options = Search(num_beams=5, num_return=5, max_length=6)
        for found in translate_ids(tiny(seed), SOURCES, options, BOS, EOS):
            assert len({tuple(h.ids) for h in found}) == 5


def beams_swap(source, read):
    """After one token beam 4 leads; after two the children of 5 do, and what follows depends on where one came from."""
    return {
        (): {4: 0.55, 5: 0.45},
        (4,): {4: 0.4, 5: 0.35, 6: 0.25},
        (5,): {6: 0.9, 7: 0.1},
        (5, 6): {4: 0.9, 7: 0.1},
        (5, 6, 4): {EOS: 0.9, 7: 0.1},
        (4, 4): {7: 0.5, 6: 0.5},
    }.get(tuple(read), {EOS: 0.5, 4: 0.25, 5: 0.25})


@pytest.mark.parametrize("copies", [1, 3])
def test_beams_that_swap_take_their_history_along_s_cache_02(table, copies) -> None:
    found = table(beams_swap, 8).find([[5, 3]] * copies, Search(num_beams=2, max_length=6, length_penalty=0.0))
    for hypotheses in found:
        assert hypotheses[0].ids == [5, 6, 4]
        assert hypotheses[0].log_prob == pytest.approx(math.log(0.45 * 0.9 * 0.9 * 0.9))


def test_equals_are_told_apart_by_the_lower_id(table) -> None:
    model = table(lambda source, read: dict.fromkeys(range(3, 9), 1 / 6) if len(read) < 2 else {EOS: 1.0}, 9)
    assert model.find([[5, 3]], Search(num_beams=1, min_length=2))[0][0].ids == [4, 4]
    found = model.find([[5, 3]], Search(num_beams=3, num_return=3, min_length=2))[0]
    assert [h.ids for h in found] == [[4, 4], [4, 5], [4, 6]]


@pytest.mark.parametrize("count", [1, 3, 7, 40])
def test_best_of_is_a_stable_sort(count) -> None:
    x = torch.randint(0, 6, (50, 40), generator=torch.Generator().manual_seed(count)).double()
    x[x == 0] = -math.inf
    value, place = best_of(x, count)
    wanted = x.sort(dim=1, descending=True, stable=True)
    real = value > -math.inf
    assert torch.equal(value, wanted.values[:, :count])
    assert torch.equal(place[real], wanted.indices[:, :count][real])


def test_certain_and_impossible_tokens_leave_no_holes(table) -> None:
    model = table(lambda source, read: {4: 1.0} if len(read) < 3 else {EOS: 1.0}, 8)
    for beams in (1, 2, 5):
        found = model.find([[5, 3], [4, 3]], Search(num_beams=beams))
        assert [[h.ids for h in hypotheses] for hypotheses in found] == [[[4, 4, 4]]] * 2
        assert found[0][0].score == 0.0


def test_finished_sentences_leave_the_batch(table) -> None:
    def rule(source, read):  # source token n: an answer of n tokens
        return {EOS: 0.9, 4: 0.1} if len(read) >= source[0] else {4: 0.9, EOS: 0.1}

    for beams in (1, 2):
        model = table(rule, 12)
        model.find([[n] for n in (1, 2, 9, 10)], Search(num_beams=beams, length_penalty=0.0, max_length=12))
        assert model.rows_seen[0] == 4
        assert max(model.rows_seen[6:]) <= 2 * beams


# ---- real models -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_beams_equal_the_slow_search(slow_beams, seed) -> None:
    model, stopping = tiny(seed), ("standard", "standard", "first", "exhaustive")[seed // 3]
    alpha, beams, form = (0.6, 1.0, 2.0, 0.0)[seed % 4], (2, 3, 5)[seed % 3], ("power", "gnmt")[seed % 2]
    options = Search(beams, alpha, form, max_length=9, min_length=seed % 3, num_return=beams, stopping=stopping)
    found = translate_ids(model, SOURCES, options, BOS, EOS)
    for source, hypotheses in zip(SOURCES, found, strict=True):

        def log_probs(ids, source=source):
            return told(model, source, ids)[-1].tolist()

        slow = slow_beams(log_probs, options, 9)
        assert [tuple(written(h)) for h in hypotheses] == [ids for _, ids, _ in slow]
        for hypothesis, (score, _, total) in zip(hypotheses, slow, strict=True):
            assert hypothesis.score == pytest.approx(score, abs=1e-10)
            assert hypothesis.log_prob == pytest.approx(total, abs=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("beams", [1, 4])
def test_scores_equal_forced_decoding_s_cache_01_s_cache_03(family, beams) -> None:
    model = tiny(0, **FAMILIES[family])
    options = Search(num_beams=beams, num_return=beams, max_length=6)
    for source, hypotheses in zip(SOURCES, translate_ids(model, SOURCES, options, BOS, EOS), strict=True):
        for hypothesis in hypotheses:
            wanted = forced(model, source, written(hypothesis))
            assert hypothesis.token_log_probs == pytest.approx(wanted, abs=1e-10)
            assert hypothesis.log_prob == pytest.approx(sum(wanted), abs=1e-10)
            assert hypothesis.score == pytest.approx(sum(wanted) / len(wanted), abs=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("beams", [1, 3])
def test_greedy_and_beams_without_cache_give_the_same_s_cache_01(slow_beams, family, beams) -> None:
    model = tiny(7, **FAMILIES[family])
    options = Search(num_beams=beams, num_return=beams, max_length=4)
    for source, found in zip(SOURCES[:3], translate_ids(model, SOURCES[:3], options, BOS, EOS), strict=True):

        def log_probs(ids, source=source):
            return told(model, source, ids)[-1].tolist()

        slow = slow_beams(log_probs, options, 4)
        assert [tuple(written(h)) for h in found] == [ids for _, ids, _ in slow]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "options",
    [
        Search(num_beams=1, max_length=12),
        Search(num_beams=4, num_return=4, max_length=12),
        Search(num_beams=3, repetition_penalty=1.3, no_repeat_ngram_size=2, max_length=12),
        Search(sample=True, num_return=2, top_k=8, temperature=0.8, max_length=12),
    ],
    ids=["greedy", "beams", "constrained", "samples"],
)
def test_batch_mates_change_nothing(family, options) -> None:
    model = tiny(2, **FAMILIES[family])
    lengths = [len(source) for source in SOURCES]
    alone = [
        search(model, torch.tensor([s]), Layout.unpadded(len(s)), options, BOS, EOS, numbers=[n])[0]
        for n, s in enumerate(SOURCES)
    ]
    for batch_tokens in (1, 12, 25, 1000):
        together = translate_ids(model, SOURCES, options, BOS, EOS, batch_tokens=batch_tokens)
        assert [[h.ids for h in hs] for hs in together] == [[h.ids for h in hs] for hs in alone]
        for a, b in zip(itertools.chain(*together), itertools.chain(*alone), strict=True):
            assert a.score == pytest.approx(b.score, abs=1e-10)
            assert a.token_log_probs == pytest.approx(b.token_log_probs, abs=1e-10)
    assert max(lengths) > 2 * min(lengths)


def test_batch_mates_in_single_precision_s_serve_02() -> None:
    """Scores within 1e-4 and equal answers, unless two answers' scores are nearer than that; such ties are counted."""
    ties = compared = 0
    for seed in range(2):
        model = tiny(seed, dtype=torch.float32)
        long = [[4 + (7 * j + seed) % 16 for j in range(n)] + [3] for n in (2, 1, 20, 60)]
        for options in (Search(num_beams=1, max_length=16), Search(num_beams=4, num_return=4, max_length=16)):
            together = translate_ids(model, long, options, BOS, EOS)
            for source, mates in zip(long, together, strict=True):
                alone = translate_ids(model, [source], options, BOS, EOS)[0]
                assert mates[0].score == pytest.approx(alone[0].score, abs=1e-4)
                compared += 1
                if mates[0].ids != alone[0].ids:
                    ties += 1
                    assert mates[0].score == pytest.approx(alone[0].score, abs=1e-4)
    assert compared == 16
    assert ties <= 1


@pytest.mark.parametrize("beams", [1, 3])
def test_nothing_survives_from_the_sentence_before_s_cache_04(beams) -> None:
    model, options = tiny(4), Search(num_beams=beams, max_length=15)
    fresh = copy.deepcopy(model)
    translate_ids(model, [SOURCES[-1]], options, BOS, EOS)
    again = translate_ids(model, [SOURCES[0]], options, BOS, EOS)
    assert again == translate_ids(fresh, [SOURCES[0]], options, BOS, EOS)


@pytest.mark.parametrize("beams", [1, 3])
def test_the_models_positions_are_a_limit_s_pos_01(beams) -> None:
    model = tiny(4, positions="learned", max_positions=16)
    head = torch.nn.Linear(16, 20).double()
    torch.nn.init.normal_(head.weight, std=0.6)
    head.bias.data.zero_()
    head.bias.data[EOS] = -1000.0
    model.head.project = head
    options = Search(num_beams=beams, max_length=256)
    for (hypothesis,) in translate_ids(model, [[4, 5, 6, 3], [7, 3]], options, BOS, EOS):
        assert len(hypothesis.ids) == 16
        assert not hypothesis.finished
    model.head.project.bias.data[EOS] = 3.0
    both = translate_ids(model, SOURCES, options, BOS, EOS)
    assert {h[0].finished for h in both} == {True, False}
    assert [h[0].ids for h in both] == [translate_ids(model, [s], options, BOS, EOS)[0][0].ids for s in SOURCES]


def decoder_only(seed):
    """The decoder half of a tiny transformer that looks at no memory."""
    from regard.architecture import Description
    from regard.layers.attention import Attention
    from regard.layers.block import Block
    from regard.layers.embeddings import Tokens
    from regard.layers.feedforward import Dense
    from regard.layers.heads import NextToken
    from regard.layers.masks import Causal
    from regard.layers.positions import Learned
    from regard.layers.stack import Stack

    block = Block(Attention(2, mask=Causal()), Dense(32))
    torch.manual_seed(seed)
    model = Description(NextToken(20), decoder=Stack(16, Tokens(20, Learned(24)), (block,) * 2)).build().double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


@pytest.mark.parametrize("beams", [1, 3])
def test_prompts_of_unequal_lengths_go_on_as_if_alone(slow_beams, beams) -> None:
    model = decoder_only(0)
    prompts = [[5, 6, 7, 8, 9, 10], [11], [12, 13, 14]]
    options = Search(num_beams=beams, num_return=beams, max_length=30)
    found = translate_ids(model, prompts, options, BOS, EOS)
    for prompt, hypotheses in zip(prompts, found, strict=True):

        def log_probs(ids, prompt=prompt):
            return (
                model(torch.tensor([[*prompt, *ids]]), layout=Layout.unpadded(len(prompt) + len(ids)))
                .logits[0, -1]
                .log_softmax(0)
                .tolist()
            )

        slow = slow_beams(log_probs, options, 24 - len(prompt) + 1)
        if beams > 1:
            assert [tuple(written(h)) for h in hypotheses] == [ids for _, ids, _ in slow]
        assert max(len(h.ids) for h in hypotheses) <= 24 - len(prompt) + 1
        alone = translate_ids(model, [prompt], options, BOS, EOS)[0]
        assert [h.ids for h in alone] == [h.ids for h in hypotheses]
        assert [h.score for h in alone] == pytest.approx([h.score for h in hypotheses], abs=1e-10)
    with pytest.raises(ValueError, match="padded on the left"):
        search(model, torch.ones(2, 3, dtype=torch.long), Layout.padded([3, 2]), options, BOS, EOS)
    with pytest.raises(UserError, match="25 tokens"):
        translate_ids(model, [[5] * 25], options, BOS, EOS)


def test_prefixes_of_unequal_lengths_are_kept() -> None:
    model = tiny(3)
    prefix = [[9], [], [10, 11, 12], [4, 5], []]
    for options in (
        Search(num_beams=1, max_length=9),
        Search(num_beams=3, num_return=3, max_length=9),
        Search(sample=True, num_return=3, max_length=9),
    ):
        found = translate_ids(model, SOURCES, options, BOS, EOS, prefix=prefix)
        free = translate_ids(model, SOURCES, options, BOS, EOS)
        for n, (source, start, hypotheses) in enumerate(zip(SOURCES, prefix, found, strict=True)):
            for h in hypotheses:
                assert h.ids[: len(start)] == start
                assert h.log_prob == pytest.approx(sum(forced(model, source, written(h))), abs=1e-10)
            if not start:
                assert [h.ids for h in hypotheses] == [h.ids for h in free[n]]
    with pytest.raises(UserError, match="prefixes"):
        translate_ids(model, SOURCES, Search(), BOS, EOS, prefix=[[1]])


def test_a_model_in_training_goes_back_to_it() -> None:
    model = tiny(0, dropout=0.5)
    calm = translate_ids(model, SOURCES, Search(max_length=8), BOS, EOS)
    model.train()
    assert translate_ids(model, SOURCES, Search(max_length=8), BOS, EOS) == calm
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_broken_weights_are_named() -> None:
    model = tiny(0)
    model.head.project.weight.data.fill_(math.nan)
    with pytest.raises(UserError, match="NaN"):
        translate_ids(model, SOURCES, Search(), BOS, EOS)

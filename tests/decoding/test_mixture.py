"""Several models as one: probabilities meaned as the definition says, and nothing that a search would notice."""

from __future__ import annotations

import math

import pytest
import torch

from regard.decoding import Search
from regard.decoding.alignment import forced
from regard.decoding.generate import translate_ids
from regard.decoding.mixture import Mixture, mixed
from regard.decoding.watch import last_looks, watching
from regard.layout import Layout
from regard.models import gpt2, rnn, transformer

BOS, EOS = 2, 3
SOURCES = [[5, 3], [6, 7, 8, 9, 10, 3], [4, 12, 13, 3]]
SHAPE = {"num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2, "tied": "no"}
OPTIONS = {
    "greedy": Search(num_beams=1, max_length=12),
    "beam": Search(num_beams=4, num_return=4, max_length=12),
    "covered": Search(num_beams=3, max_length=12, coverage_penalty=0.3),
    "groups": Search(num_beams=4, num_return=4, max_length=12, num_beam_groups=2, diversity_penalty=1.0),
    "sample": Search(sample=True, num_return=3, max_length=12, top_k=8),
}


def tiny(seed, family=transformer, **more):
    torch.manual_seed(seed)
    shape = SHAPE if family is transformer else {"d_model": 16}
    model = family.describe(**({"vocab_size": 20} | shape | more)).build().double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return model


MEMBERS = {
    "seeds": lambda: [tiny(1), tiny(2)],
    "sizes": lambda: [tiny(1), tiny(2, d_model=24, d_ff=8, num_layers=2), tiny(3)],
    "families": lambda: [tiny(1), tiny(2, rnn, attention="additive", cell="lstm", num_layers=2)],
    "blind": lambda: [tiny(1), tiny(2, rnn, attention="none", context="every_step")],
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_a_model_twice_is_the_model_bit_for_bit(name, family) -> None:
    model = tiny(4) if family == "transformer" else tiny(4, rnn, attention="dot")
    one, two = (translate_ids(its, SOURCES, OPTIONS[name], BOS, EOS) for its in (model, Mixture([model, model])))
    assert [[(h.ids, h.score, h.token_log_probs) for h in each] for each in one] == [
        [(h.ids, h.score, h.token_log_probs) for h in each] for each in two
    ]


@pytest.mark.parametrize("name", ["greedy", "beam", "sample"])
@pytest.mark.parametrize("members", MEMBERS)
def test_each_token_has_the_mean_probability(members, name) -> None:
    """Log-probabilities of all answers against forced passes of each member, one sentence after another."""
    models = MEMBERS[members]()
    found = translate_ids(Mixture(models), SOURCES, OPTIONS[name], BOS, EOS)
    for source, hypotheses in zip(SOURCES, found, strict=True):
        for one in hypotheses:
            passes = [forced(model, [source], [(one.ids, one.finished)], BOS, EOS)[0].log_probs for model in models]
            wanted = [math.log(sum(map(math.exp, logs)) / len(logs)) for logs in zip(*passes, strict=True)]
            assert one.token_log_probs == pytest.approx(wanted, abs=1e-6)


def test_shares_count_and_what_no_member_writes_has_no_probability() -> None:
    one, two = torch.tensor([[0.0, 1.0, -math.inf, 5.0]]), torch.tensor([[2.0, 2.0, -math.inf]])
    made = mixed([one, two], [3.0, 1.0], 3)
    wanted = 0.75 * one[:, :3].softmax(1) + 0.25 * two.softmax(1)
    torch.testing.assert_close(made.softmax(1), wanted)
    assert made.logsumexp(1).item() == pytest.approx(one[:, :3].logsumexp(1).item())
    assert made[0, 2] == -math.inf


def test_the_attention_is_the_mean_of_those_that_look() -> None:
    models = MEMBERS["families"]()
    answers = [([5, 6, 7], True)]
    one, two = (forced(model, [SOURCES[1]], answers, BOS, EOS)[0].weights for model in models)
    both = forced(Mixture(models), [SOURCES[1]], answers, BOS, EOS)[0].weights
    torch.testing.assert_close(both, (one + two) / 2)
    blind = MEMBERS["blind"]()
    assert len(last_looks(Mixture(blind))) == 1
    one = forced(blind[0], [SOURCES[1]], answers, BOS, EOS)[0].weights
    torch.testing.assert_close(forced(Mixture(blind), [SOURCES[1]], answers, BOS, EOS)[0].weights, one)


def test_a_step_shows_the_mean_of_its_looks() -> None:
    models = MEMBERS["families"]()
    mixture, seen = Mixture(models), []
    inputs = torch.tensor([SOURCES[1]])
    for model in (*models, mixture):
        with watching(model, "a test") as watch, torch.inference_mode():
            state = model.start(model.encode(inputs, Layout.unpadded(6)), 2)
            model.step(torch.tensor([[BOS]]), state)
            seen.append(watch.step)
    torch.testing.assert_close(seen[2], (seen[0] + seen[1]) / 2)


def test_language_models_write_together_too() -> None:
    sizes = {"vocab_size": 20, "num_layers": 1, "d_model": 16, "num_heads": 2, "max_positions": 32}
    models = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        models.append(gpt2.describe(**sizes).build().double().eval())
        for parameter in models[-1].parameters():
            torch.nn.init.normal_(parameter, std=0.4)
    prompts = [[5, 6, 7], [8]]
    options = Search(num_beams=3, max_length=6)
    both = translate_ids(Mixture(models), prompts, options, BOS, EOS)
    alone = [translate_ids(Mixture(models), [prompt], options, BOS, EOS)[0][0].ids for prompt in prompts]
    assert [each[0].ids for each in both] == alone
    with pytest.raises(ValueError, match="with an encoder and without one"):
        Mixture([models[0], tiny(1)])


def test_shares_are_one_for_each_and_the_least_limit_holds() -> None:
    models = [tiny(1), tiny(2, positions="learned", max_positions=9)]
    assert Mixture(models).decoder.limit == Mixture(models).encoder.limit == 9
    with pytest.raises(ValueError, match="2 models and the shares"):
        Mixture(models, [1.0])
    with pytest.raises(ValueError, match="0 models"):
        Mixture([])
    state = Mixture(models).start(Mixture(models).encode(torch.tensor([[5, 3]])), 4)
    Mixture(models).step(torch.tensor([[BOS, 5]]), state)
    state.rewind(1)
    assert state.length == 1

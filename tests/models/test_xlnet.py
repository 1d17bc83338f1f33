"""XLNet against transformers' XLNetLMHeadModel, XLNetForSequenceClassification, -ForTokenClassification and XLNetModel."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from regard.architecture import Targets
from regard.checkpoints.folders import load_model, save_model
from regard.checkpoints.fresh import with_head
from regard.decoding.options import Search
from regard.decoding.search import search
from regard.errors import UserError
from regard.layers.heads import IGNORED
from regard.layout import Layout
from regard.models import xlnet

transformers = pytest.importorskip("transformers")

SHAPE = {"d_model": 16, "n_layer": 2, "n_head": 4, "d_inner": 24, "vocab_size": 23, "pad_token_id": 1}
OURS = {"vocab_size": 23, "d_model": 16, "num_layers": 2, "num_heads": 4, "d_ff": 24, "pad": 1}
CLASSES = {
    "next": ("XLNetLMHeadModel", "AutoModelForCausalLM"),
    "class": ("XLNetForSequenceClassification", "AutoModelForSequenceClassification"),
    "tokens": ("XLNetForTokenClassification", "AutoModelForTokenClassification"),
    "vector": ("XLNetModel", "AutoModel"),
}
SIDES = ["no", "left", "right"]


@pytest.fixture
def theirs(randomised):
    """theirs(class name, folder or None, **configuration) -> a tiny random model of transformers, saved if asked."""

    def make(name, folder=None, **config):
        model = getattr(transformers, name)(transformers.XLNetConfig(**(SHAPE | config)))
        randomised(model, spread=0.3)
        model.tie_weights()
        if folder is not None:
            model.save_pretrained(folder)
        return model

    return make


def marks(perm_mask: Tensor, target_mapping: Tensor) -> Tensor:
    """Layout.mark Int[B T] that says the same as perm_mask [B T T] (1: row does not see column) and target_mapping
    [B targets T]. ValueError if it is no order: tokens nobody is kept from have mark 0, and of the others each sees those
    of smaller marks."""
    hidden = perm_mask > 0
    late = hidden.any(1)
    mark = torch.where(late, 1 + (~hidden & late[:, None]).sum(2), 0)
    sees = mark[:, None, :] < mark[:, :, None]
    sees |= (mark == 0)[:, None, :]
    if not torch.equal(sees, ~hidden) or not torch.equal(late, target_mapping.sum(1) > 0):
        raise ValueError("this perm_mask is not that of an order of prediction of the tokens in target_mapping")
    return mark


def order(rows: int = 3, length: int = 40, share: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    """Random orders of prediction as perm_mask, target_mapping, and the predicted places Int[rows share]."""
    perm, target = torch.zeros(rows, length, length), torch.zeros(rows, share, length)
    random = torch.Generator().manual_seed(5)
    places = torch.stack([torch.randperm(length, generator=random)[:share] for _ in range(rows)])
    for row in range(rows):
        for number, place in enumerate(places[row].tolist()):
            target[row, number, place] = 1
            perm[row, :, place] = 1
            perm[row, places[row, number + 1 :], place] = 0
    return perm, target, places


def compare(states: list[Tensor], wanted: list[Tensor], real: Tensor) -> None:
    assert len(states) == len(wanted)
    for a, b in zip(states, wanted, strict=True):
        assert (a - b)[real].abs().max() < 1e-5


def asked(other, **given):
    """Its answer, row by row: with attn_type "uni" the class fails on a mask of several rows."""
    rows = [
        other(**{key: value[row : row + 1] for key, value in given.items()}, output_hidden_states=True, use_mems=False)
        for row in range(len(given["input_ids"]))
    ]
    both = {"hidden_states": [torch.cat(states) for states in zip(*(row.hidden_states for row in rows), strict=True)]}
    both |= {key: torch.cat([row[key] for row in rows]) for key in ("logits", "last_hidden_state") if key in rows[0]}
    return SimpleNamespace(**both)


@pytest.fixture
def check(hidden_states, padded_ids):
    """check(ours, theirs, head, side) -> None if logits and hidden states of real tokens are equal."""

    def run(mine, other, head, side):
        ids = padded_ids(side, 1, 23)
        layout = Layout.of_ids(ids, 1)
        real = layout.real.expand(len(ids), -1)
        given = {"attention_mask": real.float()}
        segments = None
        if head != "next":
            given["token_type_ids"] = segments = (layout.position % 7 > 3).long().expand(len(ids), -1)
        with torch.no_grad():
            want = asked(other, input_ids=ids, **given)
        layout = replace(layout, mark=torch.zeros_like(ids)) if head == "next" else layout
        answer, states = hidden_states(mine, ids, layout=layout, segments=segments)
        compare(states["decoder" if head == "next" else "encoder"], want.hidden_states, real)
        if head == "vector":
            mean = want.last_hidden_state.masked_fill(~real[..., None], 0).sum(1) / real.sum(1, keepdim=True)
            assert (answer.vectors - mean).abs().max() < 1e-5
        elif head == "class":  # that class takes the last column, be it padding
            rows = real[:, -1]
            assert (answer.logits - want.logits)[rows].abs().max() < 1e-5
        else:
            assert (answer.logits - want.logits)[real].abs().max() < 1e-5
            assert want.logits.std() > 0.1

    return run


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("head", CLASSES)
def test_transformers_folder_opens_here(tmp_path, theirs, check, head, side):
    """Positions past 30, padding on either side; the mask of the reference is on keys, and its positions are columns."""
    more = {"num_labels": 5} if head in ("class", "tokens") else {}
    other = theirs(CLASSES[head][0], tmp_path, **more)
    model, description, meta = load_model(tmp_path)
    assert description == xlnet.describe(**OURS, head=head, **({"classes": 5} if more else {}))
    assert meta["ids"]["pad"] == 1
    check(model, other, head, side)


@pytest.mark.parametrize("head", CLASSES)
def test_our_folder_opens_there(tmp_path, randomised, check, head):
    classes = {"classes": 3} if head in ("class", "tokens") else {}
    model = randomised(xlnet.describe(**OURS, head=head, **classes).build())
    save_model(tmp_path, model)
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["model_type"] == "xlnet"
    other, info = getattr(transformers, CLASSES[head][1]).from_pretrained(tmp_path, output_loading_info=True)
    assert type(other).__name__ == CLASSES[head][0]
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    check(model, other, head, "left")


@pytest.mark.parametrize(
    "config",
    [
        {"attn_type": "uni"},
        {"clamp_len": 4, "ff_activation": "relu"},
        {"tie_word_embeddings": False, "layer_norm_eps": 1e-3},
    ],
)
def test_what_the_configuration_changes(tmp_path, theirs, check, config):
    other = theirs("XLNetLMHeadModel", tmp_path, **config)
    model, description, _ = load_model(tmp_path)
    assert xlnet.describe(**xlnet.arguments(description)) == description
    check(model, other, "next", "right")
    save_model(tmp_path / "ours", model)
    check(model, transformers.XLNetLMHeadModel.from_pretrained(tmp_path / "ours"), "next", "left")


@pytest.mark.parametrize("causal", [False, True])
def test_perm_mask_and_target_mapping(tmp_path, theirs, recorded, causal):
    """Logits and hidden states of both streams, in an order of prediction."""
    other = theirs("XLNetLMHeadModel", tmp_path, attn_type="uni" if causal else "bi")
    model, _, _ = load_model(tmp_path)
    perm, target, places = order()
    ids = torch.randint(4, 23, (3, 40), generator=torch.Generator().manual_seed(6))
    with torch.no_grad():
        want = asked(other, input_ids=ids, perm_mask=perm, target_mapping=target)
    layout = replace(Layout.unpadded(40), mark=marks(perm, target))
    answer, states = recorded(model.decoder.blocks, lambda: model(ids, layout=layout))
    got = answer.logits.gather(1, places[..., None].expand(-1, -1, 23))
    assert (got - want.logits).abs().max() < 1e-5
    assert want.logits.std() > 0.1
    columns = places.sort(1).values  # ours ask in the order of places
    again = places.argsort(1)
    for number, state in enumerate(states):
        content, query = want.hidden_states[2 * number + 2 : 2 * number + 4]
        assert (state[:, :40] - content).abs().max() < 1e-5
        assert (state[:, 40:] - query.gather(1, again[..., None].expand(-1, -1, 16))).abs().max() < 1e-5
    assert columns.shape == (3, 6)


def test_marks_that_no_order_has_are_refused():
    perm, target, _ = order()
    perm[0, 3, 5] = 1 - perm[0, 3, 5]
    with pytest.raises(ValueError, match="order"):
        marks(perm, target)


def test_mems(tmp_path, theirs):
    """Three segments of a text, each seeing all before it: theirs through mems, ours through a state."""
    other = theirs("XLNetLMHeadModel", tmp_path, mem_len=None)
    model, _, _ = load_model(tmp_path)
    ids = torch.randint(4, 23, (2, 45), generator=torch.Generator().manual_seed(6))
    perm, target, places = order(2, 15, 4)
    state, mems = model.start(None, 45), None
    for part in range(3):
        tokens = ids[:, 15 * part : 15 * part + 15]
        layout = replace(Layout.unpadded(15, 15 * part), mark=torch.zeros(1, 15, dtype=torch.long))
        given = {"use_mems": True, "mems": mems}
        if part == 1:
            given |= {"perm_mask": perm, "target_mapping": target}
            layout = replace(layout, mark=marks(perm, target))
        with torch.no_grad():
            want = other(tokens, **given)
            hidden = model.decoder(tokens, state, layout)
            got = model.head(hidden, layout).logits
        mems = want.mems
        got = got if part != 1 else got.gather(1, places[..., None].expand(-1, -1, 23))
        assert state.length == 15 * part + 15
        assert (got - want.logits).abs().max() < 1e-5
    assert mems[0].shape[0] == 45


def test_generation_after_mems(tmp_path, theirs):
    """Tokens that are generated after a remembered segment see it, and are read anew at every step."""
    other = theirs("XLNetLMHeadModel", tmp_path, mem_len=None)
    model, _, _ = load_model(tmp_path)
    ids = torch.randint(4, 23, (2, 19), generator=torch.Generator().manual_seed(6))
    with torch.no_grad():
        mems = other(ids[:, :12], use_mems=True).mems
        state = model.start(None, 20)
        model.decoder(ids[:, :12], state, replace(Layout.unpadded(12), mark=torch.zeros(1, 12, dtype=torch.long)))
        for end in range(14, 20):
            tokens = torch.cat([ids[:, 12:end], torch.zeros(2, 1, dtype=torch.long)], 1)
            perm, target = torch.zeros(2, end - 11, end - 11), torch.zeros(2, 1, end - 11)
            perm[:, :, -1], target[:, :, -1] = 1, 1
            want = other(tokens, mems=mems, perm_mask=perm, target_mapping=target, use_mems=True).logits[:, 0]
            got = model.step(ids[:, 12:end] if end == 14 else ids[:, end - 1 : end], state)
            assert (got - want).abs().max() < 1e-5
        state.rewind(16)
        assert state.length == 16
        again = model.step(ids[:, 16:19], state)
        assert (again - got).abs().max() < 1e-6
        state.rewind(7)
        assert state.length == 7


@pytest.mark.parametrize("beams", [1, 3])
def test_generated_ids_are_those_of_transformers_without_a_cache(tmp_path, theirs, beams):
    other = theirs("XLNetLMHeadModel", tmp_path, eos_token_id=3)
    model, _, _ = load_model(tmp_path)
    ids = torch.randint(4, 23, (2, 7), generator=torch.Generator().manual_seed(6))
    settings = {"num_beams": beams, "max_new_tokens": 9, "do_sample": False, "early_stopping": False}
    other.generation_config = transformers.GenerationConfig(**settings, pad_token_id=1, eos_token_id=3)
    with torch.no_grad():
        want = other.generate(ids, use_mems=False)
    found = search(model, ids, Layout.unpadded(7), Search(num_beams=beams, max_length=9), bos=0, eos=3)
    for row, hypotheses in zip(want[:, 7:].tolist(), found, strict=True):
        row = row[: row.index(3)] if 3 in row else row
        assert list(hypotheses[0].ids) == row


def test_generation_reads_unequal_prompts_as_each_alone(randomised):
    model = randomised(xlnet.describe(**OURS).build(), spread=0.3)
    rows = [[5, 6, 7, 8, 9], [10, 11]]
    options = Search(max_length=6)
    alone = [search(model, torch.tensor([row]), Layout.unpadded(len(row)), options, 0, 3)[0][0].ids for row in rows]
    ids = torch.tensor([rows[0], [1, 1, 1, *rows[1]]])
    both = search(model, ids, Layout.padded([5, 2], left=True), options, 0, 3)
    assert [found[0].ids for found in both] == alone


@pytest.mark.parametrize("head", ["next", "vector"])
def test_s_mask_10_padding_changes_no_hidden_state(randomised, head):
    """S-MASK-10: 4 tokens alone, with 3 pads on the left, with 3 pads on the right, the mask supplied."""
    model = randomised(xlnet.describe(**OURS, head=head).build())
    half = model.decoder or model.encoder
    tokens, pads = [5, 6, 7, 8], [1, 1, 1]
    seen = []
    for row, layout, real in (
        (tokens, Layout.unpadded(4), slice(0, 4)),
        (pads + tokens, Layout.padded([4], 7, left=True), slice(3, 7)),
        (tokens + pads, Layout.padded([4], 7), slice(0, 4)),
    ):
        for mark in (None, torch.zeros(1, len(row), dtype=torch.long)):
            given, ids = replace(layout, mark=mark), torch.tensor([row])
            arguments = (given,) if model.decoder is None else (model.start(None, 0), given)
            states = half(ids, *arguments)
            seen.append((states.states if model.decoder is None else states)[:, real])
    for kind in (0, 1):
        for other in seen[2 + kind :: 2]:
            torch.testing.assert_close(other, seen[kind], rtol=0, atol=1e-5)


def test_a_predicted_token_is_not_seen_by_what_is_predicted_before_it(randomised):
    """Permutation pretraining: no logit depends on its own token or on one that comes later in the order."""
    model = randomised(xlnet.describe(**OURS).build())
    mark = torch.tensor([[0, 3, 0, 1, 2, 0, 0, 2]])
    layout = replace(Layout.unpadded(8), mark=mark)
    ids = torch.randint(4, 23, (1, 8), generator=torch.Generator().manual_seed(2))
    before = model(ids, layout=layout).logits
    for place in range(8):
        other = ids.clone()
        other[0, place] = 3
        moved = (model(other, layout=layout).logits - before)[0].abs().amax(-1) > 1e-7
        for at in range(8):
            if mark[0, at] > 0:
                assert moved[at] == (mark[0, place] < mark[0, at]), (place, at)


def test_permutation_has_a_loss_and_trains(randomised):
    """Targets stand where their tokens stand; every weight gets a gradient."""
    model = randomised(xlnet.describe(**OURS | {"dropout": 0.0}).build()).train()
    ids, layout = torch.randint(4, 23, (2, 12)), Layout.padded([12, 9])
    mark = torch.zeros(2, 12, dtype=torch.long)
    mark[0, [2, 7]], mark[1, 4] = torch.tensor([2, 1]), 1
    layout = replace(layout, mark=mark)
    answer = model(ids, layout=layout, targets=Targets(torch.where(mark > 0, ids, IGNORED)))
    assert answer.count == 3
    logits = model(ids, layout=layout).logits.log_softmax(-1)
    want = -logits.gather(2, ids[..., None])[..., 0][mark > 0].sum()
    torch.testing.assert_close(answer.loss_sum, want, rtol=1e-5, atol=1e-5)
    answer.loss_sum.backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())
    assert model.decoder.asked.grad.abs().sum() > 0


def test_configurations_that_are_not_computed_are_refused(tmp_path, theirs):
    theirs("XLNetForSequenceClassification", tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    wrong = {"bi_data": True, "same_length": True, "summary_activation": None, "summary_type": "mean"}
    path.write_text(json.dumps(config | wrong), encoding="utf-8")
    with pytest.raises(UserError) as error:
        load_model(tmp_path)
    for name in wrong:
        assert name in str(error.value)
    path.write_text(json.dumps(config | {"d_head": 5}), encoding="utf-8")
    with pytest.raises(UserError, match="d_head is 5"):
        load_model(tmp_path)


def test_marked_tokens_cannot_follow_unmarked_ones(randomised):
    model = randomised(xlnet.describe(**OURS).build())
    state = model.start(None, 9)
    model.step(torch.tensor([[5, 6]]), state)
    with pytest.raises(ValueError, match="order of prediction"):
        model.decoder(torch.tensor([[7]]), state, replace(Layout.unpadded(1, 2), mark=torch.zeros(1, 1, dtype=torch.long)))


def test_a_head_of_classes_on_a_pretrained_body_reads_both_ways(randomised):
    old = randomised(xlnet.describe(**OURS).build())
    new, fresh = with_head(old, "class", 3)
    assert new.description == xlnet.describe(**OURS, head="class", classes=3)
    assert all(name.startswith("head.") for name in fresh)
    ids, layout = torch.randint(4, 23, (2, 6)), replace(Layout.unpadded(6), mark=torch.zeros(1, 6, dtype=torch.long))
    assert torch.equal(new.encode(ids).states, old.decoder(ids, old.start(None, 0), layout))
    back, fresh = with_head(new, "next")
    assert "decoder.asked" in fresh
    assert back.description == old.description


def test_a_mean_over_tokens_is_no_summary_of_the_class(tmp_path):
    """The class of transformers averages padding in; the folder is regard's own, and opens again."""
    model = xlnet.describe(**OURS, head="class", classes=3, pool="mean").build()
    save_model(tmp_path, model)
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["model_type"] == "regard"
    assert load_model(tmp_path)[1] == model.description

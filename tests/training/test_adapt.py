"""Which weights are learned, and which models can learn what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.batches.data import TokenisedPairs
from regard.batches.objectives import Translation
from regard.errors import UserError
from regard.models import bert, gpt2, rnn
from regard.training.adapt import check_model, check_positions, check_search, choose_weights, freeze
from regard.training.recipe import Recipe, read_recipe

TEXT = "data: {train: a.txt}\nmodel: {architecture: gpt2}\ntraining: {max_steps: 3}\ntask: {kind: language}\n"


def recipe(training: dict[str, Any], **model: Any) -> Recipe:
    its = read_recipe(TEXT)
    its = its.model_copy(update={"model": its.model.model_copy(update=model)})
    return its.model_copy(update={"training": type(its.training).model_validate({"max_steps": 3} | training)})


def small() -> Any:
    torch.manual_seed(0)
    return gpt2.describe(vocab_size=13, num_layers=2, d_model=8, num_heads=2, max_positions=16).build()


def test_patterns_freeze_what_they_name() -> None:
    model = small()
    freeze(model, ["decoder.embed.*", "decoder.blocks.0.*"])
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert "decoder.embed.tokens.weight" in frozen
    assert "decoder.blocks.1.attention.qkv.weight" not in frozen
    assert all(name.startswith(("decoder.embed.", "decoder.blocks.0.")) for name in frozen)
    with pytest.raises(
        UserError, match=r"no weight is called 'decoder\.embed\.tokens\.weigth'; did you mean decoder\.embed"
    ):
        freeze(model, ["decoder.embed.tokens.weigth"])


def test_something_must_be_left_to_learn() -> None:
    with pytest.raises(UserError, match="leaves nothing to learn"):
        choose_weights(small(), recipe({"freeze": ["*"]}))


def test_lora_learns_its_updates_and_a_fresh_head() -> None:
    model = small()
    notes = choose_weights(model, recipe({"lora": {"rank": 2, "targets": ["q", "expand"]}}))
    assert notes == ["LoRA of rank 2 on 4 matrices, the first decoder.blocks.0.attention.qkv.q"]
    assert all(".updates." in name for name, p in model.named_parameters() if p.requires_grad)
    other = bert.describe(vocab_size=13, num_layers=1, d_model=8, d_ff=8, num_heads=2, head="class", classes=3).build()
    choose_weights(other, recipe({"lora": {"rank": 2}}, fresh_head=True))
    learned = {name for name, p in other.named_parameters() if p.requires_grad and ".updates." not in name}
    assert learned == {f"head.{layer}.{kind}" for layer in ("between", "project") for kind in ("weight", "bias")}


def test_a_model_must_have_the_halves_that_a_task_needs() -> None:
    decoder, both = small(), rnn.describe(vocab_size=13, d_model=8).build()
    check_model(decoder, "language", packed=True)
    check_model(both, "translation", packed=False)
    with pytest.raises(UserError, match="language needs a decoder alone"):
        check_model(both, "language", packed=False)
    with pytest.raises(UserError, match=r"translation needs an encoder and a decoder; .* gives a decoder alone"):
        check_model(decoder, "translation", packed=False)
    with pytest.raises(UserError, match="permutation needs a decoder that predicts in any order"):
        check_model(decoder, "permutation", packed=False)


def test_recurrent_nets_refuse_packing_in_words() -> None:
    recurrent = rnn.describe(vocab_size=13, d_model=8).build()
    alone = SimpleNamespace(encoder=None, decoder=recurrent.decoder, packs=recurrent.packs)
    check_model(alone, "language", packed=False)
    with pytest.raises(UserError, match=r"cannot keep packed texts apart; set task\.pack: false"):
        check_model(alone, "language", packed=True)


def test_texts_beyond_the_positions_of_a_model_are_named() -> None:
    """Before the first update, not in the batch that has one, hours later."""
    short, long = (TokenisedPairs.from_ids([[5] * n, [5] * 3], [[], []], name="training data") for n in (15, 20))
    said = SimpleNamespace(train=long, valid=short, objective=Translation(), watched=None, packed=False)
    with pytest.raises(UserError, match=r"the model has positions for 16 tokens, and 1 examples .* \(lines 1\): lower it"):
        check_positions(small(), recipe({}), said)  # type: ignore[arg-type]
    for change in ({"train": short}, {"packed": True}):
        check_positions(small(), recipe({}), SimpleNamespace(**vars(said) | change))  # type: ignore[arg-type]
    check_positions(rnn.describe(vocab_size=13, d_model=8).build(), recipe({}), said)  # type: ignore[arg-type]


def test_unknown_words_are_replaced_by_models_that_look_alone() -> None:
    text = "data: {train: a.txt}\nmodel: {architecture: rnn}\ntraining: {max_steps: 3}\nsearch: {replace_unknown: true}\n"
    its = read_recipe(text)
    assert its.search_options() == read_recipe(text.replace("true", "false")).search_options()
    check_search(rnn.describe(vocab_size=13, d_model=8, attention="dot").build(), its)
    with pytest.raises(UserError, match=r"search\.replace_unknown: needs attention over the source"):
        check_search(rnn.describe(vocab_size=13, d_model=8).build(), its)

"""One text through a model of every kind: the trace says what there is, and the model never notices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.errors import UserError
from regard.generator import Generator
from regard.inspection import inspect, parts
from regard.inspection.reading import read
from regard.inspection.sides import picture_of
from regard.inspection.tape import attentions, record
from regard.inspection.trace import Trace
from regard.models import find
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer

LINES = ["A dog runs in the park .", "The red house is near the sea ."] * 3
TEXT = "A dog 这是 🦉 runs"
KINDS = ["translate", "bahdanau", "no-attention", "generate", "experts", "classify", "tag", "embed", "fill", "image"]


def picture() -> np.ndarray:
    return (np.arange(64).reshape(8, 8) * 4).astype(np.uint8)


def looked(made: Any, kind: str, **more: Any) -> Trace:
    return inspect(made(kind), picture() if kind == "image" else TEXT, **more)


def test_there_is_a_model_of_every_kind(kinds: list[str]) -> None:
    assert kinds == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_trace(made: Any, kind: str) -> None:
    its = made(kind)
    its.model.train()
    trace = looked(made, kind)
    assert its.model.training
    its.model.eval()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in its.model.modules())
    assert trace.checks.equal_bits
    assert len(trace.attentions) == len([n for n in attentions(its.model) if ".everywhere." not in n])
    assert bool(trace.attentions) != ("no attention in this model" in trace.checks.notes)
    for one in trace.attentions:
        assert one.checks.row_sum < 1e-5
        assert one.checks.output < 1e-4
        for head in one.weights:
            weights = trace.weights(one.name, int(head))
            assert weights.shape == one.size
            np.testing.assert_allclose(weights.sum(1), 1.0, atol=2e-3)  # float16
        assert len(one.entropy) == len(one.sink) == one.heads
    again = Trace.of(json.loads(trace.to_json()))
    assert again == trace


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "image"])
def test_tokens_spell_the_text(made: Any, kind: str) -> None:
    """S-INSP-01: characters of several bytes are told by their place in the text, and none is ever half of one."""
    trace = looked(made, kind)
    for side in trace.sides.values():
        assert "\ufffd" not in side.text
        reached = 0
        for token in side.tokens:
            assert 0 <= token.start <= token.end <= len(side.text)
            if token.start < token.end:
                assert token.start <= reached
                reached = max(reached, token.end)
        assert reached == len(side.text)


def test_an_answer_has_a_row_for_each_of_its_tokens(made: Any) -> None:
    """S-INSP-03, S-INSP-06: after beam search one row a token of the returned hypothesis and its end; three kinds."""
    its = made("translate")
    trace = looked(made, "translate", num_beams=3, num_return=2)
    best = its.translate([TEXT], details=True, num_beams=3, num_return=2)[0]
    assert [one.text for one in trace.hypotheses] == [best.text, best.alternatives[0].text]
    target, source = trace.sides["target"].tokens, trace.sides["source"].tokens
    assert [token.id for token in target][: len(best.ids)] == best.ids
    assert len(target) == len(best.ids) + best.finished
    kinds = {one.kind: one for one in trace.attentions}
    assert kinds["cross"].size == (len(target), len(source))
    assert kinds["self"].size == (len(source), len(source))
    assert kinds["causal"].size == (len(target), len(target))
    assert kinds["causal"].masked == "causal"
    assert trace.checks.log_prob is not None
    assert trace.checks.log_prob < 1e-4
    assert trace.predictions is not None
    told = [one.log_prob for one in trace.predictions.chosen if one is not None]
    assert told == pytest.approx(best.token_log_probs, abs=1e-4)


def test_a_given_answer_is_forced(made: Any) -> None:
    trace = looked(made, "translate", target="Un chien")
    assert trace.sides["target"].text == "Un chien"
    assert trace.sides["target"].tokens[-1].special
    assert trace.beam is None
    assert trace.checks.log_prob is None


def test_only_what_is_asked_for_is_there(made: Any) -> None:
    trace = looked(made, "translate", layers=[1], heads=[0, 3])
    assert {one.layer for one in trace.attentions} == {1}
    assert {tuple(one.weights) for one in trace.attentions} == {("0", "3")}
    assert all(one.overview is not None for one in trace.attentions)
    whole = looked(made, "translate", full=True)
    small, large = (sum(len(one.weights) for one in its.attentions) for its in (trace, whole))
    assert (small, large) == (6, 24)


def test_long_texts_are_told_by_overviews_and_the_strongest_keys(made: Any) -> None:
    """S-INSP-02: what is left out is said; one layer stays whole."""
    text = " ".join(["The red house is near the sea ."] * 25)
    its = made("translate")
    trace = inspect(its, text, "Un chien court dans le parc .", methods=())
    assert len(trace.sides["source"].tokens) > 128
    assert trace.limits.message is not None
    kept = [one for one in trace.attentions if one.kept]
    assert [one.name for one in kept] == ["decoder.blocks.1.cross.attend"]
    assert trace.limits.message.endswith("whole weights in 1 of 6 attentions")
    assert [one.attention for one in trace.hand] == ["decoder.blocks.1.cross.attend"]
    for one in trace.attentions:
        assert one.overview is not None
        assert one.top is not None
        assert max(one.overview.size) <= 64
        rest, strongest = trace.array(one.top.rest), trace.array(one.top.weights)
        np.testing.assert_allclose(rest + strongest.sum(-1), 1.0, atol=2e-3)
    assert len(trace.to_json()) < 1_000_000
    full = inspect(its, text, "Un chien .", methods=(), full=True)
    assert full.limits.message is None
    assert all(len(one.kept) == 4 for one in full.attentions)


FAR = " ".join(["The red house is near the sea ."] * 75)


def test_texts_past_512_tokens_are_told_by_queries_and_keys(made: Any) -> None:
    """The weights of any window come from them, as exact as from the tape; no matrix of all is made on the way."""
    its = made("translate")
    trace = inspect(its, FAR, "Un chien court .", full=1 << 30)
    count = len(trace.sides["source"].tokens)
    assert count > 512
    assert trace.rollout == []
    assert "no rollout of more than 512 tokens" in trace.checks.notes
    one = trace.attention("encoder.blocks.1.attention.attend")
    assert (sorted(one.products), one.weights) == (["0", "1", "2", "3"], {})
    assert one.overview is not None
    assert one.overview.size == (-(-count // -(-count // 64)),) * 2
    with torch.no_grad(), record(its.model, [one.name]) as tape:
        read(its, FAR, "Un chien court .").answer(its.model)
    made_again = tape.weights(one.name, head=2)[0].numpy()
    np.testing.assert_allclose(trace.weights(one.name, 2), made_again, atol=1e-5)
    assert Trace.of(json.loads(trace.to_json())) == trace
    assert trace.to_svg("heads")
    few = inspect(its, FAR, "Un chien court .", methods=())
    assert [one.name for one in few.attentions if one.kept] == ["decoder.blocks.1.cross.attend"]
    assert few.limits.bytes < trace.limits.bytes


def test_whole_weights_fill_the_room_there_is(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ROOM", 10_000)
    trace = inspect(made("translate"), FAR, "Un chien court .", methods=(), full=90_000)
    used = sum(
        trace.blocks[name].size for one in trace.attentions for names in one.products.values() for name in names
    ) + sum(trace.blocks[name].size for one in trace.attentions for name in one.weights.values())
    assert 30_000 < used <= 90_000
    assert len(trace.attention("decoder.blocks.1.cross.attend").kept) == 4


def test_a_long_prompt_is_causal_in_every_part() -> None:
    made = train_tokenizer(LINES, Plan("bpe", vocab_size=330))
    sizes: dict[str, Any] = {"num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2, "dropout": 0.0}
    its = Generator(
        find("gpt2").describe(vocab_size=330, max_positions=900, **sizes).build().eval(), Tokenizers(made, made, True)
    )
    trace = inspect(its, FAR, " A dog runs")
    (one,) = trace.attentions
    assert one.masked == "causal"
    assert len(one.products) == 2
    weights = trace.weights(one.name, 1)
    assert (np.triu(weights, 1) == 0).all()
    np.testing.assert_allclose(weights.sum(1), 1.0, atol=1e-5)
    assert trace.predictions is not None
    assert len(trace.predictions.top) == one.size[0]


@pytest.mark.parametrize("kind", ["translate", "bahdanau", "generate", "experts", "classify", "tag"])
def test_a_part_at_a_time_tells_the_same(made: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long texts are looked at, a few rows at once; the rows of global tokens among them."""
    whole = looked(made, kind, full=True)
    monkeypatch.setattr(parts, "FAR", 4)
    monkeypatch.setattr(parts, "ALIVE", 100)
    again = looked(made, kind, full=True)
    for one, other in zip(whole.attentions, again.attentions, strict=True):
        assert other.kept == one.kept
        assert other.entropy == pytest.approx(one.entropy, abs=1e-5)
        assert other.sink == pytest.approx(one.sink, abs=1e-5)
        assert other.masked == one.masked
        for head in one.kept:
            np.testing.assert_allclose(again.weights(one.name, int(head)), whole.weights(one.name, int(head)), atol=1e-3)


def test_global_tokens_have_their_own_rows(made: Any) -> None:
    """S-INSP-05: whole matrices, 0 outside the pattern, the row and the column of a global token filled."""
    trace = inspect(made("classify"), "A dog runs in the park near the sea")
    one = trace.attentions[0]
    count = one.size[0]
    assert one.size == (count, count)
    assert count >= 12
    assert one.masked not in (None, "causal")
    barred = trace.array(one.masked).astype(bool)
    place = np.arange(count)
    far = np.abs(place[:, None] - place[None]) > 1
    far[0], far[:, 0] = False, False
    np.testing.assert_array_equal(barred, far)
    weights = trace.weights(one.name, 0)
    assert (weights[far] == 0).all()
    assert (weights[0] > 0).sum() > 3


def test_gates_change_the_answer_and_say_by_how_much(made: Any) -> None:
    name = "decoder.blocks.1.cross.attend"
    plain = looked(made, "translate", target="Un chien")
    trace = looked(made, "translate", target="Un chien", gates={name: {0: 0.0, 1: 0.0, 2: 0.0, 3: 0.0}})
    (change,) = trace.changes
    assert plain.predictions is not None
    assert trace.predictions is not None
    sums = [sum(one.log_prob for one in its.predictions.chosen if one) for its in (plain, trace)]
    assert change.log_prob == pytest.approx(sums[1], abs=1e-3)
    assert change.difference == pytest.approx(sums[1] - sums[0], abs=1e-3)
    assert abs(change.difference or 0) > 1e-3
    assert looked(made, "translate", target="Un chien", gates={name: {0: 1.0}}).changes[0].difference == 0.0
    meaned = looked(made, "translate", target="Un chien", gates={name: {0: None}}).changes[0]
    assert meaned.gates == {name: {"0": None}}
    assert meaned.difference not in (0.0, None)


def test_views_of_each_kind(made: Any) -> None:
    classes = looked(made, "classify").classes
    assert classes is not None
    assert sum(one.p for one in classes) == pytest.approx(1.0)
    assert classes[0].p == max(one.p for one in classes)
    tagged = looked(made, "tag")
    assert tagged.tags is not None
    assert [one is None for one in tagged.tags] == [token.special for token in tagged.sides["source"].tokens]
    assert looked(made, "embed").predictions is None
    experts = looked(made, "experts").experts
    assert [one.layer for one in experts] == [0, 1]
    assert all(sum(one.load) == pytest.approx(1.0) for one in experts)
    image = looked(made, "image")
    assert image.image is not None
    assert image.image.grid == (2, 2)
    assert image.attentions[0].size == (5, 5)
    assert looked(made, "generate").sides["read"].prompt > 0


def test_the_picture_is_what_was_read() -> None:
    import base64
    import io

    from PIL import Image

    pixels = torch.from_numpy((picture()[None] / 255 - 0.5) / 0.5)
    found = picture_of(pixels, {"image_mean": [0.5], "image_std": [0.5]})
    data = base64.b64decode(found.removeprefix("data:image/png;base64,"))
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))), picture())


def test_a_folder_will_do(made: Any, tmp_path: Path) -> None:
    made("translate").save(tmp_path)
    assert inspect(tmp_path, "A dog", "Un chien").sides["source"].text == "A dog"


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("translate", {"layers": [7]}, "there is no attention in layer 7; there are layers 0, 1"),
        ("translate", {"heads": [4]}, "there are heads 0 to 3, not 4"),
        ("translate", {"gates": {"x": {0: 0.0}}}, "no attention is called 'x'"),
        ("translate", {"gates": {"decoder.blocks.0.cross.attend": {9: 0.0}}}, "has heads 0 to 3, not 9"),
        ("translate", {"methods": ["magic"]}, "no method is called 'magic'; there are input_x_gradient"),
        ("translate", {"contrast": (99, "dog")}, "there are rows 0 to"),
        ("classify", {"contrast": (0, "bird")}, "there is no label 'bird'; there are LABEL_0"),
        ("embed", {"contrast": (0, "bird")}, "an embedder says no token"),
        ("classify", {"target": "x"}, "a target is given, but a classifier writes no text"),
        ("embed", {"num_beams": 3}, "search options are given"),
        ("translate", {"beamz": 3}, "unknown search option 'beamz'"),
    ],
)
def test_mistakes_are_one_line(made: Any, kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        looked(made, kind, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("kind", "text"), [("translate", ""), ("translate", "  ")])
def test_nothing_to_look_at(made: Any, kind: str, text: str) -> None:
    with pytest.raises(UserError, match="nothing to look at"):
        inspect(made(kind), text)


def test_rounded_weights_have_no_gradients(made: Any, tmp_path: Path) -> None:
    """What would be wrong in silence is left out, and that is said."""
    import regard

    made("translate").save(tmp_path)
    small = regard.load(tmp_path, "cpu", "int8")
    trace = inspect(small, "A dog", "Un chien", methods=("input_x_gradient", "occlusion"))
    assert trace.checks.equal_bits
    assert {one.method for one in trace.attributions} == {"occlusion"}
    assert all(one.importance is None for one in trace.attentions)
    assert "no gradients: the weights have eight bits" in trace.checks.notes
    with pytest.raises(UserError, match="load the model as float32"):
        inspect(small, "A dog", "Un chien", contrast=(0, "La"))


def test_an_answer_of_nothing_but_its_end(made: Any) -> None:
    trace = inspect(made("translate"), "A dog", "")
    assert [token.special for token in trace.sides["target"].tokens] == [True]
    assert trace.alignment is not None
    assert trace.alignment.words == []
    assert trace.to_text()
    assert trace.to_html()

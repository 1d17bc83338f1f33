"""What every architecture promises, whatever it is made of."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard import models
from regard.architecture import Model, Targets, from_json, to_json
from regard.layers.heads import IGNORED
from regard.layout import Layout

EXACT = {"rtol": 0, "atol": 1e-10}
SOURCES = [[3, 4, 5, 6, 7], [8, 3, 2], [9, 2]]
OUTPUTS = [[2, 5, 3], [2, 4, 6, 7, 8], [2, 9, 9, 4]]


def padded(rows: list[list[int]], length: int | None = None, left: bool = False) -> tuple[Tensor, Layout]:
    """Rows of ids as one tensor; padding holds an id that is a real token elsewhere, so only the layout tells."""
    length = max(len(row) for row in rows) if length is None else length
    fill = [[7] * (length - len(row)) for row in rows]
    ids = [f + row if left else row + f for row, f in zip(rows, fill, strict=True)]
    return torch.tensor(ids), Layout.padded([len(row) for row in rows], length, left)


def logits(model: Model, sources: list[list[int]], outputs: list[list[int]], **how: object) -> Tensor:
    """Logits of padded rows, at once."""
    inputs, layout = padded(sources, **how)
    if model.decoder is None:
        return model(inputs, layout=layout).logits
    if model.encoder is None:
        inputs, layout = padded(outputs, **how)
        return model(inputs, layout=layout).logits
    outputs, output_layout = padded(outputs, how.get("length"))
    return model(inputs, outputs, layout=layout, output_layout=output_layout).logits


def begin(model: Model, sources: list[list[int]], room: int = 40):
    """A state that has read nothing, and the memory it reads."""
    if model.encoder is None:
        return model.start(None, room)
    inputs, layout = padded(sources)
    return model.start(model.encode(inputs, layout), room)


def history(model: Model, source: list[int], read: list[int]) -> Tensor:
    """Logits Float[V] after `read`, without any state."""
    return logits(model, [source], [read])[0, -1]


def reads(model: Model) -> None:
    if model.decoder is None:
        pytest.skip("no decoder")


def test_every_architecture_has_tiny_arguments(tiny):
    assert set(tiny) == set(models.names())


def test_every_size_can_be_described():
    for name in models.names():
        describe = models.find(name).describe
        vocabulary = {"vocab_size": 100} if "vocab_size" in inspect.signature(describe).parameters else {}
        for size, arguments in models.find(name).SIZES.items():
            assert hash(describe(**vocabulary, **arguments)), (name, size)


@pytest.mark.parametrize(
    ("rows", "dtype", "near"), [(1, torch.float64, 1e-10), (3, torch.float64, 1e-10), (3, torch.float32, 1e-4)]
)
def test_s_cache_05_twenty_cached_steps_equal_all_at_once(family, rows, dtype, near):
    """S-CACHE-05: 20 greedy steps with a state against one pass without, batch of 1 and a padded batch of 3."""
    model = family.make(dtype)
    reads(model)
    state, token, read, seen = begin(model, SOURCES[:rows]), torch.full((rows, 1), 2), [], []
    with torch.no_grad():
        for step in range(20):
            read.append(token)
            assert state.length == step
            seen.append(model.step(token, state))
            token = seen[-1].argmax(-1, keepdim=True)
        ids = torch.cat(read, 1).tolist()
        whole = logits(model, SOURCES[:rows], ids)
    assert (torch.stack(seen, 1) - whole).abs().max() < near
    assert torch.equal(whole.argmax(-1)[:, :-1], torch.cat(read, 1)[:, 1:])


def test_tokens_may_come_in_any_pieces(family):
    model = family.make()
    reads(model)
    state, read = begin(model, SOURCES), torch.tensor([[2, 3, 4, 5, 6, 7]] * 3)
    pieces = [model.step(read[:, a:b], state) for a, b in ((0, 2), (2, 3), (3, 6))]
    whole = logits(model, SOURCES, read.tolist())
    torch.testing.assert_close(torch.stack(pieces), whole[:, [1, 2, 5]].transpose(0, 1), **EXACT)


@pytest.mark.parametrize(("more", "left"), [(0, False), (6, False), (1, True)])
def test_batch_mates_and_padding_do_not_matter(family, more, left):
    """S-MASK-04, S-MASK-09, S-POS-05: each row alone gives what it gives in a batch padded on the right or the left."""
    model = family.make()
    batch = logits(model, SOURCES, OUTPUTS, length=5 + more, left=left)
    rows = SOURCES if model.decoder is None else OUTPUTS
    for number, (source, read) in enumerate(zip(SOURCES, OUTPUTS, strict=True)):
        alone = logits(model, [source], [read])[0]
        count = len(rows[number])
        begin = 5 + more - count if left and (model.encoder is None or model.decoder is None) else 0
        torch.testing.assert_close(batch[number, begin : begin + count], alone, **EXACT)


def test_padding_is_found_by_its_id_at_the_ends(family):
    model = family.make()
    if model.encoder is None or model.decoder is None:
        pytest.skip("no encoder or no decoder")
    inputs, outputs = torch.tensor([[3, 4, 5, 6], [8, 3, 0, 0]]), torch.tensor([[2, 5, 3], [0, 4, 0]])
    batch = model(inputs, outputs).logits
    torch.testing.assert_close(batch[1:, :2], model(inputs[1:, :2], outputs[1:, :2]).logits, **EXACT)


@pytest.mark.parametrize("room", [0, 40])
def test_s_pos_05_answers_begun_at_unequal_lengths(family, room):
    """S-POS-05: beginnings padded on the left, then 5 steps, equal each row alone."""
    model = family.make()
    reads(model)
    ids, layout = padded(OUTPUTS, left=True)
    state = begin(model, SOURCES, room)
    seen = [model.step(ids, state, layout)]
    for step in range(5 if room else 0):
        layout = layout.next()
        seen.append(model.step(torch.full((3, 1), 4 + step), state, layout))
    for number, read in enumerate(OUTPUTS):
        want = logits(model, [SOURCES[number]], [[*read, 4, 5, 6, 7, 8]])[0, len(read) - 1 :]
        for step, got in enumerate(seen):
            torch.testing.assert_close(got[number], want[step], **EXACT)


def test_s_cache_01_rows_follow_their_beams(family):
    """S-CACHE-01, S-CACHE-03: 3 beams of each of 2 sentences, shuffled and copied among themselves for 6 steps; every row
    goes on from its own history, in every layer; the sentences' memory is never copied."""
    model = family.make()
    reads(model)
    torch.manual_seed(3)
    state, sources = begin(model, SOURCES[:2]), SOURCES[:2]
    with torch.no_grad():
        model.step(torch.full((2, 1), 2), state)
        state.select(torch.tensor([0, 0, 0, 1, 1, 1]))
        read = [[2] for _ in range(6)]
        for _ in range(6):
            tokens = torch.randint(3, 11, (6, 1))
            got = model.step(tokens, state)
            read = [[*row, int(token)] for row, token in zip(read, tokens, strict=True)]
            want = logits(model, [sources[row // 3] for row in range(6)], read)[:, -1]
            torch.testing.assert_close(got, want, **EXACT)
            rows = torch.randint(0, 3, (6,)) + torch.tensor([0, 0, 0, 3, 3, 3])
            state.select(rows)
            read = [read[row] for row in rows.tolist()]
    if model.encoder is not None:
        assert state.memory.states.shape[0] == 2
        kept = [t for cache in state.caches for t in cache.across]
        assert all(t.shape[0] == 2 for t in kept)


@pytest.mark.parametrize("chosen", [[2], [0, 2], [2, 1, 0]])
def test_finished_sentences_are_dropped(family, chosen):
    model = family.make()
    reads(model)
    state = begin(model, SOURCES)
    with torch.no_grad():
        model.step(torch.full((3, 1), 2), state)
        state.select(torch.tensor([0, 0, 1, 1, 2, 2]))
        model.step(torch.tensor([[3], [4], [5], [6], [7], [8]]), state)
        state.keep(torch.tensor(chosen))
        got = model.step(torch.full((2 * len(chosen), 1), 9), state)
        want = [history(model, SOURCES[s], [2, 3 + 2 * s + beam, 9]) for s in chosen for beam in range(2)]
    torch.testing.assert_close(got, torch.stack(want), **EXACT)


def test_a_state_rewinds_or_says_that_it_cannot(family):
    model = family.make()
    reads(model)
    state, tokens = begin(model, SOURCES), torch.tensor([[2, 3, 4, 5]] * 3)
    model.step(tokens, state)
    refusal = ""
    try:
        state.rewind(2)
    except TypeError as error:
        refusal = str(error)
    if refusal:
        assert "cannot" in refusal
        return
    again = model.step(torch.full((3, 1), 9), state)
    want = [history(model, source, [2, 3, 9]) for source in SOURCES]
    torch.testing.assert_close(again, torch.stack(want), **EXACT)


def test_two_states_of_one_model_do_not_meet(family):
    """S-CACHE-04: what was read for one sentence does not survive into the next."""
    model = family.make()
    reads(model)
    first = begin(model, SOURCES[:1])
    model.step(torch.tensor([[2, 3, 4, 5, 6, 7]]), first)
    got = model.step(torch.tensor([[2, 9]]), begin(model, SOURCES[1:2]))
    torch.testing.assert_close(got[0], history(model, SOURCES[1], [2, 9]), **EXACT)


def test_packed_rows_equal_padded_rows_or_are_refused(family):
    model = family.make()
    ids, layout = torch.tensor([[*SOURCES[0], *SOURCES[1]]]), Layout.packed([[5, 3]])
    out, out_layout = torch.tensor([[*OUTPUTS[0], *OUTPUTS[1]]]), Layout.packed([[3, 5]])
    single = model.encoder is None or model.decoder is None
    arguments = ((ids,), {"layout": layout}) if single else ((ids, out), {"layout": layout, "output_layout": out_layout})
    if not model.packs:
        with pytest.raises(ValueError, match="packed"):
            model(*arguments[0], **arguments[1])
        return
    got = model(*arguments[0], **arguments[1]).logits[0]
    rows = SOURCES if single else OUTPUTS
    at = 0
    for source, read, row in zip(SOURCES[:2], OUTPUTS[:2], rows, strict=False):
        want = logits(model, [source], [source if single else read])[0]
        torch.testing.assert_close(got[at : at + len(row)], want, **EXACT)
        at += len(row)


def test_s_mask_08_nothing_at_padding_leaks(family):
    """S-MASK-08: NaN stored where the memory is padding reaches no answer."""
    model = family.make()
    if model.encoder is None or model.decoder is None:
        pytest.skip("no encoder or no decoder")
    inputs, layout = padded(SOURCES)
    answers = []
    for filler in (float("nan"), 0.0):
        memory = model.encode(inputs, layout)
        memory.states = memory.states.masked_fill(~layout.real[..., None], filler)
        answers.append(model.step(torch.tensor([[2, 3]] * 3), model.start(memory, 2)))
    assert answers[0].isfinite().all()
    torch.testing.assert_close(*answers, **EXACT)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_the_logits(family, smoothing):
    """S-LOSS-01, S-LOSS-02: summed over real targets alone, whatever the padding."""
    model = family.make()
    if model.encoder is None or model.decoder is None:
        pytest.skip("no encoder or no decoder")
    for length in (5, 9):
        inputs, layout = padded(SOURCES, length)
        outputs, output_layout = padded(OUTPUTS, length)
        ids = torch.where(output_layout.real, outputs.roll(-1, 1), IGNORED)
        answer = model(inputs, outputs, layout=layout, output_layout=output_layout, targets=Targets(ids, smoothing))
        want = F.cross_entropy(
            logits(model, SOURCES, OUTPUTS, length=length).flatten(0, 1),
            ids.flatten(),
            reduction="sum",
            label_smoothing=smoothing,
            ignore_index=IGNORED,
        )
        assert answer.logits is None
        assert answer.count == 12
        torch.testing.assert_close(answer.loss_sum, want, **EXACT)


def test_every_weight_gets_a_finite_gradient(family):
    """S-MASK-01 for whole models: padded rows on both sides, loss at real positions."""
    model = family.make().train()
    logits(model, SOURCES, OUTPUTS, length=7, left=True)[:, :2].square().sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name


def test_bfloat16_autocast_is_finite(family):
    model = family.make(torch.float32).train()
    with torch.autocast("cpu", torch.bfloat16):
        total = logits(model, SOURCES, OUTPUTS).float().square().sum()
    total.backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())


def test_a_description_is_a_value(family):
    description = family.describe()
    again = from_json(json.loads(json.dumps(to_json(description))))
    assert again == description
    assert hash(again) == hash(description)
    assert again in {description}
    assert repr(again) == repr(description)
    shapes = [{name: weight.shape for name, weight in d.build().named_parameters()} for d in (description, again)]
    assert shapes[0] == shapes[1]


def test_weights_go_to_disk_and_back_without_pickles(family, tmp_path: Path):
    from safetensors.torch import load_model, save_model

    model, other = family.make(), family.describe().build().double().eval()
    save_model(model, str(tmp_path / "model.safetensors"))
    load_model(other, str(tmp_path / "model.safetensors"))
    assert torch.equal(logits(model, SOURCES, OUTPUTS), logits(other, SOURCES, OUTPUTS))


def test_modules_remember_nothing(family):
    model = family.make()

    def inside() -> dict[str, dict[str, int]]:
        return {name: {key: id(value) for key, value in vars(module).items()} for name, module in model.named_modules()}

    before = inside()
    first = logits(model, SOURCES, OUTPUTS)
    assert inside() == before
    assert torch.equal(first, logits(model, SOURCES, OUTPUTS))


def test_initial_weights_are_those_of_the_seed(family):
    weights = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        model = family.describe().build()
        models.find(family.name).initialise(model)
        weights.append(model.head.project.weight.detach())
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_s_amp_03_cached_steps_in_bfloat16(family):
    """S-AMP-03: weights in fp32, products in bf16: the cache holds what the products give, and each of five greedy tokens is
    the best of a pass without cache too, but for what rounding may swap."""
    model = family.make(torch.float32)
    reads(model)
    state, token, read = begin(model, SOURCES), torch.full((3, 1), 2), []
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for _ in range(5):
            read.append(token)
            token = model.step(token, state).argmax(-1, keepdim=True)
        whole = logits(model, SOURCES, torch.cat(read, 1).tolist()).float()
    kept = [cache.pair for cache in getattr(state, "caches", ()) if getattr(cache, "pair", None) is not None]
    assert {pair.dtype for pair in kept} <= {torch.bfloat16}
    chosen = torch.cat([*read[1:], token], 1)
    short = whole.amax(-1) - whole.gather(-1, chosen[..., None])[..., 0]
    assert (short <= 2**-5 * whole.abs().amax()).all()


def test_a_row_of_padding_alone_harms_nobody(family):
    """A row without any real token beside real ones: those give what they give alone, and nothing becomes NaN."""
    model = family.make()
    inputs, layout = padded([SOURCES[0], []], 5)
    outputs, output_layout = padded([OUTPUTS[0], OUTPUTS[1][:3]])
    if model.decoder is None or model.encoder is None:
        got = model(inputs, layout=layout).logits
        want = model(inputs[:1], layout=layout.take(torch.tensor([0]))).logits
    else:
        got = model(inputs, outputs, layout=layout, output_layout=output_layout).logits
        want = logits(model, SOURCES[:1], OUTPUTS[:1])
    torch.testing.assert_close(got[:1], want, **EXACT)
    assert got.isfinite().all()


def test_no_description_needs_the_compiler_to_be_laid_out() -> None:
    """Importing it takes two seconds, and drawing weights on the meta device does: a translation began with that once."""
    code = (
        "import runpy, sys; from pathlib import Path; from regard import models\n"
        f"for file in Path({str(Path(__file__).parent / 'tiny')!r}).glob('*.py'):\n"
        "    for given in runpy.run_path(str(file))['TINY']:\n"
        "        models.find(file.stem).describe(**given).on_meta()\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

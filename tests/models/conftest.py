"""What the parity tests share, as fixtures that give functions: tiny random models, and what each layer of them gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

torch.set_num_threads(1)  # tiny tensors: threads only wait for each other


def _recorded(modules: Iterable[nn.Module], call: Callable[[], Any]) -> tuple[Any, list[Tensor]]:
    found: list[Tensor] = []

    def keep(module: nn.Module, args: Any, out: Any) -> None:
        found.append(out[0] if isinstance(out, tuple) else out)

    hooks = [module.register_forward_hook(keep) for module in modules]
    try:
        with torch.no_grad():
            return call(), found
    finally:
        for hook in hooks:
            hook.remove()


@pytest.fixture
def recorded() -> Callable[..., tuple[Any, list[Tensor]]]:
    """recorded(modules, call) -> what `call()` gives, and what each of the modules gave meanwhile, in order."""
    return _recorded


@pytest.fixture
def hidden_states() -> Callable[..., tuple[Any, dict[str, list[Tensor]]]]:
    """hidden_states(model, *inputs, **named) -> the model's Answer, and of each half ("encoder", "decoder") that it has
    the embedding, then what each block gives, then the last norm's result if there is one."""

    def run(model: Any, *inputs: Any, **named: Any) -> tuple[Any, dict[str, list[Tensor]]]:
        halves = {name: half for name in ("encoder", "decoder") if (half := getattr(model, name)) is not None}
        counts, modules = {}, []
        for name, half in halves.items():
            its = [half.embed, *half.blocks, *([] if half.last_norm is None else [half.last_norm])]
            modules += its
            counts[name] = len(its)
        answer, found = _recorded(modules, lambda: model(*inputs, **named))
        states = {}
        for name, count in counts.items():
            states[name], found = found[:count], found[count:]
        return answer, states

    return run


@pytest.fixture
def randomised() -> Callable[..., Any]:
    """randomised(model, seed=7, spread=0.2) -> the model in eval mode, all its weights random, norms' gains around one."""

    def fill(model: Any, seed: int = 7, spread: float = 0.2) -> Any:
        generator = torch.Generator().manual_seed(seed)
        for name, tensor in model.named_parameters():
            gain = tensor.dim() == 1 and name.endswith("weight")
            tensor.data.copy_(torch.randn(tensor.shape, generator=generator) * spread + gain)
        return model.eval()

    return fill


def _padded_ids(side: str, pad: int, vocab: int, rows: int = 3, length: int = 40, first: int = 4) -> Tensor:
    ids = torch.randint(first, vocab, (rows, length), generator=torch.Generator().manual_seed(9))
    for row, count in enumerate((length, length - 7, 5)[:rows] if side != "no" else ()):
        if side == "left":
            ids[row, : length - count] = pad
        else:
            ids[row, count:] = pad
    return ids


@pytest.fixture
def padded_ids() -> Callable[..., Tensor]:
    """padded_ids(side, pad, vocab, rows=3, length=40, first=4) -> Int[rows length]: rows of 40, 33 and 5 tokens, padded on
    the "left" or the "right"; "no": all of them full. Real tokens go beyond position 30 and are never `pad` < first."""
    return _padded_ids


@pytest.fixture
def decoder_parity(hidden_states: Any, recorded: Any, padded_ids: Any) -> Callable[..., None]:
    """decoder_parity(mine, other, modules, dtype, tolerance, sides): logits of real tokens (or of texts) and what each of
    `modules` of transformers' model gives (embedding, blocks, last norm) equal ours, with 40 positions and pad 0."""

    def check(
        mine: Any,
        other: Any,
        modules: Iterable[nn.Module],
        dtype: torch.dtype = torch.float32,
        tolerance: float = 1e-5,
        sides: tuple[str, ...] = ("no", "left", "right"),
    ) -> None:
        mine, other, modules = mine.to(dtype), other.to(dtype), list(modules)
        for side in sides:
            ids = padded_ids(side, 0, 23)
            real = ids != 0
            place = (real.cumsum(1) - 1).clamp(min=0)
            call = {"attention_mask": real.long(), "position_ids": place}
            want, wanted = recorded(modules, lambda: other(ids, **call))  # noqa: B023
            answer, states = hidden_states(mine, ids)
            assert len(wanted) == len(states["decoder"]) == len(mine.decoder.blocks) + 2
            for a, b in zip(states["decoder"], wanted):
                assert (a - b)[real].abs().max() < tolerance
            apart = answer.logits - want.logits
            assert (apart if apart.dim() == 2 else apart[real]).abs().max() < tolerance
            assert want.logits.std() > 0.1

    return check


PROMPTS = [[2, 7, 5, 11, 4], [2, 9, 6], [2, 5, 21, 14, 8, 17, 6, 19]]


@pytest.fixture
def generation_parity() -> Callable[..., None]:
    """generation_parity(mine, other): greedy and beam ids of prompts of unequal lengths equal those of transformers, with
    its cache and without; each prompt alone and in the batch; ours with the state and, greedy, without. pad 0, eos 3."""
    from regard.decoding.options import Search
    from regard.decoding.search import search
    from regard.layout import Layout

    def ours(mine: Any, prompts: list[list[int]], options: Search) -> list[list[list[int]]]:
        lengths = [len(prompt) for prompt in prompts]
        ids = torch.tensor([[0] * (max(lengths) - len(prompt)) + prompt for prompt in prompts])
        found = search(mine, ids, Layout.padded(lengths, left=True), options, 2, 3)
        return [[[*h.ids, 3] if h.finished else h.ids for h in answers] for answers in found]

    def theirs(other: Any, options: Search, cached: bool) -> list[list[list[int]]]:
        longest = max(map(len, PROMPTS))
        ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in PROMPTS])
        out = other.generate(
            ids,
            attention_mask=(ids != 0).long(),
            max_new_tokens=options.max_length,
            num_beams=options.num_beams,
            num_return_sequences=options.num_return,
            length_penalty=options.length_penalty,
            early_stopping=False,
            do_sample=False,
            use_cache=cached,
            pad_token_id=0,
            eos_token_id=3,
        )[:, longest:].tolist()
        cut = [row[: row.index(3) + 1] if 3 in row else row[: options.max_length] for row in out]
        return [cut[at : at + options.num_return] for at in range(0, len(cut), options.num_return)]

    def check(mine: Any, other: Any, length: int = 20) -> None:
        mine, other = mine.double(), other.double()
        greedy = Search(num_beams=1, max_length=length)
        for options in (greedy, Search(num_beams=4, max_length=length, num_return=2, length_penalty=0.6)):
            found = ours(mine, PROMPTS, options)
            for cached in (True, False):
                assert found == theirs(other, options, cached), (options.num_beams, cached)
            assert found == [ours(mine, [prompt], options)[0] for prompt in PROMPTS]
        for prompt, (answer,) in zip(PROMPTS, ours(mine, PROMPTS, greedy)):
            read = list(prompt)
            for token in answer:
                with torch.no_grad():  # the layout is told, for an answer may hold the id of padding
                    logits = mine(torch.tensor([read]), layout=Layout.unpadded(len(read))).logits
                assert int(logits[0, -1].argmax()) == token
                read.append(token)
        assert len({tuple(answers[0]) for answers in found}) > 1

    return check


@pytest.fixture
def sees_one_more_each() -> Callable[..., None]:
    """S-MASK-05, sees_one_more_each(model): 3 new tokens onto 5 that a state holds see 6, 7 and 8 of them (last
    block), and 8 tokens one at a time give what one pass gives."""

    def check(model: Any) -> None:
        model, seen = model.double(), []
        attend = model.decoder.blocks[-1].attention.attend

        def note(module: Any, args: Any) -> None:
            q, k, _, mask, bias = args
            seen.append((module.explain(q, k, mask, bias) > 0).sum(-1)[0, 0].tolist())

        ids = torch.tensor([[4, 9, 5, 11, 6, 21, 7, 13]])
        hook = attend.register_forward_pre_hook(note)
        try:
            with torch.no_grad():
                whole = model(ids).logits[0]
                state = model.start(None, 8)
                steps = [model.step(ids[:, at : at + 1], state)[0] for at in range(8)]
                state = model.start(None, 8)
                pieces = [model.step(ids[:, :5], state)[0], model.step(ids[:, 5:], state)[0]]
        finally:
            hook.remove()
        torch.testing.assert_close(torch.stack(steps), whole, rtol=0, atol=1e-5)
        torch.testing.assert_close(torch.stack(pieces), whole[[4, 7]], rtol=0, atol=1e-5)
        up = list(range(1, 9))
        assert seen == [up, *([count] for count in up), up[:5], [6, 7, 8]]

    return check


@pytest.fixture
def halves_parity(hidden_states: Any, padded_ids: Any) -> Callable[..., None]:
    """halves_parity(mine, other, dtype, tolerance, sides, start): an encoder-decoder's logits and what the embedding, the
    blocks and the last norm of both halves give at real tokens equal those of transformers, with sources of up to 40 tokens
    and outputs of 36. Where sources are padded on the left, ours equal those of each source alone: some classes there count
    positions from the first column."""

    def reference(other: Any, inputs: Tensor, outputs: Tensor, pad: int) -> Any:
        masks = {"attention_mask": inputs.ne(pad).long(), "decoder_attention_mask": outputs.ne(pad).long()}
        masks["decoder_attention_mask"][:, 0] = 1
        with torch.no_grad():
            return other(input_ids=inputs, decoder_input_ids=outputs, output_hidden_states=True, **masks)

    def near(ours: Any, states: dict[str, list[Tensor]], want: Any, reals: tuple[Tensor, Tensor], tolerance: float) -> None:
        for half, real in zip(("encoder", "decoder"), reals, strict=True):
            found, wanted = list(states[half]), getattr(want, f"{half}_hidden_states")
            if len(found) > len(wanted):  # transformers gives the normed last state in place of the last block's
                del found[-2]
            assert len(found) == len(wanted) > 2
            for a, b in zip(found, wanted, strict=True):
                assert (a[:, -b.shape[1] :][real] - b[real]).abs().max() < tolerance
        assert (ours - want.logits)[reals[1]].abs().max() < tolerance
        assert want.logits.std() > 0.1

    def check(
        mine: Any,
        other: Any,
        dtype: torch.dtype = torch.float32,
        tolerance: float = 1e-5,
        sides: tuple[str, ...] = ("no", "right", "left"),
        start: int = 2,
    ) -> None:
        mine, other, pad = mine.to(dtype), other.to(dtype), mine.pad
        outputs = padded_ids("no", pad, 23, length=36)
        outputs[:, 0], outputs[1, 34:] = start, pad
        read = outputs.ne(pad)
        read[:, 0] = True
        for side in sides:
            inputs = padded_ids(side, pad, 23)
            answer, states = hidden_states(mine, inputs, outputs)
            if side != "left":
                near(answer.logits, states, reference(other, inputs, outputs, pad), (inputs != pad, read), tolerance)
                continue
            for row in range(len(inputs)):
                alone = inputs[row : row + 1, inputs[row] != pad]
                its = {half: [x[row : row + 1] for x in found] for half, found in states.items()}
                reals = torch.ones_like(alone, dtype=torch.bool), read[row : row + 1]
                want = reference(other, alone, outputs[row : row + 1], pad)
                near(answer.logits[row : row + 1], its, want, reals, tolerance)

    return check


SOURCES = [[5, 7, 9, 11, 4, 3], [9, 6, 3], [5, 21, 14, 8, 17, 6, 19, 12, 3]]


@pytest.fixture
def answers_parity() -> Callable[..., None]:
    """answers_parity(mine, other, start, eos): greedy and beam ids of an encoder-decoder's answers to sources of unequal
    lengths equal those of transformers, with its cache and without; each source alone and in the batch, padded on either
    side; greedy ones ours without the state too."""
    from regard.decoding.options import Search
    from regard.decoding.search import search
    from regard.layout import Layout

    def padded(sources: list[list[int]], pad: int, left: bool = False) -> tuple[Tensor, Any]:
        lengths = [len(source) for source in sources]
        fill = [[pad] * (max(lengths) - length) for length in lengths]
        rows = [f + source if left else source + f for f, source in zip(fill, sources, strict=True)]
        return torch.tensor(rows), Layout.padded(lengths, left=left)

    def ours(mine: Any, inputs: Tensor, layout: Any, options: Search, start: int, eos: int) -> list[list[list[int]]]:
        found = search(mine, inputs, layout, options, start, eos)
        return [[[*h.ids, eos] if h.finished else h.ids for h in answers] for answers in found]

    def theirs(other: Any, inputs: Tensor, options: Search, ids: dict[str, int], cached: bool) -> list[list[list[int]]]:
        out = other.generate(
            inputs,
            attention_mask=inputs.ne(ids["pad_token_id"]).long(),
            max_new_tokens=options.max_length,
            num_beams=options.num_beams,
            num_return_sequences=options.num_return,
            length_penalty=options.length_penalty,
            early_stopping=False,
            do_sample=False,
            use_cache=cached,
            forced_eos_token_id=None,
            suppress_tokens=list(options.suppress_tokens) or None,
            **ids,
        )[:, 1:].tolist()
        eos = ids["eos_token_id"]
        cut = [row[: row.index(eos) + 1] if eos in row else row[: options.max_length] for row in out]
        return [cut[at : at + options.num_return] for at in range(0, len(cut), options.num_return)]

    def check(mine: Any, other: Any, start: int, eos: int, length: int = 34) -> None:
        mine, other, pad = mine.double(), other.double(), mine.pad
        sources = [[*source[:-1], eos] for source in SOURCES]
        ids = {"decoder_start_token_id": start, "eos_token_id": eos, "pad_token_id": pad, "bos_token_id": start}
        greedy = Search(num_beams=1, max_length=length, suppress_tokens=(pad,))
        for options in (greedy, Search(4, 0.6, max_length=length, num_return=2, suppress_tokens=(pad,))):
            found = ours(mine, *padded(sources, pad), options, start, eos)
            for cached in (True, False):
                assert found == theirs(other, padded(sources, pad)[0], options, ids, cached), (options.num_beams, cached)
            assert found == ours(mine, *padded(sources, pad, left=True), options, start, eos)
            assert found == [ours(mine, *padded([source], pad), options, start, eos)[0] for source in sources]
            assert len({tuple(answers[0]) for answers in found}) > 1
        for source, (answer,) in zip(sources, ours(mine, *padded(sources, pad), greedy, start, eos), strict=True):
            read = torch.tensor([[start, *answer[:-1]]])
            with torch.no_grad():
                logits = mine(torch.tensor([source]), read, output_layout=Layout.unpadded(len(answer))).logits
            logits[..., pad] = -torch.inf
            assert logits[0].argmax(-1).tolist() == answer

    return check

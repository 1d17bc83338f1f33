"""A model's twin in compiled code: the fast way through a model and its search, on a CPU in single precision.

Needs the extra `compiled`; the first use on a machine compiles for about a minute, and what is compiled is kept.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.compiled.choice import Aim, Found, Head
from regard.compiled.kernels import PLACE, Floats
from regard.compiled.parts import Parts
from regard.compiled.products import filled, packed
from regard.compiled.search import Group, Half, encode, search_group
from regard.compiled.steps import Steps
from regard.decoding.banks import Demand
from regard.decoding.options import Hypothesis, Search
from regard.decoding.search import BROKEN, limits_of
from regard.decoding.shortlist import Shortening, Shortlist
from regard.errors import UserError
from regard.layers.heads import TokenHead

log = logging.getLogger("regard.compiled")

ROWS = 32
"""Hypotheses that are read at once: as many as keep their logits near the processor, and enough to share each weight."""
UNKNOWN = (
    *("sample", "coverage_penalty", "repetition_penalty", "no_repeat_ngram_size", "num_beam_groups", "diversity_penalty"),
)
"""Options of a search that the slow twin alone serves."""


class Written(NamedTuple):
    """What the decoder may write, all tokens or those of a shortlist: their vectors Float[V D] and the head's rows."""

    tokens: Floats
    head: Head


class Compiled:
    """A model's twin in compiled code. It keeps copies of weights, made anew when they change."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._hooks = [its for one in model.modules() for its in (one._forward_hooks, one._forward_pre_hooks)]
        self._make()

    def _make(self) -> None:
        its, head = self._model, self._model.head
        self._encoder = None if its.encoder is None else Parts.of(its.encoder)
        self._parameters = [one for one in its.parameters() if not one.is_inference()]
        self._decoder, self._mark = Parts.of(its.decoder), self._now()
        assert self._decoder is not None
        weight = head.project.weight.detach().numpy()
        bias = np.zeros(len(weight), np.float32) if head.project.bias is None else head.project.bias.detach().numpy()
        self._project = weight, bias, float(head.scale)
        self.head = _head(*self._project)
        self.tokens = self._decoder.weights.tokens

    @classmethod
    def of(cls, model: Any) -> Compiled:
        """That of a model, with its code compiled or loaded. UserError: the model has parts that this does not know."""
        halves = [half for half in (getattr(model, "encoder", None), getattr(model, "decoder", None)) if half is not None]
        known = getattr(model, "decoder", None) is not None and type(getattr(model, "head", None)) is TokenHead
        if not known or any(Parts.of(half) is None for half in halves):
            raise UserError(
                "engine compiled: serves Transformers in float32 on the CPU whose tokens see all tokens, or all before them,"
                " with absolute or rotary positions; use the engine regard"
            )
        if not any(Path(PLACE).rglob("*.nbc")):  # numba makes the folder as soon as it is imported
            log.warning("compiling for this machine: about a minute, once; kept in %s", PLACE)
        made = cls(model)
        if made._encoder is None:
            made.steps([[0]], 1).step(torch.zeros(1, 1, dtype=torch.long))
        else:
            made.answers([[0]], Search(num_beams=1, max_length=1), 0, 0)
        return made

    def _fresh(self) -> None:
        if self._mark != self._now():
            self._make()

    def _now(self) -> int:
        return sum(its._version for its in self._parameters)

    def takes(self, options: Search, prefix: Sequence[Sequence[int] | Demand]) -> bool:
        """Whether it does what these options ask, and nobody looks on; else the slow twin does."""
        usual, banned = Search(), options.suppress_tokens
        if any(prefix) or any(getattr(options, name) != getattr(usual, name) for name in UNKNOWN):
            return False
        if max((*banned, options.first_token or 0)) >= len(self.tokens) or len(set(banned)) >= len(self.tokens) - 1:
            return False
        return self.alone()

    def alone(self) -> bool:
        """Whether nobody looks on."""
        return not any(self._hooks)

    def steps(self, prompts: Sequence[Sequence[int]], room: int) -> Steps:
        """What writes after these prompts, token by token. room: most tokens of a row, prompt and answer."""
        self._fresh()
        check(flat(prompts), self.tokens)
        its, limit = self._decoder, self._model.decoder.limit
        assert its is not None
        tables = its.reach(room if limit is None else min(room, limit))
        return Steps(Half(its.weights, tables, its.form), self.head, prompts)

    def answers(
        self, inputs: Sequence[Sequence[int]], options: Search, bos: int, eos: int, shortlist: Shortlist | None = None
    ) -> list[list[Hypothesis]]:
        """As `regard.decoding.search.search` of ids of sources, or of prompts. shortlist: of the target vocabulary."""
        self._fresh()
        ids, short = flat(inputs), None
        check(ids, self.tokens if self._encoder is None else self._encoder.weights.tokens)
        check([bos], self.tokens)
        if shortlist is not None:
            short = Shortening.of(self._model, shortlist, torch.tensor(ids), options, (bos, eos), None)
        limits = limits_of(self._model, [len(one) for one in inputs], options)
        if short is None:
            return self._search(Written(self.tokens, self.head), inputs, limits, options, bos, eos)
        at = short.model.ids.numpy()
        weight, bias, scale = self._project
        written = Written(self.tokens[at], _head(weight[at], bias[at], scale))
        return short.answers(self._search(written, inputs, limits, short.options, short.bos, short.eos))

    def _search(
        self, written: Written, inputs: Sequence[Sequence[int]], limits: Sequence[int], options: Search, bos: int, eos: int
    ) -> list[list[Hypothesis]]:
        beams = options.num_beams if options.method == "beam" else 1
        aim = Aim(
            *(beams, float(options.length_penalty), options.length_form == "gnmt"),
            options.stopping == "first" or options.method == "greedy",
            options.stopping == "exhaustive" and options.length_penalty > 0,
            *(options.min_length, -1 if options.first_token is None else options.first_token, eos),
        )
        head = written.head._replace(suppressed=np.array(options.suppress_tokens, np.int32))
        answers: list[list[Hypothesis]] = []
        size = max(1, ROWS // beams)
        for at in range(0, len(inputs), size):
            found = self._answer(written._replace(head=head), inputs[at : at + size], limits[at : at + size], aim, bos)
            answers += [_hypotheses(found, s, eos, options.num_return) for s in range(len(found.done))]
        return answers

    def _answer(self, written: Written, inputs: Sequence[Sequence[int]], limits: Sequence[int], aim: Aim, bos: int) -> Found:
        """One group."""
        decoder, encoder = self._decoder, self._encoder
        assert decoder is not None
        lengths = np.array([len(one) for one in inputs], np.int32)
        count, steps = len(inputs), max(limits)
        prompts = np.full((count, 1 if encoder else int(lengths.max())), bos, np.int32)
        memory, first = np.zeros((0, written.tokens.shape[1]), np.float32), np.zeros(count, np.int32)
        if encoder is None:
            for row, one in enumerate(inputs):
                prompts[row, : len(one)] = one
        else:
            sources = np.array(flat(inputs), np.int32)
            memory = encode(Half(encoder.weights, encoder.reach(int(lengths.max())), encoder.form), sources, lengths)
            first = (lengths.cumsum() - lengths).astype(np.int32)
        read = np.ones(count, np.int32) if encoder else lengths
        group = Group(prompts, read, np.array(limits, np.int32), first, lengths)
        shape = (count, aim.beams)
        found = Found(
            *(np.zeros(shape), np.zeros(shape), np.zeros(shape, np.int32), np.zeros((*shape, steps), np.int32)),
            *(np.zeros((*shape, steps), np.float32), np.zeros(count, np.int32)),
        )
        weights, tables = decoder.weights._replace(tokens=written.tokens), decoder.reach(prompts.shape[1] + steps - 1)
        if not search_group(Half(weights, tables, decoder.form), written.head, group, memory, aim, found):
            raise UserError(BROKEN)
        return found


def _head(weight: Floats, bias: Floats, scale: float) -> Head:
    """weight: Float[V D], bias: Float[V]."""
    return Head(len(weight), packed(weight), filled(bias), scale, np.zeros(0, np.int32))


def flat(inputs: Sequence[Sequence[int]]) -> list[int]:
    """All ids, one after another."""
    return [token for one in inputs for token in one]


def check(ids: Sequence[int], tokens: Floats) -> None:
    """IndexError: one has no vector. Compiled code looks at no bounds, and would take any memory for it."""
    if ids and not 0 <= min(ids) <= max(ids) < len(tokens):
        raise IndexError(f"ids from {min(ids)} to {max(ids)}, but there are vectors of {len(tokens)}")


def _hypotheses(found: Found, sentence: int, eos: int, count: int) -> list[Hypothesis]:
    made = []
    for place in range(min(count, int(found.done[sentence]))):
        size = int(found.size[sentence, place])
        ids, logs = found.ids[sentence, place, :size].tolist(), found.logs[sentence, place, :size].tolist()
        score, total, finished = float(found.score[sentence, place]), float(found.total[sentence, place]), ids[-1] == eos
        made.append(Hypothesis(ids[:-1] if finished else ids, score, total, logs, finished))
    return made

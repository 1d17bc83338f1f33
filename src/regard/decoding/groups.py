"""Diverse beam search (Vijayakumar et al. 2018): groups of beams, each of which avoids what those before it just wrote.

Every group is a search of its own over num_beams / num_beam_groups beams; to the state it is a further copy of its sentence.
In each step the groups of a sentence choose one after another, and a token costs a group `diversity_penalty` for each beam
of an earlier group that goes on with it in this step. As in the paper the price decides what is chosen and then is
forgotten: log-probabilities and scores are the model's own (transformers adds it to them for good). A group that is done
costs the others nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from regard.decoding.best import best_of
from regard.decoding.constraints import Constraints
from regard.decoding.options import Hypothesis
from regard.decoding.progress import Progress
from regard.decoding.search import Beams, Reader
from regard.decoding.watch import Cover
from regard.errors import UserError


def in_groups(
    reader: Reader, limits: Sequence[int], constraints: Constraints, progress: Progress | None, cover: Cover | None
) -> list[list[Hypothesis]]:
    """Answers to each sentence, best first; nothing is told to `progress`, for no answer is certain before the end.
    UserError: phrases are asked for, which need the beam as a whole."""
    options = constraints.options
    if constraints.phrases is not None:
        raise UserError("required and forbidden phrases need the whole beam: leave num_beam_groups at 1 with them")
    count = options.num_beam_groups
    lines = torch.arange(len(limits), device=reader.tokens.device).repeat_interleave(count)
    if constraints.prefix is not None:
        constraints.prefix = constraints.prefix[lines]
    if cover is not None:
        cover.real = cover.real[lines]
        cover.seen = cover.seen[lines]
    width = options.num_beams // count
    reader.start(max(limits), count)
    own = replace(options, num_beams=width, num_return=width, num_beam_groups=1)
    constraints.options = own
    beams = GroupedBeams(reader, own, [limits[line] for line in lines.tolist()], constraints)
    beams.groups, beams.price, beams.cover = count, options.diversity_penalty, cover
    found = beams.run()
    return [joined(found[at : at + count], options.num_return) for at in range(0, len(found), count)]


def joined(groups: Sequence[Sequence[Hypothesis]], count: int) -> list[Hypothesis]:
    """At most `count` answers of several groups, none twice: the best of each group, then the second ones, and so on;
    then sorted by score."""
    chosen: dict[tuple[tuple[int, ...], bool], Hypothesis] = {}
    for rank in range(max(map(len, groups))):
        turn = sorted((group[rank] for group in groups if rank < len(group)), key=lambda one: -one.score)
        for one in turn:
            if len(chosen) < count:
                chosen.setdefault((tuple(one.ids), one.finished), one)
    return sorted(chosen.values(), key=lambda one: -one.score)


class GroupedBeams(Beams):
    """Beam search in which `groups` neighbouring sentences are groups of one."""

    groups = 1
    price = 0.0

    def candidates(self, logits: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """As in Beams, but in an order that counts the price; the log-probabilities are without it."""
        norm = logits.logsumexp(1)
        if self.constraints.acts(step):
            logits = self.constraints.apply(logits, norm, self.ids, self.sentence.repeat_interleave(self.width))
        owner, group = self.sentence // self.groups, self.sentence % self.groups
        taken = logits.new_zeros(int(owner.max()) + 1, logits.shape[1])
        found: list[Tensor] = []
        for number in range(self.groups):
            at = (group == number).nonzero()[:, 0]
            if not len(at):
                continue
            parts = self._group(logits, norm, at, taken[owner[at]] * self.price)
            if not found:
                found = [part.new_empty(len(self.sentence), part.shape[1]) for part in parts]
            for whole, part in zip(found, parts, strict=True):
                whole[at] = part
            best, _, token, _ = parts
            go = (best > -math.inf) & (token != self.eos) & self.still[at, None] & (self.bound[at, None] > step + 1)
            rows, places = (go & (go.cumsum(1) <= self.options.num_beams)).nonzero(as_tuple=True)
            chosen = owner[at][rows], token[rows, places]
            taken.index_put_(chosen, taken.new_ones(len(rows)), accumulate=True)
        best, parent, token, log = found
        return best, parent, token, log

    def _group(self, logits: Tensor, norm: Tensor, at: Tensor, price: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The candidates of the sentences `at`. price: Float[len(at) V], of each token."""
        count, beams = 2 * self.options.num_beams, torch.arange(self.width, device=at.device)
        rows = at[:, None] * self.width + beams
        its, level = logits[rows.flatten()], norm[rows.flatten(), None]
        value, token = best_of(its - price.repeat_interleave(self.width, 0), count)
        ranks = (self.total[at].flatten()[:, None] + value - level).view(len(at), -1)
        missing = max(0, count - ranks.shape[1])
        if missing:
            ranks = functional.pad(ranks, (0, missing), value=-math.inf)
        rank, place = best_of(ranks, count)
        inside = place.clamp(max=ranks.shape[1] - missing - 1)
        parent, token = inside // value.shape[1], token.reshape(len(at), -1).gather(1, inside)
        row = torch.arange(len(at), device=at.device)[:, None] * self.width + parent
        log = its[row, token] - level[row, 0]
        best = self.total[at].gather(1, parent) + log
        return best.masked_fill(rank == -math.inf, -math.inf), parent, token, log

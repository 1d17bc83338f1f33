"""Every architecture takes new words without changing what it knew."""

from __future__ import annotations

import pytest
import torch

from regard.checkpoints.extend import filled
from regard.checkpoints.fit import extended

SOURCE, OUTPUTS = torch.tensor([[3, 4, 5, 6, 7]]), torch.tensor([[2, 5, 3, 4]])


def test_old_logits_stay_and_new_rows_are_means(family) -> None:
    model = family.make()
    halves = [half for half in (model.description.encoder, model.description.decoder) if half is not None]
    if not all(hasattr(half.embed, "vocab_size") for half in halves):
        pytest.skip("it reads no words")
    first, last = halves[0].embed.vocab_size, halves[-1].embed.vocab_size
    wider = filled(extended(model, first + 2, last + 2), {first: [3, 4], first + 1: [5]}, {last: [3, 4], last + 1: [5]})
    given = (SOURCE, OUTPUTS) if len(halves) == 2 else (SOURCE,)
    with torch.no_grad():
        before, after = model(*given), wider(*given)
    if before.logits is None:
        torch.testing.assert_close(after.vectors, before.vectors, rtol=0, atol=1e-12)
        return
    size = before.logits.shape[-1]
    torch.testing.assert_close(after.logits[..., :size], before.logits, rtol=0, atol=1e-12)
    if after.logits.shape[-1] > size:  # the new words are as likely as their pieces are in the mean
        wanted = torch.stack([before.logits[..., [3, 4]].mean(-1), before.logits[..., 5]], -1)
        torch.testing.assert_close(after.logits[..., size:], wanted, rtol=0, atol=1e-9)
    table = wider.encoder.embed.tokens.weight if wider.encoder is not None else wider.decoder.embed.tokens.weight
    torch.testing.assert_close(table[first], table[[3, 4]].mean(0))

"""The largest batch that fits into memory, found by trying."""

from __future__ import annotations

import gc
from collections.abc import Callable

import torch

from regard.errors import UserError

_SIGNS = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on whichever device."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _SIGNS)


def _fits(try_step: Callable[[int], None], budget: int) -> bool:
    try:
        try_step(budget)
        return True
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
    # Only here, after the error and the frames it holds are gone, can what the step allocated be freed.
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return False


def find_budget(
    try_step: Callable[[int], None], start: int, limit: int, precision: float = 1 / 32, smallest: int = 1
) -> int:
    """The largest token budget that does not run out of memory.

    try_step(budget) does one training step with batches of that many tokens, as full as they get. The budget is doubled
    from `start` up to `limit`, then bisected until the gap is at most `precision` of it (0: to the token); if `start`
    does not fit, smaller ones down to `smallest` are tried. Errors other than exhausted memory pass through. A system
    that kills processes instead of refusing memory (Linux on CPUs, by default) gives no sign: set `limit` there.
    Raises UserError if not even `smallest` fits.
    """
    if not 1 <= smallest <= start <= limit:
        raise ValueError(f"need 1 <= smallest <= start <= limit, not {smallest}, {start}, {limit}")
    good, bad = 0, limit + 1
    trial = start
    while trial < bad and trial > good:
        if _fits(try_step, trial):
            good, trial = trial, min(trial * 2, limit)
        else:
            bad = trial
            break
    while bad - max(good, smallest - 1) > max(1, int(precision * good)):
        trial = (max(good, smallest - 1) + bad) // 2
        if _fits(try_step, trial):
            good = trial
        else:
            bad = trial
    if good < smallest:
        raise UserError(f"memory runs out even with {smallest} tokens a batch: make the model smaller")
    return good

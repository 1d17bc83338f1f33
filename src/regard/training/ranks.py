"""The processes of one training: torchrun starts them, torch.distributed joins them; without torchrun there is one.

What only one may decide, the first decides and all learn; what all have found is gathered in order. The small numbers that
are agreed on go between CPUs (gloo), so that a GPU need not be waited for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import distributed

from regard.errors import UserError

T = TypeVar("T")
U = TypeVar("U")

MEETING = timedelta(minutes=2)
"""How long they try to find each other."""
PATIENCE = timedelta(hours=6)
"""How long ranks wait for each other: as long as one may prepare data. A rank that dies is noticed at once by torchrun."""


def started() -> bool:
    """Whether torchrun started several processes, joined already or not."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def join(cpu: bool = False) -> None:
    """Join the processes that torchrun started, each with a GPU of its own unless `cpu`; nothing without torchrun.
    UserError: they do not find each other."""
    if not started() or distributed.is_initialized():
        return
    gpu = torch.cuda.is_available() and not cpu
    if gpu:
        own = int(os.environ.get("LOCAL_RANK", "0"))
        if own >= torch.cuda.device_count():
            raise UserError(f"{torch.cuda.device_count()} GPUs are too few for process {own + 1}: lower --nproc-per-node")
        torch.cuda.set_device(own)
    try:
        store, own, count = next(distributed.rendezvous("env://", timeout=MEETING))  # pyright: ignore
        of = {"store": distributed.PrefixStore(_attempt(), store), "rank": own, "world_size": count}  # pyright: ignore
        distributed.init_process_group("cpu:gloo,cuda:nccl" if gpu else "gloo", timeout=MEETING, **of)
    except RuntimeError as error:
        what = " ".join(str(error).split())[:200]
        raise UserError(f"the processes did not find each other in {MEETING}: start them anew ({what})") from None
    store.set_timeout(PATIENCE)
    distributed.distributed_c10d._set_pg_timeout(PATIENCE)


def _attempt() -> str:
    """What parts the store of these processes from that of others before them. An agent of one machine keeps its store when
    it starts processes anew, and whoever is faster would find the addresses of the dead. Agents of several machines may
    count their restarts differently."""
    alone = os.environ.get("GROUP_WORLD_SIZE") == "1"
    return f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}" if alone else "all"


def leave() -> None:
    """Part from the other processes, when all have come this far."""
    if distributed.is_initialized():
        distributed.barrier()
        distributed.destroy_process_group()


def world() -> int:
    """How many processes there are."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    """The number of this one, from 0."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def main() -> bool:
    """Whether this process writes files and speaks."""
    return rank() == 0


def wait() -> None:
    """Until all have come this far."""
    if world() > 1:
        gather(None)


def first(work: Callable[[], T]) -> T:
    """What `work` gives on the first rank, on all ranks. A UserError or OSError there is one everywhere."""
    if world() == 1:
        return work()
    told: list[Any] = [None, None]
    if main():
        try:
            told[0] = work()
        except (UserError, OSError) as error:
            told[1] = error
    distributed.broadcast_object_list(told, src=0)
    if told[1] is not None:
        raise told[1]
    return told[0]


def in_turn(work: Callable[[], T]) -> T:
    """What `work` gives, on one rank of each machine first: the others find in its caches what it has made. A UserError of
    one is one of all."""
    if world() == 1:
        return work()
    made: list[T] = []
    for leads in (True, False):
        error: UserError | None = None
        if leads == (int(os.environ.get("LOCAL_RANK", "0")) == 0):
            try:
                made.append(work())
            except UserError as mistake:
                error = mistake
        found = next((one for one in gather(error) if one is not None), None)
        if found is not None:
            raise found
    return made[0]


def gather(mine: T) -> list[T]:
    """What each rank has, in their order, on all."""
    if world() == 1:
        return [mine]
    found: list[Any] = [None] * world()
    distributed.all_gather_object(found, mine)
    return found


def total(values: Sequence[float]) -> list[float]:
    """Numbers summed over all ranks, in double precision."""
    if world() == 1:
        return list(values)
    summed = torch.tensor(values, dtype=torch.float64)
    distributed.all_reduce(summed)
    return summed.tolist()


def mine(items: Sequence[T]) -> Sequence[T]:
    """This rank's share: every world-th item."""
    return items[rank() :: world()]


def spread(items: Sequence[T], work: Callable[[list[T]], list[U]]) -> list[U]:
    """`work` done to this rank's share of the items; the answers to all of them, in order, on all ranks."""
    part = list(mine(items))
    answers = work(part) if part else []
    if world() == 1:
        return answers
    found: list[Any] = [None] * len(items)
    for number, one in enumerate(gather(answers)):
        found[number :: world()] = one
    return found

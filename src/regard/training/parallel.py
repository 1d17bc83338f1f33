"""One model on many devices: torch's own DDP or FSDP2 around it, activation checkpointing inside it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import wraps
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from regard.architecture import Model, Targets
from regard.batches import Batch
from regard.errors import UserError
from regard.training import ranks
from regard.training.sections import Training

Kind = Literal["none", "ddp", "fsdp"]


class Summed(nn.Module):
    """A model with its loss: Batch -> Float[], summed over the predicted positions, penalties included. What DDP and FSDP
    wrap, for they want a tensor out."""

    def __init__(self, model: Model, smoothing: float) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(self, batch: Batch) -> Tensor:
        """The loss of a batch with targets."""
        assert batch.targets is not None
        answer = self.model(
            batch.inputs,
            batch.outputs,
            segments=batch.segments,
            layout=batch.layout,
            output_layout=batch.output_layout,
            targets=Targets(batch.targets, self.smoothing),
        )
        return answer.loss_sum + sum(answer.penalties.values())


def kind_of(its: Training) -> Kind:
    """How a recipe's training is spread over the processes there are: not at all where there is one. UserError for what
    cannot be."""
    if its.parallel == "none" and ranks.world() > 1:
        raise UserError(f"training.parallel: none is for one process, and there are {ranks.world()}: choose ddp or fsdp")
    if ranks.world() == 1:
        return "none"
    if its.parallel != "fsdp":
        return "ddp"
    if its.precision == "fp16":
        raise UserError("training.precision: fsdp has no fp16 here: choose bf16, which needs no scaling")
    if its.batch_tokens == "auto":
        raise UserError("training.batch_tokens: auto tries sizes on one process alone: with fsdp give a number")
    return "fsdp"


def blocks_of(model: Any) -> list[nn.Module]:
    """The blocks of a model's halves, in order; [] where its layers are no blocks (recurrent nets)."""
    halves = [half for half in (model.encoder, model.decoder) if half is not None]
    return [block for half in halves for block in getattr(half, "blocks", ())]


def checkpoint_activations(model: Model) -> None:
    """Activation checkpointing (Chen et al. 2016), in place: of each block only what it read is kept, and its forward pass
    is done again in the backward pass. UserError for a model without blocks."""
    blocks = blocks_of(model)
    if not blocks:
        raise UserError("training.activation_checkpointing: this model has no blocks to compute anew: leave it false")
    for block in blocks:
        block.forward = _again(block.forward)


@contextlib.contextmanager
def checkpointing(model: Model, wanted: bool) -> Iterator[None]:
    """Within, a model's blocks are computed anew in the backward pass if `wanted`, and are not otherwise; whatever holds
    outside holds again afterwards."""
    blocks = blocks_of(model)
    before = [vars(block).pop("forward", None) for block in blocks]
    try:
        if wanted:
            checkpoint_activations(model)
        yield
    finally:
        for block, forward in zip(blocks, before, strict=True):
            vars(block).pop("forward", None)
            if forward is not None:
                block.forward = forward


def _again(forward: Any) -> Any:
    @wraps(forward)
    def run(*args: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **named)
        return checkpoint(forward, *args, use_reentrant=False, **named)

    return run


def uses_all(model: Model, batch: Batch) -> bool:
    """Whether a row of a batch gives every weight that is learned a gradient: some weights serve other tasks (Longformer's
    global tokens, XLNet's segments), and DDP must look for them."""
    Summed(model, 0.0)(batch.part(0, len(batch))).backward()
    found = all(p.grad is not None for p in model.parameters() if p.requires_grad)
    model.zero_grad(set_to_none=True)
    return found


def wrap(model: Model, its: Training, kind: Kind, device: torch.device, all_used: bool = True) -> nn.Module:
    """A model on its device with its loss, spread over the processes as `kind` says. fsdp: each block and the rest are cut
    over all of them; weights, gradients and the optimiser's memory are fp32, and with bf16 what is exchanged is half as
    much. all_used: every weight has a gradient after every batch (see `uses_all`)."""
    whole = Summed(model, its.label_smoothing)
    if kind != "fsdp":
        whole.to(device)
        if kind == "none":
            return whole
        return DistributedDataParallel(whole, gradient_as_bucket_view=True, find_unused_parameters=not all_used)
    mesh = init_device_mesh(device.type, (ranks.world(),))
    half = its.precision == "bf16"
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if half else None, reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    for block in blocks_of(model):
        fully_shard(block, mesh=mesh, mp_policy=policy)
    cut: Any = fully_shard(whole, mesh=mesh, mp_policy=policy)
    if hasattr(cut, "set_reduce_scatter_unused_params"):  # since torch 2.13
        cut.set_reduce_scatter_unused_params(True)
    return whole


def unsynchronised(model: nn.Module) -> contextlib.AbstractContextManager[Any]:
    """Gradients within the block stay on this process and add up. FSDP exchanges them all the same: whole gradients would
    take the memory that it is there to save."""
    return model.no_sync() if isinstance(model, DistributedDataParallel) else contextlib.nullcontext()


@contextlib.contextmanager
def gathered(model: nn.Module) -> Iterator[None]:
    """Within the block each process has the whole weights of a model that FSDP cuts, and runs it without the others. They
    are for reading. All processes enter and leave."""
    parts = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for part in parts:
        part.unshard()
        part.set_reshard_after_forward(False, recurse=False)
    try:
        yield
    finally:
        for part in parts:
            part.reshard()
            part.set_reshard_after_forward(part is not model, recurse=False)


def whole(value: Tensor) -> Tensor:
    """All of a tensor of which each process has a piece, on each of them; others as they are. All processes call it."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def collected(model: nn.Module) -> dict[str, Tensor]:
    """The whole weights of a model that FSDP cuts, in fp32 whatever is exchanged, by name on the CPU of the first process;
    {} on the others, which have one at a time. All processes call it, while nothing is gathered."""
    found: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        value = whole(parameter.detach())
        if ranks.main():
            found[name] = value.cpu()
    return found


def like(value: Tensor, pattern: Tensor) -> Tensor:
    """A whole tensor as `pattern` is: on its device and, if FSDP has cut that, this process's piece of it."""
    value = value.to(pattern.device)
    if isinstance(pattern, DTensor) and not isinstance(value, DTensor) and value.shape == pattern.shape:
        return distribute_tensor(value, pattern.device_mesh, pattern.placements, src_data_rank=None)
    return value


def kept(value: Tensor) -> Tensor:
    """A tensor as it goes into a checkpoint: whole ones on the CPU, what FSDP cuts where it is."""
    value = value.detach()
    return value if isinstance(value, DTensor) else value.cpu().contiguous()


def put(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Put whole tensors into a model's parameters of the same names, cut or not."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in values:
                parameter.copy_(like(values[name], parameter))


def norm_of(parameters: list[nn.Parameter], longest: float) -> float:
    """The length of the whole gradient, over all pieces; a longer one than `longest` is shortened to it."""
    norm = torch.nn.utils.clip_grad_norm_(parameters, longest)
    return float(whole(norm))

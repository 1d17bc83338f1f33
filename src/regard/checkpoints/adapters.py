"""LoRA updates in files: peft's folder format, the model with the updates merged, and such a folder opened on its base."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

import regard
from regard.architecture import Description, Model
from regard.checkpoints.bounds import LARGEST
from regard.checkpoints.folders import CONFIG as MODEL_CONFIG
from regard.checkpoints.folders import OWN, OWN_VERSION, foreign, load_model, locate, unwrap
from regard.checkpoints.fresh import load_with_head
from regard.checkpoints.rules import Rule, same_names
from regard.checkpoints.tensors import read_json, save_tensors
from regard.errors import UserError
from regard.files import write_json
from regard.layers.lora import Adapted, Update, adapted, adapted_layer, rows_of

CONFIG, TENSORS, PREFIX = "adapter_config.json", "adapter_model.safetensors", "base_model.model."


@dataclass(frozen=True, eq=False)
class Place:
    """A layer of theirs inside a layer of ours. rows: Int[R], which rows of ours its rows are. turned: its matrix is stored
    the other way round."""

    ours: str
    theirs: str
    rows: Tensor
    turned: bool


def merged(model: nn.Module) -> Model:
    """A model of the same description with the updates in its weights, and without updates."""
    model = unwrap(model)
    layers = adapted(model)
    state = {name: t for name, t in model.state_dict().items() if ".updates." not in name}
    for name, layer in layers.items():
        state[f"{name}.weight"] = layer.merged_weight()
    first = next(model.parameters())
    with torch.random.fork_rng(devices=[]):  # what is drawn here is overwritten, and must not change what is drawn next
        new = model.description.build().to(first.device, first.dtype)
    new.load_state_dict(state)
    return new.train(model.training)


def places(model: Model) -> list[Place]:
    """Where our linear layers stand in the class of transformers that computes this model; under our own names if there is
    none."""
    found = []
    for rule in _rules(model):
        name = rule.ours.removesuffix(".weight")
        layer = model.get_submodule(name) if rule.ours.endswith(".weight") else None
        if not isinstance(layer, nn.Linear):
            continue
        rows, columns = layer.weight.shape
        numbers = torch.arange(rows)[:, None].expand(rows, columns)
        for theirs, piece in zip(rule.names, rule.change.give(numbers, len(rule.names)), strict=True):
            turned = rows > 1 and bool((piece[0] != piece[0, 0]).any())
            found.append(Place(name, theirs.removesuffix(".weight"), piece[0] if turned else piece[:, 0], turned))
    return found


def _rules(model: Model) -> Iterator[Rule]:
    """The rules of this model's tensors, each for one layer."""
    names = [name for name in model.state_dict() if ".updates." not in name]
    found = foreign(model.description)
    weights = same_names(names) if found is None else found[1]
    for rule in weights.rules:
        if "#" not in rule.ours:
            if rule.ours in names:
                yield rule
            continue
        for number in range(len(names)):
            one = rule.at(str(number))
            if one.ours not in names:
                break
            yield one


def save_adapter(folder: str | Path, model: nn.Module, base: str = "", meta: Mapping[str, Any] | None = None) -> None:
    """Write the updates of a model, and what else of it is learned (a fresh head), as a folder that peft opens on the class
    of transformers for this model. base: the folder or name of the model beneath. meta: what else is known, as for
    `save_model`; peft leaves it alone."""
    model, folder = unwrap(model), Path(folder)
    layers = adapted(model)
    if not layers:
        raise UserError(f"{folder}: this model has no LoRA updates to save")
    tensors: dict[str, Tensor] = {}
    targets, ranks, alphas, turned = [], {}, {}, False
    usual = next(update for layer in layers.values() for _, update in layer.parts)
    for place in places(model):
        if place.ours not in layers:
            continue
        pair = _joined(layers[place.ours], place.rows)
        if pair is None:
            continue
        a, b = pair
        tensors[f"{PREFIX}{place.theirs}.lora_A.weight"], tensors[f"{PREFIX}{place.theirs}.lora_B.weight"] = a, b
        targets.append(place.theirs)
        turned |= place.turned
        if len(a) != usual.rank:
            ranks[place.theirs], alphas[place.theirs] = len(a), usual.scale * len(a)
    learned = _learned(model)
    tensors |= {PREFIX + name: tensor for name, tensor in learned.items()}
    config = {
        "peft_type": "LORA",
        "task_type": _task_type(model),
        "base_model_name_or_path": base,
        "r": usual.rank,
        "lora_alpha": usual.alpha,
        "lora_dropout": usual.dropout.p,
        "target_modules": sorted(targets),
        "rank_pattern": ranks,
        "alpha_pattern": alphas,
        "modules_to_save": sorted({name.rpartition(".")[0] for name in learned}) or None,
        "fan_in_fan_out": turned,
        "bias": "none",
        "inference_mode": True,
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, folder / TENSORS)
    write_json(folder / CONFIG, config)
    if meta:
        write_json(folder / OWN, {"version": OWN_VERSION, "regard": regard.__version__} | dict(meta))


def _joined(layer: Adapted, rows: Tensor) -> tuple[Tensor, Tensor] | None:
    """The updates that reach these rows of a layer, as one: a Float[r in], b Float[R r]. Updates of other rows of the same
    matrix of theirs stand beside each other, each zero where it does not reach."""
    parts = []
    for _, update in layer.parts:
        inside = (rows >= update.first) & (rows < update.after)
        if inside.any():
            b = update.b.detach().cpu()
            part = b.new_zeros(len(rows), update.rank)
            part[inside] = b[rows[inside] - update.first]
            parts.append((update.a.detach().cpu(), part))
    if not parts:
        return None
    return torch.cat([a for a, _ in parts]), torch.cat([b for _, b in parts], 1)


def _learned(model: Model) -> dict[str, Tensor]:
    """Their names and the tensors of what is learned whole beside the updates."""
    found: dict[str, Tensor] = {}
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad and ".updates." not in name}
    for rule in _rules(model):
        if rule.ours in parameters:
            given = rule.change.give(parameters[rule.ours].detach().cpu(), len(rule.names))
            found |= dict(zip(rule.names, given, strict=True))
    return found


def _task_type(model: Model) -> str | None:
    pool = getattr(model.description.head, "pool", None)
    if hasattr(model.description.head, "classes"):
        return "TOKEN_CLS" if pool == "tokens" else "SEQ_CLS"
    if model.decoder is None:
        return None if pool is None else "FEATURE_EXTRACTION"
    return "CAUSAL_LM" if model.encoder is None else "SEQ_2_SEQ_LM"


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds updates alone."""
    return (folder / CONFIG).is_file() and not (folder / MODEL_CONFIG).is_file()


HEADS = {"SEQ_CLS": "class", "TOKEN_CLS": "tokens"}
"""Heads by peft's names of tasks, for updates of a model that had no such head of as many classes."""


def open_model(
    folder: Path, device: str | torch.device | None = None, dtype: str | torch.dtype | None = None
) -> tuple[Model, Description, dict[str, Any], Path]:
    """`load_model` of a folder, or of the model that a folder of updates names, with the updates in its weights; and the
    folder where its tokenizers are. UserError: the updates name no model, or one that is not there or does not fit."""
    if not is_adapter(folder):
        return *load_model(folder, device, dtype), folder
    config = read_json(folder / CONFIG)
    base = _base(folder, config)
    own = read_json(folder / OWN) if (folder / OWN).is_file() else {}
    if own.get("version", OWN_VERSION) != OWN_VERSION:
        raise UserError(f"{folder / OWN}: version {own['version']}; this regard reads version {OWN_VERSION}")
    model, description, meta = load_model(base, device, dtype)
    head, labels = HEADS.get(str(config.get("task_type"))), own.get("labels")
    if head is not None and isinstance(labels, list) and getattr(description.head, "classes", None) != len(labels):
        with torch.random.fork_rng(devices=[]):  # what is drawn here is overwritten
            model, _, meta = load_with_head(base, head, len(labels), device, dtype)
    load_adapter(folder, model)
    plain = merged(model).eval()
    meta |= {name: value for name, value in own.items() if name not in ("version", "regard", "description")}
    return plain, plain.description, meta, base


def _base(folder: Path, config: Mapping[str, Any]) -> Path:
    """The folder of the model that updates belong to: as it is told, or beside them, or on the Hub."""
    told = config.get("base_model_name_or_path")
    if not isinstance(told, str) or not told:
        raise UserError(f"{folder / CONFIG}: base_model_name_or_path names no model: write there to which one this belongs")
    beside = folder / told
    try:
        return locate(beside if beside.is_dir() else told)
    except UserError as error:
        raise UserError(f"{folder}: these are updates of the model {told}: {error}") from None


def load_adapter(folder: str | Path, model: nn.Module) -> list[str]:
    """Put the updates of a folder in peft's format on a model of the class that they were made for, and the tensors that
    were learned whole in their places. Gives the names of our layers; UserError names what does not fit."""
    model, folder = unwrap(model), Path(folder)
    if not (folder / CONFIG).is_file() or not (folder / TENSORS).is_file():
        raise UserError(f"{folder}: has no {CONFIG} and {TENSORS}: it is no folder of LoRA updates")
    config = read_json(folder / CONFIG)
    _check(config, folder)
    tensors = {name.removeprefix(PREFIX): t for name, t in _tensors(folder / TENSORS).items()}
    dropout = _number(config, "lora_dropout", folder)
    if not 0 <= dropout < 1:
        raise UserError(f"{folder / CONFIG}: lora_dropout is {dropout}, should be from 0 to below 1")
    found: list[str] = []
    for place in places(model):
        a = tensors.pop(f"{place.theirs}.lora_A.weight", None)
        b = tensors.pop(f"{place.theirs}.lora_B.weight", None)
        if a is None or b is None:
            continue
        _install(model, place, a, b, _alpha(config, place.theirs, folder), dropout, folder)
        found.append(place.ours)
    ours = dict(model.named_parameters())
    for rule in _rules(model):
        if all(name in tensors for name in rule.names):
            _replace(ours[rule.ours], rule, [tensors.pop(name) for name in rule.names], folder)
    if tensors:
        raise UserError(f"{folder / TENSORS}: this model has no place for {', '.join(sorted(tensors)[:5])}")
    return found


def _check(config: dict[str, Any], folder: Path) -> None:
    """UserError for what peft can do and regard cannot."""
    wrong = [key for key in ("use_dora", "use_rslora", "alora_invocation_tokens", "layer_replication") if config.get(key)]
    if config.get("peft_type") != "LORA" or wrong or config.get("bias", "none") != "none":
        what = f"{', '.join(wrong)}" if wrong else f"peft_type {config.get('peft_type')}, bias {config.get('bias')}"
        raise UserError(f"{folder / CONFIG}: {what} is not known; regard reads plain LoRA")


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: damaged or no safetensors file ({error})") from None


def _replace(ours: Tensor, rule: Rule, theirs: list[Tensor], folder: Path) -> None:
    """Put tensors that were learned whole in the place of ours."""
    try:
        new = rule.change.take(theirs)
    except (RuntimeError, IndexError) as error:
        raise UserError(f"{folder / TENSORS}: {rule.names[0]} does not fit this model ({error})") from None
    if new.shape != ours.shape:
        raise UserError(f"{folder / TENSORS}: {rule.names[0]} does not fit this model")
    with torch.no_grad():
        ours.copy_(new)


def _number(config: Mapping[str, Any], key: str, folder: Path, usual: float | None = 0.0) -> float:
    value = config.get(key)
    value = usual if value is None else value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
        raise UserError(f"{folder / CONFIG}: {key} is {value!r}, should be a number")
    return float(value)


def _alpha(config: Mapping[str, Any], name: str, folder: Path) -> float:
    patterns = config.get("alpha_pattern") or {}
    if not isinstance(patterns, Mapping):
        raise UserError(f"{folder / CONFIG}: alpha_pattern should be an object")
    for pattern in patterns:
        if name == pattern or name.endswith(f".{pattern}"):
            return _number(patterns, pattern, folder)
    return _number(config, "lora_alpha", folder, None)


def _install(model: Model, place: Place, a: Tensor, b: Tensor, alpha: float, dropout: float, folder: Path) -> None:
    first, after = int(place.rows.min()), int(place.rows.max()) + 1
    layer = adapted_layer(model, place.ours)
    if (
        after - first != len(place.rows)
        or a.shape[1:] != (layer.in_features,)
        or not len(a)
        or b.shape != (len(place.rows), len(a))
    ):
        raise UserError(f"{folder / TENSORS}: the update of {place.theirs} does not fit this model")
    slices = {rows: name for name, rows in rows_of(model, place.ours).items()}
    update = Update(layer.in_features, first, after, len(a), alpha, dropout)
    layer.add(slices.get((first, after), f"rows_{first}"), update)
    with torch.no_grad():
        update.a.copy_(a)
        update.b[place.rows - first] = b.to(update.b)

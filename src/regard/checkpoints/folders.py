"""Model folders: what `transformers` opens too, wherever one of its classes computes the same function.

`config.json` (model_type of transformers, or `regard`), `model.safetensors`, `generation_config.json`, the tokenizers'
files, `README.md` (model card), and `regard.json`: the description and what is known about the model's origin and use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

import regard
from regard import models
from regard.architecture import Description, Model, from_json, to_json
from regard.checkpoints.bounds import check_known, check_numbers
from regard.checkpoints.card import card, task_of
from regard.checkpoints.fit import check_fit, ids_of
from regard.checkpoints.formats import Format, read_config, write_config
from regard.checkpoints.generation import GENERATION, read_generation, written
from regard.checkpoints.known import sifted
from regard.checkpoints.preprocessor import PREPROCESSOR
from regard.checkpoints.replace import cut_off, replaced
from regard.checkpoints.rules import Weights, give, same_names, take
from regard.checkpoints.tensors import FILE, INDEX, SHARD_BYTES, TensorFiles, read_json, write_tensors
from regard.errors import UserError
from regard.files import write_json, write_text

CONFIG, OWN, CARD = "config.json", "regard.json", "README.md"
FETCHED = ("*.json", "*.safetensors", "*.model", "*.spm", "*.jinja")
"""What is fetched of a model on the Hub, beside its card."""
OWN_VERSION = 1
OWN_IDS = {"bos": 2, "eos": 3}
"""Ids of the start and the end mark in every tokenizer that regard trains."""
SEARCH = {"num_beams": 5, "length_penalty": 1.0}
"""The search that a folder asks for where its maker said nothing else."""


def unwrap(model: nn.Module) -> Model:
    """The Model inside a compiled or distributed wrapper."""
    while True:
        inner = model._modules.get("_orig_mod") or (None if "description" in vars(model) else model._modules.get("module"))
        if inner is None:
            return model  # type: ignore[return-value]
        model = inner


def named_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers that are saved, each once under its first name, whatever wraps or compiles the model."""
    model = unwrap(model)
    kept, seen = {}, set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            kept[name.replace("_orig_mod.", "")] = tensor
    return kept


# ---------------------------------------------------------------------------------------------------------- writing


def foreign(description: Description) -> tuple[dict[str, Any], Weights] | None:
    """The configuration and table of the class of transformers that computes this description; None: there is none."""
    for module in map(models.find, models.names()):
        forms = getattr(module, "FORMATS", ())
        arguments = module.arguments(description) if forms else None
        if arguments is None:
            continue
        for form in forms:
            config = write_config(form, arguments)
            if config is not None:
                return config, form.weights(**arguments)
    return None


def save_model(
    folder: str | Path,
    model: nn.Module,
    tokenizers: Any = None,
    meta: Mapping[str, Any] | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write a model folder, whole or not at all; files of other kinds that the folder holds stay as they are.

    tokenizers: a `Tokenizers`, or None if the folder is to have none (then meta["ids"] may say bos and eos). meta: what
    else is known: source, target (languages), data, recipe, training, search, scores (name -> value, signature), labels
    (names of classes), images (what preprocessor_config.json says). The weights keep their number type; tied ones are
    stored once. UserError: the folder cannot be written, or model and tokenizer do not fit.
    """
    model, folder, meta = unwrap(model), Path(folder), dict(meta or {})
    told = {name: value for name, value in meta.pop("ids", {}).items() if value is not None or name == "mark"}
    ids = (ids_of(tokenizers) if tokenizers is not None else OWN_IDS) | told
    check_fit(model.description, ids, tokenizers, folder)
    tensors = named_tensors(model)
    config, weights = foreign(model.description) or ({"model_type": "regard"}, same_names(tensors))
    kind = str(next(iter(tensors.values())).dtype).removeprefix("torch.")
    config |= _ids_config(ids, model, meta) | {"pad_token_id": model.description.pad, "dtype": kind}
    if meta.get("labels"):
        config |= _labels_config(meta["labels"])
    own = {"version": OWN_VERSION, "regard": regard.__version__, "description": to_json(model.description)} | meta
    usual = SEARCH if model.encoder is not None else SEARCH | {"num_beams": 1}  # a language model goes on greedily
    search = usual | {k: v for k, v in dict(meta.get("search") or {}).items() if v is not None}
    with replaced(folder, CONFIG, _is_ours) as new:
        write_tensors(new, give(weights, tensors), shard_bytes)
        if tokenizers is not None:
            tokenizers.save(new)
        write_json(new / CONFIG, config)
        if meta.get("images"):
            write_json(new / PREPROCESSOR, meta["images"])
        if model.decoder is not None:
            limit = config.get("max_position_embeddings") or model.decoder.limit or 1024
            write_json(new / GENERATION, written(config, search, limit, meta.get("generation") or {}))
        write_json(new / OWN, own)
        count = sum(p.numel() for p in model.parameters())
        known = search if model.decoder is not None else {}
        text = card(meta, known, count, config["model_type"] != "regard", task_of(model.description))
        write_text(new / CARD, text)


def _ids_config(ids: Mapping[str, int | None], model: Model, meta: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bos_token_id": ids.get("mark", ids.get("bos")),
        "eos_token_id": meta.get("ends", ids.get("eos")),
    }
    if model.encoder is not None and model.decoder is not None:
        start = ids.get("bos") if ids.get("bos") is not None else model.description.pad
        found |= {"decoder_start_token_id": start, "forced_eos_token_id": None}
    return found


def _labels_config(labels: Sequence[str]) -> dict[str, Any]:
    numbered = list(enumerate(labels))
    return {"id2label": {str(i): name for i, name in numbered}, "label2id": {name: i for i, name in numbered}}


def _is_ours(name: str) -> bool:
    shard = name.startswith("model-0") and name.endswith(".safetensors")
    return shard or name in (
        FILE,
        INDEX,
        "tokenizer.json",
        "target_tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "chat_template.jinja",
        PREPROCESSOR,
        GENERATION,
        "verify.json",  # a certificate of other weights
    )


# ---------------------------------------------------------------------------------------------------------- reading


def locate(name: str | Path) -> Path:
    """The folder of a model: a path, or `owner/name` on the Hugging Face Hub, downloaded once. UserError says what was
    looked for."""
    path = Path(name)
    if path.is_dir():
        if not (path / CONFIG).is_file() and (kept := cut_off(path)):
            raise UserError(
                f"{path}: a save into it was cut off; {kept[-1]} holds the new model whole: use that, or save again"
            )
        return path
    if path.exists():
        raise UserError(f"{path}: is a file; a model is a folder with config.json and {FILE}")
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", str(name)):
        raise UserError(f"{path}: there is no such folder")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(str(name), allow_patterns=[*FETCHED, CARD]))
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).split("\n")[0]
        raise UserError(
            f"{name}: there is no such folder, and no such model could be fetched from the Hub ({reason})"
        ) from None


@dataclass(frozen=True)
class Plan:
    """What a folder says it holds: a description, the table of its tensors (None: regard's own names), ids, and meta."""

    description: Description
    weights: Weights | None
    ids: dict[str, int | None]
    meta: dict[str, Any]


def read_plan(folder: Path, files: TensorFiles | None = None) -> Plan:
    """Read config.json and regard.json. files: looked into for what a configuration does not tell."""
    config = read_json(folder / CONFIG)
    own = read_json(folder / OWN) if (folder / OWN).is_file() else {}
    if own.get("version", OWN_VERSION) != OWN_VERSION:
        raise UserError(f"{folder / OWN}: version {own['version']}; this regard reads version {OWN_VERSION}")
    ids, ends = _ids(config, folder)
    check_known(own, str(folder / OWN))
    meta = {key: value for key, value in own.items() if key not in ("version", "regard", "description")}
    told = _told(own, folder)
    check_numbers(told, str(folder / OWN), _count(files))
    meta |= {"ends": ends} if len(ends) > 1 else {}
    if not own:
        meta["generation"] = read_generation(folder, config)
    if (folder / PREPROCESSOR).is_file():
        meta["images"] = read_json(folder / PREPROCESSOR)
    if "labels" not in meta and (labels := _labels(config, folder)):
        meta["labels"] = labels
    if config.get("model_type") == "regard":
        if told is None:
            raise UserError(f"{folder}: config.json says model_type regard, but no {OWN} describes the model")
        return _checked(Plan(told, None, ids, meta), folder)
    module, form = chosen_format(config, folder)
    where = str(folder / CONFIG)
    with doubted(where):
        arguments = read_config(form, sifted(form, config, where), where)
        arguments |= form.peek(files.shapes, files.read) if files is not None else {}
        check_numbers(arguments, where, _count(files))
        description = module.describe(**arguments)
    if told is not None and files is not None and told != description:
        raise UserError(f"{folder}: {CONFIG} and {OWN} describe different models; delete {OWN} to go by {CONFIG}")
    with doubted(where):
        return _checked(Plan(description, form.weights(**(module.arguments(description) or arguments)), ids, meta), folder)


def _checked(plan: Plan, folder: Path) -> Plan:
    """UserError for several ids that end a text where the search knows one."""
    if plan.meta.get("ends") and plan.description.encoder is not None and plan.description.decoder is not None:
        raise UserError(f"{folder / CONFIG}: eos_token_id is {plan.meta['ends']}, should be one number")
    return plan


def _labels(config: Mapping[str, Any], folder: Path) -> list[str]:
    """The names of classes; [] where they say nothing."""
    try:
        named = sorted((int(number), str(name)) for number, name in dict(config.get("id2label") or {}).items())
        if [number for number, _ in named] != list(range(len(named))):
            raise ValueError
    except (TypeError, ValueError):
        raise UserError(f"{folder / CONFIG}: id2label should give each number of a class, from 0 on, its name") from None
    labels = [name for _, name in named]
    return [] if labels == [f"LABEL_{number}" for number in range(len(labels))] else labels


def _told(own: Mapping[str, Any], folder: Path) -> Description | None:
    if "description" not in own:
        return None
    for name in models.names():  # their parts become known by being imported
        models.find(name)
    try:
        return from_json(own["description"])
    except (ValueError, RecursionError) as error:
        raise UserError(f"{folder / OWN}: {error}") from None


def chosen_format(config: Mapping[str, Any], folder: Path) -> tuple[ModuleType, Format]:
    """By model_type, and among the classes of that type by `architectures`; where that is missing, the usual class."""
    known: dict[str, list[tuple[ModuleType, Format]]] = {}
    for name in models.names():
        module = models.find(name)
        for form in getattr(module, "FORMATS", ()):
            known.setdefault(form.model_type, []).append((module, form))
    kind, named = config.get("model_type"), config.get("architectures") or []
    if not isinstance(named, list):
        raise UserError(f"{folder / CONFIG}: architectures is {named!r}, should be a list of names")
    if not isinstance(kind, str) or kind not in known:
        raise UserError(f"{folder / CONFIG}: model_type is {kind!r}; regard reads {', '.join(sorted(known))} and regard")
    fitting = [found for found in known[kind] if not named or found[1].architecture in named]
    if not fitting:
        there = ", ".join(form.architecture for _, form in known[kind])
        raise UserError(f"{folder / CONFIG}: architectures is {', '.join(map(str, named))}; of {kind} regard reads {there}")
    return fitting[0]


def _ids(config: Mapping[str, Any], folder: Path) -> tuple[dict[str, int | None], list[int]]:
    """pad, eos, bos (what the decoder starts with; `mark`: the start mark of texts, or None, if that is not the same), and
    all ids that end a text."""
    ends = _id_list(config, "eos_token_id", folder)
    found: dict[str, int | None] = {"pad": _one_id(config, "pad_token_id", folder), "eos": ends[0] if ends else None}
    start, mark = (_one_id(config, key, folder) for key in ("decoder_start_token_id", "bos_token_id"))
    found["bos"] = mark if start is None else start
    if start is not None and start != mark:
        found["mark"] = mark
    return found, ends


def _id_list(config: Mapping[str, Any], key: str, folder: Path) -> list[int]:
    value = config.get(key)
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(one, int) for one in values):
        raise UserError(f"{folder / CONFIG}: {key} is {value!r}, should be a number")
    return values


def _one_id(config: Mapping[str, Any], key: str, folder: Path) -> int | None:
    values = _id_list(config, key, folder)
    if len(values) > 1:
        raise UserError(f"{folder / CONFIG}: {key} is {values}, should be one number")
    return values[0] if values else None


def load_model(
    folder: str | Path, device: str | torch.device | None = None, dtype: str | torch.dtype | None = None
) -> tuple[Model, Description, dict[str, Any]]:
    """The model of a folder or Hub name in eval mode, its description, and what is known besides: what regard.json holds,
    meta["ids"] (pad, bos, eos, where texts begin otherwise than the decoder `mark`), meta["ends"] where several ids end a
    text, and of folders that others wrote meta["generation"]. device: None for the CPU. dtype: None for the number type
    stored. UserError names everything that does not fit."""
    folder = locate(folder)
    kind = _number_type(dtype)
    files = TensorFiles(folder)
    plan = read_plan(folder, files)
    with doubted(f"{folder}: the description makes no model"):
        model = plan.description.on_meta()
    tensors = _tensors(model, plan, files)
    _fill(model, {name: t.to(device or "cpu", kind) for name, t in tensors.items()})
    return model.eval(), plan.description, plan.meta | {"ids": plan.ids}


def _number_type(name: str | torch.dtype | None) -> torch.dtype | None:
    known = ("float32", "float64", "bfloat16", "float16")
    if isinstance(name, str) and name not in known:
        raise UserError(f"dtype {name!r}: choose one of {', '.join(known)}, or int8 on a CPU")
    return getattr(torch, name) if isinstance(name, str) else name


def load_weights(folder: str | Path, model: nn.Module) -> None:
    """Put a folder's weights into a model of the same description, in place. UserError if the descriptions differ."""
    folder, model = Path(folder), unwrap(model)
    files = TensorFiles(folder)
    plan = read_plan(folder, files)
    if plan.description != model.description:
        raise UserError(f"{folder}: holds another model than the one its weights should go into")
    ours = named_tensors(model)
    with torch.no_grad():
        for name, tensor in _tensors(model, plan, files).items():
            ours[name].copy_(tensor)


def _tensors(model: nn.Module, plan: Plan, files: TensorFiles) -> dict[str, Tensor]:
    ours = named_tensors(model)
    return take(plan.weights or same_names(ours), ours, files.shapes, files.read, str(files.where))


@contextmanager
def doubted(where: str) -> Iterator[None]:
    """Where a stranger's numbers and names are taken for sensible ones; UserError for whatever fails."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{where}: {' '.join(str(error).split())[:200] or type(error).__name__}") from None


def _count(files: TensorFiles | None) -> int:
    return 100_000 if files is None else len(files.shapes)


def _fill(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put tensors in place of a meta model's, tied ones in all their places."""
    first = {id(t): name for name, t in named_tensors(model).items()}
    made = {key: nn.Parameter(tensors[name]) for key, name in first.items()}
    for name, old in model.state_dict(keep_vars=True).items():
        path, _, leaf = name.rpartition(".")
        new = made[id(old)]
        setattr(model.get_submodule(path), leaf, new if isinstance(old, nn.Parameter) else new.data)
    if any(t.is_meta for t in (*model.parameters(), *model.buffers())):
        raise RuntimeError("a module holds a tensor that its state_dict leaves out: it would be lost in a model folder")

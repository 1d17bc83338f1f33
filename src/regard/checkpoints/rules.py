"""Two-way tables between regard's names and another library's: one list, read in both directions.

A `Format` says which configuration and which weights another library's class has for the same function. Every key of a
foreign configuration is mapped, fixed to what that class computes, or listed as harmless; every tensor has a rule, is
derived, or is ignored by name. Nothing is guessed.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.errors import UserError


class Change(Protocol):
    """How tensors differ on the two sides."""

    def take(self, theirs: Sequence[Tensor]) -> Tensor: ...

    def give(self, ours: Tensor, count: int) -> Sequence[Tensor]: ...


@dataclass(frozen=True)
class Same:
    """Not at all."""

    def take(self, theirs: Sequence[Tensor]) -> Tensor:
        return theirs[0]

    def give(self, ours: Tensor, count: int) -> Sequence[Tensor]:
        return [ours]


@dataclass(frozen=True)
class Joined:
    """Theirs, one after another along the first axis, are ours. sizes: rows of each (None: as many in each).
    turned: theirs are stored transposed."""

    sizes: tuple[int, ...] | None = None
    turned: bool = False

    def take(self, theirs: Sequence[Tensor]) -> Tensor:
        return torch.cat([t.T if self.turned else t for t in theirs])

    def give(self, ours: Tensor, count: int) -> Sequence[Tensor]:
        pieces = ours.chunk(count) if self.sizes is None else ours.split(self.sizes)
        return [piece.T if self.turned else piece for piece in pieces]


@dataclass(frozen=True)
class Row:
    """Theirs is a matrix of one row, ours a vector."""

    def take(self, theirs: Sequence[Tensor]) -> Tensor:
        return theirs[0].flatten()

    def give(self, ours: Tensor, count: int) -> Sequence[Tensor]:
        return [ours[None]]


@dataclass(frozen=True)
class Stacked:
    """Theirs are the matrices of `count` experts (all first ones, then all second ones, …), ours one tensor with a leading
    axis of experts, each expert's matrices one after another."""

    count: int

    def take(self, theirs: Sequence[Tensor]) -> Tensor:
        kinds = [torch.stack(list(theirs[at : at + self.count])) for at in range(0, len(theirs), self.count)]
        return torch.cat(kinds, 1)

    def give(self, ours: Tensor, count: int) -> Sequence[Tensor]:
        return [matrix for kind in ours.chunk(count // self.count, 1) for matrix in kind.unbind()]


@dataclass(frozen=True)
class Twice:
    """Theirs is stored under two names, and the first is what is computed with."""

    def take(self, theirs: Sequence[Tensor]) -> Tensor:
        return theirs[0]

    def give(self, ours: Tensor, count: int) -> Sequence[Tensor]:
        return [ours] * count


@dataclass(frozen=True)
class Rule:
    """Their tensor (or tensors) and ours; `#` stands for the number of a layer.

    also: other names under which the same tensor may stand in their file, because it is tied or the file is older; never
    written. instead: their tensor (or tensors) in another form, which is read where the file has it.
    """

    theirs: str | tuple[str, ...]
    ours: str
    change: Change = Same()
    also: tuple[str, ...] = ()
    instead: Rule | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Their names as a tuple."""
        return (self.theirs,) if isinstance(self.theirs, str) else self.theirs

    def at(self, layer: str) -> Rule:
        """This rule for one layer."""
        theirs, also = (tuple(name.replace("#", layer) for name in names) for names in (self.names, self.also))
        instead = None if self.instead is None else self.instead.at(layer)
        return replace(self, theirs=theirs, ours=self.ours.replace("#", layer), also=also, instead=instead)

    def within(self, theirs: Mapping[str, Any]) -> Rule:
        """This rule, or `instead` where the file has what that one names."""
        if self.instead is not None and all(name in theirs for name in self.instead.names):
            return self.instead
        return self

    def given(self, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Our tensor under their names."""
        return dict(zip(self.names, self.change.give(ours[self.ours], len(self.names)), strict=True))


@dataclass(frozen=True)
class Derived:
    """A tensor of theirs that follows from the configuration: written if `written`, and compared when it is read unless it
    is ignored."""

    theirs: str
    make: Callable[[Sequence[int]], Tensor]
    shape: tuple[int, ...]
    written: bool = True


@dataclass(frozen=True)
class Weights:
    """All tensors of a format. ignored: their names that no computation reads."""

    rules: tuple[Rule, ...]
    derived: tuple[Derived, ...] = ()
    ignored: frozenset[str] = frozenset()


def both(theirs: str, ours: str, *parts: str) -> list[Rule]:
    """Rules for the weight and the bias of one layer of theirs, or of several, named by `parts`, that are one of ours."""
    if not parts:
        return [Rule(f"{theirs}.{kind}", f"{ours}.{kind}") for kind in ("weight", "bias")]
    return [Rule(tuple(f"{theirs}.{p}.{kind}" for p in parts), f"{ours}.{kind}", Joined()) for kind in ("weight", "bias")]


def same_names(ours: Iterable[str]) -> Weights:
    """The table of regard's own format."""
    return Weights(tuple(Rule(name, name) for name in ours))


def _bound(rules: Iterable[Rule], ours: Iterable[str]) -> Iterator[Rule]:
    """Every rule for every layer that the model has."""
    for rule in rules:
        pattern = re.compile(re.escape(rule.ours).replace(r"\#", r"(\d+)"))
        for match in filter(None, map(pattern.fullmatch, ours)):
            yield rule.at(match[1]) if match.groups() else rule


def give(weights: Weights, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our tensors under their names, with those that follow from the configuration."""
    given = _given(weights, ours)
    like = next(iter(ours.values()))
    return given | {d.theirs: d.make(d.shape).to(like.device, like.dtype) for d in weights.derived if d.written}


def _given(weights: Weights, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    given: dict[str, Tensor] = {}
    left = set(ours)
    for rule in _bound(weights.rules, ours):
        left.discard(rule.ours)
        given |= rule.given(ours)
    if left:
        raise RuntimeError(f"no rule gives {', '.join(sorted(left))}")
    return given


def take(
    weights: Weights,
    ours: Mapping[str, Tensor],
    theirs: Mapping[str, Sequence[int]],
    read: Callable[[str], Tensor],
    where: str,
) -> dict[str, Tensor]:
    """Their tensors under our names.

    ours: the model's tensors, which may be on the meta device: only shapes matter. theirs: the shape of every tensor in
    the file. read: one of them. UserError lists all names at once that are missing, unexpected, misshapen, or wrong: tied
    but not equal, or not what the configuration says.
    """
    _given(weights, ours)  # fails if a tensor of ours has no rule
    bound = [rule.within(theirs) for rule in _bound(weights.rules, ours)]
    wanted = {name: tuple(t.shape) for rule in bound for name, t in rule.given(ours).items()}
    stands = {name: name if name in theirs else _alias(rule, theirs) for rule in bound for name in rule.names}
    spare = {a: rule.names[0] for rule in bound for a in rule.also if a in theirs and a not in weights.ignored}
    optional = {d.theirs for d in weights.derived}
    used = set(stands.values()) | set(spare) | optional | weights.ignored
    fitting = {name: at for name, at in stands.items() if at is not None and tuple(theirs[at]) == wanted[name]}
    parted = [(alias, name) for alias, name in spare.items() if name in fitting and alias != fitting[name]]
    _complain(
        where,
        missing=[name for name, at in stands.items() if at is None],
        unexpected=[name for name in theirs if name not in used],
        misshapen=[
            f"{at} ({_shape(theirs[at])}, should be {_shape(wanted[name])})"
            for name, at in stands.items()
            if at is not None and name not in fitting
        ],
        wrong=[
            f"{alias} and {name} should be one tied tensor, but their values differ"
            for alias, name in parted
            if not torch.equal(read(alias), read(fitting[name]))
        ]
        + [
            text
            for item in weights.derived
            if item.theirs in theirs.keys() - weights.ignored and (text := _compare(item, read(item.theirs)))
        ],
    )
    return {rule.ours: rule.change.take([read(fitting[name]) for name in rule.names]) for rule in bound}


def _alias(rule: Rule, theirs: Mapping[str, Any]) -> str | None:
    return next((name for name in rule.also if name in theirs), None)


def _shape(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "scalar"


def _complain(where: str, **lists: list[str]) -> None:
    found = [f"{kind}: {', '.join(sorted(names))}" for kind, names in lists.items() if names]
    if found:
        raise UserError(f"{where}: the weights do not fit the configuration; {'; '.join(found)}")


def _compare(item: Derived, stored: Tensor) -> str | None:
    """What is wrong with a stored tensor that follows from the configuration."""
    if len(stored.shape) != len(item.shape) or stored.shape[1:] != item.shape[1:]:
        return f"{item.theirs} has shape {_shape(stored.shape)}, should be {_shape(item.shape)}"
    worst = (stored.double() - item.make(tuple(stored.shape)).to(stored.device).double()).abs().max().item()
    near = 1e-5 + (torch.finfo(stored.dtype).eps if stored.is_floating_point() else 0.0)  # rounded once, perhaps another way
    return None if worst <= near else f"{item.theirs} is not what the configuration says (it differs by up to {worst:.2g})"


@dataclass(frozen=True)
class Choice:
    """A key whose values have other names on the two sides: theirs -> ours. The first of theirs is written."""

    argument: str
    values: Mapping[str, Any]


def words(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


ACTIVATION_NAMES = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
"""Activations in transformers' configurations -> regard's name of the same function."""

COMMON_HARMLESS = words(
    "architectures dtype torch_dtype transformers_version _name_or_path _num_labels num_labels id2label label2id model_type"
    " return_dict output_attentions output_hidden_states use_cache torchscript chunk_size_feed_forward problem_type"
    " task_specific_params finetuning_task tokenizer_class prefix gradient_checkpointing use_bfloat16 is_decoder"
    " sep_token_id bos_token_id eos_token_id pad_token_id decoder_start_token_id forced_bos_token_id forced_eos_token_id"
    " max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p"
    " typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids"
    " num_return_sequences output_scores return_dict_in_generate remove_invalid_values exponential_decay_length_penalty"
    " suppress_tokens begin_suppress_tokens _attn_implementation_autoset attn_implementation"
)
"""Keys of any transformers configuration that change no computation of the model: names, versions, search settings, ids."""

COMMON_FIXED: dict[str, tuple[Any, ...]] = {
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
    "add_cross_attention": (False, True),
    "cross_attention_hidden_size": (None,),
    "tie_encoder_decoder": (False, True),
}


@dataclass(frozen=True)
class Format:
    """What a class of another library computes, against the arguments of an architecture's `describe`.

    config: their key -> our argument. defaults: values of keys that a file leaves out. fixed: their key -> the values it
    may have. harmless: keys that change nothing. arguments: what our arguments must be, or the class cannot compute the
    model. read: further arguments from their whole configuration (after defaults). write: further keys from our
    arguments, or None if they cannot be written. peek: further arguments from the tensors. weights: the tensors.
    """

    model_type: str
    architecture: str
    config: Mapping[str, str | Choice]
    weights: Callable[..., Weights]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    harmless: frozenset[str] = frozenset()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    read: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda config: {}
    write: Callable[[Mapping[str, Any]], dict[str, Any] | None] = lambda arguments: {}
    peek: Callable[[Mapping[str, Sequence[int]], Callable[[str], Tensor]], dict[str, Any]] = lambda shapes, read: {}


def read_config(form: Format, config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Our arguments from their configuration. One UserError names all keys that are missing or that this format does not
    compute; keys that nobody knows give one warning."""
    config = {**form.defaults, **config}
    wrong = []
    arguments = dict(form.arguments)
    for key, ours in form.config.items():
        if key not in config:
            wrong.append(f"{key} is missing")
        elif isinstance(ours, str):
            arguments[ours] = config[key]
        elif isinstance(config[key], str) and config[key] in ours.values:
            arguments[ours.argument] = ours.values[config[key]]
        else:
            wrong.append(f"{key} is {config[key]!r}, known are {', '.join(map(str, ours.values))}")
    fixed = {**COMMON_FIXED, **form.fixed}
    for key in sorted(fixed.keys() & config.keys()):
        if config[key] not in fixed[key]:
            wrong.append(f"{key} is {config[key]!r}, must be {' or '.join(map(repr, fixed[key]))}")
    if wrong:
        raise UserError(f"{where}: not a {form.model_type} model that regard can compute: {'; '.join(wrong)}")
    unknown = unknown_keys(form, config)
    if unknown:
        warnings.warn(f"{where}: ignored keys that regard does not know: {', '.join(unknown)}", stacklevel=2)
    try:
        return arguments | form.read(config)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


def unknown_keys(form: Format, config: Mapping[str, Any]) -> list[str]:
    """The keys of a configuration that no table names."""
    known = form.config.keys() | form.defaults.keys() | form.fixed.keys() | COMMON_FIXED.keys()
    return sorted(config.keys() - known - form.harmless - COMMON_HARMLESS)


def read_classes(config: Mapping[str, Any]) -> int:
    """The number of classes that a configuration of transformers speaks of; two where it says nothing."""
    return int(config.get("num_labels") or len(config.get("id2label") or "12"))


def write_classes(classes: int) -> dict[str, Any]:
    """What a configuration of transformers says of so many classes without names."""
    names = [f"LABEL_{number}" for number in range(classes)]
    numbers = dict(zip(names, range(classes), strict=True))
    return {"id2label": {str(number): name for name, number in numbers.items()}, "label2id": numbers}


def write_config(form: Format, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Their configuration for our arguments; None if this format cannot say it."""
    if any(arguments.get(key) != value for key, value in form.arguments.items()):
        return None
    more = form.write(arguments)
    if more is None:
        return None
    config: dict[str, Any] = {"model_type": form.model_type, "architectures": [form.architecture]}
    for key, ours in form.config.items():
        if isinstance(ours, str):
            config[key] = arguments[ours]
        else:
            names = [theirs for theirs, value in ours.values.items() if value == arguments[ours.argument]]
            if not names:
                return None
            config[key] = names[0]
    return config | more

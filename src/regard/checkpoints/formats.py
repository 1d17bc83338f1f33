"""Two-way tables between regard's arguments and another library's configurations: one list, read in both directions.

A `Format` says which configuration and which weights another library's class has for the same function. Every key of a
foreign configuration is mapped, fixed to what that class computes, or listed as harmless. Nothing is guessed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from regard.checkpoints.rules import Weights
from regard.errors import UserError


@dataclass(frozen=True)
class Key:
    """What a key of their configuration says: our argument. usual: its value where a file leaves the key out; ... where a
    file must have it. values: theirs -> ours, where they have other names; the first of theirs is written."""

    argument: str
    usual: Any = ...
    values: Mapping[Any, Any] | None = None


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

HIDDEN: dict[str, str | Key] = {
    "num_hidden_layers": "num_layers",
    "hidden_size": "d_model",
    "intermediate_size": "d_ff",
    "num_attention_heads": "num_heads",
}
"""Keys of the sizes in most configurations of transformers since BERT's."""


@dataclass(frozen=True)
class Format:
    """What a class of another library computes, against the arguments of an architecture's `describe`.

    config: their key -> our argument, or a `Key` that says more. defaults: values of other keys that a file leaves out.
    fixed: their key -> the values it may have. harmless: keys that change nothing. arguments: what our arguments must be,
    or the class cannot compute the model; with a head of classes their number is read and written too. read: further
    arguments from their whole configuration (after defaults). write: further keys from our arguments, or None if they
    cannot be written. peek: further arguments from the tensors. weights: the tensors.
    """

    model_type: str
    architecture: str
    config: Mapping[str, str | Key]
    weights: Callable[..., Weights]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    harmless: frozenset[str] = frozenset()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    read: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda config: {}
    write: Callable[[Mapping[str, Any]], dict[str, Any] | None] = lambda arguments: {}
    peek: Callable[[Mapping[str, Sequence[int]], Callable[[str], Tensor]], dict[str, Any]] = lambda shapes, read: {}

    @property
    def keys(self) -> dict[str, Key]:
        """`config` with a Key everywhere."""
        return {key: its if isinstance(its, Key) else Key(its) for key, its in self.config.items()}

    @property
    def classes(self) -> bool:
        """Whether the class has a head of classes."""
        return self.arguments.get("head") in ("class", "tokens")


def each(form: Format, heads: Mapping[str, str]) -> tuple[Format, ...]:
    """The formats of all classes that have this one's body. heads: how the class's name goes on after what
    `form.architecture` says -> the name of its head."""
    return tuple(
        replace(form, architecture=form.architecture + name, arguments={**form.arguments, "head": head})
        for name, head in heads.items()
    )


def read_config(form: Format, config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Our arguments from their configuration. One UserError names all keys that are missing or that this format does not
    compute; keys that nobody knows give one warning."""
    keys, wrong, arguments = form.keys, [], dict(form.arguments)
    config = {key: its.usual for key, its in keys.items() if its.usual is not ...} | {**form.defaults, **config}
    for key, its in keys.items():
        if key not in config:
            wrong.append(f"{key} is missing")
        elif its.values is None:
            arguments[its.argument] = config[key]
        elif isinstance(config[key], (str, bool)) and config[key] in its.values:
            arguments[its.argument] = its.values[config[key]]
        else:
            wrong.append(f"{key} is {config[key]!r}, known are {', '.join(map(str, its.values))}")
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
        classes = {"classes": read_classes(config)} if form.classes else {}
        return arguments | classes | form.read(config)
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
    for key, its in form.keys.items():
        value = arguments[its.argument]
        if its.values is not None:
            names = [theirs for theirs, ours in its.values.items() if ours == value]
            if not names:
                return None
            value = names[0]
        config[key] = value
    return config | (write_classes(arguments["classes"]) if form.classes else {}) | more

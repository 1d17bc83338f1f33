"""Recipes: one training run as data. YAML in, a checked value out, and the same value back as YAML."""

from __future__ import annotations

import inspect
import textwrap
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.fields import FieldInfo

from regard.errors import UserError
from regard.training.recipe_files import gather
from regard.training.sections import (
    MONITORS,
    Data,
    Evaluation,
    ModelSection,
    SearchSection,
    Section,
    Task,
    Tokens,
    Training,
)
from regard.training.wording import dotted, keys_of, nearest, refuse, shown, unknown
from regard.training.yaml_source import Source, dump, parse_yaml

if TYPE_CHECKING:
    from regard.architecture import Description
    from regard.decoding import Search

__all__ = ["Recipe", "describe_model", "differences", "load_recipe", "read_recipe"]

GIVEN = ("vocab_size", "target_vocab_size", "pad", "head", "classes", "channels", "height", "width", "image_size")
"""Arguments of an architecture that the tokenizers, the task and the data decide."""


ARGUMENTS = {
    "dropout": "share of values left out in training: more for less data",
    "num_layers": "layers of the encoder, and of the decoder",
}
"""What arguments that most architectures have mean."""


class Recipe(Section):
    """One training run."""

    name: str = Field(default="", description="by default the name of the recipe's file")
    description: str = Field(default="", description="what this run is, in one line")
    task: Task = Field(default=Task(), description="what is learned")
    data: Data = Field(description="what is learned from")
    tokenizer: Tokens = Field(default=Tokens(), description="how text becomes tokens")
    model: ModelSection = Field(description="what is trained")
    training: Training = Field(description="how it is trained")
    search: SearchSection = Field(default=SearchSection(), description="how translations are found")
    evaluation: Evaluation = Field(default=Evaluation(), description="how the model is judged")

    @model_validator(mode="before")
    @classmethod
    def _smoothed(cls, values: Any) -> Any:
        """Label smoothing is translation's habit: other tasks have it only where they say so."""
        if isinstance(values, dict) and isinstance(values.get("training"), dict):
            task = values.get("task")
            if isinstance(task, dict) and task.get("kind", "translation") != "translation":
                return {**values, "training": {"label_smoothing": 0.0, **values["training"]}}
        return values

    @model_validator(mode="after")
    def _watched(self) -> Recipe:
        for name, asked in (("data.context", self.data.context), ("evaluation.calibrate", self.evaluation.calibrate)):
            if asked and self.task.kind != "translation":
                raise ValueError(f"{name} is for translation; task.kind is {self.task.kind}")
        metric = self.training.monitor
        known = MONITORS.get(self.task.kind, ("loss",))
        if metric not in known:
            raise ValueError(f"training.monitor is {metric}; a task of kind {self.task.kind} has {', '.join(known)}")
        if metric in ("bleu", "chrf") and not (self.evaluation.during and metric in self.evaluation.metrics):
            raise ValueError(
                f"training.monitor is {metric}, so evaluation.during must be true and evaluation.metrics name it"
            )
        return self

    def to_yaml(self, comments: bool = False) -> str:
        """All keys with their values; `load_recipe` reads it back unchanged. comments: what each key means above it."""
        return "\n".join(_lines(self, 0, comments)) + "\n"

    def search_options(self) -> Search:
        """The search section as the decoder takes it, without what is done to its answers."""
        from regard.decoding import Search

        return Search(**self.search.model_dump(exclude={"replace_unknown"}))


def _lines(section: Section, depth: int, comments: bool) -> list[str]:
    indent = "  " * depth
    lines: list[str] = []
    for name, info in type(section).model_fields.items():
        value = getattr(section, name)
        nested = isinstance(value, Section)
        if depth == 0 and lines:
            lines.append("")
        if comments:
            lines += _comment(info, indent)
        if nested:
            lines += [f"{indent}{name}:", *_lines(value, depth + 1, comments)]
        else:
            if isinstance(value, list):
                value = [one.model_dump(exclude_defaults=True) if isinstance(one, Section) else one for one in value]
            lines += [indent + line for line in dump({name: value}).split("\n")]
    for name, value in (section.model_extra or {}).items():
        if comments:
            lines.append(f"{indent}# {ARGUMENTS.get(name, 'an argument of this architecture')}")
        lines += [indent + line for line in dump({name: value}).split("\n")]
    return lines


def _comment(info: FieldInfo, indent: str) -> list[str]:
    return textwrap.wrap(info.description or "", 118, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}#   ")


def load_recipe(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of a name (`regard train multi30k-en-fr`) or a file, with `key.path=value` overrides laid on top.

    Paths in a file are relative to that file, paths in overrides to the working directory. UserError with file, line and
    the nearest valid name for whatever is unknown or wrong.
    """
    return check(gather(str(name_or_path), overrides))


def read_recipe(text: str, name: str = "recipe") -> Recipe:
    """The recipe that a YAML text holds; `name` stands for the file in messages."""
    return check(parse_yaml(text, name))


def check(source: Source) -> Recipe:
    """The recipe of raw values, all sections and the architecture's arguments checked; UserError otherwise."""
    known = keys_of(Recipe)
    raw = source.values.get("model", {})
    chosen = raw.get("architecture") if isinstance(raw, dict) else None
    signature = _signature(chosen) if isinstance(chosen, str) and chosen in _architectures() else {}
    known += [f"model.{name}" for name in signature]
    try:
        recipe = Recipe.model_validate(source.values)
    except ValidationError as error:
        raise refuse(error, source, known) from None
    if recipe.model.architecture is None and recipe.model.folder is None:
        raise UserError(f"{source.place(('model', 'architecture'))}: model.architecture is missing")
    if recipe.model.architecture is None:  # the folder that it comes from will tell
        return recipe
    if recipe.model.architecture not in _architectures():
        raise UserError(
            f"{source.place(('model', 'architecture'))}: unknown architecture {chosen!r};"
            f" known: {', '.join(_architectures())}{nearest(recipe.model.architecture, _architectures())}"
        )
    _check_arguments(recipe.model, signature, source, known)
    return recipe


def _architectures() -> list[str]:
    from regard import models

    return models.names()


def _signature(architecture: str) -> dict[str, Any]:
    """Arguments of an architecture that a recipe may give, with their types."""
    from regard import models

    describe = models.find(architecture).describe
    hints = typing.get_type_hints(describe)
    return {name: hints.get(name, Any) for name in inspect.signature(describe).parameters if name not in GIVEN}


def _check_arguments(model: ModelSection, signature: dict[str, Any], source: Source, known: list[str]) -> None:
    from regard import models

    sizes = getattr(models.find(str(model.architecture)), "SIZES", {})
    if model.size is not None and model.size not in sizes:
        place = source.place(("model", "size"))
        raise UserError(f"{place}: model.size: {model.architecture} has no size {model.size!r}; known: {', '.join(sizes)}")
    for name, value in model.arguments.items():
        key = ("model", name)
        if name in GIVEN:
            raise UserError(f"{source.place(key)}: {dotted(key)} is not given by hand: the tokenizer or the data decides it")
        if name not in signature:
            raise unknown(key, source, known)
        try:
            adapter = TypeAdapter(signature[name], config=ConfigDict(strict=True, allow_inf_nan=False))
            adapter.validate_python(value)
        except ValidationError as error:
            nested = {"model": {name: value}}
            raise refuse(error, Source(nested, source.places, source.name), known, key) from None


class _Sided(Protocol):
    """What `describe_model` reads of regard.text.tokenizer.Tokenizers."""

    source: Any
    target: Any
    shared: bool


def describe_model(recipe: Recipe, tokenizers: _Sided | None, given: Mapping[str, Any] | None = None) -> Description:
    """What the recipe's model is, with the vocabularies of these tokenizers (None for images) and what else the data
    decides (`given`: head, classes); UserError if its arguments do not fit."""
    from regard import models

    assert recipe.model.architecture is not None
    family, chosen = models.find(recipe.model.architecture), recipe.model
    arguments = {**getattr(family, "SIZES", {}).get(chosen.size, {}), **chosen.arguments}
    accepted = inspect.signature(family.describe).parameters
    if tokenizers is not None:
        arguments["vocab_size"] = tokenizers.source.vocab_size
        if "pad" in accepted:
            arguments["pad"] = tokenizers.source.pad
        if not tokenizers.shared:
            if "target_vocab_size" not in accepted:
                raise UserError(
                    f"model.architecture: {chosen.architecture} has one vocabulary; set tokenizer.shared to true"
                )
            arguments["target_vocab_size"] = tokenizers.target.vocab_size
    arguments |= accept(given or {}, family, recipe.task.kind)
    try:
        description = family.describe(**arguments)
        description.on_meta()  # what does not fit together shows when built; here that costs nothing
        return description
    except (ValueError, TypeError) as error:
        raise UserError(f"model: {error}") from None


def accept(given: Mapping[str, Any], family: Any, kind: str) -> dict[str, Any]:
    """What the data decides, as arguments of this architecture. An architecture without a choice of heads has the next
    token's alone; UserError where the task needs another."""
    accepted = inspect.signature(family.describe).parameters
    name = family.__name__.rpartition(".")[2]
    if (
        "head" in given
        and "head" not in accepted
        and given["head"] not in ("next", "class" if "classes" in accepted else "")
    ):
        raise UserError(f"task.kind: {kind} needs a head that {name} does not have; choose another model.architecture")
    heads = typing.get_args(typing.get_type_hints(family.describe).get("head"))
    if heads and given.get("head", heads[0]) not in heads:
        raise UserError(
            f"task.kind: {kind} needs the head {given['head']!r}; {name} has {', '.join(map(str, heads))}:"
            " choose another model.architecture"
        )
    return {key: value for key, value in given.items() if key in accepted}


def differences(old: Recipe, new: Recipe) -> list[str]:
    """The settings in which two recipes differ, as "key: old, now new"."""
    one, two = _flat(old.model_dump()), _flat(new.model_dump())
    keys = [*one, *(key for key in two if key not in one)]
    return [
        f"{key}: {shown(one.get(key))}, now {shown(two.get(key))}"
        for key in keys
        if one.get(key) != two.get(key) and key not in ("name", "description")
    ]


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat

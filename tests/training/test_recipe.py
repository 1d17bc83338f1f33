"""Recipes: what is refused, in which words, and that a recipe comes back from its own YAML."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from regard import models
from regard.errors import UserError
from regard.training.recipe import Recipe, describe_model, differences, load_recipe, read_recipe
from regard.training.recipe_files import folder, names

MINIMAL = """\
data:
  train: a.tsv
model:
  architecture: transformer
  size: tiny
training:
  max_steps: 10
"""


@dataclass
class Side:
    vocab_size: int
    pad: int = 0


@dataclass
class Sides:
    source: Side
    target: Side
    shared: bool


def write(path: Path, text: str = MINIMAL) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", names())
def test_every_recipe_loads_describes_a_model_and_comes_back_unchanged(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.description
    assert read_recipe(recipe.to_yaml()) == recipe
    assert read_recipe(recipe.to_yaml(comments=True)) == recipe
    if recipe.model.folder is not None:  # the folder tells what it is
        assert recipe.model.architecture is None
        return
    sides = Sides(Side(50), Side(50 if recipe.tokenizer.shared else 40), recipe.tokenizer.shared)
    heads = {"classification": "class", "images": "class", "masked": "masked"}
    given = {"head": heads[recipe.task.kind], "classes": 7} if recipe.task.kind in heads else {}
    model = describe_model(recipe, None if recipe.task.kind == "images" else sides, given).build()
    rows = 7 if given.get("head") == "class" else 50 if recipe.tokenizer.shared else 40
    assert model.head.project.weight.shape[0] == rows


@pytest.mark.parametrize("name", names())
def test_every_key_of_every_recipe_has_a_comment(name: str) -> None:
    lines = (folder() / f"{name}.yaml").read_text(encoding="utf-8").split("\n")
    for before, line in pairwise(lines):
        if line.startswith("  ") and not line.lstrip().startswith("#") and not line.endswith("clean:"):
            assert before.lstrip().startswith("#"), line


def test_s_res_09_the_saved_recipe_loads_again_and_again(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path / "mine.yaml"), ["model.dropout=0.25", "training.betas=[0.9, 0.99]"])
    for _ in range(3):
        saved = write(tmp_path / "recipe.yaml", recipe.to_yaml())
        assert load_recipe(saved) == recipe
    saved.write_text(recipe.to_yaml().replace("  seed:", "  sede:"), encoding="utf-8")
    with pytest.raises(UserError, match=r"recipe.yaml:\d+: unknown key training.sede; did you mean training.seed\?"):
        load_recipe(saved)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "training: {max_steps: 9, larning_rate: 1}",
            "unknown key training.larning_rate; did you mean training.learning_rate?",
        ),
        ("training: {max_steps: ten}", "training.max_steps must be a whole number, not 'ten'"),
        ("training: {max_steps: 9.5}", "training.max_steps must be a whole number, not 9.5"),
        ("training: {max_steps: 9, optimizer: sgd}", "training.optimizer must be muon, adam or adamw, not 'sgd'"),
        ("training: {max_steps: 9, ema: 1.5}", "training.ema must be less than 1, not 1.5"),
        ("training: {max_steps: 9, betas: [0.9]}", "training.betas must be a list of 2, not [0.9]"),
        ("training: {max_steps: 9, betas: [0.9, x]}", "training.betas[1] must be a number, not 'x'"),
        ("training: {max_steps: 9, batch_tokens: some}", "training.batch_tokens must be a whole number or auto, not 'some'"),
        ("training: {}", "training: one of `max_steps`, `max_minutes`, `max_epochs` must say when training ends"),
        ("training: {max_epochs: 3, schedule: linear}", "training: `schedule: linear` needs `max_steps` or `max_minutes`"),
        ("training: 3", "training must be a section of keys, not 3"),
        ("tokenizer: {target_kind: words}", "tokenizer: `target_kind` needs `shared: false`"),
        ("learning_rate: 1", "unknown key learning_rate; did you mean training.learning_rate?"),
        ("evaluation: {metrics: [bleu, belu]}", "evaluation.metrics[1] must be bleu, chrf,"),
        ("model: {architecture: transformer, dropuot: 0.1}", "unknown key model.dropuot; did you mean model.dropout?"),
        ("model: {architecture: transformer, num_heads: many}", "model.num_heads must be a whole number"),
        ("model: {architecture: transformer, placement: mid}", "model.placement must be post or pre, not 'mid'"),
        ("model: {architecture: transformer, size: huge}", "model.size: transformer has no size 'huge'; known: tiny,"),
        ("model: {architecture: transformer, vocab_size: 9}", "model.vocab_size is not given by hand"),
        ("model: {architecture: transfromer}", "unknown architecture 'transfromer'"),
        ("model: {size: tiny}", "model.architecture is missing"),
    ],
)
def test_what_is_wrong_is_named_with_file_line_and_remedy(tmp_path: Path, line: str, said: str) -> None:
    section = line.partition(":")[0]
    kept = {
        "data": "data: {train: a.tsv}",
        "model": "model: {architecture: transformer}",
        "training": "training: {max_steps: 9}",
    }
    text = "# a comment\n" + "\n".join(value for key, value in kept.items() if key != section) + f"\n{line}\n"
    path = write(tmp_path / "bad.yaml", text)
    number = text.count("\n")
    with pytest.raises(UserError) as caught:
        load_recipe(path)
    assert str(caught.value).startswith(f"{path}:{number}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_s_cli_05_words_stay_words_and_numbers_numbers(tmp_path: Path) -> None:
    text = MINIMAL.replace("  train: a.tsv\n", "  train: a.tsv\n  source: no\n  target: on\n")
    text = text.replace("max_steps: 10", "max_steps: 1e4\n  learning_rate: 1e-4")
    recipe = load_recipe(write(tmp_path / "r.yaml", text))
    assert (recipe.data.source, recipe.data.target) == ("no", "on")
    assert recipe.training.max_steps == 10000
    assert type(recipe.training.max_steps) is int
    assert recipe.training.learning_rate == 1e-4
    assert read_recipe(recipe.to_yaml()) == recipe
    with pytest.raises(UserError, match=r"command line: training\.seed must be a whole number, not '010'"):
        load_recipe(tmp_path / "r.yaml", ["training.seed=010"])
    with pytest.raises(UserError, match=r"training.tensorboard must be true or false, not 'no'"):
        load_recipe(tmp_path / "r.yaml", ["training.tensorboard=no"])


def test_s_cli_06_a_truth_value_is_read_as_such_or_refused() -> None:
    for text, value in (("true", True), ("false", False), ("False", False)):
        assert load_recipe("multi30k-en-fr", [f"training.tensorboard={text}"]).training.tensorboard is value
    for text in ("0", "1", "'false'", "off", "null"):
        with pytest.raises(UserError, match=r"training\.tensorboard must be true or false"):
            load_recipe("multi30k-en-fr", [f"training.tensorboard={text}"])


def test_other_toolkits_names_of_search_options_are_understood() -> None:
    recipe = load_recipe("multi30k-en-fr", ["search.beam_size=3", "search.lenpen=0.6"])
    assert (recipe.search.num_beams, recipe.search.length_penalty) == (3, 0.6)
    options = recipe.search_options()
    assert (options.num_beams, options.length_penalty) == (3, 0.6)


def test_the_search_section_has_the_searchs_own_keys_and_defaults() -> None:
    from regard.decoding import Search
    from regard.training.sections import SearchSection

    ours = Search()
    section = SearchSection().model_dump()
    assert section.pop("replace_unknown") is False  # done to answers, not in the search
    assert {name: getattr(ours, name) for name in section} == section


def test_defaults_of_an_architecture_and_a_size_are_filled_in() -> None:
    shared = Sides(Side(30), Side(30), True)
    recipe = load_recipe("multi30k-en-fr", ["model.num_layers=2", "model.dropout=0.15"])
    sizes = models.find(recipe.model.architecture).SIZES["tiny"]
    description = describe_model(recipe, shared)
    assert len(description.encoder.blocks) == 2
    assert description.encoder.d_model == sizes["d_model"]
    assert description.encoder.blocks[0].dropout == 0.15


def test_arguments_that_do_not_fit_together_are_a_users_mistake() -> None:
    recipe = load_recipe("multi30k-en-fr-rnn-additive", ["model.input_feeding=true"])
    with pytest.raises(UserError, match=r"^model: .*input"):
        describe_model(recipe, Sides(Side(30), Side(30), True))


def test_differences_name_settings_with_both_values() -> None:
    one, two = load_recipe("multi30k-en-fr", ["model.d_model=8"]), load_recipe("multi30k-en-fr", ["model.d_model=16"])
    assert differences(one, two) == ["model.d_model: 8, now 16"]
    assert differences(one, load_recipe("multi30k-en-fr")) == ["model.d_model: 8, now null"]
    assert differences(one, one) == []


def test_comments_stand_above_every_key() -> None:
    recipe = read_recipe(MINIMAL)
    lines = recipe.to_yaml(comments=True).split("\n")
    for before, line in pairwise(lines):
        if ":" in line and not line.lstrip().startswith("#"):
            assert before.lstrip().startswith("#"), line
    assert isinstance(recipe, Recipe)


@pytest.mark.parametrize("asked", ["data.context=1", "evaluation.calibrate=true"])
def test_what_is_for_translation_alone(asked: str) -> None:
    name = asked.partition("=")[0]
    with pytest.raises(UserError, match=rf"{name} is for translation; task\.kind is language"):
        load_recipe("shakespeare-gpt2", [asked])

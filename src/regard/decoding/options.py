"""What a search is asked for, and what it gives: values without tensors."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from regard.errors import UserError

MOST_BEAMS = 1000

ALIASES = {
    "num_beams": ("beam_size", "beam", "beams", "beam_width"),
    "length_penalty": ("alpha", "lenpen", "length_alpha"),
    "num_return": ("n_best", "nbest", "num_return_sequences", "num_hypotheses"),
    "no_repeat_ngram_size": ("block_ngram_repeat", "no_repeat_ngram"),
    "max_length": ("max_new_tokens", "max_len", "max_decoding_length", "max_output_length"),
    "min_length": ("min_new_tokens", "min_len", "min_decoding_length"),
    "sample": ("do_sample", "sampling"),
    "temperature": ("sampling_temperature", "random_sampling_temp"),
    "top_k": ("topk", "sampling_topk", "random_sampling_topk"),
    "top_p": ("topp", "sampling_topp", "random_sampling_topp"),
    "coverage_penalty": ("beta", "coverage"),
    "seed": ("random_seed",),
    "stopping": ("early_stopping",),
    "suppress_tokens": ("suppress",),
    "num_beam_groups": ("beam_groups", "diverse_beam_groups"),
    "diversity_penalty": ("diversity", "diverse_beam_strength", "diversity_strength"),
}
"""Names of other toolkits for our options. All of them are understood, ours is printed."""

_CANONICAL = {alias: name for name, aliases in ALIASES.items() for alias in aliases}
_EARLY: dict[Any, str] = {True: "first", False: "standard", "never": "exhaustive"}


@dataclass(frozen=True)
class Search:
    """How to search. UserError if a value makes no sense.

    num_beams: hypotheses kept a sentence; 1 is greedy search, which ends at the first end mark whatever `stopping` says.
    length_penalty, length_form: a hypothesis of log-probability p and n tokens (the end mark counts; a prompt that the
    model was given does not) scores p / n^length_penalty ("power"; 0: p alone; larger favours longer answers) or
    p / ((5 + n) / 6)^length_penalty ("gnmt", Wu et al. 2016, equation 14).
    coverage_penalty: so many times Σ log min(attention a source token had in all, 1) is added to the score of a finished
    hypothesis of beam search (Wu et al. 2016, equation 14); attention is the last layer's, the mean over its heads.
    min_length, max_length: fewest tokens before the end mark, and most tokens with it; None: twice the source's and 50.
    Both are bounded by the positions that the model has.
    num_return: how many answers a sentence (at most num_beams, unless sampling). Answers of one list differ in their
    tokens; two that spell the same text are both kept. Samples are independent and may repeat.
    stopping: a sentence is done when num_beams hypotheses are finished and "first": at once; "standard": and no running
    one, at its length now, scores better than the worst of them; "exhaustive": nor could at any length up to the limit.
    sample: draw tokens instead (num_beams is then not used). temperature divides the logits, 0 is greedy search; top_k
    keeps the k best tokens (0, or above the vocabulary: no limit), top_p the fewest best that hold this share, min_p
    those at least so likely as this share of the best. A sentence's draws depend on seed and its number alone.
    repetition_penalty: log-probabilities of tokens already written are multiplied by it (Keskar et al. 2019 divide
    logits, which depends on an arbitrary constant). no_repeat_ngram_size: no n tokens twice in an answer; 0: off.
    suppress_tokens: ids never written. first_token: an id that every answer begins with, at no cost in its log-probability
    (a target language's mark).
    num_beam_groups: the beams are parted into so many groups, each of which pays diversity_penalty for every beam of the
    groups before it that has just written the same token (diverse beam search, Vijayakumar et al. 2018, Hamming distance).
    """

    num_beams: int = 5
    length_penalty: float = 1.0
    length_form: Literal["power", "gnmt"] = "power"
    coverage_penalty: float = 0.0
    min_length: int = 0
    max_length: int | None = None
    num_return: int = 1
    stopping: Literal["standard", "first", "exhaustive"] = "standard"
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    suppress_tokens: tuple[int, ...] = ()
    first_token: int | None = None
    num_beam_groups: int = 1
    diversity_penalty: float = 0.0

    def __post_init__(self) -> None:
        banned = self.suppress_tokens
        if not isinstance(banned, (tuple, list)) or not all(type(one) is int and one >= 0 for one in banned):
            raise UserError(f"search option suppress_tokens must be a list of ids, not {banned!r}")
        object.__setattr__(self, "suppress_tokens", tuple(banned))
        for name, low, high, kind in _RANGES:
            _check(name, getattr(self, name), low, high, kind)
        _choice("length_form", self.length_form, ("power", "gnmt"))
        _choice("stopping", self.stopping, ("standard", "first", "exhaustive"))
        if not isinstance(self.sample, bool):
            raise UserError(f"search option sample must be true or false, not {self.sample!r}")
        if self.max_length is not None and self.max_length <= self.min_length:
            raise UserError(
                f"search option max_length is {self.max_length}, which leaves no room for min_length {self.min_length} "
                f"and the end mark: it must be at least {self.min_length + 1}"
            )
        if self.num_beams % self.num_beam_groups:
            raise UserError(
                f"search option num_beams is {self.num_beams}, which {self.num_beam_groups} groups (num_beam_groups) cannot "
                f"share evenly: ask for a multiple"
            )
        if not self.sample and self.num_return > self.num_beams:
            raise UserError(
                f"num_return (n-best) is {self.num_return} but num_beams only {self.num_beams}: "
                f"ask for at least {self.num_return} beams"
            )

    @property
    def method(self) -> Literal["greedy", "sample", "beam"]:
        """Which search these options mean."""
        if self.sample:
            return "sample" if self.temperature > 0 else "greedy"
        return "greedy" if self.num_beams == 1 else "beam"

    def penalty(self, length: Any) -> Any:
        """What the log-probability of `length` tokens (a number or a tensor of them) is divided by."""
        return (length if self.length_form == "power" else (5 + length) / 6) ** self.length_penalty

    def score(self, log_prob: float, length: int) -> float:
        """The normalised score of a hypothesis of `length` tokens, the end mark among them."""
        return log_prob / self.penalty(max(length, 1))


_Range = tuple[str, float, float, type]
_RANGES: tuple[_Range, ...] = (
    ("num_beams", 1, MOST_BEAMS, int),
    ("length_penalty", -100, 100, float),
    ("coverage_penalty", 0, 100, float),
    ("min_length", 0, math.inf, int),
    ("max_length", 1, math.inf, int),
    ("num_return", 1, MOST_BEAMS, int),
    ("temperature", 0, math.inf, float),
    ("top_k", 0, math.inf, int),
    ("top_p", 0, 1, float),
    ("min_p", 0, 1, float),
    ("seed", 0, 2**63 - 1, int),
    ("repetition_penalty", 1e-3, 1000, float),
    ("no_repeat_ngram_size", 0, math.inf, int),
    ("first_token", 0, math.inf, int),
    ("num_beam_groups", 1, MOST_BEAMS, int),
    ("diversity_penalty", 0, math.inf, float),
)


def _check(name: str, value: Any, low: float, high: float, kind: type) -> None:
    if name in ("max_length", "first_token") and value is None:
        return
    numbers = (int,) if kind is int else (int, float)
    if isinstance(value, numbers) and not isinstance(value, bool) and low <= value <= high:
        return
    what = "a whole number" if kind is int else "a number"
    span = f"from {low:,g} to {high:,g}" if high < 2**62 else f"of at least {low:g}"
    raise UserError(f"search option {name} must be {what} {span}, not {value!r}")


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UserError(f"search option {name} must be one of {', '.join(choices)}, not {value!r}")


def canonical(name: str) -> str:
    """Our name of a search option, whichever toolkit's name is given; UserError with the nearest one if there is none."""
    name = name.replace("-", "_")
    ours = {f.name for f in fields(Search)}
    if name in ours:
        return name
    if name in _CANONICAL:
        return _CANONICAL[name]
    near = difflib.get_close_matches(name, [*ours, *_CANONICAL], n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(ours))}"
    raise UserError(f"unknown search option {name!r}: {hint}")


def search_options(base: Search | None = None, /, **named: Any) -> Search:
    """Options by name, in our dialect or another toolkit's, on top of `base` (default: Search()).

    None leaves an option as it is in `base`; early_stopping=True, False, "never" are stopping "first", "standard",
    "exhaustive". If num_return is raised above the beams of `base` and beams are not named, there are as many beams.
    UserError: an unknown name, one option under two names, a wrong value.
    """
    base = Search() if base is None else base
    given: dict[str, Any] = {}
    said: dict[str, str] = {}
    for name, value in named.items():
        key = canonical(name)
        if value is None:
            continue
        if key in given:
            raise UserError(f"search option {key} is given twice, as {said[key]} and as {name}: give one")
        if key == "stopping" and (isinstance(value, bool) or value == "never"):
            value = _EARLY[value]
        given[key], said[key] = value, name
    wanted = given.get("num_return")
    if isinstance(wanted, int) and base.num_beams < wanted <= MOST_BEAMS and "num_beams" not in given:
        given["num_beams"] = wanted
    return replace(base, **given)


def read_options(section: Mapping[str, Any]) -> Search:
    """Options from a mapping such as a recipe's `search` section."""
    return search_options(**{str(name): value for name, value in section.items()})


@dataclass
class Hypothesis:
    """An answer. ids: tokens without start and end mark. score: normalised. log_prob: sum of token_log_probs, which
    has an entry a token and, if finished, one for the end mark. finished: False if the length limit cut it.
    source_cut: the source was longer than the model reads and lost its end."""

    ids: list[int]
    score: float
    log_prob: float
    token_log_probs: list[float] = field(default_factory=list)
    finished: bool = True
    source_cut: bool = False

"""A generator: prompts in, what follows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, overload

import torch

from regard.architecture import Model
from regard.checkpoints.generation import settings_of
from regard.decoding.continuation import Continuation
from regard.decoding.generate import BATCH_TOKENS, WINDOW, batches
from regard.decoding.options import Search, canonical, read_options, search_options
from regard.decoding.search import search
from regard.decoding.speculative import Guess, Speculation
from regard.errors import UserError
from regard.layout import Layout
from regard.loaded import Loaded
from regard.text.chat import chat_ids
from regard.text.tokenizer import Tokenizer, Tokenizers

MAX_NEW_TOKENS = 128
"""Most tokens of an answer where nothing else is asked for."""
SAMPLING = ("temperature", "top_k", "top_p", "min_p")
"""Options that ask for samples by being given."""

Prompt = str | Sequence[Mapping[str, str]]
"""A text to go on with, or the messages of a chat."""
Task = tuple[list[int], list[int]]
"""The ids of a prompt, and those that its answer's text follows."""


@dataclass
class Generation:
    """What follows a prompt. tokens: with the one that ended it. finish: "end" (the model ended it), "stop" (a stop string,
    which the text no longer holds) or "length". alternatives: further ones, best first."""

    prompt: Any
    text: str
    log_prob: float = 0.0
    tokens: list[str] = field(default_factory=list)
    token_log_probs: list[float] = field(default_factory=list)
    finish: Literal["end", "stop", "length"] = "length"
    alternatives: list[Generation] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        """The same as JSON types."""
        return asdict(self)


class Generator(Loaded):
    """A model that goes on with a text."""

    what = "a language model"
    use = "regard generate"

    def __init__(self, model: Model, tokenizers: Tokenizers | None, meta: Mapping[str, Any] | None = None) -> None:
        super().__init__(model, tokenizers, meta)
        said = settings_of(self.meta["generation"], "the folder") if "generation" in self.meta else {}
        kept = {key: value for key, value in said.items() if key in (*SAMPLING, "suppress_tokens", "no_repeat_ngram_size")}
        self.search = read_options(kept | {"num_beams": 1})
        self.guess: Guess | None = None
        """Guesses ahead in greedy answers to one prompt (`regard.decoding.speculative`): fewer passes, the same text."""

    @property
    def ends(self) -> list[int]:
        """The ids that end a text."""
        told = [*self.meta.get("ends", ()), (self.meta.get("ids") or {}).get("eos"), self.tokenizer.eos]
        return sorted({number for number in told if number is not None})

    @overload
    def generate(self, prompts: Sequence[Prompt], *, details: Literal[False] = False, **options: Any) -> list[str]: ...

    @overload
    def generate(self, prompts: Sequence[Prompt], *, details: Literal[True], **options: Any) -> list[Generation]: ...

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        max_new_tokens: int | None = None,
        stop: str | Sequence[str] = (),
        details: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        first: int = 0,
        **options: Any,
    ) -> list[str] | list[Generation]:
        """What follows each prompt, in order, without the prompt; with `details` a Generation each.

        prompts: texts, or the messages of a chat each. options: any of `Search` by name; greedy unless one of temperature,
        top_k, top_p, min_p, sample or num_beams asks for something else. stop: strings before which an answer ends. first:
        the number of the first prompt, on which samples depend beside the seed. UserError for wrong options, an empty
        prompt where the tokenizer has no start mark, or a prompt longer than the model reads.
        """
        if isinstance(prompts, str):
            raise UserError('generate takes a list of prompts, not one: write generate(["…"])')
        wanted, stops = self.wanted(max_new_tokens, options), _strings(stop)
        ids = [self.prompt_ids(prompt) for prompt in prompts]
        found: list[Any] = [None] * len(ids)
        write = self._beams if wanted.method == "beam" else self._rows
        for group in batches([len(one) for one in ids], batch_tokens):
            tasks = [(ids[n], self._context(prompts[n], ids[n])) for n in group]
            for number, answers in zip(group, write(tasks, wanted, stops, [first + n for n in group])):
                for answer in answers:
                    answer.prompt = prompts[number]
                answers[0].alternatives = answers[1:]
                found[number] = answers[0]
        return found if details else [one.text for one in found]

    def stream(
        self,
        prompt: Prompt,
        *,
        max_new_tokens: int | None = None,
        stop: str | Sequence[str] = (),
        first: int = 0,
        **options: Any,
    ) -> Iterator[str]:
        """What follows a prompt, piece by piece as it becomes certain: joined, the text that `generate` gives. Not with
        beams, whose answer is not known before its end."""
        wanted, stops = self.wanted(max_new_tokens, options), _strings(stop)
        if wanted.method == "beam" or wanted.num_return > 1:
            raise UserError("beams and several answers are not certain before their end: use generate, not stream")
        ids = self.prompt_ids(prompt)
        writing = Writing(self.tokenizer, self._context(prompt, ids), stops, self.ends)
        running = self._running([ids], wanted, [(first, 0)])
        for ((_, token, log_prob),) in running:
            text = writing.push(token, log_prob)
            if writing.finish is not None:
                running.close(0)
            if text:
                yield text
        rest = writing.close()
        if rest:
            yield rest

    def stream_all(self, prompts: Iterable[Prompt], *, window: int = WINDOW, **options: Any) -> Iterator[Any]:
        """`generate` for any number of prompts, endless ones too."""
        at = 0
        chunk: list[Prompt] = []
        for prompt in prompts:
            chunk.append(prompt)
            if len(chunk) == window:
                yield from self.generate(chunk, first=at, **options)
                at, chunk = at + len(chunk), []
        yield from self.generate(chunk, first=at, **options)

    @staticmethod
    def _context(prompt: Prompt, ids: list[int]) -> list[int]:
        """The ids whose text the answer's follows: none in a chat, where an answer is a text of its own."""
        return ids if isinstance(prompt, str) else []

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Ids that the model goes on from: the prompt after what the tokenizer puts before a text."""
        if not isinstance(prompt, str):
            return chat_ids(self.tokenizer, prompt)
        tokenizer = self.tokenizer
        ids = [*tokenizer.template.before(), *tokenizer.encode(prompt)]
        if not ids:
            ids = [number for number in (tokenizer.bos, tokenizer.eos) if number is not None][:1]
        if not ids:
            raise UserError("the prompt is empty, and this model's tokenizer has no mark to start from")
        return ids

    def wanted(self, max_new_tokens: int | None, named: Mapping[str, Any]) -> Search:
        """The search that these options mean, see `generate`."""
        given = {canonical(name) for name, value in named.items() if value is not None}
        asks = bool(given & set(SAMPLING)) and "sample" not in given and "num_beams" not in given
        length = (
            {} if "max_length" in given else {"max_length": MAX_NEW_TOKENS if max_new_tokens is None else max_new_tokens}
        )
        options = search_options(self.search, **named, **length, **({"sample": True} if asks else {}))
        absent = range(self.tokenizer.vocab_size, self.model.description.head.vocab_size)
        return replace(options, suppress_tokens=(*options.suppress_tokens, *absent)) if absent else options

    def _rows(self, tasks: list[Task], options: Search, stops: list[str], numbers: list[int]) -> list[list[Generation]]:
        """Greedy answers or samples, num_return a prompt."""
        copies = options.num_return if options.method == "sample" else 1
        rows = [task for task in tasks for _ in range(copies)]
        names = [(number, copy) for number in numbers for copy in range(copies)]
        running = self._running([ids for ids, _ in rows], options, names)
        writings = [Writing(self.tokenizer, context, stops, self.ends) for _, context in rows]
        for step in running:
            for row, token, log_prob in step:
                writings[row].push(token, log_prob)
                if writings[row].finish is not None:
                    running.close(row)
        made = [writing.generation() for writing in writings]
        groups = [made[at : at + copies] for at in range(0, len(made), copies)]
        return [sorted(one, key=lambda each: -options.score(each.log_prob, len(each.tokens))) for one in groups]

    def _running(self, prompts: list[list[int]], options: Search, names: list[tuple[int, int]]) -> Any:
        """What writes the answers, token by token."""
        if self.guess is not None and len(prompts) == 1 and options.method == "greedy":
            return Speculation(self.model, prompts[0], options, self.ends, self.guess)
        return Continuation(self.model, prompts, options, self.ends, names)

    def _beams(self, tasks: list[Task], options: Search, stops: list[str], numbers: list[int]) -> list[list[Generation]]:
        """The best answers of beam search. A stop string or a further end mark cuts them afterwards."""
        lengths = [len(ids) for ids, _ in tasks]
        rows = torch.tensor([[*[0] * (lengths[0] - len(ids)), *ids] for ids, _ in tasks], device=self.model.device)
        layout, ends = Layout.padded(lengths, left=True, device=self.model.device), self.ends
        if not ends:
            raise UserError("this model has no end mark, so beams cannot end: leave num_beams at 1")
        eos = ends[0] if self.tokenizer.eos is None else self.tokenizer.eos
        found = search(self.model, rows, layout, options, eos, eos, numbers=numbers)
        made: list[list[Generation]] = []
        for (_, context), answers in zip(tasks, found):
            made.append([])
            for answer in answers:
                writing = Writing(self.tokenizer, context, stops, ends)
                tokens = [*answer.ids, eos] if answer.finished else answer.ids
                for token, log_prob in zip(tokens, answer.token_log_probs):
                    if writing.finish is None:
                        writing.push(token, log_prob)
                made[-1].append(writing.generation())
        return made


class Writing:
    """One answer as it is written: its text up to where it is certain, and whether it has ended."""

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int], stops: Sequence[str], ends: Sequence[int]) -> None:
        self.tokenizer, self.stops, self.ends = tokenizer, stops, ends
        self.finish: Literal["end", "stop", "length"] | None = None
        self.ids: list[int] = []
        self.logs: list[float] = []
        self.text, self._held = "", ""
        self._stream = tokenizer.stream(before)

    def push(self, token: int, log_prob: float) -> str:
        """Take a token; the text that is now certain."""
        self.ids.append(token)
        self.logs.append(log_prob)
        if token in self.ends:
            self.finish = "end"
            return self._give(self._stream.end(), True)
        return self._give(self._stream.push(token), False)

    def close(self) -> str:
        """The rest of a text that nothing ended."""
        if self.finish is not None:
            return ""
        rest = self._give(self._stream.end(), True)
        self.finish = self.finish or "length"
        return rest

    def generation(self) -> Generation:
        """The whole of it."""
        self.close()
        tokens = [self.tokenizer.piece(number) for number in self.ids]
        return Generation(None, self.text, sum(self.logs), tokens, self.logs, self.finish or "length")

    def _give(self, new: str, last: bool) -> str:
        """Text up to a stop string, or to where one may be beginning."""
        self._held += new
        places = [place for place in (self._held.find(stop) for stop in self.stops) if place >= 0]
        if places:
            given, self._held, self.finish = self._held[: min(places)], "", "stop"
        else:
            keep = 0 if last else max((_begun(self._held, stop) for stop in self.stops), default=0)
            cut = len(self._held) - keep
            given, self._held = self._held[:cut], self._held[cut:]
        self.text += given
        return given


def _begun(text: str, stop: str) -> int:
    """How many characters at the end of a text may be the beginning of a stop string."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)


def _strings(stop: str | Sequence[str]) -> list[str]:
    found = [stop] if isinstance(stop, str) else list(stop)
    if not all(isinstance(one, str) and one for one in found):
        raise UserError("stop strings must be texts of at least one character")
    return found

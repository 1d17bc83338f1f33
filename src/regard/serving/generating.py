"""Going on with prompts of many people at once: they join and leave the running batch one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.decoding.flow import Flow
from regard.generator import Generation, Writing
from regard.text.chat import template_of


@dataclass(frozen=True)
class Prompt:
    """What to go on with: a text, or the (role, content) of each message of a chat. most: tokens to write. stop: strings
    before which the answer ends. number: on which its samples depend beside the seed. follow: tell its pieces."""

    text: str | tuple[tuple[str, str], ...]
    most: int
    stop: tuple[str, ...] = ()
    number: int = 0
    follow: bool = False

    def given(self) -> Any:
        """As a Generator takes it."""
        if isinstance(self.text, str):
            return self.text
        return [{"role": role, "content": content} for role, content in self.text]


@dataclass
class _Answer:
    """A prompt's copies as they are written; copies[i] is done if it is in `done`."""

    prompt: Prompt
    rows: list[int]
    writings: list[Writing]
    done: set[int] = field(default_factory=set)

    def generation(self, options: Any) -> Generation:
        made = [writing.generation() for writing in self.writings]
        made.sort(key=lambda one: -options.score(one.log_prob, len(one.tokens)))
        for one in made:
            one.prompt = self.prompt.given()
        made[0].alternatives = made[1:]
        return made[0]


def chats(loaded: Any) -> bool:
    """Whether a generator has a template for conversations."""
    return template_of(loaded.tokenizer) is not None


def write(loaded: Any, named: Mapping[str, Any], prompts: Sequence[Prompt], desk: Any) -> None:
    """Answer prompts that share the search options `named`, and those that the desk has more of meanwhile."""
    options = loaded.wanted(max(prompt.most for prompt in prompts), named)
    if options.method == "beam":
        for place, prompt in enumerate(prompts):
            if not desk.gone(place):
                its = {"max_new_tokens": prompt.most, "stop": prompt.stop, "details": True}
                desk.answer(place, loaded.generate([prompt.given()], **its, **named)[0])
        return
    _Writer(loaded, options, desk).run(prompts)


class _Writer:
    def __init__(self, loaded: Any, options: Any, desk: Any) -> None:
        self.loaded, self.options, self.desk = loaded, options, desk
        self.copies = options.num_return if options.method == "sample" else 1
        self.flow = Flow(loaded.model, options, loaded.ends)
        self.answers: list[_Answer] = []
        self.owner: dict[int, tuple[int, int]] = {}

    def run(self, prompts: Sequence[Prompt]) -> None:
        """Until nothing is left to write."""
        self.add(prompts)
        while self.flow.running:
            for row, token, log_prob in self.flow.step():
                self.push(row, token, log_prob)
            self.flow.leave()
            if self.flow.joins:
                used = self.flow.running * self.flow.columns
                self.add(self.desk.more(used, self.flow.columns))

    def add(self, prompts: Sequence[Prompt]) -> None:
        """Let prompts join."""
        for prompt in prompts:
            ids = self.loaded.prompt_ids(prompt.given())
            context = ids if isinstance(prompt.text, str) else []
            names = [(prompt.number, copy) for copy in range(self.copies)]
            rows = list(self.flow.add([ids] * self.copies, names, [prompt.most] * self.copies))
            for copy, row in enumerate(rows):
                self.owner[row] = (len(self.answers), copy)
            tokenizer, ends = self.loaded.tokenizer, self.loaded.ends
            writings = [Writing(tokenizer, context, prompt.stop, ends) for _ in rows]
            self.answers.append(_Answer(prompt, rows, writings))

    def push(self, row: int, token: int, log_prob: float) -> None:
        """Note a token, and what follows from it."""
        place, copy = self.owner[row]
        answer = self.answers[place]
        writing = answer.writings[copy]
        text = writing.push(token, log_prob)
        if text and answer.prompt.follow and self.copies == 1:
            self.desk.piece(place, text)
        if writing.finish is not None or self.flow.ended(row):
            self.flow.close(row)
            answer.done.add(copy)
            if len(answer.done) == self.copies:
                self.desk.answer(place, answer.generation(self.options))
        elif self.desk.gone(place):
            self.flow.close(row)

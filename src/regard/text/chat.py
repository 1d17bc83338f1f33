"""Chat templates: messages to the one text that a model was taught to go on with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from regard.errors import UserError
from regard.text.specials import CONFIG
from regard.text.tokenizer import Tokenizer

_BREAK = "\ue0a5"
"""Put inside names of special symbols that a message holds, so that they are told from the template's own."""


def template_of(tokenizer: Tokenizer) -> str | None:
    """The chat template that came with a tokenizer; None if there is none."""
    found = (tokenizer.config or {}).get("chat_template")
    if isinstance(found, list):
        named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
        found = named.get("default") or next(iter(named.values()), None)
    if found is not None and not isinstance(found, str):
        raise UserError(
            f"{CONFIG}: chat_template is {str(found)[:40]!r}, should be a text, or a list of names and templates"
        )
    return found


def chat_ids(tokenizer: Tokenizer, messages: Sequence[Mapping[str, str]]) -> list[int]:
    """Ids of a conversation up to where the model is to answer. messages: role ("user", "assistant", "system") and content
    of each. Special symbols come from the template alone: their names in a message are ordinary text. UserError: there is no
    template, it refuses the messages, or jinja2 is missing."""
    template = template_of(tokenizer)
    if template is None:
        raise UserError("this model's tokenizer has no chat template: give it plain prompts")
    for number, message in enumerate(messages, 1):
        if not isinstance(message, Mapping) or not {"role", "content"} <= set(message):
            raise UserError(f"message {number} should have a role and a content")
    names = tokenizer.special_names
    safe = [{**message, "content": _broken(message["content"], names)} for message in messages]
    config = tokenizer.config or {}
    symbols = {key: _name(value) for key, value in config.items() if key.endswith("_token") and _name(value)}
    text = _rendered(template, {"messages": safe, "add_generation_prompt": True, "tools": None, **symbols})
    return tokenizer.encode_marked(text, names, _BREAK)


def _broken(text: str, names: Sequence[str]) -> str:
    text = text.replace(_BREAK, "\ufffd")
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, name[:1] + _BREAK + name[1:])
    return text


def _name(value: Any) -> str | None:
    found = value.get("content") if isinstance(value, Mapping) else value
    return found if isinstance(found, str) else None


def _rendered(template: str, given: Mapping[str, Any]) -> str:
    try:
        from jinja2 import TemplateError
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise UserError("chat templates need jinja2; install it with pip install 'regard[chat]'") from None

    def refuse(message: str) -> None:
        raise TemplateError(message)

    class World(ImmutableSandboxedEnvironment):
        """The sandbox without products and powers, with which one line of a template fills the memory."""

        intercepted_binops = frozenset(["*", "**"])

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            sizes = [len(one) if isinstance(one, (str, list)) else abs(one) for one in (left, right)]
            if operator == "**" or sizes[0] * sizes[1] > 1e6:
                raise TemplateError(f"{operator} of such values is not computed")
            return left * right

    world = World(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    world.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    world.globals["raise_exception"] = refuse
    world.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    try:
        return world.from_string(template).render(**given)
    except TemplateError as error:
        raise UserError(f"the chat template refuses these messages: {' '.join(str(error).split())}") from None
    except Exception as error:  # a template is a program, and may fail like one
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(f"the chat template fails on these messages: {reason[:200]}") from None

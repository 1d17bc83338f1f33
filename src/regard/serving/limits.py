"""How much a server takes on: of one request, and of all together."""

from __future__ import annotations

from dataclasses import dataclass, fields

from regard.errors import UserError


@dataclass(frozen=True)
class Limits:
    """UserError if a limit is not a positive number.

    Of one request: seconds until it is given up; texts (a text of many sentences counts as one); characters of all its
    texts; alternatives and beams a text; new_tokens of an answer; body_bytes of what is sent.
    Of all together: batch_tokens, source tokens of a batch, padding counted; cache_tokens, tokens that prompts being gone on
    with may have in the model's cache when further ones join; window, seconds that a request which comes
    while nothing runs waits for company; waiting, sentences in a model's queue before new ones are turned away; connections
    open at once; grace, seconds that work already taken on has to end when the server stops.
    """

    seconds: float = 60.0
    texts: int = 2000
    characters: int = 200_000
    alternatives: int = 10
    beams: int = 16
    new_tokens: int = 1024
    body_bytes: int = 1 << 20
    batch_tokens: int = 2048
    cache_tokens: int = 16384
    window: float = 0.003
    waiting: int = 4096
    connections: int = 1024
    grace: float = 20.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            least = 0 if each.name in ("window", "grace", "alternatives") else 1
            if each.name == "seconds":
                least = 1e-3
            if value < least:
                raise UserError(f"the limit {each.name} must be at least {least}, not {value}")

"""What is said to a client whose request is not answered, in the words and the shape of the dialect it speaks."""

from __future__ import annotations

from typing import Any

from regard.errors import UserError
from regard.serving.queue import BrokenError, OverloadError, StoppingError, TimeLimitError


class RefusalError(Exception):
    """status: of HTTP. field: the part of the request that is wrong. seconds: when to try again."""

    def __init__(self, status: int, message: str, field: str | None = None, seconds: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.field, self.seconds = status, message, field, seconds


KNOWN = (UserError, OverloadError, StoppingError, TimeLimitError, BrokenError)
"""Errors that say what a client may know of them."""


def refusal(error: BaseException) -> RefusalError:
    """The refusal that an error of the engine amounts to."""
    if isinstance(error, RefusalError):
        return error
    if isinstance(error, UserError):
        return RefusalError(400, str(error))
    if isinstance(error, OverloadError):
        return RefusalError(429, str(error), seconds=error.seconds)
    if isinstance(error, StoppingError):
        return RefusalError(503, str(error), seconds=5)
    if isinstance(error, TimeLimitError):
        return RefusalError(504, str(error))
    if isinstance(error, BrokenError):
        return RefusalError(500, str(error))
    return RefusalError(500, "something went wrong in the server; its log says more under this request's id")


OPENAI_KINDS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


def body(path: str, error: RefusalError) -> dict[str, Any]:
    """The refusal as JSON types, as the clients of a path expect it."""
    if path.startswith("/v1/"):
        kind = OPENAI_KINDS.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")
        return {"error": {"message": error.message, "type": kind, "param": error.field, "code": None}}
    if path.startswith("/v2/"):
        return {"message": error.message}
    if path.startswith("/api/") and error.field:
        return {"error": error.message, "field": error.field}
    return {"error": error.message}


def headers(error: RefusalError) -> dict[str, str]:
    """What belongs into the head of the answer."""
    if error.seconds is not None:
        return {"Retry-After": str(error.seconds)}
    return {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}


def no_key(path: str) -> RefusalError:
    """A request without one of the server's keys. DeepL's and LibreTranslate's clients know such a refusal by 403."""
    status = 403 if path.startswith("/v2/") or path in LIBRETRANSLATE else 401
    return RefusalError(status, "this server needs an API key, and the request has none that it knows")


LIBRETRANSLATE = ("/translate", "/languages", "/detect", "/frontend/settings")
"""The paths whose clients send their key as a field of the body or the address."""

"""Refusals in the words and shapes of each dialect."""

from __future__ import annotations

import pytest

from regard.errors import UserError
from regard.serving.queue import BrokenError, OverloadError, StoppingError, TimeLimitError
from regard.serving.refusals import RefusalError, body, headers, no_key, refusal


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UserError("x"), 400),
        (OverloadError("x", 9), 429),
        (StoppingError("x"), 503),
        (TimeLimitError("x"), 504),
        (BrokenError("x"), 500),
        (RefusalError(418, "x"), 418),
    ],
)
def test_errors_of_the_engine_have_a_status(error: Exception, status: int) -> None:
    found = refusal(error)
    assert (found.status, found.message) == (status, "x")


def test_other_errors_tell_nothing_of_the_inside() -> None:
    assert "secret" not in refusal(ValueError("secret /etc/path")).message


def test_each_dialect_has_its_own_shape() -> None:
    error = RefusalError(400, "no", "text")
    assert body("/translate", error) == {"error": "no"}
    assert body("/api/translate", error) == {"error": "no", "field": "text"}
    assert body("/v2/translate", error) == {"message": "no"}
    assert body("/v1/models", error)["error"] == {
        "message": "no",
        "type": "invalid_request_error",
        "param": "text",
        "code": None,
    }
    assert body("/v1/models", RefusalError(500, "no"))["error"]["type"] == "server_error"


def test_heads() -> None:
    assert headers(refusal(OverloadError("x", 9))) == {"Retry-After": "9"}
    assert headers(no_key("/v1/models")) == {"WWW-Authenticate": "Bearer"}
    assert headers(RefusalError(400, "x")) == {}
    assert [no_key(path).status for path in ("/v1/x", "/api/x", "/v2/x", "/translate")] == [401, 401, 403, 403]

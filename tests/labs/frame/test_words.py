"""Words of the frame."""

from __future__ import annotations

from typing import get_args

from regard.labs.frame.values import Role, Verdict
from regard.labs.frame.words import FRAME, ROLES, SENTENCES, VERDICTS, says


def test_every_verdict_and_role_has_words():
    assert set(VERDICTS) == set(SENTENCES) == set(get_args(Verdict))
    assert set(ROLES) == set(get_args(Role))
    assert says(True, "limit") == FRAME["found"]
    assert says(False, "claim") == FRAME["failed"]
    assert says(False, "note") == FRAME["otherwise"]

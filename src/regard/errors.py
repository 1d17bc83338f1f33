"""The one error for a user's mistake."""

from __future__ import annotations


class UserError(Exception):
    """What is wrong, where (file, line, key), and what would be right, in one line. The command line prints it and exits
    with 2; nothing was lost or half written."""

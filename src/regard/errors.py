"""The one error for a user's mistake."""

from __future__ import annotations


class UserError(Exception):
    """What is wrong, where (file, line, key), and what would be right, in one line. The command line prints it and exits
    with 2; nothing was lost or half written."""

    def __str__(self) -> str:
        """The line. Characters that are not to be seen are spelled: names in files of strangers may hold line ends, and what
        a terminal takes for commands."""
        text = super().__str__()
        if text.isprintable():
            return text
        return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)

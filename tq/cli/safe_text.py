"""Text that others have stored, made harmless for a terminal."""

from __future__ import annotations

import unicodedata

# Control characters, format characters (they turn text around, or hide it), halves of surrogate pairs, line breaks.
_HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def printable(text: str) -> str:
    """The text on one line, with every character that could steer a terminal spelled out.

    >>> printable("done\\x1b[2J")
    'done\\\\x1b[2J'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled_out(each) if unicodedata.category(each) in _HARMFUL else each for each in text)


def _spelled_out(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")

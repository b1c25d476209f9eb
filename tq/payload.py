"""JSON in and out of the store: strict where a program speaks, forgiving where a failure must be written down."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from tq.errors import PayloadError, shown

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 100
MAX_ERROR_CHARACTERS = 64 * 1024

_SCALARS = frozenset({str, int, float, bool, type(None)})
_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
loads = json.loads


def encode(value: Any, what: str = "the input") -> str:
    """The JSON text of a value, or a `PayloadError` that says why there is none.

    >>> encode({"to": "a@example.com"})
    '{"to":"a@example.com"}'
    """
    if type(value) not in _SCALARS:
        _check_structure(value, what, 0, itertools.count(1))
    try:
        text = _encoder.encode(value)
    except TypeError as error:
        raise PayloadError(f"{what} is not JSON: {error}; use dict, list, str, int, float, bool or None") from error
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"{what} is not JSON: {_explain(error)}") from error
    _check_text(text, what)
    return text


def _explain(error: Exception) -> str:
    if "Out of range float" in str(error):
        return "NaN and infinity have no place in it"
    return str(error) or type(error).__name__


def _check_structure(value: Any, what: str, depth: int, seen: Iterator[int]) -> None:
    """Refuse what the encoder would silently change (keys that are not text) or what would exhaust stack or memory:
    a list that holds another one twice, which does the same, is small until it is written."""
    if depth >= MAX_DEPTH:
        raise PayloadError(f"{what} is nested deeper than {MAX_DEPTH} levels")
    if 2 * next(seen) > MAX_BYTES:  # each takes two brackets
        raise PayloadError(f"{what} is more JSON than the limit of {MAX_BYTES:,} bytes")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise PayloadError(f"{what} has the key {shown(key)}, which is not text; JSON keys are strings")
            if type(item) not in _SCALARS:
                _check_structure(item, what, depth + 1, seen)
    elif isinstance(value, (list, tuple)):
        for item in value:
            if type(item) not in _SCALARS:
                _check_structure(item, what, depth + 1, seen)


def _check_text(text: str, what: str) -> None:
    if "\\u0000" in text and _holds_nul(json.loads(text)):
        raise PayloadError(f"{what} holds a NUL character, which databases cannot keep; remove it")
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise PayloadError(
            f"{what} holds half a surrogate pair, which is not valid text; decode it properly"
        ) from error
    if size > MAX_BYTES:
        raise PayloadError(
            f"{what} is {size:,} bytes of JSON, the limit is {MAX_BYTES:,}; "
            "store the data elsewhere and pass a reference"
        )


def _holds_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any("\0" in key or _holds_nul(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_holds_nul, value))


def storable(text: str) -> str:
    """Any text, made fit to be stored: writing down a failure must never fail because of what it says."""
    clean = text.replace("\0", "\ufffd").encode("utf-8", "backslashreplace").decode()
    if len(clean) > MAX_ERROR_CHARACTERS:
        half = MAX_ERROR_CHARACTERS // 2
        clean = f"{clean[:half]}\n… {len(clean) - 2 * half:,} characters left out …\n{clean[-half:]}"
    return clean

"""Settings that hold in every process, as the database keeps them: rows of a type, a name, and a value in JSON."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from tq.models import STEERABLE, StoredSettings

PAUSED = "paused"


@lru_cache(maxsize=8)  # each exchange reads them, and they seldom change
def read_settings(rows: str) -> StoredSettings:
    """Settings as `look_around` tells them.

    >>> read_settings('[["", "paused", "true"], ["email", "rate_limit", "5"]]')
    StoredSettings(paused=frozenset({''}), types={'email': {'rate_limit': 5}})
    """
    paused: set[str] = set()
    types: dict[str, dict[str, Any]] = {}
    for type_, name, value in json.loads(rows):
        if name == PAUSED:
            paused.add(type_)
        elif name in STEERABLE:
            types.setdefault(type_, {})[name] = json.loads(value)
    return StoredSettings(frozenset(paused), types)

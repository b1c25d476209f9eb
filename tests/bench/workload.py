"""The work that is measured: inputs of a known size, and a body that does nothing but note that it ran."""

from __future__ import annotations

import mmap
import struct
import threading
import time
from pathlib import Path
from typing import Any

TYPE = "noop"
SMALL = 216  # bytes of JSON
LARGE = 4096
_SLOT = struct.Struct("qdd")  # how many bodies ran, when the first and the last did
_SLOTS = 16


def payload(number: int, size: int = SMALL) -> dict[str, Any]:
    """An input such as a mailing program has, padded to about `size` bytes of JSON."""
    message = {
        "number": number,
        "sent_at": 1_800_000_000.123456,
        "to": "someone@example.org",
        "subject": "monthly statement ready",
        "tags": ["billing", "monthly"],
    }
    return {**message, "padding": "x" * max(0, size - 160)}


def payloads(count: int, size: int = SMALL) -> list[dict[str, Any]]:
    return [payload(number, size) for number in range(count)]


class Tally:
    """Counts bodies in memory that all processes share: a slot for each worker process."""

    def __init__(self, path: Path, slot: int = 0) -> None:
        if not path.exists():
            path.write_bytes(bytes(_SLOT.size * _SLOTS))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SLOT.size * _SLOTS)
        self._offset = slot * _SLOT.size
        self._lock = threading.Lock()
        self._count = 0
        self._first = 0.0

    def hit(self) -> None:
        now = time.monotonic()  # the same clock in all processes
        with self._lock:
            self._count += 1
            self._first = self._first or now
            _SLOT.pack_into(self._map, self._offset, self._count, self._first, now)

    def count(self) -> int:
        return sum(count for count, _, _ in self._used())

    def rate(self) -> float:
        """Bodies in a second, from the first to the last one anywhere: starting Python does not count."""
        used = self._used()
        return (self.count() - 1) / (max(last for _, _, last in used) - min(first for _, first, _ in used))

    def _used(self) -> list[tuple[int, float, float]]:
        return [slot for slot in _SLOT.iter_unpack(self._map) if slot[0]]

"""The begin of a value: enough of it for a preview, however large it is. A page may have 200 of the largest inputs."""

from __future__ import annotations

from typing import Any


class Begin:
    """Takes values apart until so many characters were met; what lies behind is left out."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    @property
    def is_all(self) -> bool:
        """Whether nothing was left out."""
        return self._left >= 0

    def of(self, value: Any) -> Any:
        """
        >>> begin = Begin(10)
        >>> begin.of(["short", "a long text", "another"]), begin.is_all
        (['short', 'a l'], False)
        """
        if isinstance(value, str):
            text = value[: max(0, self._left)]
            self._left -= len(value)
            return text
        if isinstance(value, dict):
            return {key: self.of(item) for key, item in value.items() if self._has_room_for(key)}
        if isinstance(value, list):
            return [self.of(item) for item in value if self._has_room_for("")]
        return value

    def _has_room_for(self, key: str) -> bool:
        if self._left < 0:
            return False
        self._left -= len(key) + 1
        return True

"""How tasks are shown: secrets are masked, and long values in lists are cut.

Masking keeps secrets off screens and out of screenshots. It is no access control: who may look may also search.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from tq.desk import state_of
from tq.models import Task
from tq.views import Event, Explanation
from tq.web.answers import EventAnswer, ExplanationAnswer, TaskAnswer, TaskStory
from tq.web.begin import Begin

MASK = "[masked]"
PREVIEW_CHARACTERS = 300
_LOOKED_AT = 4 * PREVIEW_CHARACTERS

_SECRETS = (
    "passw(?:or)?d", "passphrase", "passwort", "secret", "token", "authorization", "api[-_ ]?key", "access[-_ ]?key",
    "private[-_ ]?key", "cookie", "credential", "signature", "session[-_ ]?id", "jwt", "bearer",
)  # fmt: skip
_SECRET_KEY = re.compile("|".join(_SECRETS), re.IGNORECASE)
_SECRET_IN_TEXT = re.compile(
    rf"((?:{'|'.join(_SECRETS)})[\w-]{{0,40}}[\"']?\s{{0,3}}[=:]\s{{0,3}})"
    r"((?:bearer|basic)\s+)?(\"[^\"]*\"?|'[^']*'?|[^\s\"',;&)}\]]+)",
    re.IGNORECASE,
)


class Display:
    """Shows tasks, with or without what they keep secret."""

    def __init__(self, show_secrets: bool = False) -> None:
        self._show_secrets = show_secrets

    def row(self, task: Task) -> TaskAnswer:
        """A task in a list: long values are cut to their begin."""
        values = {name: getattr(task, name) for name in ("input", "output", "error")}
        shown = {name: self._preview(value) for name, value in values.items()}
        cut = [name for name, (_, is_cut) in shown.items() if is_cut]
        return TaskAnswer(**_plain(task), **{name: value for name, (value, _) in shown.items()}, **_marks(cut))

    def whole(self, task: Task, timeline: Iterable[Event] = ()) -> TaskStory:
        """A task by itself: everything, with its story."""
        events = [EventAnswer(**event._replace(error=self._safe_text(event.error))._asdict()) for event in timeline]
        values = {name: self._safe(getattr(task, name)) for name in ("input", "output", "error")}
        return TaskStory(**_plain(task), **values, **_marks([]), timeline=events)

    def explanation(self, explanation: Explanation) -> ExplanationAnswer:
        sentence = self._safe_text(explanation.sentence) or ""
        return ExplanationAnswer(**explanation._replace(sentence=sentence)._asdict())

    def _preview(self, value: Any) -> tuple[Any, bool]:
        """The value, and whether it is only its begin, as a text."""
        begin = Begin(_LOOKED_AT)
        safe = self._safe(begin.of(value))
        text = safe if isinstance(safe, str) else json.dumps(safe, ensure_ascii=False)
        is_cut = not begin.is_all or len(text) > PREVIEW_CHARACTERS
        return (text[:PREVIEW_CHARACTERS] + "…", True) if is_cut else (safe, False)

    def _safe(self, value: Any) -> Any:
        return value if self._show_secrets else masked(value)

    def _safe_text(self, text: str | None) -> str | None:
        return text if text is None or self._show_secrets else masked_text(text)


def masked(value: Any) -> Any:
    """A value without what stands under keys that sound secret.

    >>> masked({"to": "a@example.com", "smtp": {"Password": "hunter2"}})
    {'to': 'a@example.com', 'smtp': {'Password': '[masked]'}}
    """
    if isinstance(value, dict):
        return {key: MASK if _SECRET_KEY.search(key) else masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [masked(item) for item in value]
    return masked_text(value) if isinstance(value, str) else value


def masked_text(text: str) -> str:
    """A text without what it says of a name that sounds secret.

    >>> masked_text("401 for Authorization: Bearer abc, password=hunter2")
    '401 for Authorization: [masked], password=[masked]'
    """
    return _SECRET_IN_TEXT.sub(lambda found: found[1] + MASK, text)


def _plain(task: Task) -> dict[str, Any]:
    kept = set(TaskAnswer.model_fields) - {"state", "input", "output", "error", "truncated", "previews"}
    return {name: getattr(task, name) for name in kept} | {"state": state_of(task)}


def _marks(cut: list[str]) -> dict[str, Any]:
    return {"truncated": bool(cut), "previews": cut}

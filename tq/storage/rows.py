"""Values from rows."""

from __future__ import annotations

import json
from typing import Any

from tq.models import Task
from tq.storage.driver import Row


def task_of(row: Row) -> Task:
    values: list[Any] = list(row)
    for column in (2, 7):  # input and output
        values[column] = None if values[column] is None else json.loads(values[column])
    return Task(*values)

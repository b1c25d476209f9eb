"""The program's own queue, `tq`: all the global state there is."""

from __future__ import annotations

from tq.queue import TaskQueue

tq = TaskQueue()
"""The program's own queue. It opens its database when it is first used."""

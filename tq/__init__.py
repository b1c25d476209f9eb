"""tq turns a file into a task queue.

>>> from tq import tq
>>> tq("email").set_worker(send).set_worker_count(3).set_rate_limit(5)  # doctest: +SKIP
>>> tq("email").add({"to": "a@example.com"})  # doctest: +SKIP
"""

from tq.context import TaskTypeContext
from tq.errors import PermanentError, ResultTimeout, RetryAfter, TaskCancelled, TaskFailed, TqError
from tq.executor import TaskContext, current_task
from tq.handle import TaskHandle
from tq.models import Task
from tq.queue import TaskQueue

__version__ = "0.1.0"

tq = TaskQueue()
"""The program's own queue. It opens its database when it is first used."""

__all__ = [
    "PermanentError",
    "ResultTimeout",
    "RetryAfter",
    "Task",
    "TaskCancelled",
    "TaskContext",
    "TaskFailed",
    "TaskHandle",
    "TaskQueue",
    "TaskTypeContext",
    "TqError",
    "current_task",
    "tq",
]

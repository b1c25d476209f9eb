"""tq turns a file into a task queue.

>>> from tq import tq
>>> def send(message):
...     return f"sent to {message['to']}"
>>> tq("email").set_worker(send).set_worker_count(3).set_rate_limit(5)
tq('email')
>>> tq("email").submit({"to": "a@example.com"}).result(timeout=30)
'sent to a@example.com'
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

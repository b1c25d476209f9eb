"""tq turns a file into a task queue.

>>> from tq import tq
>>> def send(message):
...     return f"sent to {message['to']}"
>>> tq("email").set_worker(send).set_worker_count(3).set_rate_limit(5)
tq('email')
>>> tq("email").submit({"to": "a@example.com"}).result(timeout=30)
'sent to a@example.com'
"""

TYPE_CHECKING = False  # type checkers take it for True, wherever it stands; importing typing would cost 5 ms

if TYPE_CHECKING:
    from tq.context import TaskTypeContext
    from tq.default import tq
    from tq.desk import Desk
    from tq.errors import PermanentError, ResultTimeout, RetryAfter, TaskCancelled, TaskFailed, TqError
    from tq.executor import TaskContext, current_task
    from tq.handle import TaskHandle
    from tq.models import Task
    from tq.queue import TaskQueue

__version__ = "0.1.0"

__all__ = [
    "Desk",
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

if not TYPE_CHECKING:  # a type checker that saw these would believe in any name
    _HOMES = {
        "context": ("TaskTypeContext",),
        "default": ("tq",),
        "desk": ("Desk",),
        "errors": ("PermanentError", "ResultTimeout", "RetryAfter", "TaskCancelled", "TaskFailed", "TqError"),
        "executor": ("TaskContext", "current_task"),
        "handle": ("TaskHandle",),
        "models": ("Task",),
        "queue": ("TaskQueue",),
    }

    def __getattr__(name):
        """Load a public name when it is first asked for: all of them take 80 ms, and `tq --version` needs none."""
        from importlib import import_module

        for module, names in _HOMES.items():
            if name in names:
                globals()[name] = getattr(import_module(f"tq.{module}"), name)
                return globals()[name]
        raise AttributeError(f"module 'tq' has no attribute {name!r}; for the queue in it, write: from tq import tq")

    def __dir__():
        return sorted({*globals(), *__all__})

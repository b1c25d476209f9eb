"""Every exception that tq raises, under one `TqError`. Each message says what happened and what to do."""

from __future__ import annotations

_SHOWN_CHARACTERS = 200


def shown(value: object) -> str:
    """A value as a message shows it: a refusal must not fail because what it refuses cannot be printed, or is huge."""
    try:
        text = repr(value)
    except Exception:
        return f"a value of type {type(value).__name__} that cannot be shown"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


class TqError(Exception):
    """Anything that tq itself refuses or cannot do."""


# --- mistakes in a call: nothing was stored or changed -----------------------------------------------------------


class InvalidOption(TqError, ValueError):
    """An option has a value that makes no sense, or a name that tq does not know."""


class PayloadError(TqError, ValueError):
    """The input of a task, or the result of a handler, cannot be kept as JSON."""


class NotInitialised(TqError):
    """The queue was stopped, or has no database."""


class MissingExtra(TqError, ImportError):
    """Something needs a package that `pip install tq-tasks` alone does not bring; the message says which."""


class NotInTask(TqError):
    """`current_task()` was called outside a handler."""


# --- trouble with the database -----------------------------------------------------------------------------------


class StorageError(TqError):
    """The database refused or failed; the message names the file and the way out."""


class DatabaseUnusable(StorageError):
    """The path is not something that can hold a queue: a directory, a text file, a read-only file."""


class NetworkFileSystem(StorageError):
    """The path lies on a network file system, where SQLite cannot lock safely."""


class UnsupportedSqlite(StorageError):
    """This Python carries a SQLite that is too old."""


class SchemaTooNew(StorageError):
    """The database was made by a newer tq."""


class DatabaseReplaced(StorageError):
    """The database file was deleted, moved or replaced while it was in use."""


class QueueMoved(StorageError):
    """The queue lives in another database now, or will in a moment, and this program could not follow it there."""

    def __init__(self, message: str, target: str, schema: str, done: bool, move_id: str) -> None:
        super().__init__(message)
        self.target = target
        self.schema = schema
        self.done = done
        self.move_id = move_id  # which stands in the new database too


class StorageFull(StorageError):
    """The disk, or the quota, is full. What was accepted before is safe."""


class StorageBusy(StorageError):
    """Another program held the database's write lock for too long."""


# --- what a handler may raise ------------------------------------------------------------------------------------


class PermanentError(Exception):
    """Raise it in a handler when trying again cannot help: the task fails at once.

    >>> def send(message):
    ...     raise PermanentError("no such mailbox")
    """


class RetryAfter(Exception):
    """Raise it in a handler to be run again after this many seconds.

    >>> def fetch(page):
    ...     raise RetryAfter(60, "the site asks us to slow down")
    """

    def __init__(self, seconds: float, reason: str = "") -> None:
        super().__init__(reason or f"asked to be retried after {seconds:g} s")
        self.seconds = seconds


class TaskTimeout(BaseException):
    """Raised inside a handler whose time is up. Not an `Exception`, so that `except Exception` lets it through."""


class TaskAborted(BaseException):
    """Raised inside a handler whose task was cancelled while it ran."""


class TaskInterrupted(BaseException):
    """Raised inside a handler that is still running when the worker's time to stop is over."""


# --- what waiting for a result may raise -------------------------------------------------------------------------


class TaskFailed(TqError):
    """The task has failed for good; `.task_id` and `.error` say which and why."""

    def __init__(self, task_id: str, error: str) -> None:
        super().__init__(f"task {task_id} failed: {error}")
        self.task_id = task_id
        self.error = error


class TaskCancelled(TqError):
    """The task was cancelled before it could succeed."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"task {task_id} was cancelled")
        self.task_id = task_id


class TaskNotFound(TqError, LookupError):
    """There is no task with this id: it was deleted, or lives in another database."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"there is no task {task_id}: it was deleted, or lives in another database")


class WrongState(TqError):
    """A task is not in a state in which this can be done with it; the message says which it is in."""


class ResultTimeout(TqError, TimeoutError):
    """The task had not ended when the time to wait for it was over. It goes on."""

"""What PostgreSQL's errors mean for a queue: which of them pass by themselves, and what to tell people of the rest."""

from __future__ import annotations

import psycopg
from psycopg import errors

from tq.errors import DatabaseUnusable, StorageBusy, StorageError, StorageFull

# The server chose us to give way to others. It has changed nothing.
GIVE_WAY = (errors.DeadlockDetected, errors.SerializationFailure, errors.LockNotAvailable)
# The server is away, restarts, or refuses for now: not the operation's fault.
PASSING = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    errors.ReadOnlySqlTransaction,
    errors.IdleInTransactionSessionTimeout,
)


def translate(error: psycopg.Error, name: str, schema: str) -> StorageError:
    """Turn an error of the server into one that says what to do."""
    text = str(error).strip().partition("\n")[0] or type(error).__name__
    match error:
        case errors.ReadOnlySqlTransaction():
            return StorageError(f"{name} is read-only for now; wait for it, or point tq at the writable server")
        case errors.DiskFull():
            return StorageFull(f"{name} has no room left ({text}); free some, nothing accepted is lost")
        case errors.InsufficientPrivilege() | errors.InvalidPassword() | errors.InvalidCatalogName():
            return DatabaseUnusable(f"cannot use {name}: {text}; ask for the rights, or give another database")
        case errors.UndefinedTable():
            lost = f"schema {schema} of {name} has lost tables of tq"
            return DatabaseUnusable(f"{lost} ({text}); restore it from a backup")
        case errors.DeadlockDetected() | errors.SerializationFailure() | errors.LockNotAvailable():
            return StorageBusy(f"{name}: others were in the way, again and again ({text}); try again")
        case psycopg.OperationalError() if "does not exist" in text:  # at connecting, which tells no code
            return DatabaseUnusable(f"cannot use {name}: {text}; create it, or give another address")
        case psycopg.OperationalError() | psycopg.InterfaceError() | errors.IdleInTransactionSessionTimeout():
            return StorageError(f"cannot reach {name}: {text}; check that the server runs, and the address")
    return StorageError(f"{name}: {text}")

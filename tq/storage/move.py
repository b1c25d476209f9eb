"""Moves a queue from a SQLite file to PostgreSQL while programs work on it: `tq move`.

    copy       all tasks, page by page, into a schema of its own beside the target; the old database logs what changes
    catch up   with the log, until little is left
    hold       all claims for a moment: workers give back what they have not started
    fence      the old file, by renaming its tables in one transaction: no program can change it any more
    verify     the last changes are copied, then counts and checksums of both sides must agree
    open       the target, by putting the copied tables in place in one transaction; programs follow to it

Killed between any two lines, it goes on where it was when it is run again. Three marks say how far it has come:
`fenced` and `done` in the old file, and in the target `moved_in`, which comes with the tables.

    fenced  moved_in  done    run                                              cancel
    no      no        no      copies, or goes on with it                       forgets the move
    yes     no        no      goes on behind the fence                         takes the fence away, forgets the move
    yes     yes       no      lets programs follow: sets `done`                refuses: the queue has opened there
    yes     yes       yes     refuses: it has moved already                    refuses: it has moved already

What fails behind the fence takes it away again. Where opening fails, the target is asked first whether it has opened
nevertheless; only if nobody can tell, the fence stays until the next run, which asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tq.errors import InvalidOption, StorageBusy, StorageError
from tq.storage import move_source
from tq.storage.address import shown
from tq.storage.driver import Session
from tq.storage.move_copy import Copy, Group, Tell, checksums
from tq.storage.move_source import Record
from tq.storage.move_target import Target, checked_target

FEW_CHANGES = 200  # so many may wait for the fence: they are copied in a moment


class Move:
    """`tell(step, done, of)` hears how far it is: of `copy`, `catch up`, `hold`, `fence`, `verify`, `open`,
    `finish` and `done`."""

    def __init__(self, source: Path, target: str, schema: str, new_id: Callable[[], str], tell: Tell) -> None:
        self._path = source
        self._target = target
        self._schema = checked_target(schema)
        self._new_id = new_id
        self._tell = tell
        self.begun = False  # whether there is something to go on with, or to cancel

    def run(self) -> list[Group]:
        """Move it, or go on with a move that was interrupted; answers with what was verified."""
        with move_source.alone(self._path):
            record = self._source_record()
            with self._target_alone() as target:
                if record is None:
                    target.refuse_tasks()
                    record = self._begin()
                elif record.fenced and target.has_opened(record.id):
                    target.drop_staging()
                    return self._finish([])
                return self._go_on(target, record)

    def _go_on(self, target: Target, record: Record) -> list[Group]:
        groups: list[Group] = []
        opening = False
        try:
            copy = Copy(target, record.id)
            if not record.fenced:
                self._copy_until_the_fence(copy)
            groups = self._complete(target, copy)
            opening = True
            self._tell("open", 0, 1)
            target.put_in_place(copy.id, copy.check)
        except BaseException as error:
            if not (opening and self._opened_nevertheless(target, record, error)):
                self._change(move_source.unfence)
                raise
        return self._finish(groups)

    # --- the steps -----------------------------------------------------------------------------------------------

    def _source_record(self) -> Record | None:
        """The move that was begun and is to go on, if any."""
        record = move_source.record_in(self._path)
        if record is None:
            return None
        where = f"{shown(record.target)}, schema {record.schema}"
        if record.done:
            raise InvalidOption(f"the queue in {self._path} has moved to {where} already, and works there")
        if (record.target, record.schema) != (self._target, self._schema):
            raise InvalidOption(
                f"the queue in {self._path} is being moved to {where}, and not to what you gave; give that address and "
                "schema, to go on or with --cancel to forget it"
            )
        self.begun = True
        return record

    @contextmanager
    def _target_alone(self) -> Iterator[Target]:
        target = Target(self._target, self._schema, self._how_to_give_another)
        with target.alone():
            yield target

    def _how_to_give_another(self) -> str:
        first = "forget this move with --cancel, then " if self.begun else ""
        return f"{first}give another schema with --schema"

    def _begin(self) -> Record:
        record = move_source.begin(self._path, Record(self._new_id(), self._target, self._schema, 0, 0))
        self.begun = True
        return record

    def _copy_until_the_fence(self, copy: Copy) -> None:
        with move_source.opened(self._path) as source:
            copy.all_tasks(source, self._tell)
            copy.changes(source, self._tell, FEW_CHANGES)
            self._tell("hold", 0, 1)
            move_source.hold_claims(source)
            self._tell("fence", 0, 1)
            source.write(move_source.fence)

    def _complete(self, target: Target, copy: Copy) -> list[Group]:
        """Behind the fence: the last changes, the small tables, and the comparison."""
        with move_source.opened(self._path, fenced=True) as source:
            copy.all_tasks(source, self._tell_quietly)  # those that came last; all, if the new side was emptied
            copy.changes(source, self._tell, 0)
            copy.small_tables(source)
            copy.make_key_index()  # here, and not while the target is held: it takes as long as there are tasks
            self._tell("verify", 0, 1)
            here, there = checksums(source), checksums(target.staging)
        if here != there:
            different = sorted({f"{group.name} {group.status}" for group in set(here) ^ set(there)})
            raise StorageError(
                f"the copy in {target.name} does not agree with {self._path} ({', '.join(different[:5])}), and the "
                "queue stays where it was: cancel this move with --cancel, begin anew, and please report this"
            )
        return here

    def _tell_quietly(self, _: str, done: int, of: int) -> None:
        self._tell("catch up", done, of)

    @staticmethod
    def _opened_nevertheless(target: Target, record: Record, error: BaseException) -> bool:
        """Whether the target opened although opening it failed: a commit stands whose answer was lost."""
        try:
            return target.has_opened(record.id)
        except StorageError:
            raise StorageError(
                f"{error or 'interrupted'}; whether the queue has opened in {target.name} is not known, and it stands "
                "still until another run, or one with --cancel, finds out"
            ) from error

    def _finish(self, groups: list[Group]) -> list[Group]:
        self._tell("finish", 0, 1)
        self._change(move_source.set_done)
        self._tell("done", 1, 1)
        return groups

    def _change(self, operation: Callable[[Session], None]) -> None:
        with move_source.opened(self._path) as source:
            source.write(operation)

    # --- giving up -----------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Forget a move that has not opened its target: the queue works on where it was."""
        with move_source.alone(self._path):
            record = self._source_record()
            if record is None:
                raise InvalidOption(f"the queue in {self._path} is not being moved")
            try:
                self._clear_target(record)
            except (StorageError, InvalidOption) as error:
                # Behind the fence it may have opened there, and another move may be filling the schema. Else what
                # cannot be reached, or is not ours, stays as it is.
                if record.fenced or isinstance(error, StorageBusy):
                    raise
            self._change(move_source.forget)

    def _clear_target(self, record: Record) -> None:
        with self._target_alone() as target:
            if record.fenced and target.has_opened(record.id):
                raise InvalidOption(
                    f"the queue has opened in {target.name} already; run the move once more, to let programs follow"
                )
            target.drop_staging()

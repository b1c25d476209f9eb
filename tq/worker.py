"""The worker: a loop whose one transaction settles what has ended and claims what comes next.

`step()` is the whole of it. In production a thread drives it and sleeps on the doorbell in between; the simulator
drives many of them over virtual time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

from tq.clock import Clock
from tq.errors import NotInitialised, QueueMoved, StorageError, TaskAborted, TaskInterrupted, TaskTimeout
from tq.ids import ids_of_minute
from tq.kinds import Kinds
from tq.lanes.job import Basket, Job, Lane
from tq.models import (
    DEFAULT_TIMEOUT,
    Cancelled,
    ClaimedTask,
    Failed,
    Outcome,
    Released,
    Retry,
    Settlement,
    TaskType,
    Transition,
    Want,
    WorkerRecord,
)
from tq.scheduler import Scheduler
from tq.storage.driver import Presence
from tq.storage.presence import identity
from tq.storage.store import Store
from tq.tally import KEPT_MINUTES, MINUTE, Tally

log = logging.getLogger("tq")

_GRACE_SECONDS = 1.0  # between asking a handler to stop and giving up on it
_TROUBLE_SECONDS = 10.0  # one line in this time while the database is in trouble
_RETRY_STORAGE_SECONDS = 0.5
_PARTING_SECONDS = 3.0  # how long a worker that stops, and runs nothing, waits for a database in trouble
_WATCH_SECONDS = (0.02, 1.0)
_MEAN_WEIGHT = 0.1
_LISTEN_SECONDS = 0.5  # how often a worker whose places are full asks whether a task of its own was cancelled
_COUNT_SECONDS = 5.0
_UNSETTLED_SECONDS = 0.02  # how long an outcome may wait for company while more lies claimed ahead


class Lanes(Protocol):
    """Gives each type the lane that its handlers run in."""

    def lane_of(self, kind: TaskType) -> Lane: ...

    def all(self) -> list[Lane]: ...


class Worker:
    def __init__(
        self,
        worker_id: str,
        store: Store,
        scheduler: Scheduler,
        clock: Clock,
        types: Callable[[], Mapping[str, TaskType]],
        make_lanes: Callable[[Basket, Presence, Callable[[], bool]], Lanes],
        poll_interval: float = 1.0,
        batch_size: int = 100,
        task_timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self.id = worker_id
        self._store = store
        self._scheduler = scheduler
        self._clock = clock
        self._kinds = Kinds(types)
        self._poll_interval = poll_interval
        self._batch_size = batch_size
        self._task_timeout = task_timeout
        self._basket = Basket(enough=max(1, batch_size // 2))
        pid = os.getpid()
        self._record = WorkerRecord(worker_id, socket.gethostname(), pid, identity(pid), clock.now())
        self._presence = store.enlist(self._record)
        self._basket.ring = self._presence.ring
        self._lanes = make_lanes(self._basket, self._presence, lambda: self.stopping)
        self._jobs: dict[str, Job] = {}  # claimed and not settled, by task id
        self._in_flight: Counter[str] = Counter()  # by type, what is in the lanes
        self._unsettled: list[tuple[Job, Outcome]] = []
        self._mean_seconds: dict[str, float] = {}
        self._described = ""
        self._tally, self._counted_minute = Tally(), 0
        self._look_at = self._listen_at = self._tidy_at = self._watch_at = self._complain_at = self._count_at = 0.0
        self._in_doubt = False
        self.in_trouble = False  # whether the database refused the last step
        self._stopped_at = 0.0
        self._look = self._interrupted = self.stopping = False
        self.done = threading.Event()
        self.at_end: Callable[[], None] = lambda: None

    # --- the loop ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Step and sleep until told to stop, and until nothing can be ours any more, known or not."""
        try:
            seconds = self._guarded_step()
            while (not self.stopping or self._jobs or self._in_doubt) and not self._parts():
                self._sleep(seconds)
                seconds = self._guarded_step()
            if not self.in_trouble:
                self._say_goodbye()
            else:
                log.warning("the worker stops without its database; what was claimed or not yet settled runs again")
        except NotInitialised:
            log.warning("the queue was closed while tasks ran; the next worker on this database takes them over")
        except QueueMoved as moved:
            log.critical("the worker ends: %s", moved)
        except Exception:
            log.critical("the worker met an error that it cannot work with, and ends", exc_info=True)
        finally:
            self._leave()

    def _parts(self) -> bool:
        """Whether to stop without the database: it is in trouble, nothing runs, and no outcome waits to be written."""
        waited = self._clock.monotonic() - self._stopped_at
        idle = not any(self._in_flight.values()) and (self._interrupted or not self._unsettled)
        return self.stopping and self.in_trouble and idle and waited > _PARTING_SECONDS

    def _guarded_step(self) -> float:
        try:
            seconds = self.step()
            self.in_trouble = False
            return seconds
        except (NotInitialised, QueueMoved):
            raise
        except StorageError as error:
            self._in_doubt = self._look = self.in_trouble = True
            self._complain(f"the queue cannot work for now, and will go on by itself: {error}")
        except Exception:
            self._in_doubt = self._look = True
            log.exception("the worker met an unexpected error and goes on")
        self._presence.wait(_RETRY_STORAGE_SECONDS)  # whatever has ended meanwhile: it could not be settled either
        return 0.0

    def _sleep(self, seconds: float) -> None:
        self._basket.awaited = True
        if not self._basket and seconds > 0:
            self._presence.wait(seconds)
        self._basket.awaited = False

    def step(self) -> float:
        """Settle, claim, start; answers with the seconds until there is something to do without being rung for."""
        now = self._clock.monotonic()
        self._watch(now)  # what needs no database comes first: it may be away
        for job, outcome in self._basket.empty():
            self._end(job, outcome)
        if self.stopping:
            self._give_back(lambda type_: True)
        self._tidy(now)
        configuring = self._scheduler.configuring(self._kinds)  # before the wants: it may end between the two
        living = self._presence.counts_as_living
        wants = self._wants() if living and not self.stopping else []
        # The exchange also tells what was cancelled, and whether others took us for dead.
        if self._unsettled or wants or self._look or not living or (self._jobs and self._listen_at <= now):
            self._exchange(wants)
        elif self._look_at <= now:
            self._look_at = now + self._poll_interval
        return self._idle_seconds(configuring)

    def _exchange(self, wants: list[Want]) -> None:
        ended = self._unsettled
        settlements = [
            self._settlement(job.task, outcome, frees_place=job.kind.global_limit is not None) for job, outcome in ended
        ]
        self._look = False
        claimed, lost, look_again_in, settings, cancelled, enlisted = self._store.exchange(
            self.id, settlements, wants, self._clock.now, self._kinds.settings
        )
        self._unsettled = []
        self._settled([job for job, _ in ended], settlements, lost)
        self._in_doubt = self._in_doubt or bool(lost)
        seconds = self._poll_interval if look_again_in is None else min(self._poll_interval, look_again_in)
        self._look_at = self._clock.monotonic() + seconds
        self._listen_at = self._clock.monotonic() + _LISTEN_SECONDS
        if not enlisted:
            self._come_back()
        if claimed:
            self._start(claimed)
        for task_id, by in cancelled.items():
            self._cancel(task_id, by)
        if self._kinds.adopt(settings):
            self._look = True
            self._give_back(lambda type_: True)  # it was claimed as the settings were
        elif settings.paused:
            self._give_back(settings.holds_back)

    def _settled(self, jobs: list[Job], settlements: list[Settlement], lost: list[ClaimedTask]) -> None:
        now = self._clock.now()
        for job, settlement in zip(jobs, settlements, strict=True):
            self._forget(job)
            if job.begun_at is not None:
                self._tally.ended(job.task, settlement.transition, job.seconds, now)
        lost = self._really_lost(lost, settlements) if lost else lost
        for task in lost:
            log.warning("task %s was no longer ours when it ended; its result was dropped", task.id)
        for settlement in settlements:
            if settlement.transition.status == "failed" and settlement.task not in lost:
                self._tell(settlement.task, settlement.transition)

    def _really_lost(self, refused: list[ClaimedTask], settlements: list[Settlement]) -> list[ClaimedTask]:
        """Without those that are stored already, by an exchange whose answer was lost: they were sent again."""
        try:
            stored = [each.task for each in settlements if each.task in refused and self._is_stored(each)]
        except StorageError:  # nobody can look now
            return refused
        return [task for task in refused if task not in stored]

    def _is_stored(self, settlement: Settlement) -> bool:
        task, transition = settlement.task, settlement.transition
        found = self._store.get(task.id)
        meant = (task.version + 1, transition.status, transition.error)
        return found is not None and (found.version, found.status, found.error) == meant

    def _give_back(self, concerns: Callable[[str], bool]) -> list[Job]:
        """Release claimed tasks whose handlers have not started."""
        jobs = [job for lane in self._lanes.all() for job in lane.withdraw(concerns)]
        for job in jobs:
            self._end(job, Released())
        return jobs

    def _end(self, job: Job, outcome: Outcome) -> None:
        """A job has left its lane: its place is free, and its outcome goes with the next exchange."""
        self._in_flight[job.task.type] -= 1
        self._unsettled.append((job, outcome))

    def _settlement(self, task: ClaimedTask, outcome: Outcome, frees_place: bool = False) -> Settlement:
        details = outcome.details if isinstance(outcome, (Retry, Failed)) else None
        return Settlement(task, self._scheduler.decide(task, outcome), details, frees_place)

    def _tell(self, task: ClaimedTask, failure: Transition) -> None:
        what = (task.attempts, task.max_attempts, task.id, task.type)
        if failure.run_after is None:
            log.error("attempt %d of %d of task %s (%s) failed, for good: %s", *what, failure.error)
        else:
            seconds = max(0, round(failure.run_after - self._clock.now()))
            log.warning("attempt %d of %d of task %s (%s) failed, next in %d s: %s", *what, seconds, failure.error)

    def _forget(self, job: Job) -> None:
        task = job.task
        self._presence.settled(task.id)
        self._jobs.pop(task.id, None)
        if job.begun_at is not None:
            mean = self._mean_seconds.get(task.type, job.seconds)
            self._mean_seconds[task.type] = mean + (job.seconds - mean) * _MEAN_WEIGHT

    def _start(self, claimed: list[ClaimedTask]) -> None:
        types = {kind.name: kind for kind in self._kinds}
        now = self._clock.monotonic()
        by_type: dict[str, list[Job]] = {}
        for task in claimed:
            job = Job(task, types[task.type], now, self._task_timeout)
            self._jobs[task.id] = job
            self._in_flight[task.type] += 1
            self._watch_at = min(self._watch_at, now + job.timeout)
            by_type.setdefault(task.type, []).append(job)
        refused = [error for jobs in by_type.values() if (error := self._refusal(jobs)) is not None]
        if refused:
            raise refused[0]

    def _refusal(self, jobs: list[Job]) -> Exception | None:
        """Hand jobs to their lane. If it cannot start them, as without threads, they go back, and we hear why."""
        try:
            self._lane(jobs[0]).start(jobs)
        except Exception as error:
            taken = self._give_back(jobs[0].task.type.__eq__)
            for job in jobs:
                if job not in taken:
                    self._end(job, Released())
            return error
        return None

    # --- how much to take, how long to sleep ---------------------------------------------------------------------

    def _wants(self) -> list[Want]:
        wants = (self._scheduler.want(kind, self._in_flight[kind.name], self._ahead(kind)) for kind in self._kinds)
        return [want for want in wants if want is not None]

    def _ahead(self, kind: TaskType) -> int:
        return self._scheduler.ahead(kind, self._mean_seconds.get(kind.name), self._batch_size)

    def _idle_seconds(self, configuring: float) -> float:
        if self._unsettled or self._look:
            return 0.0
        moments = [self._look_at, self._tidy_at]
        if self._jobs:
            moments += [self._watch_at, self._listen_at]
        seconds = min(moments) - self._clock.monotonic()
        if any(self._in_flight[kind.name] > kind.worker_count for kind in self._kinds):
            seconds = min(seconds, _UNSETTLED_SECONDS)
        return min(seconds, configuring) if configuring else seconds

    # --- handlers that take too long -----------------------------------------------------------------------------

    def _watch(self, now: float) -> None:
        if self._interrupted:
            self._interrupt_handlers(now)
        if now < self._watch_at or not self._jobs:
            return
        shortest, longest = _WATCH_SECONDS
        tenth = min(job.timeout for job in self._jobs.values()) / 10
        self._watch_at = now + min(longest, max(shortest, tenth))
        late: set[str] = set()
        for job in list(self._jobs.values()):
            if job.running:
                self._watch_handler(job, now)
            elif job.begun_at is None and now - job.claimed_at > longest:
                late.add(job.task.type)
                self._mean_seconds[job.task.type] = now - job.claimed_at
        if late:  # handlers have become slow: what was claimed ahead goes back, others may be free
            self._give_back(late.__contains__)

    def _interrupt_handlers(self, now: float) -> None:
        for job in self._jobs.values():
            self._lane(job).strike(job, TaskInterrupted, "interrupted, because the worker was stopped", now)

    def _watch_handler(self, job: Job, now: float) -> None:
        if job.struck_at is None:
            if job.begun_at is not None and now - job.begun_at > job.timeout:
                self._lane(job).strike(job, TaskTimeout, f"timed out after {job.timeout:g} s", now)
        elif now - job.struck_at > _GRACE_SECONDS:
            self._abandon(job)

    def _abandon(self, job: Job) -> None:
        if not job.give_up():
            return
        job.seconds = self._clock.monotonic() - (job.begun_at or job.claimed_at)
        reason = f"{job.struck_why}, and its handler would not stop"
        self._end(job, Cancelled(reason) if job.struck_why == job.cancelled else Retry(reason))
        log.warning(
            "task %s (%s) %s, but its handler runs on, outside its place", job.task.id, job.task.type, job.struck_why
        )
        self._lane(job).abandon(job)

    def _cancel(self, task_id: str, by: str) -> None:
        """Stop a task of ours, or see to it that it does not start. One that has ended already stays what it became."""
        job = self._jobs.get(task_id)
        if job is not None and not job.struck:
            job.cancelled = f"cancelled by {by}"
            self._lane(job).strike(job, TaskAborted, job.cancelled, self._clock.monotonic())
            self._watch_at = 0.0  # for the case that it will not stop

    def _lane(self, job: Job) -> Lane:
        return self._lanes.lane_of(job.kind)

    @property
    def busy(self) -> bool:
        """Whether it has claimed tasks that have not ended. Any thread may ask."""
        return bool(self._jobs)

    def owns(self, task_id: str) -> bool:
        """Whether this worker has claimed the task and not settled it. Any thread may call it."""
        return task_id in self._jobs

    def overdue(self) -> int:
        """Handlers that were given up on and still run."""
        return sum(lane.overdue() for lane in self._lanes.all())

    # --- other workers, and our own doubts -----------------------------------------------------------------------

    def _tidy(self, now: float) -> None:
        if self._in_doubt:
            self._reconcile()
        self._describe()
        if now < self._tidy_at:
            return
        self._tidy_at = now + self._poll_interval
        for task in self._store.recover(self.id, self._scheduler.decide, self._clock.now()):
            log.warning("recovered task %s (%s) from a worker that died", task.id, task.type)
        self._count(now)

    def _describe(self) -> None:
        """Tell those who look from other processes what this one works on."""
        description = self._kinds.description(self.overdue())
        if description != self._described and not self._scheduler.configuring(self._kinds):
            self._store.describe_worker(self.id, description)
            self._described = description

    def _count(self, now: float) -> None:
        """Store what happened in the last seconds, for those who look."""
        if now < self._count_at:
            return
        self._count_at = now + _COUNT_SECONDS
        rows = self._tally.taken()
        if rows:  # where they cannot be stored they are lost: better than counted twice
            self._store.minutes.add(rows)
        minute = int(self._clock.now() // MINUTE) - 1
        if minute != self._counted_minute:
            self._described = ""  # in case that the queue has moved
            self._store.minutes.count_new(minute, KEPT_MINUTES, ids_of_minute)
            self._counted_minute = minute

    def _reconcile(self) -> None:
        """After a commit of unknown fate: give back what the store says is ours and we know nothing of."""
        strangers = [task for task in self._store.owned_by(self.id) if task.id not in self._jobs]
        settlements = [self._settlement(task, Released()) for task in strangers]
        if settlements:
            self._store.exchange(self.id, settlements, [], self._clock.now)
        self._in_doubt = False

    def _come_back(self) -> None:
        """Others took us for dead, and took over what we had claimed."""
        log.warning("this worker was silent for too long, and others took over its tasks; it goes on with new ones")
        self._give_back(lambda type_: True)
        self._store.enlist_again(self._record)
        self._described = ""
        self._look = True

    def _complain(self, message: str) -> None:
        now = self._clock.monotonic()
        if now >= self._complain_at:
            self._complain_at = now + _TROUBLE_SECONDS
            log.error(message)

    # --- stopping ------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Claim nothing more and give back what has not started; what runs may end. Any thread may call it."""
        if not self.stopping:
            self._stopped_at = self._clock.monotonic()
        self.stopping = True
        self._presence.ring()

    def interrupt(self) -> None:
        """Ask every running handler to stop now. Any thread may call it."""
        self._interrupted = True
        self._presence.ring()

    def look(self) -> None:
        """Look at the store at once: something was paused or changed. Any thread may call it."""
        self._look = True
        self._presence.ring()

    def _say_goodbye(self) -> None:
        try:
            self._store.minutes.add(self._tally.taken())
            self._store.retire(self.id)
            self._presence.leave()
        except StorageError as error:
            log.warning("the worker left without saying goodbye: %s", error)

    def _leave(self) -> None:
        """Start nothing more, and let go of the lock: what is still ours now goes to the next worker."""
        try:
            for lane in self._lanes.all():
                lane.withdraw(lambda type_: True)
                lane.close()
            with contextlib.suppress(OSError):
                self._presence.drop()
        finally:
            self.done.set()
            self.at_end()

"""What must hold when a schedule has come to its end: the database as a new program would find it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.simulation.invariants import Violation
from tests.simulation.meddling import Meddling
from tests.simulation.world import World
from tq.models import TaskSpec
from tq.storage.store import Store


def check_ending(world: World) -> list[Violation]:
    return [
        *_every_accepted_task_has_ended(world),
        *_every_add_is_whole(world),
        *_every_add_answers_with_its_task(world),
        *_side_tables_agree(world),
        *(Violation("the database is sound", None, text) for text in world.database.defects()),
        *_stats_agree(world),
    ]


def _every_accepted_task_has_ended(world: World) -> Iterator[Violation]:
    accepted = {task for event in world.history.events if event.what == "added" for task in event.facts["ids"]}
    for task in accepted - set(world.history.rows) - world.history.deleted:
        yield Violation("an accepted task is never lost", task, "it is not there")
    for task, row in world.history.rows.items():
        if not row.ended:
            yield Violation("an accepted task is never lost", task, f"it has not ended: {row.status}")


def _every_add_is_whole(world: World) -> Iterator[Violation]:
    """All tasks of a call or none, each with its input: whether it returned, raised, or died in the middle."""
    query = "SELECT id, coalesce(input, (SELECT input FROM task_inputs WHERE task_id = id)) FROM tasks"
    inputs = dict(world.database.ask(query))  # type: ignore[arg-type]
    for event in world.history.events:
        if event.what != "adding" or "specs" not in event.facts:
            continue
        specs: list[TaskSpec] = event.facts["specs"]
        present = [spec for spec in specs if spec.id in inputs or spec.id in world.history.deleted]
        if present and len(present) != len(specs):
            yield Violation("all tasks of an add or none", present[0].id, f"{len(present)} of {len(specs)}")
        for spec in present:
            if inputs.get(spec.id, spec.input) != spec.input:
                yield Violation("a task has the input it was added with", spec.id, repr(inputs[spec.id]))
    orphans = "SELECT task_id FROM task_inputs WHERE task_id NOT IN (SELECT id FROM tasks)"
    for (task,) in world.database.ask(orphans):
        yield Violation("no input without its task", task, "")


def _every_add_answers_with_its_task(world: World) -> Iterator[Violation]:
    """Its own, or the one that already holds the key; and no two tasks hold the same."""
    keys = {task: (type_, key) for task, type_, key in world.database.ask("SELECT id, type, key FROM tasks")}
    specs = {
        spec.id: spec
        for event in world.history.events
        if event.what == "adding"
        for spec in event.facts.get("specs", ())
    }
    held = {**{task: (specs[task].type, specs[task].key) for task in world.history.deleted}, **keys}
    for event in world.history.events:
        if event.what == "added":
            for asked, answered in zip(event.facts["specs"], event.facts["ids"], strict=True):
                spec = specs[asked]
                if answered != asked and (spec.key is None or held.get(answered) != (spec.type, spec.key)):
                    yield Violation("an add answers with its own task", asked, f"answered {answered}")
    for (type_, key), count in Counter(keys.values()).items():
        if key is not None and count > 1:
            yield Violation("a key is held by one task", None, f"{type_} {key}: {count}")


def _side_tables_agree(world: World) -> Iterator[Violation]:
    counted = "SELECT type, status, count FROM finished_counts WHERE count != 0"
    ended = "SELECT type, status, count(*) FROM tasks WHERE completed_at IS NOT NULL GROUP BY type, status"
    if sorted(world.database.ask(counted)) != sorted(world.database.ask(ended)):
        yield Violation("the kept counts are those of the rows", None, "")
    told = {story for story in _stories(world) if story[0] not in world.history.deleted}
    for task, version in told ^ set(world.database.ask("SELECT task_id, version FROM attempts")):
        yield Violation("every failed attempt is told, and no other", task, f"version {version}")


def _stories(world: World) -> Iterator[tuple[str, int]]:
    """What the history of a task should tell: attempts that did not end well, and what operators did to it."""
    for event in world.history.events:
        if event.what != "changed" or event.facts["old"] is None:
            continue
        old, new = event.facts["old"], event.facts["new"]
        if new.version != old.version and Meddling.did(event):
            yield event.task or "", new.version
        elif old.running and new.status in ("failed", "cancelled"):
            yield event.task or "", old.version


def _stats_agree(world: World) -> Iterator[Violation]:
    store = Store(world.database.open_plainly())
    stats = store.stats()
    store.close()
    rows = Counter(row.status for row in world.history.rows.values())
    if any(stats[status] != rows[status] for status in ("to-do", "in-progress", "success", "failed", "cancelled")):
        yield Violation("stats are those of the rows", None, f"{stats} but {dict(rows)}")

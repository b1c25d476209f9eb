"""Two queues on one file, two programs on a fresh one: neither knows of the other, and nothing goes wrong."""

from __future__ import annotations

from tests.chaos.checker import check
from tests.chaos.databases import rows
from tests.chaos.rig import Rig

RACES = 20


def test_two_queues_in_one_process_share_a_file(rig: Rig) -> None:
    rig.finish("two_queues")
    check(rig.database, rig.history, {})
    assert len(rig.history.events("accepted")) == 100
    assert rig.complaints() == ""


def test_two_programs_may_open_a_fresh_database_at_the_same_moment(rig: Rig) -> None:
    programs = [rig.start("race_to_open", RACES) for _ in range(2)]
    for program in programs:
        assert program.wait() == 0, program.complaints()
    for number in range(RACES):
        database = rig.folder / f"{number}.db"
        assert rows(database, "SELECT count(*) FROM tq_schema") == [(1,)]
        assert rows(database, "SELECT count(*) FROM tasks") == [(2,)]

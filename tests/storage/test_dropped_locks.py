"""A lock belongs to every descriptor on its open file, a memory map's own included: letting go means all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.claims import claimed
from tq.models import WorkerRecord
from tq.storage.presence import LockFilePresence, autopsy, identity
from tq.storage.write_lock import WriteLock

WORKER = WorkerRecord("0" * 36, "host", os.getpid(), identity(os.getpid()), 0.0)

A_PARENT_DIES_IN_A_TRANSACTION_AND_ITS_CHILD_LIVES_ON = """
import os, sys
from pathlib import Path
from tq.storage.write_lock import WriteLock

lock = WriteLock(Path(sys.argv[1]))
with lock.held():
    if os.fork():
        os._exit(0)
    lock.drop()
    print("dropped", flush=True)
    sys.stdin.readline()
    os._exit(0)
"""


def test_a_dropped_presence_leaves_a_dead_worker_behind(folder: Path):
    presence = LockFilePresence(folder, WORKER.id)
    presence.started(claimed("a" * 36, 7))
    assert autopsy(folder, WORKER) is None
    presence.drop()
    found = autopsy(folder, WORKER)
    assert found is not None and found.started == {("a" * 36, 7)}


def test_a_forked_child_does_not_keep_its_parents_write_lock(folder: Path):
    path = folder / "write.lock"
    program = [sys.executable, "-c", A_PARENT_DIES_IN_A_TRANSACTION_AND_ITS_CHILD_LIVES_ON, str(path)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        assert parent.stdout.readline() == "dropped\n"
        assert parent.wait(timeout=60) == 0
        lock = WriteLock(path)
        with lock.held():  # would wait for as long as the child lives
            parent.stdin.write("\n")
        lock.close()

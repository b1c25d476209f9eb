"""Real processes for tests: forked children that report back, and end without running what belongs to pytest."""

from __future__ import annotations

import contextlib
import json
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def in_child(work: Callable[[], Any]) -> Any:
    """What the work answers (JSON) in a forked child; its failure fails the test."""
    with child(work) as (_, answer):
        return answer()


@contextmanager
def child(work: Callable[[], Any]) -> Iterator[tuple[int, Callable[[], Any]]]:
    """A forked child that does the work: its pid, and a function that waits for its answer."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():  # Python 3.12 on warns of forks in programs with threads: that is what is tested
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(reader)
        _report(work, writer)
    os.close(writer)
    try:
        yield pid, lambda: _answer(reader)
    finally:
        os.close(reader)
        with contextlib.suppress(ChildProcessError):  # the test has waited for it
            os.waitpid(pid, 0)


def _report(work: Callable[[], Any], writer: int) -> None:
    try:
        report = {"answer": work()}
    except BaseException:
        report = {"failure": traceback.format_exc()}
    with contextlib.suppress(BrokenPipeError), os.fdopen(writer, "w") as pipe:  # nobody may want to know
        json.dump(report, pipe)
    os._exit(0)


def _answer(reader: int) -> Any:
    text = b""
    while piece := os.read(reader, 65536):
        text += piece
    assert text, "the child died without an answer"
    report = json.loads(text)
    assert "failure" not in report, report["failure"]
    return report["answer"]


def as_nobody(work: Callable[[], Any]) -> Any:
    """The work's answer in a child that is not root: root may write what is read-only."""

    def demoted() -> Any:
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        return work()

    return in_child(demoted)

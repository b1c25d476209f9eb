"""`tq demo`: a queue at work, a worker that is killed in the middle, and nothing lost."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

_EXPLAINED = """
It takes about 12 seconds, works in a temporary folder, and leaves nothing
behind. 70 tasks of two types are added to a queue in a SQLite file. A worker
process runs them: one type at a limited rate, the other with tasks that fail
and are tried again. In the middle the worker is killed with kill -9, and a
second one takes over. The end shows what became of every task."""


def configure(parser: ArgumentParser) -> None:
    parser.description = f"{parser.description}\n{_EXPLAINED}"
    parser.set_defaults(run=run)


def run(_: Namespace) -> int:
    from tq.cli.demo.stage import perform

    return perform()

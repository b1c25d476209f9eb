"""The command line: `tq` and `tqctl`."""

from tq.cli.main import main

__all__ = ["main"]

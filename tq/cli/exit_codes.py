"""How a command says with a number what became of it."""

from __future__ import annotations

OK = 0
TROUBLE = 1
USAGE = 2
INTERRUPTED = 130
PIPE_CLOSED = 141

EXPLAINED = f"""\
exit codes:
  {OK}    it worked
  {TROUBLE}    it did not; the last line says why, and what to do
  {USAGE}    the command was not understood
  {INTERRUPTED}  it was stopped with Ctrl-C
  {PIPE_CLOSED}  whatever read its output went away"""

"""mypy refuses a wrong payload, and nothing else: exactly the marked lines of the sample program have errors."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SAMPLE = Path("tests/typing/typed_contexts.py")
MARK = re.compile(r"  # E: (?P<code>[a-z-]+)$")
ERROR = re.compile(rf"{re.escape(str(SAMPLE))}:(?P<line>\d+): error: (?P<text>.*)  \[(?P<code>[a-z-]+)\]")
TIMEOUT_SECONDS = 100


def marked_lines() -> set[tuple[int, str]]:
    lines = enumerate((ROOT / SAMPLE).read_text(encoding="utf-8").splitlines(), start=1)
    return {(number, mark["code"]) for number, line in lines if (mark := MARK.search(line))}


def mypy(cache: Path) -> str:
    """What mypy says to a user with an empty configuration; what tq itself contains is the linter's business."""
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--no-pretty", f"--cache-dir={cache}"]
    command = [sys.executable, "-m", "mypy", *options, str(SAMPLE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert done.returncode == 1, f"mypy did not do its work:\n{done.stdout}{done.stderr}"
    return done.stdout


def test_mypy_refuses_exactly_the_wrong_lines(folder: Path):
    said = mypy(cache=folder)
    refused = {(int(found["line"]), found["code"]) for found in ERROR.finditer(said)}
    assert refused == marked_lines(), said
    assert said.count(": error: ") == len(refused), f"an error somewhere else:\n{said}"


def test_the_sample_has_right_and_wrong_lines():
    assert len(marked_lines()) > 10

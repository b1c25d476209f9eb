"""`tq demo` shows that a killed worker loses nothing, wherever it is shown, and leaves nothing behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import (
    DEADLINE_SECONDS,
    PROGRAM,
    WITHOUT_RICH,
    Terminal,
    command,
    environment,
    tq,
    wait_until,
    workers_of,
)

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def check_the_story(lines: list[str]) -> None:
    """The kill, the second worker, and that nothing was lost."""
    told = " ".join(" ".join(lines).split())
    killed = re.search(r"kill -9 (\d+): the worker is gone, in the middle of (\d+) tasks", told)
    assert killed, told
    assert f"It sees that {killed[1]} is dead, and runs those {killed[2]} tasks again." in told
    assert re.search(r"email 30 30 0 0 \d+ thumbnail 40 39 1 0 \d+ Nothing was lost\.", told)
    assert "photo5.jpg failed (TimeoutError: no answer). It will be tried again." in told
    assert "photo11.jpg failed for good (PermanentError: not a picture)." in told


def check_that_nothing_is_left(folder: Path) -> None:
    wait_until(lambda: not list(folder.iterdir()), "the demo's files to go")
    wait_until(lambda: not workers_of(folder), "the demo's worker to end")


def test_in_a_pipe_the_demo_is_plain_lines_whose_last_ones_can_be_pasted(folder: Path):
    done = tq("demo", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
    check_the_story(done.stdout.splitlines())
    check_that_nothing_is_left(folder)
    pasted = "".join(re.findall(r"^    (?=\S)(.*\n)", done.stdout, re.MULTILINE))
    said = subprocess.run(
        [sys.executable, "-i", "-W", "error"],
        input=pasted,
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=True,
    )
    assert "hello, world\n{'to-do': 0" in said.stdout


@pytest.mark.parametrize(
    ("program", "columns"), [(PROGRAM, 80), (WITHOUT_RICH, 60)], ids=["with rich, 80 columns", "bare, 60 columns"]
)
def test_in_a_terminal_the_demo_draws_one_picture_that_fits(program: str, columns: int, folder: Path):
    with Terminal("demo", folder=folder, columns=columns, program=program) as terminal:
        terminal.read_until(None)
        assert terminal.exit_code() == 0
        lines = terminal.lines()
        written = ESCAPES.sub("", terminal.output).splitlines()
    assert [line for line in written if len(line) > columns] == []
    check_the_story(lines)
    assert [line for line in lines if "30 of 30" in line] == ["  " + 30 * "■" + "  30 of 30"]
    assert [line for line in lines if "39 of 40" in line] == ["  " + 10 * "■" + "✗" + 29 * "■" + "  39 of 40"]
    assert len([line for line in lines if "■ done" in line]) == 1, "the picture was drawn twice"
    assert "!" in "".join(line for line in written if "of 40" in line), "what the kill cut off was not shown"
    check_that_nothing_is_left(folder)


@pytest.mark.parametrize("program", [PROGRAM, WITHOUT_RICH], ids=["with rich", "bare"])
def test_ctrl_c_ends_the_demo_and_leaves_nothing_behind(program: str, folder: Path):
    with Terminal("demo", folder=folder, program=program) as terminal:
        terminal.read_until("will be tried again")
        assert workers_of(folder), "there is no worker to end"
        terminal.press_ctrl_c()
        terminal.read_until(None)
        assert terminal.exit_code() == 130
        assert terminal.lines()[-2:] == ["tq: stopped; the demo's worker has ended and its files are gone", ""]
    check_that_nothing_is_left(folder)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)],
    ids=lambda value: str(value),
)
def test_a_demo_that_is_ended_from_outside_leaves_nothing_behind(number: signal.Signals, code: int, folder: Path):
    with Terminal("demo", folder=folder) as terminal:
        terminal.read_until("will be tried again")
        terminal.process.send_signal(number)
        assert terminal.exit_code() == code
    check_that_nothing_is_left(folder)


def test_a_reader_that_goes_away_ends_the_demo(folder: Path):
    demo = subprocess.Popen(
        command("demo"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=environment(folder)
    )
    assert demo.stdout and demo.stderr
    assert demo.stdout.readline().startswith(b"tq demo")
    demo.stdout.close()
    assert demo.wait(DEADLINE_SECONDS) == 141
    assert demo.stderr.read() == b""
    demo.stderr.close()
    check_that_nothing_is_left(folder)


def test_modules_in_the_working_directory_are_not_mistaken_for_ours(folder: Path):
    for name in ("tq", "queue", "sqlite3", "logging"):
        (folder / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    temporary = folder / "temporary"
    temporary.mkdir()
    program = "import sys; sys.path.remove(''); from tq.cli import main; sys.exit(main())"
    with Terminal("demo", folder=folder, temporary=temporary, program=program) as terminal:
        terminal.read_until("will be tried again")
        terminal.press_ctrl_c()
        terminal.read_until(None)
        assert terminal.exit_code() == 130
    check_that_nothing_is_left(temporary)


def test_a_worker_that_cannot_start_is_told_in_a_sentence(folder: Path):
    program = "import sys; sys.executable = '/bin/false'; from tq.cli import main; sys.exit(main())"
    done = tq("demo", folder=folder, program=program)
    assert done.returncode == 1
    assert done.stderr.startswith("tq: the demo's worker ended by itself: it did not say why;")
    assert len(done.stderr.splitlines()) == 1
    check_that_nothing_is_left(folder)

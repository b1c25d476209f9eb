"""The README's two commands are the ones that `.ci/run` and a newcomer rely on."""

from __future__ import annotations

from tests.docs.pages import ROOT, read

TRY_IT = "python3 -m venv .venv && .venv/bin/pip install -q '.[cli]' && .venv/bin/tq demo"
TEST_IT = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/pytest -q -n 2"


def test_the_readme_has_exactly_two_commands():
    blocks = read(ROOT / "README.md").blocks()
    assert [block.text for block in blocks if block.language == "sh"] == [TRY_IT + "\n", TEST_IT + "\n"]
    assert {block.language for block in blocks} <= {"sh", "python", "text"}


def test_one_line_in_a_fenced_block_names_pytest():
    lines = [line for block in read(ROOT / "README.md").blocks() for line in block.text.splitlines()]
    assert [line for line in lines if "pytest" in line] == [TEST_IT]


def test_the_first_screen_has_the_command_and_the_example():
    first = {block.language: block for block in reversed(read(ROOT / "README.md").blocks())}
    assert first["sh"].text == TRY_IT + "\n"
    assert first["sh"].line < first["python"].line < first["text"].line < 40

"""Every example in the documentation does what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import Page, pages, read
from tests.docs.play import Player

with_examples = [
    page for page in pages() if any(block.language == "python" or block.commands() for block in page.blocks())
]


@pytest.mark.parametrize("page", with_examples, ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page: Page, folder: Path):
    Player(page, folder).play()


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_block_that_is_not_run_says_why(page: Page):
    for block in page.blocks():
        assert block.not_run is None or len(block.not_run.split()) >= 3, f"{page.name}:{block.line}"


def test_few_blocks_are_not_run():
    blocks = [block for page in pages() for block in page.blocks() if block.language == "python"]
    assert len([block for block in blocks if block.not_run]) * 10 <= len(blocks)


# --- the player itself -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```python\n1 + 1  # -> 3\n```\n",
        "```python\nx = 1  # -> 1\n```\n",
        "```python\n1 + 1  # raises ValueError: no\n```\n",
        "```python\nint('x')  # raises ValueError: something else\n```\n",
        "```python\nraise ValueError\n```\n",
        "<!-- file: worker.py -->\n```python\nfrom tq import tq\ntq.run()\n```\n",
        "```console\n$ tq --version\ntq 99\n```\n",
        "```console\n$ tq web &\n…\n$ curl 127.0.0.1:8787/api/task-queue/healthz\nno\n```\n",
        "```console\n$ tq web --host 0.0.0.0 &\n…\n```\n",
        "```python\nfrom tq import tq\ntq.init('postgresql://db.example.com/app')  # -> TaskQueue('tasks.db')\n```\n",
    ],
)
def test_a_page_that_is_wrong_is_found(wrong: str, folder: Path):
    with pytest.raises((AssertionError, ValueError, pytest.fail.Exception)):
        Player(written(folder, wrong), folder).play()


@pytest.mark.parametrize(
    "right",
    [
        "```python\nprint('a 1 b')\n```\nprints\n\n```text\na … b\n```\n",
        "```python\n[1, 2]  # -> [1, 2]\n```\n",
        "```python\nint('x')  # raises ValueError: invalid literal…\n```\n",
        "<!-- not run: it would never end -->\n```python\nwhile True: pass\n```\n",
        "```console\n$ tq --version\ntq …\n$ ls\nis not run\n```\n",
        "```console\n$ TQ_WEB_TOKEN=x tq web --port 9000 &\n… http://127.0.0.1:9000/…\n"
        '$ curl \\\n  http://127.0.0.1:9000/api/task-queue/healthz\n{"status":"ok"}\n```\n',
        "```python\nfrom tq import tq\n"
        "tq.init('postgresql://me@db.example.com/app')  # -> TaskQueue('postgresql://db.example.com/app')\n```\n",
        "<!-- file: things.py -->\n```python\nthing = 1\n```\n\n```python\nimport things\nthings.thing  # -> 1\n```\n",
    ],
)
def test_a_page_that_is_right_passes(right: str, folder: Path):
    Player(written(folder, right), folder).play()


def written(folder: Path, text: str) -> Page:
    path = folder / "page.md"
    path.write_text(text, encoding="utf-8")
    return read(path)

"""The pages of the documentation as the tests read them: blocks, headings, links and tables.

How a page is written:

- The ```python blocks of a page run in order, in one namespace and in a folder of their own.
- A ```text block is what the python block before it prints; `…` stands for anything.
- `expression  # -> value` says what an expression gives, `statement  # raises Name: message` what it raises.
- `<!-- file: worker.py -->` before a block: the block is that file. One that calls `tq.run()` is started as a process
  of its own, and must end cleanly on SIGTERM when the page is through.
- `<!-- not run: reason -->` before a block: the block is only read.
- In a ```console block, `$ tq …` and `$ curl …` are run, and the lines below them are what they print. A command may go
  on behind a `\\` at the end of a line. `$ tq web … &` goes on until the page is through. Other commands are only read.
- The server db.example.com is there: a real one stands in for it, with an empty database for each that a page names.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
_NOTE = re.compile(r"<!--\s*(?P<kind>file|not run):\s*(?P<text>.+?)\s*-->")
_RUN = re.compile(r"(\w+=\S+ )*tq |curl ")
_MARKDOWN = MarkdownIt("commonmark").enable("table")


class Block(NamedTuple):
    language: str
    text: str
    line: int  # where its text begins, from 1
    file: str | None = None
    not_run: str | None = None

    def commands(self) -> list[tuple[str, str]]:
        """Each `tq` and `curl` command in a terminal, and what is printed below it."""
        if self.language != "console" or self.not_run is not None:
            return []
        text = self.text.replace("\\\n", "")
        typed = [piece.partition("\n") for piece in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]]
        return [(line, printed) for line, _, printed in typed if _RUN.match(line)]


class Heading(NamedTuple):
    level: int
    text: str  # as Markdown, without the hashes
    code: str | None  # what stands in it as `code`, where it begins with that


class Table(NamedTuple):
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def names(self) -> list[str]:
        """The first column without its backticks."""
        return [row[0].strip("`") for row in self.rows]


class Page(NamedTuple):
    path: Path
    tokens: tuple[Token, ...]

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix() if self.path.is_relative_to(ROOT) else self.path.name

    def blocks(self) -> list[Block]:
        found = []
        note: re.Match[str] | None = None
        for token in self.tokens:
            if token.type == "fence" and token.map is not None:
                file, not_run = (
                    note["text"] if note and note["kind"] == kind else None for kind in ("file", "not run")
                )
                found.append(Block(token.info.strip(), token.content, token.map[0] + 2, file, not_run))
            note = _NOTE.search(token.content) if token.type == "html_block" else None
        return found

    def headings(self) -> list[Heading]:
        pairs = zip(self.tokens, self.tokens[1:], strict=False)
        return [_heading(opened, inline) for opened, inline in pairs if opened.type == "heading_open"]

    def anchors(self) -> set[str]:
        """The anchors that GitHub gives to the headings."""
        slugs: list[str] = []
        for heading in self.headings():
            slug = re.sub(r"[^\w\- ]", "", _plain(heading.text).lower()).replace(" ", "-")
            slugs.append(f"{slug}-{slugs.count(slug)}" if slug in slugs else slug)
        return set(slugs)

    def links(self) -> list[str]:
        inside = (child for token in self.tokens if token.type == "inline" for child in token.children or [])
        return [str(child.attrs["href"]) for child in inside if child.type == "link_open"]

    def tables(self) -> list[Table]:
        tables: list[list[list[str]]] = []
        for token, after in zip(self.tokens, self.tokens[1:], strict=False):
            if token.type == "table_open":
                tables.append([])
            elif token.type == "tr_open":
                tables[-1].append([])
            elif token.type in ("th_open", "td_open"):
                tables[-1][-1].append(after.content)
        return [Table(tuple(header), tuple(tuple(row) for row in rows)) for header, *rows in tables]


def _heading(opened: Token, inline: Token) -> Heading:
    first = (inline.children or [None])[0]  # type: ignore[list-item]
    code = first.content if first is not None and first.type == "code_inline" else None
    return Heading(int(opened.tag[1]), inline.content, code)


def _plain(markdown: str) -> str:
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown).replace("`", "").replace("*", "")


@cache
def read(path: Path) -> Page:
    return Page(path, tuple(_MARKDOWN.parse(path.read_text(encoding="utf-8"))))


@cache
def pages() -> tuple[Page, ...]:
    return tuple(read(path) for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])


@cache
def reference() -> tuple[Page, ...]:
    return tuple(read(path) for path in sorted(REFERENCE.glob("*.md")))


def reference_table(title: str) -> Table:
    """The one table of the reference whose first column has this title."""
    [table] = [table for page in reference() for table in page.tables() if table.header[0] == title]
    return table

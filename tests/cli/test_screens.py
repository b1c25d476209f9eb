"""A screen shows what its terminal can show, and no more."""

from __future__ import annotations

import io

import pytest

from tests.cli.commands import what_stays
from tq.cli.screens import LineScreen, RichScreen, Span, TerminalScreen, can_show, plain, screen_for
from tq.clock import SystemClock


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


class StillClock(SystemClock):
    seconds = 0.0

    def monotonic(self) -> float:  # type: ignore[override]
        return self.seconds


@pytest.fixture(autouse=True)
def a_usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "40"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_terminal_gets_rich():
    assert isinstance(screen_for(Tty(), SystemClock()), RichScreen)


def test_a_pipe_gets_lines():
    assert isinstance(screen_for(io.StringIO(), SystemClock()), LineScreen)


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("LINES", "10")])
def test_a_terminal_that_cannot_be_drawn_on_gets_lines(name: str, value: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(name, value)
    assert isinstance(screen_for(Tty(), SystemClock()), LineScreen)


@pytest.mark.parametrize("make", [RichScreen, lambda out: TerminalScreen(out, colour=True)], ids=["rich", "plain"])
def test_a_picture_stays_below_what_is_said(make):
    out = Tty()
    screen = make(out)
    screen.say([Span("one")])
    screen.show([[Span("#", "green"), Span(".")], []], "")
    screen.say([Span("two [bold]not markup[/bold]", "red")])
    screen.show([[Span("##")], []], "")
    screen.close()
    screen.say([Span("three")])
    assert [line for line in what_stays(out.getvalue().replace("\n", "\r\n")) if line] == [
        "one",
        "two [bold]not markup[/bold]",
        "##",
        "three",
    ]


@pytest.mark.parametrize("make", [RichScreen, lambda out: screen_without_rich(out)], ids=["rich", "plain"])
@pytest.mark.parametrize(("no_color", "coloured"), [("1", False), ("", True)])
def test_no_color_is_respected(make, no_color: str, coloured: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", no_color)
    out = Tty()
    make(out).say([Span("done", "green")])
    assert ("\x1b[32m" in out.getvalue()) == coloured


def screen_without_rich(out: Tty):
    with pytest.MonkeyPatch.context() as patch:
        for name in ("rich.console", "rich.live", "rich.text"):
            patch.setitem(__import__("sys").modules, name, None)
        screen = screen_for(out, SystemClock())
    assert isinstance(screen, TerminalScreen)
    return screen


def test_in_lines_a_picture_is_told_by_its_summary_now_and_then():
    out, clock = io.StringIO(), StillClock()
    screen = LineScreen(out, clock)
    for clock.seconds in (0.0, 1.9, 2.1, 3.0, 4.2):
        screen.show([[Span("#")]], f"at {clock.seconds}")
    assert out.getvalue() == "at 2.1\nat 4.2\n"


def test_characters_are_checked_against_the_encoding():
    assert can_show("■", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert not can_show("■", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))


def test_a_plain_line_has_no_style_and_no_blanks_at_its_end():
    assert plain([Span("a", "red"), Span("b  ")]) == "ab"

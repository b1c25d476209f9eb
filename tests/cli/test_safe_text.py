"""What is stored never steers a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tq.cli.safe_text import printable


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("hello, wörld ✓ 日本", "hello, wörld ✓ 日本"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("\x9b2J", r"\x9b2J"),
        ("bell\a", r"bell\x07"),
        ("two\nlines\rover", r"two\nlines\rover"),
        ("turned \u202eround", r"turned \u202eround"),
        ("hidden\u200b", r"hidden\u200b"),
        ("half \udc00", r"half \udc00"),
        ("line\u2028break", r"line\u2028break"),
    ],
    ids=["kept", "escape", "one-byte escape", "bell", "lines", "direction", "invisible", "surrogate", "separator"],
)
def test_what_could_steer_a_terminal_is_spelled_out(stored: str, shown: str):
    assert printable(stored) == shown


@given(st.text(st.characters(exclude_categories=[])))
def test_every_text_becomes_one_harmless_line(text: str):
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    assert not any(ord(each) < 32 or 127 <= ord(each) < 160 for each in shown)
    shown.encode()

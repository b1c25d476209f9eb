"""Payloads: what is JSON comes back as it was; everything else is refused, and says why."""

from __future__ import annotations

import json
import math
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from datetime import datetime
from enum import Enum, IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tq.errors import PayloadError
from tq.payload import MAX_BYTES, MAX_DEPTH, MAX_ERROR_CHARACTERS, encode, loads, storable

text = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=30)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def refusal(value: Any) -> str:
    with pytest.raises(PayloadError) as caught:
        encode(value)
    return str(caught.value)


@given(values)
def test_json_comes_back_as_it_was(value: Any):
    assert loads(encode(value)) == value


@given(values)
def test_what_is_encoded_is_text_that_a_database_keeps(value: Any):
    written = encode(value)
    assert "\0" not in written
    assert written.encode().decode() == written
    assert loads(written) == json.loads(json.dumps(value))


def test_json_is_written_without_spaces_and_with_its_own_letters():
    assert encode({"to": ["ä", 1, None]}) == '{"to":["ä",1,null]}'


# --- refused -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("wrap", [lambda n: n, lambda n: [n], lambda n: {"a": {"b": n}}], ids=["alone", "list", "dict"])
def test_numbers_that_json_lacks_are_refused(number: float, wrap: Any):
    assert "NaN and infinity" in refusal(wrap(number))


@pytest.mark.parametrize("value", ["\0", "a\0b", ["\0"], {"\0": 1}, {"a": {"b\0": 1}}, {"a": [{"b": "\0"}]}], ids=repr)
def test_nul_is_refused_in_values_and_keys(value: Any):
    assert "NUL" in refusal(value)


@pytest.mark.parametrize("value", ["\\u0000", "\\\\u0000", {"\\u0000": "\\u0000"}], ids=repr)
def test_text_about_nul_is_fine(value: Any):
    assert loads(encode(value)) == value


@pytest.mark.parametrize("value", ["\ud800", "a\udfff", {"\ud83d": 1}, ["\ude00\ud83d"]], ids=ascii)
def test_half_a_surrogate_pair_is_refused(value: Any):
    assert "surrogate" in refusal(value)


@pytest.mark.parametrize("key", [1, None, True, 1.5, ("a",), b"a", frozenset()], ids=repr)
def test_keys_that_are_not_text_are_refused(key: Any):
    assert "not text" in refusal({key: 1})
    assert "not text" in refusal([{"a": {key: 1}}])


def test_a_key_that_cannot_be_shown_is_refused_all_the_same():
    class Unprintable:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert "not text" in refusal({Unprintable(): 1})
    assert "not text" in refusal({10**5000: 1})


@pytest.mark.parametrize(
    "value",
    [b"bytes", datetime(2024, 1, 1), {1, 2}, object(), 1j, print, Enum("Colour", "RED").RED, UserDict(), iter([1])],  # type: ignore[attr-defined]
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_json_is_refused(value: Any):
    assert "not JSON" in refusal(value)
    assert "not JSON" in refusal({"a": [value]})


def test_depth_has_a_limit():
    assert loads(encode(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    assert "nested deeper" in refusal(nested(MAX_DEPTH + 1))
    assert "nested deeper" in refusal(nested(5000))


def test_depth_counts_dicts_and_tuples_too():
    value: Any = 1
    for level in range(5000):
        value = {"a": value} if level % 2 else (value,)
    assert "nested deeper" in refusal(value)


def test_a_list_that_holds_itself_is_refused():
    endless: list[Any] = []
    endless.append(endless)
    assert "nested deeper" in refusal(endless)
    branching: list[Any] = []
    branching += [branching, {"a": branching}]
    assert "nested deeper" in refusal(branching)


def test_a_value_that_grows_beyond_measure_is_refused_before_it_is_written():
    doubled: list[Any] = []
    for _ in range(60):  # a list of 60 levels that would take 2^60 brackets
        doubled = [doubled, doubled]
    assert "limit" in refusal(doubled)


@pytest.mark.parametrize("letter", ["x", "ж", "𝄞"])
def test_size_has_a_limit_in_bytes(letter: str):
    fits = letter * ((MAX_BYTES - 2) // len(letter.encode()))
    assert loads(encode(fits)) == fits
    assert "the limit is 1,048,576" in refusal(fits + letter)
    assert "2,097,154 bytes" in refusal("x" * 2 * MAX_BYTES)


def test_numbers_of_any_sensible_size_are_kept():
    assert loads(encode(10**400)) == 10**400
    assert loads(encode(-(2**64))) == -(2**64)


def test_a_number_that_python_would_not_read_again_is_refused():
    assert "not JSON" in refusal(10**5000)
    assert "not JSON" in refusal({"a": [10**5000]})


def test_the_refusal_says_what_it_refuses():
    with pytest.raises(PayloadError, match="the handler's result is not JSON"):
        encode(object(), "the handler's result")


# --- taken for what they are ---------------------------------------------------------------------------------------


class Priority(IntEnum):
    HIGH = 3


class Name(str):
    pass


class Colour(str, Enum):
    RED = "red"


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ((1, (2, 3)), [1, [2, 3]]),
        (Point(1, 2), [1, 2]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (defaultdict(list, {"a": [1]}), {"a": [1]}),
        (Name("Ada"), "Ada"),
        ({Name("name"): Name("Ada")}, {"name": "Ada"}),
        (Priority.HIGH, 3),
        ({"p": [Priority.HIGH]}, {"p": [3]}),
        (Colour.RED, "red"),
        (True, True),
        (None, None),
        ("", ""),
        ({}, {}),
        ([], []),
        (-0.0, 0.0),
        (1e308, 1e308),
    ],
    ids=repr,
)
def test_what_json_can_say_is_taken(value: Any, kept: Any):
    assert loads(encode(value)) == kept


# --- failures are always written down ------------------------------------------------------------------------------


@given(st.text(st.characters()))
def test_any_text_can_be_made_fit_to_be_stored(anything: str):
    clean = storable(anything)
    assert "\0" not in clean
    clean.encode()


def test_ordinary_text_is_stored_as_it_is():
    assert storable("no such mailbox: ж") == "no such mailbox: ж"


def test_endless_text_is_stored_with_its_beginning_and_its_end():
    clean = storable("begin" + "x" * 10_000_000 + "end")
    assert clean.startswith("begin") and clean.endswith("end")
    assert "characters left out" in clean
    assert len(clean) < MAX_ERROR_CHARACTERS + 100

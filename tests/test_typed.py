"""What a payload type promises: what fits comes back as it went in, what does not is refused by name."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from datetime import date, datetime
from enum import Enum, Flag, IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NewType, Optional, TypedDict, TypeVar, Union

import msgspec
import pydantic
import pytest
import typing_extensions
from typing_extensions import NotRequired, ReadOnly, Required, TypeAliasType

from tq.errors import InvalidOption, PayloadError
from tq.typed import check_payload_type, from_json_value, to_json_value

if TYPE_CHECKING:
    from decimal import Decimal

ROOT = Path(__file__).parents[1]


def stored_and_read(value: Any, payload_type: Any) -> Any:
    """Through JSON, as the store does it."""
    check_payload_type(payload_type)
    return from_json_value(json.loads(json.dumps(to_json_value(value, payload_type))), payload_type)


def refusal(value: Any, payload_type: Any) -> str:
    with pytest.raises(PayloadError) as caught:
        to_json_value(value, payload_type)
    return str(caught.value)


def reading_refusal(value: Any, payload_type: Any) -> str:
    with pytest.raises(PayloadError) as caught:
        from_json_value(value, payload_type)
    return str(caught.value)


def type_refusal(payload_type: Any) -> str:
    with pytest.raises(InvalidOption) as caught:
        check_payload_type(payload_type)
    return str(caught.value)


# --- types ---------------------------------------------------------------------------------------------------------

Url = NewType("Url", str)
T = TypeVar("T")


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Fruit(Enum):
    CHERRY = "red"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class CrawlPayload(TypedDict):
    url: str
    depth: NotRequired[int]


class Options(TypedDict, total=False):
    user_agent: str
    retries: Required[int]


class Page(typing_extensions.TypedDict):
    crawl: CrawlPayload
    options: list[Options]
    seen: ReadOnly[dict[str, bool]]


class LoudPage(Page, total=False):
    volume: int


@dataclass
class Point:
    x: float
    y: float = 0.0


@dataclass(frozen=True)
class Shape:
    name: str
    corners: list[Point]
    color: Color = Color.RED
    size: tuple[int, int] = (1, 1)
    tags: tuple[str, ...] = ()
    center: Point | None = None


@dataclass
class Tree:
    label: str
    children: list[Tree] = field(default_factory=list)


@dataclass
class Span:
    first: int
    last: int
    length: int = field(init=False)

    def __post_init__(self) -> None:
        if self.last < self.first:
            raise ValueError("the last comes before the first")
        self.length = self.last - self.first


@dataclass
class Meters:
    value: float


@dataclass
class Feet:
    value: float


@dataclass
class NamedPoint(Point):
    name: str = ""


# --- plain types ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "payload_type"),
    [
        ("text", str),
        (1, int),
        (1.5, float),
        (1, float),
        (True, bool),
        (None, None),
        (None, type(None)),
        ([1, "a", None], list),
        ({"a": [1]}, dict),
        ({"a": 1}, dict[str, int]),
        ([[1], []], list[list[int]]),
        ({"deep": [{"x": 1}]}, Any),
        ([1], object),
        (None, Optional[int]),  # noqa: UP045
        (3, int | None),
        ("x", Union[int, str]),  # noqa: UP007
        ("get", Literal["get", "post"]),
        ("https://example.com", Url),
        (5, Annotated[int, "a comment"]),
        ([5], list[Annotated[int, ["metadata that has no hash"]]]),
        ({"https://example.com": 1}, dict[Url, int]),
    ],
)
def test_a_value_that_fits_comes_back_as_it_went_in(value: Any, payload_type: Any):
    back = stored_and_read(value, payload_type)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("value", "payload_type", "reason"),
    [
        (1, str, "str: expected str, got int"),
        ("1", int, "int: expected int, got str"),
        (True, int, "int: expected int, got bool"),
        (True, float, "float: expected float, got bool"),
        (1.0, int, "int: expected int, got float"),
        (1, bool, "bool: expected bool, got int"),
        (0, None, "None: expected None, got int"),
        (None, str, "str: expected str, got None"),
        ((1,), list[int], "list[int]: expected list[int], got tuple"),
        ([1, "a"], list[int], "list[int]: [1]: expected int, got str"),
        ({"a": "b"}, dict[str, int], "dict[str, int]: a: expected int, got str"),
        ({"a b": "c"}, dict[str, int], "dict[str, int]: ['a b']: expected int, got str"),
        ({1: 1}, dict[str, int], "dict[str, int]: expected keys of type str, got 1"),
        ({1: 1}, dict, "dict: expected keys of type str, got 1"),
        ([], dict, "dict: expected dict, got list"),
        ("x", int | None, "int | None: expected int | None, got str"),
        ("put", Literal["get", "post"], "Literal['get', 'post']: expected 'get' or 'post', got 'put'"),
        ([], Literal["get"], "Literal['get']: expected 'get', got []"),
        (True, Literal[1], "Literal[1]: expected 1, got True"),
        ([1, 2], tuple[int], "tuple[int]: expected 1 items, got 2"),
        ([1, "a"], tuple[int, ...], "tuple[int, ...]: [1]: expected int, got str"),
        ("ab", tuple[str, str], "tuple[str, str]: expected tuple[str, str], got str"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_both_ways(value: Any, payload_type: Any, reason: str):
    assert refusal(value, payload_type) == f"the payload does not fit {reason}"
    assert reading_refusal(value, payload_type) == f"the payload does not fit {reason}"


@pytest.mark.parametrize("payload_type", [tuple[int, str], tuple[Any, ...], tuple])
def test_a_tuple_is_stored_as_a_list_and_read_as_a_tuple(payload_type: Any):
    assert to_json_value((1, "a"), payload_type) == [1, "a"]
    assert stored_and_read((1, "a"), payload_type) == (1, "a")
    assert stored_and_read([1, "a"], payload_type) == (1, "a")


def test_an_enum_is_stored_by_value_and_read_as_its_member():
    assert to_json_value([Color.RED, "blue"], list[Color]) == ["red", "blue"]
    assert stored_and_read(Color.BLUE, Color) is Color.BLUE
    assert stored_and_read(Level.HIGH, Level) is Level.HIGH
    assert stored_and_read(Color.RED, Literal[Color.RED]) is Color.RED


def test_a_value_outside_the_enum_is_refused():
    assert refusal("green", Color) == "the payload does not fit Color: expected 'red' or 'blue', got 'green'"
    assert refusal(True, Level).endswith("expected 1 or 2, got True")
    assert "<Fruit.CHERRY: 'red'>" in refusal(Fruit.CHERRY, Color)
    assert reading_refusal(["green"], list[Color]).endswith("[0]: expected 'red' or 'blue', got 'green'")


def test_combined_flags_are_refused_when_added():
    permission = Flag("permission", ["READ", "WRITE"])
    assert stored_and_read(permission["READ"], permission) is permission["READ"]
    assert "expected 1 or 2" in refusal(permission["READ"] | permission["WRITE"], permission)


def test_a_type_alias_stands_for_its_type():
    points = TypeAliasType("points", list[Point])
    assert stored_and_read([Point(1)], points) == [Point(1)]
    assert refusal([1], points) == "the payload does not fit points: [0]: expected Point or a dict, got int"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the type statement came with Python 3.12")
def test_a_type_alias_may_contain_itself():
    names: dict[str, Any] = {}
    exec("type Numbers = int | list[Numbers]", names)
    assert stored_and_read([1, [2, [3]]], names["Numbers"]) == [1, [2, [3]]]
    assert "[1][0]: expected int | list[Numbers], got str" in refusal([1, ["2"]], names["Numbers"])


# --- TypedDict -----------------------------------------------------------------------------------------------------


def test_a_typed_dict_comes_back_as_a_dict():
    page = {"crawl": {"url": "x", "depth": 1}, "options": [{"retries": 1}], "seen": {"a": True}}
    assert stored_and_read(page, Page) == page
    assert stored_and_read({**page, "volume": 11}, LoudPage) == {**page, "volume": 11}


def test_what_is_stored_is_a_copy():
    payload = {"a": [1]}
    stored = to_json_value(payload, dict[str, list[int]])
    payload["a"].append(2)
    assert stored == {"a": [1]}


def test_a_field_of_the_wrong_type_is_named():
    assert refusal({"url": 1}, CrawlPayload) == "the payload does not fit CrawlPayload: url: expected str, got int"


def test_a_missing_field_is_named():
    assert refusal({}, CrawlPayload) == "the payload does not fit CrawlPayload: missing field 'url'"
    assert reading_refusal({}, CrawlPayload) == "the payload does not fit CrawlPayload: missing field 'url'"


def test_an_unknown_field_is_named():
    reason = "the payload does not fit CrawlPayload: unknown field 'wrong'"
    assert refusal({"url": "x", "wrong": 1}, CrawlPayload) == reason
    assert reading_refusal({"url": "x", "wrong": 1}, CrawlPayload) == reason


def test_a_misspelt_field_is_named_with_the_one_that_is_missing():
    assert refusal({"ulr": "x"}, CrawlPayload).endswith("missing field 'url', unknown field 'ulr'")


def test_a_field_deep_inside_is_named_by_its_path():
    page = {"crawl": {"url": "x"}, "options": [{"retries": 1}, {"retries": "2"}], "seen": {}}
    assert refusal(page, Page) == "the payload does not fit Page: options[1].retries: expected int, got str"
    assert refusal({**page, "options": [{}]}, Page).endswith("Page: options[0]: missing field 'retries'")


def test_a_long_name_does_not_flood_the_message():
    assert len(refusal({"url": "x", "w" * 10_000: 1}, CrawlPayload)) < 250
    assert len(refusal({"w" * 10_000: "x"}, dict[str, int])) < 250
    assert len(refusal({"url": "x", **{f"wrong{number}": 1 for number in range(1000)}}, CrawlPayload)) < 250


def test_required_and_not_required_hold_where_annotations_are_text():
    assert stored_and_read({"retries": 1}, Options) == {"retries": 1}
    assert refusal({"user_agent": "x"}, Options).endswith("missing field 'retries'")
    assert stored_and_read({"url": "x"}, CrawlPayload) == {"url": "x"}


def test_required_and_not_required_hold_in_the_functional_form():
    made = typing_extensions.TypedDict("made", {"a-b": Required[int], "c": Annotated[int, "rare"]}, total=False)
    assert stored_and_read({"a-b": 1}, made) == {"a-b": 1}
    assert refusal({"c": 1}, made).endswith("missing field 'a-b'")
    assert refusal({"a-b": "1"}, made).endswith("['a-b']: expected int, got str")


def test_fields_of_a_parent_keep_their_rule():
    assert refusal({"volume": 1}, LoudPage).endswith(
        "missing field 'crawl', missing field 'options', missing field 'seen'"
    )


def test_something_else_than_a_dict_is_refused():
    assert refusal([("url", "x")], CrawlPayload).endswith("CrawlPayload: expected a dict, got list")


# --- dataclass -----------------------------------------------------------------------------------------------------


def test_a_dataclass_comes_back_as_an_equal_instance():
    shape = Shape("box", [Point(1, 2), Point(3)], Color.BLUE, (2, 3), ("a", "b"), Point(0))
    assert stored_and_read(shape, Shape) == shape
    assert stored_and_read(Shape("dot", []), Shape) == Shape("dot", [])


def test_a_dataclass_is_stored_as_plain_json():
    assert to_json_value(Shape("box", [Point(1)], size=(2, 3)), Shape) == {
        "name": "box",
        "corners": [{"x": 1, "y": 0.0}],
        "color": "red",
        "size": [2, 3],
        "tags": [],
        "center": None,
    }


def test_a_dict_with_the_fields_is_as_good_as_an_instance():
    as_dict = {"name": "box", "corners": [{"x": 1}, Point(2)], "color": Color.BLUE, "size": (2, 3)}
    shape = Shape("box", [Point(1), Point(2)], Color.BLUE, (2, 3))
    assert to_json_value(as_dict, Shape) == to_json_value(shape, Shape)
    assert stored_and_read(as_dict, Shape) == shape


def test_an_instance_with_a_wrong_value_is_refused():
    assert refusal(Point("1"), Point) == "the payload does not fit Point: x: expected float, got str"  # type: ignore[arg-type]
    assert refusal(Shape("box", [Point(None)]), Shape).endswith("corners[0].x: expected float, got None")  # type: ignore[arg-type]


def test_a_dict_with_wrong_fields_is_refused():
    assert refusal({"y": 1}, Point).endswith("Point: missing field 'x'")
    assert refusal({"x": 1, "z": 1}, Point).endswith("Point: unknown field 'z'")
    assert reading_refusal({"x": 1, "z": 1}, Point).endswith("Point: unknown field 'z'")
    assert refusal(3, Point).endswith("Point: expected Point or a dict, got int")


def test_a_field_that_was_added_with_a_default_reads_old_payloads():
    assert from_json_value({"x": 1}, Point) == Point(1)


def test_a_subclass_is_refused_because_its_fields_would_be_lost():
    assert refusal(NamedPoint(1), Point).endswith("expected Point or a dict, got NamedPoint")
    assert stored_and_read(NamedPoint(1, 2, "here"), NamedPoint) == NamedPoint(1, 2, "here")


def test_a_dataclass_may_contain_itself():
    tree = Tree("root", [Tree("leaf"), Tree("branch", [Tree("leaf")])])
    assert stored_and_read(tree, Tree) == tree
    bad = {"label": "root", "children": [{"label": "leaf"}, {"label": 1}]}
    assert refusal(bad, Tree).endswith("children[1].label: expected str, got int")


def test_a_payload_that_contains_itself_is_refused():
    tree = Tree("root")
    tree.children.append(tree)
    assert refusal(tree, Tree) == "the payload does not fit Tree: it is nested too deeply"


def test_a_computed_field_is_not_stored_and_computed_again():
    assert to_json_value(Span(1, 4), Span) == {"first": 1, "last": 4}
    assert stored_and_read(Span(1, 4), Span) == Span(1, 4)


def test_a_dataclass_that_checks_itself_speaks_when_the_task_is_added():
    assert refusal({"first": 2, "last": 1}, Span).endswith("Span refuses it: the last comes before the first")
    with pytest.raises(PayloadError) as caught:
        from_json_value({"first": 2, "last": 1}, Span)
    assert isinstance(caught.value.__cause__, ValueError)


# --- unions --------------------------------------------------------------------------------------------------------


def test_the_arm_that_fits_is_taken():
    assert stored_and_read([Point(1), {"url": "x"}, "a", None], list[Point | CrawlPayload | str | None]) == [
        Point(1),
        {"url": "x"},
        "a",
        None,
    ]


def test_an_optional_record_names_the_field_inside_it():
    shape = {"name": "box", "corners": [], "center": {"x": "1"}}
    assert refusal(shape, Shape).endswith("Shape: center.x: expected float, got str")


def test_where_no_arm_fits_each_says_why():
    reason = refusal({"x": "1"}, Point | CrawlPayload)
    assert reason.startswith("the payload does not fit Point | CrawlPayload: expected Point | CrawlPayload, got dict")
    assert reason.endswith("(x: expected float, got str; missing field 'url', unknown field 'x')")


def test_a_type_that_would_come_back_as_another_is_refused():
    assert stored_and_read(Meters(1), Meters | Feet) == Meters(1)
    assert "Feet would be read back as Meters" in refusal(Feet(1), Meters | Feet)
    assert "Color would be read back as str: as JSON they look the same" in refusal(Color.RED, str | Color)


# --- pydantic ------------------------------------------------------------------------------------------------------


class Address(pydantic.BaseModel):
    city: str
    since: date | None = None


class Customer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    name: str
    addresses: list[Address] = []


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    at: datetime
    color: Color
    pair: tuple[int, int] = pydantic.Field(default=(1, 2), alias="both")

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> int:
        return sum(self.pair)


class Even(pydantic.BaseModel):
    number: int

    @pydantic.field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("odd")
        return number


class BigCustomer(Customer):
    discount: float = 0.1


class OneWay(pydantic.BaseModel):
    name: str = pydantic.Field(serialization_alias="nom")


def test_a_pydantic_model_comes_back_as_an_equal_model():
    customer = Customer(name="Ann", addresses=[Address(city="Bonn", since=date(2020, 1, 2))])
    assert stored_and_read(customer, Customer) == customer
    assert to_json_value(customer, Customer)["addresses"] == [{"city": "Bonn", "since": "2020-01-02"}]


def test_a_strict_model_with_an_alias_reads_what_it_wrote():
    strict = Strict(at=datetime(2020, 1, 2), color=Color.RED, both=(3, 4))
    assert stored_and_read(strict, Strict) == strict
    assert stored_and_read([strict], list[Strict]) == [strict]


def test_a_dict_for_a_pydantic_model_is_validated():
    assert stored_and_read({"name": "Ann"}, Customer) == Customer(name="Ann")
    start = "the payload does not fit Customer: "
    assert refusal({}, Customer) == start + "missing field 'name'"
    assert refusal({"name": "Ann", "wrong": 1}, Customer) == start + "unknown field 'wrong'"
    assert refusal({"name": 1}, Customer) == start + "name: expected a valid string, got int"
    assert refusal({"name": "Ann", "addresses": [{}]}, Customer) == start + "addresses[0]: missing field 'city'"
    assert reading_refusal({"name": 1}, Customer) == start + "name: expected a valid string, got int"


def test_what_a_validator_says_is_passed_on():
    assert refusal({"number": 3}, Even) == "the payload does not fit Even: number: Value error, odd"


def test_a_model_that_was_made_or_changed_without_validation_is_refused():
    customer = Customer(name="Ann")
    customer.name = 3  # type: ignore[assignment]
    assert refusal(customer, Customer).endswith("name: expected a valid string, got int")
    assert refusal(Customer.model_construct(), Customer).endswith("missing field 'name'")


def test_a_model_that_cannot_read_what_it_writes_is_refused_when_added():
    assert refusal(OneWay(name="Ann"), OneWay).endswith("missing field 'name'")


def test_a_subclass_of_a_model_is_refused_because_its_fields_would_be_lost():
    assert refusal(BigCustomer(name="Ann"), Customer).endswith("expected Customer, got BigCustomer")


# --- msgspec -------------------------------------------------------------------------------------------------------


class Track(msgspec.Struct):
    title: str
    seconds: int = 0


class Album(msgspec.Struct, forbid_unknown_fields=True):
    tracks: list[Track]
    released: date
    votes: dict[int, int] = {}


class Song(Track):
    text: str = ""


def test_a_struct_comes_back_as_an_equal_struct():
    album = Album([Track("one"), Track("two", 2)], date(2020, 1, 2), {5: 1})
    assert stored_and_read(album, Album) == album
    assert to_json_value(album, Album) == {
        "tracks": [{"title": "one", "seconds": 0}, {"title": "two", "seconds": 2}],
        "released": "2020-01-02",
        "votes": {"5": 1},
    }


def test_a_dict_for_a_struct_is_checked():
    assert stored_and_read({"title": "one"}, Track) == Track("one")
    assert refusal({"title": 1}, Track) == "the payload does not fit Track: title: expected str, got int"
    assert refusal({}, Track) == "the payload does not fit Track: missing field 'title'"
    assert refusal({"tracks": [{}], "released": "2020-01-02"}, Album).endswith("tracks[0]: missing field 'title'")
    assert refusal({"tracks": [], "released": "2020-01-02", "x": 1}, Album).endswith("unknown field 'x'")
    assert reading_refusal({"title": 1}, Track).endswith("title: expected str, got int")


def test_a_struct_with_a_wrong_value_is_refused():
    assert refusal(Track(1), Track).endswith("title: expected str, got int")  # type: ignore[arg-type]
    assert "unsupported" in refusal(Track(object()), Track)  # type: ignore[arg-type]


def test_a_subclass_of_a_struct_is_refused_because_its_fields_would_be_lost():
    assert refusal(Song("one"), Track).endswith("expected Track, got Song")


@dataclass
class Mixed:
    customer: Customer
    track: Track


def test_models_may_be_fields_of_a_dataclass():
    mixed = Mixed(Customer(name="Ann"), Track("one"))
    assert stored_and_read(mixed, Mixed) == mixed
    assert refusal({"customer": {"name": 1}, "track": {"title": "one"}}, Mixed).endswith(
        "Mixed: customer.name: expected a valid string, got int"
    )


def test_neither_library_is_imported_for_types_of_the_standard_library():
    program = (
        "import sys, dataclasses, tq.typed as typed\n"
        "Point = dataclasses.make_dataclass('Point', [('x', int)])\n"
        "assert typed.from_json_value(typed.to_json_value(Point(1), Point), Point) == Point(1)\n"
        "assert not {'pydantic', 'msgspec'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)


# --- types that tq cannot check ------------------------------------------------------------------------------------


class Arbitrary:
    pass


class When(TypedDict):
    days: list[datetime]


class Parent(TypedDict):
    when: When | None


class Lost(TypedDict):
    amount: Decimal


@dataclass
class Box(Generic[T]):
    content: T


@dataclass
class Seeded:
    seed: InitVar[int]


class Unstorable(Enum):
    ORIGIN = (0, 0)


@pytest.mark.parametrize(
    "payload_type",
    [
        42,
        "CrawlPayload",
        [],
        {},
        Arbitrary,
        Arbitrary(),
        bytes,
        set[int],
        datetime,
        list[Arbitrary],
        list["Point"],
        dict[int, str],
        int | bytes,
        Iterator[int],
        Unstorable,
        Literal[b"x"],
        Box[int],
        Box,
        T,
        TypedDict,
    ],
    ids=lambda payload_type: re.sub(r" at 0x\w+", "", repr(payload_type)),
)
def test_a_type_that_cannot_be_checked_is_refused_with_what_can_be_used(payload_type: Any):
    reason = type_refusal(payload_type)
    assert "tq cannot check payloads of type" in reason
    assert "use a TypedDict, a dataclass, a pydantic 2 model, a msgspec.Struct" in reason


@pytest.mark.parametrize(
    "payload_type",
    [CrawlPayload, Options, Page, LoudPage, Shape, Tree, Customer, Album, list[Tree], dict[str, Shape | None], Mixed],
)
def test_a_type_that_can_be_checked_is_taken(payload_type: Any):
    check_payload_type(payload_type)


def test_the_field_that_cannot_be_checked_is_named():
    assert type_refusal(When).startswith("When.days: tq cannot check payloads of type datetime; use ")
    assert type_refusal(list[Parent]).startswith("When.days: ")


def test_an_annotation_that_cannot_be_resolved_is_refused_with_the_way_out():
    reason = type_refusal(Lost)
    assert "the annotations of Lost cannot be resolved (name 'Decimal' is not defined)" in reason
    assert "not only under TYPE_CHECKING" in reason


def test_a_dataclass_with_an_init_var_is_refused():
    assert "Seeded" in type_refusal(Seeded)

"""Payload types: does a value fit the type that the program named, and how is it stored and read back?

`_KINDS`, at the end, is the map: how to know a kind of type, how to fit a value to it, which types it is made of.
A handler gets what the type says: a dataclass is an instance again, a tuple a tuple. pydantic and msgspec are known by
what their types look like, and are not imported unless the program has named one.
"""

from __future__ import annotations

import dataclasses
import json
import re
import reprlib
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import lru_cache
from importlib import import_module
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import typing_extensions
from typing_extensions import NotRequired, ReadOnly, Required, is_typeddict

from tq.errors import InvalidOption, PayloadError

_USABLE = (
    "use a TypedDict, a dataclass, a pydantic 2 model, a msgspec.Struct, an Enum of JSON values, or JSON types such as "
    "dict[str, int], list[str], str or None"
)
_NONE = type(None)
_ACCEPTED: dict[Any, Any] = {bool: bool, int: int, float: (float, int), str: str, None: _NONE, _NONE: _NONE}
_QUALIFIERS = (Annotated, Required, NotRequired, ReadOnly)
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 100


def to_json_value(value: Any, payload_type: Any) -> Any:
    """The JSON value to store, or a `PayloadError` that names the field.

    >>> to_json_value((1, 2), tuple[int, int])
    [1, 2]
    """
    return _fit_payload(payload_type, value, read=False)


def from_json_value(value: Any, payload_type: Any) -> Any:
    """What the handler gets for a stored JSON value, or a `PayloadError` that names the field.

    >>> from_json_value([1, 2], tuple[int, int])
    (1, 2)
    """
    return _fit_payload(payload_type, value, read=True)


def check_payload_type(payload_type: Any) -> None:
    """Refuse a type that tq cannot check, with an `InvalidOption` that says what can be used.

    >>> check_payload_type(dict[str, int])
    """
    _check_type(payload_type, "", {})


def _check_type(hint: Any, where: str, seen: dict[int, Any]) -> None:
    if id(hint) in seen:
        return
    seen[id(hint)] = hint  # kept alive, so that its id stays its own
    try:
        parts = _kind_of(hint).parts(hint)
    except InvalidOption as error:
        raise InvalidOption(f"{where}{error}") from error.__cause__
    for name, part in parts:
        _check_type(part, f"{name}: " if name else where, seen)


def _fit_payload(hint: Any, value: Any, read: bool) -> Any:
    try:
        return _fit(hint, value, read)
    except _Misfit as misfit:
        raise PayloadError(f"the payload does not fit {_describe(hint)}: {misfit}") from misfit.__cause__
    except RecursionError:
        raise PayloadError(f"the payload does not fit {_describe(hint)}: it is nested too deeply") from None


def _fit(hint: Any, value: Any, read: bool) -> Any:
    return _kind_of(hint).fit(hint, value, read)


def _fit_inside(key: Any, hint: Any, value: Any, read: bool) -> Any:
    try:
        return _fit(hint, value, read)
    except _Misfit as misfit:
        misfit.path.insert(0, key)
        raise


def _kind_of(hint: Any) -> _Kind:
    try:
        return _find_kind(hint)
    except TypeError:  # not hashable, as list[Annotated[int, []]]
        return _find_kind.__wrapped__(hint)


@lru_cache(maxsize=1024)
def _find_kind(hint: Any) -> _Kind:
    for kind in _KINDS:
        if kind.holds(hint):
            return kind
    raise InvalidOption(f"tq cannot check payloads of type {_describe(hint)}; {_USABLE}")


# --- saying what is wrong ----------------------------------------------------------------------------------------


class _Misfit(Exception):
    """The path is put together on the way out, so that a payload that fits pays nothing for it."""

    def __init__(self, text: str, *path: Any) -> None:
        self.text, self.path = text, list(path)

    def __str__(self) -> str:
        path = "".join(map(_step, self.path))
        return f"{path.removeprefix('.')}: {self.text}" if path else self.text


def _step(key: Any) -> str:
    return f".{key}" if str(key).isidentifier() and len(key) <= 100 else f"[{_short.repr(key)}]"


class _WrongType(_Misfit):
    def __init__(self, expected: str, value: Any, got: str = "") -> None:
        super().__init__(f"expected {expected}, got {got or _describe(type(value))}")


def _describe(hint: Any) -> str:
    arguments = get_args(hint)
    if get_origin(hint) in _QUALIFIERS:
        return _describe(arguments[0])
    if get_origin(hint) in (Union, types.UnionType):
        return " | ".join(map(_describe, arguments))
    if arguments:
        return f"{_describe(get_origin(hint))}[{', '.join(map(_describe, arguments))}]"
    name = getattr(hint, "__name__", None) or getattr(hint, "_name", None) or _short.repr(hint)
    return {"NoneType": "None", "Ellipsis": "..."}.get(name, str(name))


# --- plain values, names and containers --------------------------------------------------------------------------


def _fit_plain(hint: Any, value: Any, read: bool) -> Any:
    if not isinstance(value, _ACCEPTED[hint]) or (isinstance(value, bool) and hint is not bool):
        raise _WrongType(_describe(hint), value)
    return value


def _fit_anything(hint: Any, value: Any, read: bool) -> Any:
    return value


def _unwrap(hint: Any) -> Any:
    """What stands behind Annotated, Required, NewType or `type X = …`; anything else stands for itself."""
    if get_origin(hint) in _QUALIFIERS:
        return get_args(hint)[0]
    return hint if isinstance(hint, type) else getattr(hint, "__supertype__", getattr(hint, "__value__", hint))


def _fit_wrapped(hint: Any, value: Any, read: bool) -> Any:
    return _fit(_unwrap(hint), value, read)


def _options(hint: Any) -> Sequence[Any]:
    return list(hint) if _is_class(hint) else get_args(hint)


def _raw(option: Any) -> Any:
    return option.value if isinstance(option, Enum) else option


def _fit_choice(hint: Any, value: Any, read: bool) -> Any:
    raw = value if read else _raw(value)
    for option in _options(hint):
        known = _raw(option)
        if type(known) is type(raw) and known == raw and (value is option or not isinstance(value, Enum)):
            return option if read else raw
    raise _WrongType(" or ".join(repr(_raw(option)) for option in _options(hint)), value, got=_short.repr(value))


def _fit_list(hint: Any, value: Any, read: bool) -> Any:
    [item] = get_args(hint) or [Any]
    if not isinstance(value, list):
        raise _WrongType(_describe(hint), value)
    return [_fit_inside(index, item, part, read) for index, part in enumerate(value)]


def _fit_tuple(hint: Any, value: Any, read: bool) -> Any:
    items = get_args(hint) or (Any, ...)
    if not isinstance(value, (list, tuple)):
        raise _WrongType(_describe(hint), value)
    if items[-1] is ...:
        items = items[:1] * len(value)
    if len(items) != len(value):
        raise _Misfit(f"expected {len(items)} items, got {len(value)}")
    fitted = [_fit_inside(index, item, part, read) for index, (item, part) in enumerate(zip(items, value, strict=True))]
    return tuple(fitted) if read else fitted


def _fit_dict(hint: Any, value: Any, read: bool) -> Any:
    _, item = get_args(hint) or (str, Any)
    if not isinstance(value, dict):
        raise _WrongType(_describe(hint), value)
    for key in value:
        if not isinstance(key, str):
            raise _Misfit(f"expected keys of type str, got {_short.repr(key)}")
    return {key: _fit_inside(key, item, part, read) for key, part in value.items()}


def _fit_union(hint: Any, value: Any, read: bool) -> Any:
    arm, fitted = _first_fit(hint, value, read)
    if read or sum(each is not _NONE for each in get_args(hint)) == 1:
        return fitted
    if (reader := _first_fit(hint, fitted, read=True)[0]) is not arm:
        raise _Misfit(f"{_describe(arm)} would be read back as {_describe(reader)}: as JSON they look the same")
    return fitted


def _first_fit(hint: Any, value: Any, read: bool) -> tuple[Any, Any]:
    telling = []
    for arm in get_args(hint):
        try:
            return arm, _fit(arm, value, read)
        except _Misfit as misfit:
            if misfit.path or not isinstance(misfit, _WrongType):
                telling.append(misfit)
    if len(telling) == 1:
        raise telling[0]
    details = f" ({'; '.join(map(str, telling))})" if telling else ""
    raise _WrongType(_describe(hint), value, got=f"{_describe(type(value))}{details}")


# --- records: TypedDict and dataclass ----------------------------------------------------------------------------


class _Field(NamedTuple):
    hint: Any
    required: bool


@lru_cache(maxsize=1024)
def _fields_of(record: Any) -> dict[str, _Field]:
    hints = _resolve_hints(record)
    if is_typeddict(record):
        return {name: _Field(hint, _is_required(record, name, hint)) for name, hint in hints.items()}
    return {
        field.name: _Field(hints[field.name], field.default is field.default_factory is dataclasses.MISSING)
        for field in dataclasses.fields(record)
        if field.init
    }


def _resolve_hints(record: Any) -> dict[str, Any]:
    try:
        hints = typing_extensions.get_type_hints(record, include_extras=True)
    except Exception as error:
        raise InvalidOption(
            f"the annotations of {record.__name__} cannot be resolved ({error}); define the types they name at the top "
            "level of the module, and import them when the program runs, not only under TYPE_CHECKING"
        ) from error
    if any(isinstance(hint, dataclasses.InitVar) for hint in hints.values()):
        raise InvalidOption(f"{record.__name__} has an InitVar, which is gone when a payload is stored; use a field")
    return hints


def _is_required(record: Any, name: str, hint: Any) -> bool:
    """By what the hint itself says: `__required_keys__` cannot see through annotations that are kept as text."""
    qualifiers = set()
    while (origin := get_origin(hint)) in _QUALIFIERS:
        qualifiers.add(origin)
        hint = get_args(hint)[0]
    return Required in qualifiers or (name in record.__required_keys__ and NotRequired not in qualifiers)


def _fit_fields(record: Any, value: dict[Any, Any], read: bool) -> dict[str, Any]:
    fields = _fields_of(record)
    wrong = [f"missing field {name!r}" for name, field in fields.items() if field.required and name not in value]
    wrong += [f"unknown field {_short.repr(name)}" for name in value if name not in fields]
    if wrong:
        raise _Misfit(", ".join(wrong[:5]))
    return {name: _fit_inside(name, fields[name].hint, item, read) for name, item in value.items()}


def _fit_typed_dict(record: Any, value: Any, read: bool) -> Any:
    if not isinstance(value, dict):
        raise _WrongType("a dict", value)
    return _fit_fields(record, value, read)


def _fit_dataclass(record: Any, value: Any, read: bool) -> Any:
    names = _fields_of(record)
    if type(value) is record and not read:
        return _fit_fields(record, {name: getattr(value, name) for name in names}, read)
    if not isinstance(value, dict):
        raise _WrongType(f"{record.__name__} or a dict", value)
    fitted = _fit_fields(record, value, read)
    if read:
        return _construct(record, fitted)
    # Made once here, so that defaults are filled in and __post_init__ speaks at `add`, not in the worker.
    return _fit_dataclass(record, _fit_dataclass(record, fitted, read=True), read=False)


def _construct(record: Any, fields: dict[str, Any]) -> Any:
    try:
        return record(**fields)
    except Exception as error:
        raise _Misfit(f"{record.__name__} refuses it: {error}") from error


# --- models of pydantic and msgspec ------------------------------------------------------------------------------


def _fit_pydantic(model: Any, value: Any, read: bool) -> Any:
    def load(stored: Any) -> Any:
        return model.model_validate_json(json.dumps(stored))  # in JSON mode, strict models too take a date from text

    def dump(instance: Any) -> Any:
        return instance.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)

    return _fit_model(model, value, read, model.model_validate, dump, load)


def _fit_msgspec(struct: Any, value: Any, read: bool) -> Any:
    msgspec = import_module("msgspec")

    def convert(stored: Any) -> Any:
        return msgspec.convert(stored, struct, str_keys=True)

    def dump(instance: Any) -> Any:
        return msgspec.to_builtins(instance, str_keys=True)

    return _fit_model(struct, value, read, convert, dump, convert)


_Step = Callable[[Any], Any]


def _fit_model(model: Any, value: Any, read: bool, build: _Step, dump: _Step, load: _Step) -> Any:
    if isinstance(value, model) and type(value) is not model:
        raise _WrongType(model.__name__, value)  # it would be read back without what the subclass adds
    try:
        if read:
            return load(value)
        stored = dump(value if type(value) is model else build(value))
        load(stored)  # neither library checks an instance again, and some models cannot read what they write
    except Exception as error:
        raise _refusal(error) from error
    return stored


def _refusal(error: Any) -> _Misfit:
    if hasattr(error, "error_count"):
        return _pydantic_refusal(error.errors(include_url=False)[0])
    if type(error).__module__ == "msgspec":
        return _msgspec_refusal(str(error).replace("`", ""))
    return _Misfit(f"{type(error).__name__}: {error}")


def _pydantic_refusal(first: dict[str, Any]) -> _Misfit:
    path, text = list(first["loc"]), str(first["msg"]).replace("Input should be", "expected")
    if adjective := {"missing": "missing", "extra_forbidden": "unknown"}.get(first["type"]):
        return _Misfit(f"{adjective} field {path.pop()!r}", *path)
    if text.startswith("expected"):
        text += f", got {_describe(type(first['input']))}"
    return _Misfit(text, *path)


def _msgspec_refusal(message: str) -> _Misfit:
    text, _, where = message.partition(" - at $")
    text = re.sub(r"^Object (missing|contains unknown) (?:required )?field (.*)", r"\1 field '\2'", text)
    path = [int(key) if key.isdigit() else key for key in re.findall(r"[^.\[\]]+", where)]
    return _Misfit(text.replace("contains ", "").replace("Expected", "expected"), *path)


# --- the kinds of types ------------------------------------------------------------------------------------------


def _is(*known: Any) -> Callable[[Any], bool]:
    return lambda hint: any((get_origin(hint) or hint) is one for one in known)


def _is_class(hint: Any) -> bool:
    return isinstance(hint, type) and get_origin(hint) is None  # in Python 3.10, list[int] is an instance of type


def _is_wrapped(hint: Any) -> bool:
    return _unwrap(hint) is not hint


def _is_dict(hint: Any) -> bool:
    key = (get_args(hint) or [str])[0]
    while _is_wrapped(key):
        key = _unwrap(key)
    return _is(dict)(hint) and key is str


def _is_choice(hint: Any) -> bool:
    is_enum = _is_class(hint) and issubclass(hint, Enum)
    is_literal = get_origin(hint) in (typing.Literal, typing_extensions.Literal)
    return (is_enum or is_literal) and all(type(_raw(option)) in _ACCEPTED for option in _options(hint))


def _is_class_with(attribute: str) -> Callable[[Any], bool]:
    return lambda hint: _is_class(hint) and hasattr(hint, attribute)


_Parts = Iterable[tuple[str, Any]]  # each type that a type is made of, with its name where it has one


def _no_parts(hint: Any) -> _Parts:
    return ()


def _arguments(hint: Any) -> _Parts:
    return [("", part) for part in get_args(hint) if part is not ...]


def _field_types(hint: Any) -> _Parts:
    return [(f"{hint.__name__}.{name}", field.hint) for name, field in _fields_of(hint).items()]


class _Kind(NamedTuple):
    holds: Callable[[Any], bool]
    fit: Callable[[Any, Any, bool], Any]
    parts: Callable[[Any], _Parts] = _no_parts


_KINDS = (
    _Kind(_is(*_ACCEPTED), _fit_plain),
    _Kind(_is(Any, typing_extensions.Any, object), _fit_anything),  # Python 3.10 has two of Any
    _Kind(_is_wrapped, _fit_wrapped, lambda hint: [("", _unwrap(hint))]),
    _Kind(_is(list), _fit_list, _arguments),
    _Kind(_is(tuple), _fit_tuple, _arguments),
    _Kind(_is_dict, _fit_dict, _arguments),
    _Kind(_is(Union, types.UnionType), _fit_union, _arguments),
    _Kind(_is_choice, _fit_choice),
    _Kind(is_typeddict, _fit_typed_dict, _field_types),
    _Kind(_is_class_with("__dataclass_fields__"), _fit_dataclass, _field_types),
    _Kind(_is_class_with("model_validate_json"), _fit_pydantic),
    _Kind(_is_class_with("__struct_fields__"), _fit_msgspec),
)

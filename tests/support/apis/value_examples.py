"""Valid and invalid examples of each type of parameter values, with its bounds among them."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args, get_type_hints

from toolgate_proxy.api.shared.parameter import Parameter
from toolgate_proxy.api.shared.value_types import (
    INT32_MAX,
    INT64_MIN,
    MAX_TOKEN_IDS,
    Anything,
    Array,
    Choice,
    Flag,
    Integer,
    JsonObject,
    Number,
    Object,
    Text,
    TextMap,
    Texts,
    TokenBiases,
    TokenIds,
    ValueType,
)

Examples = tuple[Any, ...]


def valid(kind: ValueType) -> Examples:
    match kind:
        case Integer(low, high):
            near = float(low) if abs(low) < INT32_MAX else low
            return (low, low + 1, near, high)
        case Number(minimum, maximum, exclusive):
            least = minimum + 0.01 if exclusive else minimum
            return (least, minimum + 1, min(maximum, minimum + 2))
        case Flag():
            return (True, False)
        case Text(minimum, maximum):
            return ("a" * minimum, "abc", "a" * (maximum or 100))
        case Choice(values):
            return values
        case Texts(maximum):
            alone = ("a",) if kind.single else ()
            return ([], ["a"], ["é", "b"], ["a"] * maximum, *alone)
        case TokenIds(minimum):
            return ([300], [300, 301.0], *(() if minimum else ([],)))
        case TokenBiases(limit):
            return ({}, {"300": limit}, {"300": -limit, "301": 0.5})
        case TextMap():
            return ({}, {"a": "b"}, {"é": ""})
        case Object():
            first = required_members(kind)
            return (first, first | {"unknown": None})
        case Anything() | Array() | JsonObject():
            return ()
    raise TypeError(f"{kind} has no examples.")


def invalid(kind: ValueType) -> Examples:
    match kind:
        case Integer(low, high):
            # JSON parsers round integers below 64 bits to a float, which is INT64_MIN.
            below = low - 1 if low > INT64_MIN else -(10**30)
            return (below, high + 1, 10**30, 1.5, True, "1", [1], {})
        case Number(minimum, maximum, exclusive):
            above = () if math.isinf(maximum) else (maximum + 0.01, 10**30)
            return (minimum if exclusive else minimum - 0.01, *above, True, "1", [1], {})
        case Flag():
            return (0, 1, "true", [], {})
        case Text(minimum, maximum, visible):
            short = ("",) if minimum else ()
            long = () if maximum is None else ("a" * (maximum + 1),)
            spaced = ("two words", "é") if visible else ()
            return (*short, *long, *spaced, 3, True, ["a"], {})
        case Choice():
            return ("", "unknown", 3, True, [], {})
        case Texts(maximum, length, single, blank):
            alone = () if single else ("a",)
            white = () if blank else ([" "],)
            wrong = (["a" * (length + 1)], [""], [3], ["a", None], ["a"] * (maximum + 1))
            return (*white, *wrong, "", 3, {"a": 1}, *alone)
        case TokenIds(minimum, maximum):
            empty: Examples = ([],) if minimum else ()
            many: Examples = () if maximum == MAX_TOKEN_IDS else ([300] * (maximum + 1),)
            return (*empty, *many, [-1], [10**30], [1.5], ["a"], [True], 300, "300", {"300": 1})
        case TokenBiases(limit, maximum):
            keys = ({key: 1} for key in ("a", "-1", "²", "9" * 5000))
            over = ({"300": limit + 1}, {"300": "1"}, {"300": None}, {"300": True})
            return (*keys, *over, {str(at): 1 for at in range(maximum + 1)}, [1], "300", 3)
        case TextMap(maximum, name, length):
            many = ({str(at): "" for at in range(maximum + 1)},)
            long_ones = ({"a" * (name + 1): ""}, {"a": "b" * (length + 1)})
            return (*many, *long_ones, {"a": 3}, {"a": None}, [], "a", 3, True)
        case Object():
            return (*_invalid_members(kind), [], "a", 3, True)
        case Array():
            return ({"a": 1}, "a", 3, True)
        case JsonObject():
            return ([], [3], "a", 3, True)
        case Anything():
            return ()
    raise TypeError(f"{kind} has no examples.")


def required_members(kind: Object) -> dict[str, Any]:
    return {name: valid(kind.members[name])[0] for name in kind.required}


def _invalid_members(kind: Object) -> Examples:
    first = required_members(kind)
    wrong = (
        first | {name: value}
        for name, member in kind.members.items()
        for value in invalid(member)[:2]
    )
    missing: Examples = ({},) if kind.required else ()
    unknown = () if kind.extensible else (first | {"unknown": 1},)
    return (*wrong, *missing, *unknown)


ANY_VALUES: tuple[Any, ...] = ("x", 3, True, {"a": 1})

Values = Mapping[str, tuple[Any, ...]]
"""Values by the path of a parameter or member whose type has no examples. `path.`: objects, each
with members that others need."""


class Example(NamedTuple):
    path: str
    value: Any
    without: Any
    """The value without the member, to compare with. None: the parameter is left out."""


def examples_of(row: Parameter, values: Values) -> Iterator[Example]:
    if row.type is None:
        for value in values.get(row.name, (*row.defaults, *ANY_VALUES)):
            yield Example(row.name, value, None)
    else:
        yield from _examples(row.type, row.name, values)


def _examples(kind: ValueType, path: str, values: Values) -> Iterator[Example]:
    if path in values or not isinstance(kind, Object):
        for value in values.get(path) or valid(kind):
            yield Example(path, value, None)
        return
    for first in values.get(f"{path}.", (required_members(kind),)):
        for name, member in kind.members.items():
            rest = {key: value for key, value in first.items() if key != name}
            for inner, value, without in _examples(member, f"{path}.{name}", values):
                whole = rest | {name: value}
                if without is not None:
                    yield Example(inner, whole, rest | {name: without})
                else:
                    yield Example(inner, whole, None if name in kind.required else rest)
        if kind.extensible:
            yield Example(f"{path}.others", first | {"others": 1}, first)


def tool_types(union: Any) -> set[str]:
    """Values of `type` in the members of a union of TypedDicts."""
    hints = (get_type_hints(tool).get("type") for tool in get_args(union))
    return {value for hint in hints for value in _texts(hint)}


def _texts(hint: Any) -> set[str]:
    if isinstance(hint, str):
        return {hint}
    return {text for each in get_args(hint) for text in _texts(each)}

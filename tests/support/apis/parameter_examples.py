"""Values of each parameter of a table, and of each member of these values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.support.apis.value_examples import required_members, valid
from toolgate_proxy.api.shared.collection_types import Object
from toolgate_proxy.api.shared.parameter import Parameter
from toolgate_proxy.api.shared.value_types import ValueType

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

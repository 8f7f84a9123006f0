"""Schemas of arrays, and all short arrays over a few values."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import strategies as st

VALUES: list[Any] = [None, True, False, 0, 1, 2, 2.0, "a", "b", [], [1]]
SHORT: list[list[Any]] = [list(some) for n in range(4) for some in product(VALUES, repeat=n)]
SHORT += [list(some) for some in product([None, True, 1, 2, "a", "b"], repeat=4)]

_items = st.one_of(
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=4).map(lambda values: {"enum": values}),
    st.sampled_from(VALUES).map(lambda value: {"const": value}),
    st.sampled_from(["null", "boolean", "integer", "string", "array"]).map(
        lambda kind: {"type": kind}
    ),
    st.sampled_from(
        [
            True,
            False,
            {"$ref": "#/$defs/item"},
            {"type": ["boolean", "null"]},
            {"type": "number", "maximum": 1},
            {"minLength": 1},
            {"anyOf": [{"const": "a"}, {"type": "boolean"}]},
            {"type": ["string", "boolean"], "enum": ["a", True, 1]},
        ]
    ),
)


@st.composite
def array_schemas(draw: st.DrawFn, /, **further: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Schemas with `further` keywords, and some of the usual ones of arrays."""
    usual: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(["array", ["array", "null"]]),
        "items": _items,
        "prefixItems": st.lists(_items, min_size=1, max_size=3),
        "minItems": st.integers(0, 3),
        "maxItems": st.integers(0, 4),
        "allOf": st.lists(st.fixed_dictionaries({"items": _items}), min_size=1, max_size=1),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(usual)), unique=True))
    schema = {name: draw(usual[name]) for name in chosen}
    schema |= {name: draw(each) for name, each in further.items()}
    return schema | {"$defs": {"item": draw(_items.filter(lambda each: "$ref" not in str(each)))}}


def item_schemas() -> st.SearchStrategy[Any]:
    return _items

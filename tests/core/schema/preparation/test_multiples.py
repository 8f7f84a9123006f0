"""Multiples without an upper bound."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.schema.preparation.engine_form import EXACT
from toolgate_core.schema.preparation.prepare import prepare


@pytest.mark.parametrize(
    ("schema", "bound"),
    [
        ({"type": "integer", "minimum": 0, "multipleOf": 10}, EXACT),
        ({"type": "integer", "minimum": 0, "multipleOf": 10, "maximum": 2000}, 2000),
        # A larger number, in the schema or beside it, may ask for larger multiples.
        ({"type": "integer", "minimum": 0, "maximum": 2**64 - 1, "multipleOf": 10}, None),
        ({"type": ["integer", "null"], "minimum": 0, "maximum": 1e18, "multipleOf": 10}, None),
        ({"type": "integer", "minimum": EXACT, "multipleOf": 10}, None),
    ],
)
def test_multiples_are_bounded_unless_a_larger_number_may_ask_for_more(
    schema: dict[str, Any], bound: int | None
) -> None:
    found = prepare({"type": "object", "properties": {"a": schema}}).schema["properties"]["a"]
    nodes = found.get("anyOf", [found])
    assert bound in [each.get("maximum") for each in nodes]
    if bound is None:
        assert EXACT not in [each.get("maximum") for each in nodes]


def test_a_larger_number_anywhere_keeps_multiples_unbounded() -> None:
    listed = {"type": "integer", "minimum": 0, "multipleOf": 10}
    for beside in ({"enum": [10**16, 20]}, {"minimum": 10**16}):
        schema = {"type": "object", "properties": {"a": listed, "b": beside}}
        assert "maximum" not in prepare(schema).schema["properties"]["a"]

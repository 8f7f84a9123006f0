"""Which occurrences of unsupported keywords are removed, and how many forms are made for that."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.schema.canonical import canonical_parameters
from toolgate_core.schema.preparation import prepare as preparation
from toolgate_core.schema.preparation.prepare import prepare

OUT_OF_REACH = {"type": "object", "propertyNames": {"pattern": r"^(?=.*\bx\b)(?!a)"}}
"""No grammar engine enforces it."""


def residual_of(bad: set[int], count: int) -> list[str]:
    """The residual pointers of a schema with `count` members of hard keywords."""
    fine: dict[str, Any] = {"type": "integer", "not": {"enum": [3, 4]}}
    members = {f"m{at}": OUT_OF_REACH if at in bad else fine for at in range(count)}
    schema = canonical_parameters({"type": "object", "properties": members})
    return [each.pointer for each in prepare(schema).residual]


@pytest.mark.parametrize("bad", [{0}, {31}, {7, 8}, {3, 17, 29}, set(range(32))], ids=str)
def test_only_occurrences_that_cannot_be_enforced_are_removed(bad: set[int]) -> None:
    names = {pointer.split("/")[2] for pointer in residual_of(bad, 32)}
    assert names == {f"m{at}" for at in bad}


def test_occurrences_are_tried_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    canonical = preparation._canonical
    monkeypatch.setattr(
        preparation, "_canonical", lambda schema: made.append(1) or canonical(schema)
    )
    assert residual_of({5}, 32)
    assert len(made) <= 16

"""A value that masks can't enforce takes no other mask with it, in all forms of calls."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_backend.grammars.offline import verdicts
from toolgate_core.dialects.registry import REPRESENTATIVES
from toolgate_core.schema.canonical import canonical_parameters

OTHERS: dict[str, Any] = {
    "day": {"type": "string", "format": "date"},
    "id": {"type": "string", "format": "uuid"},
    "code": {"type": "string", "pattern": r"^[A-Z]{3}-\d+$"},
    "any": {"type": "string", "pattern": r"^[\s\S]+$"},
    "answer": {"type": "string", "pattern": "^(?i:yes|no)$"},
    "name": {"type": "string", "pattern": r"\A[\w.-]+\z"},
    "lines": {"type": "string", "pattern": "(?s)^a.*b$"},
}
LOCAL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]"
ZOD_EMAIL = LOCAL + r"@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"


def residual(dialect: str, properties: dict[str, Any]) -> set[str]:
    parameters = canonical_parameters({"type": "object", "properties": properties})
    (verdict,) = verdicts(dialect, [{"name": "tool", "parameters": parameters}])
    assert verdict.status == "ready", verdict.reason
    return {each.pointer for each in verdict.residual}


@pytest.mark.parametrize("dialect", REPRESENTATIVES.values())
@pytest.mark.parametrize(
    "bad",
    [
        {"pattern": r"\bword\b"},
        {"pattern": r"^(a|b)\1$"},
        {"pattern": "^(/?a+($|/))*$"},
    ],
)
def test_one_bad_pattern_takes_its_own_mask(dialect: str, bad: dict[str, Any]) -> None:
    properties = {**OTHERS, "bad": {"type": "string", **bad}}
    assert residual(dialect, properties) == {"/properties/bad/pattern"}


@pytest.mark.parametrize("dialect", REPRESENTATIVES.values())
def test_values_that_are_too_large_together_take_their_own_masks(dialect: str) -> None:
    large = {"type": "string", "pattern": r"^(?:[a-z]{0,40}\d){2,40}x$", "maxLength": 99}
    large["allOf"] = [{"pattern": "^(?:[a-c]?[^a-c]{0,50}[a-c]){2,50}$"}]
    found = residual(dialect, {**OTHERS, "bad": large})
    assert {each.rpartition("/bad/")[0] for each in found} <= {"/properties"}


@pytest.mark.parametrize("dialect", REPRESENTATIVES.values())
def test_a_format_beside_a_pattern_stays_masked(dialect: str) -> None:
    mail = {"type": "string", "format": "email"}
    assert not residual(dialect, {"mail": mail | {"pattern": ZOD_EMAIL}})
    assert not residual(dialect, {"mail": {"type": "string", "pattern": ZOD_EMAIL}})
    assert not residual(dialect, {"mail": mail})
    assert not residual(dialect, {"mail": mail | {"pattern": ZOD_EMAIL, "maxLength": 60}})


def test_patterns_of_names_that_overlap_are_left_to_validation() -> None:
    """Engines need patterns that exclude each other."""
    text: dict[str, Any] = {"type": "string"}
    names = {"type": "object", "patternProperties": {"^a": text, "b$": {"minLength": 2}}}
    found = residual("qwen3", {**OTHERS, "map": {**names, "additionalProperties": False}})
    assert found == {"/properties/map/patternProperties", "/properties/map/additionalProperties"}

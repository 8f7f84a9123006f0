"""Validation of arguments: all of JSON Schema, in the draft of the schema."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.schema.canonical import canonical_parameters
from toolgate_proxy.validation.validator import InvalidSchema, Validator, Violation


def check(schema: dict[str, Any], arguments: str) -> Violation | None:
    return Validator(canonical_parameters(schema)).check(arguments, unique=True)


@pytest.mark.parametrize(
    ("schema", "arguments", "pointer", "keyword"),
    [
        ({"properties": {"a": {"uniqueItems": True}}}, '{"a": [1, 1.0]}', "/a", "uniqueItems"),
        (
            {"if": {"required": ["a"]}, "then": {"properties": {"b": {"type": "null"}}}},
            '{"a": 1, "b": 2}',
            "/b",
            "type",
        ),
        ({"not": {"required": ["a"]}}, '{"a": 1}', "", "not"),
        ({"properties": {"a/b": {"items": {"maxLength": 1}}}}, '{"a/b": ["", "xy"]}', "/a~1b/1",
         "maxLength"),
        ({"properties": {"d": {"format": "date"}}}, '{"d": "2025-02-30"}', "/d", "format"),
        ({"properties": {"d": {"format": "date"}}}, '{"d": "0000-01-01"}', "/d", "format"),
        (
            {"properties": {"d": {"format": "date-time"}}},
            '{"d": "0000-01-01T00:00:00Z"}',
            "/d",
            "format",
        ),
        ({"dependentRequired": {"a": ["b"]}}, '{"a": 1}', "", "dependentRequired"),
        ({"properties": {"a": {"multipleOf": 0.1}}}, '{"a": 0.35}', "/a", "multipleOf"),
        ({"properties": {"a": {"multipleOf": 0.1}}}, '{"a": -2e400}', "/a", "multipleOf"),
        ({"properties": {"a": {"multipleOf": 5}}}, '{"a": ' + "5" * 400 + ".0}", "/a",
         "multipleOf"),
        ({"properties": {"a": {"type": "integer"}}}, '{"a": 1e400}', "/a", "type"),
        ({"properties": {"a": {"type": "number", "minimum": 9}}}, '{"a": -1e400}', "/a", "minimum"),
    ],
)  # fmt: skip
def test_violations_name_location_and_keyword(
    schema: dict[str, Any], arguments: str, pointer: str, keyword: str
) -> None:
    violation = check(schema, arguments)
    assert violation is not None
    assert (violation.pointer, violation.keyword) == (pointer, keyword)
    assert violation.schema_pointer.endswith(f"/{keyword}")


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"properties": {"a": {"multipleOf": 0.01}}}, '{"a": 4.35}'),
        ({"properties": {"a": {"type": "number", "minimum": 9}}}, '{"a": 1e400}'),
        (
            {"properties": {"a": {"type": "number", "maximum": 9}}},
            '{"a": -1E+99999999999999999999}',
        ),
        ({"properties": {"a": {"exclusiveMinimum": 0, "maximum": 1}}}, '{"a": 1e-99999999999999}'),
        ({"properties": {"a": {"multipleOf": 0.5}}}, '{"a": 0e99999999999999999999}'),
        ({"properties": {"a": {"type": "integer", "minimum": 9}}}, '{"a": ' + "7" * 9_000 + "}"),
        ({"properties": {"a": {"type": "integer"}}}, '{"a": 123456789012345678901234567890}'),
        ({"properties": {"a": {"enum": [100000]}}}, '{"a": 1e5}'),
        ({"properties": {"a": {"maxLength": 1}}}, '{"a": "\\ud83d\\ude42"}'),
        ({"properties": {"a": {"pattern": "b"}}}, '{"a": "abc"}'),
        ({"properties": {"a": {"format": "no such format"}}}, '{"a": ""}'),
        ({"properties": {"a": {"format": "date"}}}, '{"a": "0001-01-01"}'),
        ({"properties": {"a": {"format": "date-time"}}}, '{"a": "2016-12-31T23:59:60Z"}'),
        ({"properties": {"a": {"format": "date"}}}, '{"a": 0}'),
    ],
)
def test_valid_arguments_pass_validation(schema: dict[str, Any], arguments: str) -> None:
    assert check(schema, arguments) is None


@pytest.mark.parametrize(
    "arguments", ['{"a": 1, "a": 2}', '{"x": {"a": 1, "a": 1}}', '{"a": NaN}', '{"a": 1', ""]
)
def test_invalid_json_is_a_violation(arguments: str) -> None:
    assert check({}, arguments) == Violation(pointer="", keyword="", schema_pointer="")


@pytest.mark.parametrize(
    ("arguments", "complete"),
    [
        ('{"a": "\\ud83d"}', False),
        ('{"a": "\ud800"}', False),  # a mark
        ('{"a": [{"b": "x \\uDE42 y"}]}', False),
        ('{"a\\ud83d": 1}', False),
        ('{"a": "\\ude42\\ud83d"}', False),
        ('{"a": "\\ud83d\\ud83d\\ude42"}', False),
        ('{"a": "\\\\\\ud83d"}', False),
        ('{"a": "\\ud83d\\n\\ude42"}', False),
        ('{"a": "\\ud83d\\ude42 \\uD83D\\uDE42"}', True),
        ('{"a": "\\\\ud83d"}', True),
        ('{"a": "\\ud7ff\\ue000"}', True),
    ],
)
@pytest.mark.parametrize("unique", [True, False])
def test_lone_surrogate_is_a_violation(arguments: str, complete: bool, unique: bool) -> None:
    """Strict JSON parsers reject it."""
    validator = Validator(canonical_parameters({"additionalProperties": {"minLength": 1}}))
    violation = validator.check(arguments, unique=unique)
    expected = None if complete else Violation(pointer="", keyword="", schema_pointer="")
    assert violation == expected


def test_last_of_duplicate_members_counts_unless_unique() -> None:
    validator = Validator(canonical_parameters({"properties": {"a": {"type": "integer"}}}))
    assert validator.check('{"a": "x", "a": 1}', unique=False) is None
    violation = validator.check('{"a": 1, "a": "x"}', unique=False)
    assert violation is not None
    assert violation.keyword == "type"


def test_the_draft_in_the_schema_applies() -> None:
    beside_a_reference = {
        "definitions": {"a": {}},
        "properties": {"a": {"$ref": "#/definitions/a", "type": "null"}},
    }
    assert check(beside_a_reference, '{"a": 1}') is not None
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"}
    assert check(draft | beside_a_reference, '{"a": 1}') is None
    own = {"$schema": "https://example.com/own"}
    assert check(own | beside_a_reference, '{"a": 1}') is not None


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"properties": {"a": {"items": [{"type": "null"}]}}}, '{"a": [null]}', '{"a": [1]}'),
        (
            {"properties": {"a": {"minimum": 1, "exclusiveMinimum": True}}},
            '{"a": 2}',
            '{"a": 1}',
        ),
    ],
)
def test_schemas_of_older_drafts_are_detected(
    schema: dict[str, Any], valid: str, invalid: str
) -> None:
    assert check(schema, valid) is None
    assert check(schema, invalid) is not None


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"properties": {"a": {"type": "text"}}}, "/properties/a/type"),
        ({"properties": {"a": {"required": True}}}, "/properties/a/required"),
        ({"properties": {"a": {"pattern": "("}}}, "/properties/a/pattern"),
        ({"$ref": "#/nowhere"}, ""),
        ({"$ref": "https://example.com/schema.json"}, ""),
        ({"$ref": "file:///etc/passwd"}, ""),
    ],
)
def test_invalid_schemas_are_refused_and_nothing_is_fetched(
    schema: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidSchema) as bad:
        Validator(schema)
    assert bad.value.pointer == pointer

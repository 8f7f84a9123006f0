"""Validation of arguments: all of JSON Schema, in the draft of the schema."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.schema.canonical import canonical_parameters
from toolgate_proxy.validation.validator import InvalidSchema, Validator, Violation

Schema = dict[str, Any]
NOT_JSON = Violation(pointer="", keyword="", schema_pointer="")


def check(schema: Schema, arguments: str, *, unique: bool = True) -> Violation | None:
    return Validator(canonical_parameters(schema)).check(arguments, unique=unique)


def of_a(schema: Schema) -> Schema:
    return {"properties": {"a": schema}}


THEN_NULL = {"if": {"required": ["a"]}, "then": {"properties": {"b": {"type": "null"}}}}


@pytest.mark.parametrize(
    ("schema", "arguments", "pointer", "keyword"),
    [
        (of_a({"uniqueItems": True}), '{"a": [1, 1.0]}', "/a", "uniqueItems"),
        (THEN_NULL, '{"a": 1, "b": 2}', "/b", "type"),
        ({"not": {"required": ["a"]}}, '{"a": 1}', "", "not"),
        ({"properties": {"a/b": {"items": {"maxLength": 1}}}}, '{"a/b": ["", "xy"]}', "/a~1b/1",
         "maxLength"),
        (of_a({"format": "date"}), '{"a": "2025-02-30"}', "/a", "format"),
        (of_a({"format": "date"}), '{"a": "0000-01-01"}', "/a", "format"),
        (of_a({"format": "date-time"}), '{"a": "0000-01-01T00:00:00Z"}', "/a", "format"),
        ({"dependentRequired": {"a": ["b"]}}, '{"a": 1}', "", "dependentRequired"),
        (of_a({"multipleOf": 0.1}), '{"a": 0.35}', "/a", "multipleOf"),
        (of_a({"multipleOf": 0.1}), '{"a": -2e400}', "/a", "multipleOf"),
        (of_a({"multipleOf": 5}), '{"a": ' + "5" * 400 + ".0}", "/a", "multipleOf"),
        (of_a({"type": "integer"}), '{"a": 1e400}', "/a", "type"),
        (of_a({"type": "number", "minimum": 9}), '{"a": -1e400}', "/a", "minimum"),
    ],
)  # fmt: skip
def test_violations_name_location_and_keyword(schema, arguments, pointer, keyword):
    violation = check(schema, arguments)
    assert violation is not None
    assert (violation.pointer, violation.keyword) == (pointer, keyword)
    assert violation.schema_pointer.endswith(f"/{keyword}")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"multipleOf": 0.01}, "4.35"),
        ({"type": "number", "minimum": 9}, "1e400"),
        ({"type": "number", "maximum": 9}, "-1E+99999999999999999999"),
        ({"exclusiveMinimum": 0, "maximum": 1}, "1e-99999999999999"),
        ({"multipleOf": 0.5}, "0e99999999999999999999"),
        ({"type": "integer", "minimum": 9}, "7" * 9_000),
        ({"type": "integer"}, "123456789012345678901234567890"),
        ({"enum": [100000]}, "1e5"),
        ({"maxLength": 1}, '"\\ud83d\\ude42"'),
        ({"pattern": "b"}, '"abc"'),
        ({"format": "no such format"}, '""'),
        ({"format": "date"}, '"0001-01-01"'),
        ({"format": "date-time"}, '"2016-12-31T23:59:60Z"'),
        ({"format": "date"}, "0"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_valid_arguments_pass_validation(schema, value):
    assert check(of_a(schema), f'{{"a": {value}}}') is None


@pytest.mark.parametrize(
    "arguments", ['{"a": 1, "a": 2}', '{"x": {"a": 1, "a": 1}}', '{"a": NaN}', '{"a": 1', ""]
)
def test_invalid_json_is_a_violation(arguments):
    assert check({}, arguments) == NOT_JSON


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
def test_lone_surrogate_is_a_violation(arguments, complete):
    """Strict JSON parsers reject it."""
    for unique in (True, False):
        violation = check({"additionalProperties": {"minLength": 1}}, arguments, unique=unique)
        assert violation == (None if complete else NOT_JSON)


def test_last_of_duplicate_members_counts_unless_unique():
    integer = of_a({"type": "integer"})
    assert check(integer, '{"a": "x", "a": 1}', unique=False) is None
    violation = check(integer, '{"a": 1, "a": "x"}', unique=False)
    assert violation is not None
    assert violation.keyword == "type"


BESIDE = {
    "definitions": {"a": {}},
    "properties": {"a": {"$ref": "#/definitions/a", "type": "null"}},
}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (BESIDE, None, '{"a": 1}'),
        ({"$schema": "http://json-schema.org/draft-07/schema#"} | BESIDE, '{"a": 1}', None),
        ({"$schema": "https://example.com/own"} | BESIDE, None, '{"a": 1}'),
        (of_a({"items": [{"type": "null"}]}), '{"a": [null]}', '{"a": [1]}'),
        (of_a({"minimum": 1, "exclusiveMinimum": True}), '{"a": 2}', '{"a": 1}'),
    ],
    ids=["the latest", "named", "of one's own", "items of older drafts", "minimum of older drafts"],
)
def test_the_draft_is_that_of_the_schema(schema, valid, invalid):
    assert valid is None or check(schema, valid) is None
    assert invalid is None or check(schema, invalid) is not None


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        (of_a({"type": "text"}), "/properties/a/type"),
        (of_a({"required": True}), "/properties/a/required"),
        (of_a({"pattern": "("}), "/properties/a/pattern"),
        ({"$ref": "#/nowhere"}, ""),
        ({"$ref": "https://example.com/schema.json"}, ""),
        ({"$ref": "file:///etc/passwd"}, ""),
    ],
)
def test_invalid_schemas_are_refused_and_nothing_is_fetched(schema, pointer):
    with pytest.raises(InvalidSchema) as bad:
        Validator(schema)
    assert bad.value.pointer == pointer

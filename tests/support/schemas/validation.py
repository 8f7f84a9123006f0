"""Validation of arguments by jsonschema, which shares nothing with the masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema

FORMATS = jsonschema.FormatChecker(("date", "date-time", "email", "ipv4", "uuid"))
"""The formats that are checked. To us, `format` is an assertion (docs/schema-support.md): a `oneOf`
with a format can have another result where it asserts nothing."""
EXACT = 2**53
"""From here on, a float does not tell whether the number that was written is a multiple."""


def schema_violation(schema: Mapping[str, Any], value: object) -> str | None:
    """The first rule of the schema that the value breaks."""
    found = jsonschema.Draft202012Validator(schema, format_checker=FORMATS).iter_errors(value)
    known = (each for each in found if not _is_inexact(each))
    try:
        return next((f"{each.json_path}: {each.message}"[:200] for each in known), None)
    except OverflowError:  # jsonschema can't divide numbers beyond those of floats by `multipleOf`
        return None


def _is_inexact(error: jsonschema.ValidationError) -> bool:
    if error.validator == "multipleOf":
        number: Any = error.instance
        return bool(abs(number) >= EXACT)
    return any(map(_is_inexact, error.context or ()))

"""Masks and validation of dates agree, at the ends of the calendar too."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from tests.support.schemas.judge import Judge
from toolgate_core.schema.canonical import canonical_schema
from toolgate_proxy.validation.validator import Validator

DAYS = {
    "0000-01-01": False,
    "0000-02-29": False,
    "0001-01-01": True,
    "0004-02-29": True,
    "0009-12-31": True,
    "0010-01-01": True,
    "0100-02-29": False,
    "0400-02-29": True,
    "0999-12-31": True,
    "1900-02-29": False,
    "2000-02-29": True,
    "9999-12-31": True,
    "10000-01-01": False,
}
TIMES = {f"{day}T12:00:00Z": valid for day, valid in DAYS.items()}


def schema_of(**member: Any) -> dict[str, Any]:
    properties = {"d": {"type": "string", **member}}
    return {"type": "object", "properties": properties, "required": ["d"]}


@pytest.mark.parametrize(("name", "texts"), [("date", DAYS), ("date-time", TIMES)])
def test_masks_and_validation_accept_exactly_the_dates_of_python(
    judge: Judge, name: str, texts: dict[str, bool]
) -> None:
    schema = schema_of(format=name)
    judged = judge.judge(schema, [(None, {"d": text}) for text in texts])
    assert judged.outcome == "masked"
    validator = Validator(canonical_schema(schema, param="schema"))
    for (text, valid), instance in zip(texts.items(), judged.instances, strict=True):
        assert instance.taken == valid, text
        assert (validator.check(f'{{"d": "{text}"}}', unique=True) is None) == valid, text
        if valid:
            assert date.fromisoformat(text) if name == "date" else datetime.fromisoformat(text)


def test_the_year_zero_is_allowed_without_a_format(judge: Judge) -> None:
    judged = judge.judge(schema_of(enum=["0000-01-01"]), [(None, {"d": "0000-01-01"})])
    assert judged.instances[0].taken

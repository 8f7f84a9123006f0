"""Calls that benchmarks write: strings with constraints, and other values of the same shape."""

from __future__ import annotations

import random
from typing import get_args

import jsonschema
import pytest

from bench.support.strings import KEYWORDS, Strings, constrained
from bench.support.tools import natural_value, varied
from tests.support.installed import needs
from tests.support.shared_data import TOOLS

SCHEMA = {
    "type": "object",
    "properties": {
        "free": {"type": "array", "items": {"type": "string"}},
        "chosen": {"type": "string", "enum": ["a", "b"]},
        "count": {"type": "integer"},
    },
}


@needs(TOOLS)
@pytest.mark.parametrize("kind", get_args(Strings))
def test_values_obey_the_constraints_of_strings(kind):
    rng, seen = random.Random(1), set()
    for _ in range(200):
        schema = constrained(SCHEMA, kind, rng)
        seen |= schema["properties"]["free"]["items"].keys() & set(KEYWORDS)
        assert schema["properties"]["chosen"] == SCHEMA["properties"]["chosen"]
        checker = jsonschema.FormatChecker()
        jsonschema.validate(natural_value(schema, rng), schema, format_checker=checker)
    assert seen


def test_a_varied_value_has_the_shape_of_the_given_one():
    value = {"free": ["one two", "three"], "chosen": "a", "count": 17, "none": None}
    other = varied(value, SCHEMA, random.Random(3))
    assert [len(each.split()) for each in other["free"]] == [2, 1]
    assert other["free"] != value["free"]
    assert other["chosen"] in "ab"
    assert 0 <= other["count"] < 100
    assert other["none"] is None

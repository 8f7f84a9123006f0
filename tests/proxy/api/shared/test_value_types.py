"""Types of parameter values: their examples, bounds and descriptions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.value_examples import invalid, valid
from toolgate_core.errors import InvalidRequest
from toolgate_proxy.api.shared.collection_types import (
    Array,
    JsonObject,
    Object,
    Texts,
    TokenBiases,
    TokenIds,
)
from toolgate_proxy.api.shared.value_types import (
    INT64_MAX,
    INT64_MIN,
    Choice,
    Flag,
    Integer,
    Number,
    Text,
    ValueType,
)

TYPES: tuple[ValueType, ...] = (
    Integer(-1),
    Integer(1, 128),
    Integer(INT64_MIN, INT64_MAX),
    Number(0),
    Number(-2, 2),
    Number(0, 1, exclusive_minimum=True),
    Flag(),
    Text(),
    Text(minimum=1, maximum=8, in_path=True),
    Choice(("left", "right")),
    Texts(3),
    Texts(3, single=True),
    Texts(3, blank=False),
    TokenIds(),
    TokenIds(minimum=1),
    TokenIds(maximum=2),
    TokenBiases(100, 300),
    Array("tools"),
    JsonObject(),
    Object({"size": Integer(1)}, required=("size",)),
    Object({"size": Integer(1)}, extensible=True),
)


@pytest.mark.parametrize("value_type", TYPES, ids=repr)
def test_examples_are_what_they_claim_to_be(value_type: ValueType) -> None:
    for value in valid(value_type):
        value_type.parse(value, "field")
    assert invalid(value_type)
    for value in invalid(value_type):
        with pytest.raises(InvalidRequest) as error:
            value_type.parse(value, "field")
        assert (error.value.param or "").startswith("field")
        assert "'field" in error.value.message


@pytest.mark.parametrize(
    ("value_type", "value", "message"),
    [
        (Integer(-1), -2, "'field' must be an integer of at least -1, but is -2."),
        (Integer(1, 128), 1.5, "'field' must be an integer from 1 to 128, but is 1.5."),
        (
            Integer(INT64_MIN, INT64_MAX),
            10**30,
            "'field' must be an integer from -2^63 to 2^63-1, but is out of range.",
        ),
        (Number(0), "hot", "'field' must be a number of at least 0, but is a string."),
        (
            Number(0, 1, exclusive_minimum=True),
            0,
            "'field' must be a number greater than 0 and at most 1, but is 0.",
        ),
        (Flag(), [], "'field' must be true or false, but is an array."),
        (
            Texts(3),
            [3],
            "'field' must be an array of up to 3 non-empty strings of up to 1000 characters.",
        ),
        (TokenIds(minimum=1), [], "'field' must be a non-empty array of token IDs, but is empty."),
        (Choice(("left", "right")), "up", '\'field\' must be "left" or "right", but is "up".'),
        (
            Choice(("left", "right")),
            "rigth",
            '\'field\' must be "left" or "right", but is "rigth". Did you mean "right"?',
        ),
        (
            Choice(("left", "right")),
            "up" * 50,
            '\'field\' must be "left" or "right", but is a string.',
        ),
        (
            TokenBiases(100, 300),
            {"7": 101},
            "'field' must be an object of up to 300 numbers from -100 to 100 by token ID, but the "
            "bias of token 7 is not in this range.",
        ),
        (
            Object({"size": Integer(1)}, required=("size",)),
            {},
            "'field.size' is required. It must be an integer of at least 1.",
        ),
        (
            Object({"a": Flag(), "b": Flag()}),
            {"c": True},
            "'field.c' is not supported. Remove it. The known members are a, b.",
        ),
    ],
)
def test_errors_state_the_field_the_rule_and_the_value(
    value_type: ValueType, value: Any, message: str
) -> None:
    with pytest.raises(InvalidRequest) as error:
        value_type.parse(value, "field")
    assert error.value.message == message


def test_a_whole_float_is_an_integer() -> None:
    assert Integer(-1).parse(5.0, "field") == 5
    assert TokenIds().parse([5.0], "field") == (5,)


def test_an_object_ignores_members_that_are_null_or_false() -> None:
    size = Object({"size": Integer(1)})
    assert size.parse({"size": None, "more": None, "other": False}, "field") == {}

"""Values of parameters: their types, and parameters that no row defines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.value_examples import invalid, valid
from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_proxy.api.shared.collection_types import (
    Array,
    JsonObject,
    Object,
    Texts,
    TokenBiases,
    TokenIds,
)
from toolgate_proxy.api.shared.parameter import read_parameters
from toolgate_proxy.api.shared.unknown import FOREIGN, MAX_LISTED, without_unknown
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
from toolgate_proxy.api.surface import Surface
from toolgate_proxy.api.surfaces import SURFACES

TYPES: tuple[ValueType, ...] = (
    Integer(-1),
    Integer(1, 128),
    Integer(INT64_MIN, INT64_MAX),
    Number(0),
    Number(-2, 2),
    Number(0, 1, exclusive_minimum=True),
    Flag(),
    Text(),
    Text(minimum=1, maximum=8, visible=True),
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
            "'field' has an unknown member 'c'. Remove it; the known members are a, b.",
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


KNOWN = frozenset({"temperature", "max_tokens", "tool_choice"})


@pytest.mark.parametrize(
    ("sent", "advice"),
    [
        ("temprature", "Did you mean 'temperature'? Otherwise, remove it from the request."),
        ("toolChoice", "Did you mean 'tool_choice'? Otherwise, remove it from the request."),
        ("num_ctx", "Remove it from the request. The context length is that of the backend"),
        ("zzz", "Unknown parameter 'zzz'. Remove it from the request."),
        ("\ud800", "Unknown parameter '?'. Remove it from the request."),
    ],
)
def test_errors_say_what_to_send_instead(sent: str, advice: str) -> None:
    with pytest.raises(UnsupportedParameter) as refused:
        read_parameters({sent: 1}, dict.fromkeys(KNOWN))  # type: ignore[arg-type]
    assert advice in refused.value.message


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.name)
def test_foreign_parameters_are_unknown(surface: Surface) -> None:
    notes = {name for name in FOREIGN if name in surface.parameters}
    assert notes <= {"thinking"}  # Anthropic's API has it


def test_names_that_a_header_cannot_hold_are_not_shown() -> None:
    body = {"temperature": 1, "a\r\nset-cookie": 1, "näme": 2, "left_out": None, "num_ctx": 3}
    assert without_unknown(body, KNOWN) == ({"temperature": 1}, ["?", "?", "num_ctx"])
    many = {f"p{number}": 1 for number in range(MAX_LISTED + 1)}
    kept, shown = without_unknown(many, KNOWN)
    assert (kept, len(shown), shown[-1]) == ({}, MAX_LISTED + 1, "...")

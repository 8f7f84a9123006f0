"""The parameter table: every row parses its examples into the field that it names."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from tests.support.apis.admitted_requests import admitted
from tests.support.apis.value_examples import valid
from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest
from toolgate_proxy.api.chat_completions.parameters import BY_NAME, PARAMETERS
from toolgate_proxy.api.shared.collection_types import Object
from toolgate_proxy.api.shared.parameter import Parameter, make_table

SUPPORTED = [each for each in PARAMETERS if each.type is not None]
REQUIRED: dict[str, dict[str, Any]] = {
    "stream_options": {"stream": True},
    "top_logprobs": {"logprobs": True},
    "logprob_token_ids": {"logprobs": True},
}
"""Other parameters that a parameter requires."""


@pytest.mark.parametrize("row", SUPPORTED, ids=lambda row: row.name)
def test_valid_values_reach_the_field_of_the_row(row: Parameter) -> None:
    assert row.type
    for value in valid(row.type):
        request = admitted(**REQUIRED.get(row.name, {}), **{row.name: value})
        parsed = row.type.parse(value, row.name)
        if row.sampling and row.sampling not in ("logprob_token_ids", "repetition_detection"):
            assert getattr(request.sampling, row.sampling) == parsed
        if row.tokenizing:
            assert getattr(request.tokenizing, row.tokenizing) == parsed
        if row.request:
            assert getattr(request, row.request) == parsed


MEMBERS = [(row, member) for row in PARAMETERS for member in row.members]


@pytest.mark.parametrize(("row", "member"), MEMBERS, ids=lambda each: getattr(each, "name", each))
def test_valid_members_reach_the_field_of_the_row(row: Parameter, member: str) -> None:
    assert isinstance(row.type, Object)
    for value in valid(row.type.members[member]):
        request = admitted(**REQUIRED.get(row.name, {}), **{row.name: {member: value}})
        assert getattr(request, row.members[member]) == row.type.members[member].parse(value, "")


def test_a_parameter_has_precedence_over_those_that_stand_for_it() -> None:
    both = admitted(reasoning={"max_tokens": 5}, reasoning_budget=9)
    assert both.reasoning_budget == 9
    assert admitted(reasoning_budget=9, reasoning={"max_tokens": 5}).reasoning_budget == 9
    assert admitted(reasoning={"max_tokens": 5}).reasoning_budget == 5


def test_the_last_row_of_a_field_has_precedence_in_any_order_of_the_body() -> None:
    assert admitted(max_completion_tokens=9, max_tokens=5).sampling.max_tokens == 9
    assert admitted(max_tokens=5, max_completion_tokens=9).sampling.max_tokens == 9


def test_rows_name_fields_that_exist() -> None:
    renamed = {row.name: row.sampling for row in PARAMETERS if row.sampling not in (None, row.name)}
    assert renamed == {"max_completion_tokens": "max_tokens", "top_logprobs": "logprobs"}
    assert all(row.tokenizing in (None, row.name) for row in PARAMETERS)
    sampling = {row.sampling for row in PARAMETERS if row.sampling}
    assert sampling == wire.Sampling.model_fields.keys()
    tokenizing = {row.tokenizing for row in PARAMETERS if row.tokenizing}
    assert tokenizing == wire.Tokenizing.model_fields.keys()
    request = {row.request for row in PARAMETERS if row.request}
    request |= {name for row in PARAMETERS for name in row.members.values()}
    assert request < {each.name for each in fields(ChatRequest)}


def test_logprobs_alone_requests_no_alternatives() -> None:
    assert admitted(logprobs=True).sampling.logprobs == 0
    assert admitted(logprobs=False, top_logprobs=0).sampling.logprobs is None


def test_a_table_with_two_rows_of_one_name_is_an_error() -> None:
    with pytest.raises(ValueError, match="'temperature'"):
        make_table([BY_NAME["temperature"]] * 2)

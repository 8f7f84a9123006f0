"""Each row of the parameter tables refuses values by its name, and accepts what it ignores."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.value_examples import invalid
from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_proxy.api.chat_completions.parameters import PARAMETERS as CHAT
from toolgate_proxy.api.messages.parameters import PARAMETERS as MESSAGES
from toolgate_proxy.api.responses.parameters import PARAMETERS as RESPONSES
from toolgate_proxy.api.shared.collection_types import Object
from toolgate_proxy.api.shared.parameter import Parameter
from toolgate_proxy.api.surface import Surface
from toolgate_proxy.api.surfaces import SURFACES

Case = tuple[Surface, Parameter]
HI = [{"role": "user", "content": "hi"}]
BODIES: list[dict[str, Any]] = [
    {"messages": HI},
    {"input": "hi"},
    {"messages": HI, "max_tokens": 100},
]
CHAT_ONLY: dict[str, dict[str, Any]] = {
    "stream_options": {"stream": True},
    "top_logprobs": {"logprobs": True},
    "logprob_token_ids": {"logprobs": True},
}
"""Other parameters that a parameter requires."""
ROWS = [
    (surface, row)
    for surface, table in zip(SURFACES, (CHAT, RESPONSES, MESSAGES), strict=True)
    for row in table
]
TYPED = [case for case in ROWS if case[1].type is not None]
IGNORED = [case for case in ROWS if case[1].type is None and case[1].support == "ignored"]
REFUSED = [case for case in ROWS if case[1].support in ("rejected", "default only")]


def rows(cases: list[Case]) -> pytest.MarkDecorator:
    ids = [f"{surface.name} {row.name}" for surface, row in cases]
    return pytest.mark.parametrize(("surface", "row"), cases, ids=ids)


def parsed(surface: Surface, row: Parameter, value: Any) -> ChatRequest:
    at = SURFACES.index(surface)
    beside = {} if at else CHAT_ONLY.get(row.name, {})
    return surface.parse({"model": "tiny", **BODIES[at], **beside, row.name: value}, model="tiny")


@rows(TYPED)
def test_invalid_values_are_errors_that_name_the_parameter(
    surface: Surface, row: Parameter
) -> None:
    assert row.type
    for value in invalid(row.type):
        if row.name == "input" and isinstance(value, str):
            continue
        with pytest.raises(InvalidRequest) as error:
            parsed(surface, row, value)
        param = error.value.param or ""
        assert (param.split(".")[0] if isinstance(row.type, Object) else param) == row.name
        assert row.name in error.value.message


@rows(IGNORED)
def test_ignored_parameters_accept_any_value(surface: Surface, row: Parameter) -> None:
    for value in ("anything", {"any": ["value"]}):
        parsed(surface, row, value)


@rows(REFUSED)
def test_refused_parameters_are_refused_with_their_reason(surface: Surface, row: Parameter) -> None:
    for value in row.defaults:
        parsed(surface, row, value)
    for other in ("x", {"any": "thing"}):
        with pytest.raises(UnsupportedParameter) as refusal:
            parsed(surface, row, other)
        assert refusal.value.param == row.name
        assert row.note in refusal.value.message


@rows(ROWS)
def test_a_row_has_a_type_if_its_values_are_read(surface: Surface, row: Parameter) -> None:
    assert (row.type is not None) or row.support != "supported"
    assert (row.type is None) or row.support in ("supported", "ignored")
    assert bool(row.defaults) == (row.support == "default only")
    assert row.note

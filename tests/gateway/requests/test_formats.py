"""`response_format`, alone and with tools: valid content or valid calls."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import openai
import pydantic
import pytest

from tests import tools
from tests.gateway.requests import answers

USER = [{"role": "user", "content": "Answer in JSON."}]
SCHEMA = tools.RANGE["function"]["parameters"]
FORMATS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "json_object": ({"type": "json_object"}, {"type": "object"}),
    "json_schema": (
        {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}},
        SCHEMA,
    ),
}


@pytest.mark.parametrize("effort", ["none", "high"])
@pytest.mark.parametrize("beside_tools", [False, True], ids=["alone", "beside tools"])
@pytest.mark.parametrize("name", FORMATS)
def test_the_content_matches_response_format_or_the_calls_match_their_tools(
    client: openai.OpenAI, common: dict[str, Any], name: str, beside_tools: bool, effort: str
) -> None:
    response_format, schema = FORMATS[name]
    request = {**common, "messages": USER, "response_format": response_format}
    request |= {"reasoning_effort": effort, "extra_body": {"reasoning_budget": 20}}
    if beside_tools:
        request["tools"] = tools.ALL
    ended = 0
    asked = [{**request, "seed": seed} for seed in range(3)]
    for [answer] in answers.both_forms(client, asked):
        answers.check(answer, tools.ALL)
        assert not (answer.content and answer.calls)
        assert beside_tools or not answer.calls
        if answer.finish_reason == "stop":
            jsonschema.validate(json.loads(answer.content or ""), schema)
        ended += answer.finish_reason != "length"
    assert ended


class Range(pydantic.BaseModel):
    low: int = pydantic.Field(ge=-5, le=12)
    steps: list[bool] = pydantic.Field(max_length=4)


def test_the_openai_sdks_parse_returns_the_pydantic_model(
    client: openai.OpenAI, common: dict[str, Any]
) -> None:
    request = {**common, "messages": USER, "reasoning_effort": "none"}
    parsed = client.chat.completions.parse(**request, response_format=Range)
    assert isinstance(parsed.choices[0].message.parsed, Range)


def test_a_format_that_no_engine_enforces_is_refused_with_its_pointer(
    client: openai.OpenAI,
) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}}
    given: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model="tiny",
            messages=USER,  # type: ignore[arg-type]
            response_format=given,
        )
    body = refused.value.body
    assert isinstance(body, dict)
    assert "json_schema" in body["param"]
    assert body["pointer"] == "/properties/x/uniqueItems"

"""Schemas that no mask holds, through the whole stack: what comes is valid, or the answer ends in
an error that says why. The tools are made so that the random model hits and misses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests import tools

from . import answers
from .conftest import Stack, status

USER = [{"role": "user", "content": "Call it."}]
DIGIT = {"type": "integer", "minimum": 0, "maximum": 4}


def digits(count: int) -> dict[str, Any]:
    """Valid with a chance of 5·4·…/5^count, if the digits are equally likely."""
    numbers = {"type": "array", "items": DIGIT, "minItems": count, "maxItems": count}
    return tools.tool("set_digits", {"digits": {**numbers, "uniqueItems": True}})


CONDITION = tools.tool(
    "set_range",
    {"kind": {"type": "string", "enum": ["low", "high"]}, "value": DIGIT},
)
CONDITION["function"]["parameters"] |= {
    "if": {"properties": {"kind": {"const": "low"}}},
    "then": {"properties": {"value": {"maximum": 1}}},
    "else": {"properties": {"value": {"minimum": 3}}},
}
NEGATION = tools.tool("set_level", {"level": DIGIT, "other": DIGIT})
NEGATION["function"]["parameters"]["not"] = {
    "properties": {"level": {"enum": [0, 1]}, "other": {"enum": [2, 3]}}
}
NODE: dict[str, Any] = {
    "type": "object",
    "properties": {"value": DIGIT, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["value", "next"],
    "additionalProperties": False,
}
LIST = tools.tool("set_list", {"first": {"$ref": "#/$defs/node"}})
"""Refers to itself: its calls are checked in a process of its own, which ends with the gateway."""
LIST["function"]["parameters"]["$defs"] = {"node": NODE}
TOOLS = {"a list": LIST, "uniqueItems": digits(3), "if": CONDITION, "not": NEGATION}


@pytest.fixture(scope="module")
def told(stack: Stack) -> Iterator[openai.OpenAI]:
    """A client whose whole answers come with their headers."""
    with openai.OpenAI(base_url=f"{stack.url}/v1", api_key=stack.master_key, max_retries=0) as made:
        yield made


def outcome(client: openai.OpenAI, *, stream: bool, **request: Any) -> Any:
    """The answers, or the code of the error that ended them."""
    try:
        if stream:
            return answers.from_chunks([*client.chat.completions.create(**request, stream=True)])
        return answers.from_whole(client.chat.completions.create(**request))
    except openai.APIError as error:
        return error.code


@pytest.mark.parametrize("name", TOOLS)
def test_every_call_is_valid_streamed_and_not(
    client: openai.OpenAI, common: dict[str, Any], name: str
) -> None:
    tool = TOOLS[name]
    request = {**common, "messages": USER, "tools": [tool], "parallel_tool_calls": False}
    request |= {"tool_choice": "required", "reasoning_effort": "none"}
    for seed in range(6):
        whole, streamed = (
            outcome(client, stream=stream, **{**request, "seed": seed}) for stream in (False, True)
        )
        assert whole == streamed, "seeded, the attempts are the same ones"
        if whole == "tool_schema_violation":
            continue
        [answer] = whole
        answers.check(answer, [tool])
        assert answer.finish_reason in ("tool_calls", "length")


def test_wrong_calls_are_sampled_again_and_what_was_spent_is_counted(
    told: openai.OpenAI, common: dict[str, Any]
) -> None:
    """Three of five digits differ in half of the answers: over 20 seeds some are resampled."""
    tool = digits(3)
    request = {**common, "messages": USER, "tools": [tool], "parallel_tool_calls": False}
    request |= {"tool_choice": "required", "reasoning_effort": "none"}
    resampled: dict[int, int] = {}
    spent: dict[int, int] = {}
    given_up: list[str | None] = []
    for seed in range(20):
        try:
            response = told.chat.completions.with_raw_response.create(**{**request, "seed": seed})
        except openai.InternalServerError as error:
            given_up.append(error.code)
            continue
        assert response.headers["x-toolgate-enforced"] == "residual"
        assert response.headers["x-toolgate-residual"] == "1; keywords=uniqueItems"
        completion = response.parse()
        [answer] = answers.from_whole(completion)
        answers.check(answer, [tool])
        resampled[seed] = int(response.headers.get("x-toolgate-resamples", 0))
        assert completion.usage is not None
        spent[seed] = completion.usage.completion_tokens
    once = [seed for seed, times in resampled.items() if times]
    never = [seed for seed, times in resampled.items() if not times]
    assert set(given_up) <= {"tool_schema_violation"}
    assert once
    assert never
    assert min(spent[seed] for seed in once) > max(spent[seed] for seed in never)


@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_hit_is_given_up(
    client: openai.OpenAI, common: dict[str, Any], backend: httpx.Client, stream: bool
) -> None:
    number = {"type": "integer", "minimum": 0, "maximum": 999_999}
    values = {"type": "array", "items": number, "minItems": 2, "maxItems": 3}
    unlikely = tools.tool("unlikely", {"values": {**values, "contains": {"const": 123_456}}})
    request = {**common, "messages": USER, "tools": [unlikely], "tool_choice": "required"}
    request |= {"parallel_tool_calls": False, "reasoning_effort": "none"}
    assert outcome(client, stream=stream, **request) == "tool_schema_violation"
    assert status(backend).running == 0


def test_other_choices_and_calls_stand_beside_it(
    client: openai.OpenAI, common: dict[str, Any]
) -> None:
    both = [digits(2), tools.WEATHER]
    request = {**common, "messages": USER, "tools": both, "n": 3, "tool_choice": "required"}
    whole, streamed = (outcome(client, stream=stream, **request) for stream in (False, True))
    assert whole == streamed
    if whole != "tool_schema_violation":
        assert len(whole) == 3
        for answer in whole:
            answers.check(answer, both)


def test_strict_refuses_it(client: openai.OpenAI, common: dict[str, Any]) -> None:
    strict = digits(3)
    strict["function"]["strict"] = True
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**common, messages=USER, tools=[strict])
    assert isinstance(refused.value.body, dict)
    assert refused.value.body["code"] == "schema_not_enforceable"
    pointer = "/properties/digits/uniqueItems"
    assert refused.value.body["param"] == f"/tools/0/function/parameters{pointer}"
    assert refused.value.body["pointer"] == pointer


def test_a_request_goes_on_from_given_tokens(backend: httpx.Client) -> None:
    """Greedily, the second half of an answer comes again after its first half."""

    def generate(**more: Any) -> list[dict[str, Any]]:
        body = {
            "request_id": f"heir-{len(more)}",
            "model": "tiny",
            "prompt": {"kind": "tokens", "token_ids": [1, 2, 3]},
            "enforcement": {"choice": "none"},
            "sampling": {"max_tokens": 12, "temperature": 0},
            "stream": False,
        }
        answer = backend.post("/generate", json=body | more)
        answer.raise_for_status()
        events: list[dict[str, Any]] = answer.json()
        return events

    def ids(events: list[dict[str, Any]]) -> list[int]:
        return [i for event in events if event["event"] == "tokens" for i in event["ids"]]

    whole = generate()
    accepted = ids(whole)[:5]
    rest = generate(accepted=accepted, sampling={"max_tokens": 7, "temperature": 0})
    assert accepted + ids(rest) == ids(whole)
    assert rest[0]["prompt_tokens"] == whole[0]["prompt_tokens"] == 3
    assert rest[-1]["completion_tokens"] == 7
    refused = backend.post(
        "/generate",
        json={
            "request_id": "heirs",
            "model": "tiny",
            "prompt": {"kind": "tokens", "token_ids": [1]},
            "accepted": [10**9],
        },
    )
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "accepted")

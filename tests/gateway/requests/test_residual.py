"""Schemas that masks enforce only in part: every call is valid, or the answer ends in an error.

With these tools, some of the random model's calls are valid and some are not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from statistics import mean
from typing import Any

import httpx
import openai
import pytest

from tests import tools
from tests.gateway.conftest import status
from tests.gateway.requests import answers
from tests.support.effort import repeats

USER = [{"role": "user", "content": "Call it."}]
DIGIT = {"type": "integer", "minimum": 0, "maximum": 4}


def digits(count: int) -> dict[str, Any]:
    """A tool whose call is valid with probability 5·4·…/5^count, if digits are equally likely."""
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
"""Recursive: its calls are checked in a separate process, which ends with the gateway."""
LIST["function"]["parameters"]["$defs"] = {"node": NODE}
TOOLS = {"a list": LIST, "uniqueItems": digits(3), "if": CONDITION, "not": NEGATION}


def outcome(client: openai.OpenAI, *, stream: bool, **request: Any) -> Any:
    """Return the answers, or the code of the error that ended them."""
    try:
        if stream:
            return answers.from_chunks([*client.chat.completions.create(**request, stream=True)])
        return answers.from_whole(client.chat.completions.create(**request))
    except openai.APIError as error:
        return error.code


@pytest.mark.parametrize("name", TOOLS)
def test_every_call_is_valid_in_both_forms(
    client: openai.OpenAI, common: dict[str, Any], name: str
) -> None:
    tool = TOOLS[name]
    request = {**common, "messages": USER, "tools": [tool], "parallel_tool_calls": False}
    request |= {"tool_choice": "required", "reasoning_effort": "none"}
    for seed in range(repeats(3, nightly=6)):
        whole, streamed = (
            outcome(client, stream=stream, **{**request, "seed": seed}) for stream in (False, True)
        )
        assert whole == streamed, "with the same seed, attempts are the same"
        if whole == "tool_schema_violation":
            continue
        [answer] = whole
        answers.check(answer, [tool])
        assert answer.finish_reason in ("tool_calls", "length")


def test_invalid_calls_are_resampled_and_usage_counts_every_attempt(
    client: openai.OpenAI, common: dict[str, Any]
) -> None:
    """Three of five digits differ in half of the answers: over 20 seeds some are resampled."""
    tool = digits(3)
    request = {**common, "messages": USER, "tools": [tool], "parallel_tool_calls": False}
    request |= {"tool_choice": "required", "reasoning_effort": "none"}

    given_up: list[str | None] = []

    def spent(seed: int) -> tuple[int, int] | None:
        """Resamples and tokens of a valid answer; None if the answer was given up. The prompts end
        at all places of a block of the prefix cache, so some retries begin in the next block."""
        messages = [{"role": "user", "content": "Call it." + " the" * 6 * seed}]
        new = {**request, "messages": messages, "seed": seed}
        try:
            response = client.chat.completions.with_raw_response.create(**new)
        except openai.InternalServerError as error:
            given_up.append(error.code)
            return None
        assert response.headers["x-toolgate-enforced"] == "residual"
        assert response.headers["x-toolgate-residual"] == "1; keywords=uniqueItems"
        completion = response.parse()
        [answer] = answers.from_whole(completion)
        answers.check(answer, [tool])
        assert completion.usage is not None
        resamples = int(response.headers.get("x-toolgate-resamples", 0))
        return resamples, completion.usage.completion_tokens

    with ThreadPoolExecutor(8) as pool:
        valid = [each for each in pool.map(spent, range(20)) if each is not None]
    resampled = [tokens for resamples, tokens in valid if resamples]
    at_once = [tokens for resamples, tokens in valid if not resamples]
    assert set(given_up) <= {"tool_schema_violation"}
    # A resample can cost as little as one value.
    assert mean(resampled) > mean(at_once)


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_never_valid_ends_in_tool_schema_violation(
    client: openai.OpenAI, common: dict[str, Any], backend: httpx.Client, stream: bool
) -> None:
    code = {"type": "string", "minLength": 6, "maxLength": 6, "pattern": "^k7q9w2\\b"}
    unlikely = tools.tool("unlikely", {"code": code})
    request = {**common, "messages": USER, "tools": [unlikely], "tool_choice": "required"}
    request |= {"parallel_tool_calls": False, "reasoning_effort": "none"}
    assert outcome(client, stream=stream, **request) == "tool_schema_violation"
    assert status(backend).running == 0


def test_the_last_attempt_has_a_narrower_grammar(
    client: openai.OpenAI, common: dict[str, Any], backend: httpx.Client
) -> None:
    number = {"type": "integer", "minimum": 0, "maximum": 999_999}
    values = {"type": "array", "items": number, "minItems": 2, "maxItems": 3}
    unlikely = tools.tool("unlikely", {"values": {**values, "contains": {"const": 123_456}}})
    request = {**common, "messages": USER, "tools": [unlikely], "tool_choice": "required"}
    request |= {"parallel_tool_calls": False, "reasoning_effort": "none", "max_tokens": 500}
    [answer] = outcome(client, stream=False, **request)
    answers.check(answer, [unlikely])


def test_resampled_choices_leave_other_choices_and_calls_alone(
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


def test_strict_refuses_a_schema_that_masks_do_not_enforce(
    client: openai.OpenAI, common: dict[str, Any]
) -> None:
    strict = digits(3)
    strict["function"]["strict"] = True
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**common, messages=USER, tools=[strict])
    assert isinstance(refused.value.body, dict)
    assert refused.value.body["code"] == "schema_not_enforceable"
    pointer = "/properties/digits/uniqueItems"
    assert refused.value.body["param"] == "tools[0].function.parameters"
    assert refused.value.body["pointer"] == pointer


def test_generation_continues_after_given_tokens(backend: httpx.Client) -> None:
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

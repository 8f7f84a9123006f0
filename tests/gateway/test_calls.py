"""Calls that masks enforce only in part, calls of custom tools, and the trace of each token."""

import json
from concurrent.futures import ThreadPoolExecutor
from statistics import mean

import pytest

from tests import tools
from tests.support.apis import replies
from tests.support.effort import repeats
from tests.support.grammars.custom_grammars import CASES, parser
from toolgate_proxy.backend_client.event_stream import SseParser
from toolgate_verify.terms import Api

from . import kit

USER = [{"role": "user", "content": "Call it."}]
ONE_CALL = {
    "messages": USER,
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "reasoning_effort": "none",
}
DIGIT = {"type": "integer", "minimum": 0, "maximum": 4}


def digits(count):
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
NODE = {
    "type": "object",
    "properties": {"value": DIGIT, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["value", "next"],
    "additionalProperties": False,
}
LIST = tools.tool("set_list", {"first": {"$ref": "#/$defs/node"}})
"""Recursive: its calls are checked in a separate process, which ends with the gateway."""
LIST["function"]["parameters"]["$defs"] = {"node": NODE}
TOOLS = {"a list": LIST, "uniqueItems": digits(3), "if": CONDITION, "not": NEGATION}
"""Of the calls that the random model samples, some are valid and some are not."""


def outcome(http, request, *, stream):
    """Return the answers, or the code of the error that ended them."""
    try:
        return kit.outputs(http, request, stream=stream)
    except kit.Refused as refused:
        return refused.error["code"]


@pytest.mark.parametrize("name", TOOLS)
def test_a_call_that_masks_enforce_in_part_is_valid_in_both_forms_or_the_answer_is_an_error(
    http, common, name
):
    request = {**common, **ONE_CALL, "tools": [TOOLS[name]]}
    for seed in range(repeats(3, nightly=6)):
        request["seed"] = seed
        whole, streamed = (outcome(http, request, stream=stream) for stream in (False, True))
        assert whole == streamed, "with the same seed, attempts are the same"
        if whole == "tool_schema_violation":
            continue
        [answer] = whole
        kit.check(answer, [TOOLS[name]])
        assert answer.finish_reason in ("tool_calls", "length")


def test_invalid_calls_are_resampled_and_usage_counts_every_attempt(http, common):
    """Three of five digits differ in half of the answers: over 20 seeds some are resampled."""
    tool = digits(3)
    given_up = []

    def spent(seed):
        """Resamples and tokens of a valid answer; None if the answer was given up. The prompts end
        at all places of a block of the prefix cache, so some retries begin in the next block."""
        messages = [{"role": "user", "content": "Call it." + " the" * 6 * seed}]
        new = {**common, **ONE_CALL, "tools": [tool], "messages": messages, "seed": seed}
        try:
            response = kit.post(http, new)
        except kit.Refused as refused:
            given_up.append(refused.error["code"])
            return None
        assert response.headers["x-toolgate-enforced"] == "residual"
        assert response.headers["x-toolgate-residual"] == "1; keywords=uniqueItems"
        [reply] = replies.of_chat(response.json())
        kit.check(kit.output(reply), [tool])
        assert reply.answer.usage is not None
        return int(response.headers.get("x-toolgate-resamples", 0)), reply.answer.usage.completion

    with ThreadPoolExecutor(8) as pool:
        valid = [each for each in pool.map(spent, range(20)) if each is not None]
    resampled = [tokens for resamples, tokens in valid if resamples]
    at_once = [tokens for resamples, tokens in valid if not resamples]
    assert set(given_up) <= {"tool_schema_violation"}
    # A resample can cost as little as one value.
    assert mean(resampled) > mean(at_once)


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_never_valid_ends_in_tool_schema_violation(http, common, backend, stream):
    code = {"type": "string", "minLength": 6, "maxLength": 6, "pattern": "^k7q9w2\\b"}
    request = {**common, **ONE_CALL, "tools": [tools.tool("unlikely", {"code": code})]}
    assert outcome(http, request, stream=stream) == "tool_schema_violation"
    assert kit.status(backend).running == 0


# --- custom tools ---

DEFINITIONS = {case.name: case.definition for case in CASES}
SMALL = 'start: "say(" /[^\\n"]{1,8}/ ")" "\\n" QUOTED\nQUOTED: /"[a-c\\\\]{0,4}"/\n'
GRAMMARS = {
    "lark": ("lark", SMALL),
    "arithmetic": ("lark", DEFINITIONS["arithmetic"]),
    "regex": ("regex", DEFINITIONS["date"]),
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_chat_and_responses_have_the_same_input_of_a_custom_tool_which_matches_its_grammar(
    http, common, name
):
    syntax, definition = GRAMMARS[name]
    matches = parser(syntax, definition)
    shape = {"syntax": syntax, "definition": definition}
    in_chat = {"name": "run", "format": {"type": "grammar", "grammar": shape}}
    tool = {"type": "custom", "name": "run", "format": {"type": "grammar", **shape}}
    complete = 0
    for seed in range(repeats(2, nightly=4)):
        both = {"model": common["model"], "tool_choice": "required", "parallel_tool_calls": False}
        both |= {"seed": seed, "chat_template_kwargs": {"enable_thinking": False}}
        chat = both | {"messages": USER, "tools": [{"type": "custom", "custom": in_chat}]}
        chat["max_tokens"] = 200
        [whole] = kit.post(http, chat).json()["choices"]
        [call] = whole["message"]["tool_calls"]
        made = call["custom"]["input"]
        streamed = SseParser().feed(kit.post(http, chat | {"stream": True}).content)
        deltas = [
            called["custom"]["input"]
            for chunk in map(json.loads, streamed[:-1])
            for choice in chunk["choices"]
            for called in choice["delta"].get("tool_calls") or ()
        ]
        assert (call["type"], "".join(deltas)) == ("custom", made)
        items = both | {"input": "Call it.", "tools": [tool], "max_output_tokens": 200}
        for stream in (False, True):
            [reply] = kit.ask(http, items, stream=stream, api=Api.RESPONSES)
            [same] = reply.answer.calls
            assert same.custom
            assert same.arguments == made
        if whole["finish_reason"] != "length":
            complete += 1
            assert matches(made), made
    assert complete


# --- traces ---

UNIQUE = {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2, "uniqueItems": True}
TRACED = {
    "calls": ("tool_call", {"tools": tools.ALL, "tool_choice": "required"}),
    "reasoning": (
        "thinking",
        {"tools": tools.ALL, "tool_choice": "auto", "reasoning_effort": "high"},
    ),
    "content": ("content", {}),
    "format": (
        "format",
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "t", "schema": tools.TAGS["function"]["parameters"]},
            },
        },
    ),
    "choices": ("tool_call", {"tools": tools.ALL, "tool_choice": "required", "n": 2}),
    "sampled again": (
        "tool_call",
        {**ONE_CALL, "tools": [tools.tool("set_flags", {"flags": UNIQUE})]},
    ),
}
"""A phase that occurs in the trace, and the request."""


@kit.both_adapters
@pytest.mark.parametrize("name", TRACED)
def test_each_token_of_a_stream_has_its_trace(http, common, name):
    phase, request = TRACED[name]
    asked = common | {"messages": USER, "reasoning_effort": "none"} | request
    asked |= {"stream": True, "return_token_ids": True}
    asked["stream_options"] = {"include_usage": True, "toolgate_trace": True}
    ids = {}
    traces = {}
    for chunk in map(json.loads, SseParser().feed(kit.post(http, asked).content)[:-1]):
        for choice in chunk["choices"]:
            ids.setdefault(choice["index"], []).extend(choice.get("token_ids") or ())
            for each in (choice.get("toolgate") or {}).get("trace", ()):
                kept = traces.setdefault(choice["index"], [])
                del kept[each["at"] :]
                kept.append(each)
    assert sorted(traces) == [*range(request.get("n", 1))]
    for index, trace in traces.items():
        assert [each["at"] for each in trace] == [*range(len(trace))]
        assert [each["id"] for each in trace] == ids[index]
        assert all(each["allowed"] >= 1 for each in trace)
        assert all((each["kind"] == "forced") == (each["allowed"] == 1) for each in trace)
    assert phase in {each["phase"] for trace in traces.values() for each in trace}

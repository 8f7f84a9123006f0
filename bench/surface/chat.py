"""Cases of tools, response formats and reasoning."""

import json
from typing import Any

from bench.surface.cases import USER, Body, Case, given, plain, rejected, valid_calls
from bench.surface.probe import ChatResponse, Send


def function(name: str, **properties: Any) -> Body:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


LIGHT = function("set_light", room={"enum": ["kitchen", "bedroom"]}, on={"type": "boolean"})
BOOK = function("book", guests={"type": "integer", "minimum": 1, "maximum": 12})
TOOLS = [LIGHT, BOOK]
NAMED = {"type": "function", "function": {"name": "book"}}
SCHEMA: Body = LIGHT["function"]["parameters"]
FORMAT = {"type": "json_schema", "json_schema": {"name": "light", "schema": SCHEMA}}
UNIQUE = function(
    "pick", numbers={"type": "array", "items": {"enum": [1, 2, 3, 4]}, "minItems": 2, "maxItems": 2}
)
UNIQUE["function"]["parameters"]["properties"]["numbers"]["uniqueItems"] = True


def cases(closers: dict[str, float]) -> list[Case]:
    """`closers` is a logit_bias for tokens that end strings, objects and turns."""
    base = plain(max_tokens=200, logit_bias=closers)
    return [*_tools(base), *_formats(base), *_reasoning(closers)]


def _tools(base: Body) -> list[Case]:
    def calls(_: Send, response: ChatResponse) -> bool:
        return valid_calls(response, TOOLS)

    def booked(_: Send, response: ChatResponse) -> bool:
        return valid_calls(response, [BOOK]) and len(response.choices[0].calls) == 1

    offered = {**base, "tools": TOOLS}
    forced = {**offered, "tool_choice": "required"}
    allowed = {"mode": "required", "tools": [NAMED]}
    old = {**base, "functions": [tool["function"] for tool in TOOLS]}
    strict = {**LIGHT, "function": {**LIGHT["function"], "strict": True}}
    return [
        Case("tools", "with tool_choice required", forced, calls),
        Case("tools", "strict", {**forced, "tools": [strict]}, calls),
        Case(
            "tools",
            "uniqueItems, eleven seeds",
            {**forced, "tools": [UNIQUE], "parallel_tool_calls": False},
            _always_valid,
        ),
        Case(
            "tools",
            "without parameters",
            {**forced, "tools": [_bare("go")]},
            lambda _, response: valid_calls(response, [_bare("go")]),
        ),
        Case("tools", "[]", {**base, "tools": []}),
        *rejected(
            "tools",
            ("an entry that is not a tool", {**base, "tools": ["x"]}),
            ("duplicate names", {**base, "tools": [BOOK, BOOK]}),
            ("an invalid schema", {**forced, "tools": [function("a", x={"type": "strange"})]}),
            ("required without tools", {**base, "tool_choice": "required"}),
        ),
        Case("tool_choice", "none", {**offered, "tool_choice": "none"}, _no_call),
        Case("tool_choice", "auto", {**offered, "tool_choice": "auto"}, _clean),
        Case("tool_choice", "required, thinking", _thinks(forced), calls),
        Case("tool_choice", "a named function", {**offered, "tool_choice": NAMED}, booked),
        Case(
            "tool_choice",
            "allowed_tools",
            {**offered, "tool_choice": {"type": "allowed_tools", "allowed_tools": allowed}},
            booked,
        ),
        *rejected(
            "tool_choice",
            (
                "an unknown function",
                {**offered, "tool_choice": {"type": "function", "function": {"name": "x"}}},
            ),
            ('"sometimes"', {**offered, "tool_choice": "sometimes"}),
        ),
        Case(
            "parallel_tool_calls",
            "false",
            {**forced, "parallel_tool_calls": False},
            lambda send, response: calls(send, response) and len(response.choices[0].calls) == 1,
        ),
        *rejected("parallel_tool_calls", ('"no"', {**forced, "parallel_tool_calls": "no"})),
        Case(
            "functions",
            "with function_call",
            {**old, "function_call": {"name": "book"}},
            lambda send, response: booked(send, response) and response.choices[0].legacy,
        ),
        Case("stop", "inside a call", {**forced, "stop": ['"', ":"]}, calls),
        Case(
            "stop_token_ids",
            "inside a call",
            {**forced, "stop_token_ids": list(range(256, 3000))},
            calls,
        ),
        Case("logprobs", "of a call", {**forced, "logprobs": True}, _call_logprobs),
        Case(
            "max_tokens", "too small for the call", {**forced, "max_tokens": 6}, _reports_truncation
        ),
    ]


def _formats(base: Body) -> list[Case]:
    both = {**base, "tools": TOOLS, "response_format": FORMAT}
    return [
        Case("response_format", "text", {**base, "response_format": {"type": "text"}}),
        Case(
            "response_format",
            "json_object",
            {**base, "response_format": {"type": "json_object"}},
            _object,
        ),
        Case("response_format", "json_schema", {**base, "response_format": FORMAT}, _light),
        Case(
            "response_format",
            "json_schema, thinking",
            {**_thinks(base), "response_format": FORMAT},
            _light,
        ),
        Case("response_format", "json_schema with tools", both, _light_or_call),
        *rejected(
            "response_format",
            ("an unknown type", {**base, "response_format": {"type": "yaml"}}),
            ("no schema", {**base, "response_format": {"type": "json_schema"}}),
            ("an invalid schema", {**base, "response_format": _format({"type": "strange"})}),
            (
                "an unsupported schema",
                {
                    **base,
                    "response_format": _format({"type": "array", "uniqueItems": True, "items": {}}),
                },
            ),
            ('"json"', {**base, "response_format": "json"}),
        ),
        Case(
            "structured_outputs", "json", {**base, "structured_outputs": {"json": SCHEMA}}, _light
        ),
        Case(
            "structured_outputs",
            "choice",
            {**base, "structured_outputs": {"choice": ["yes", "no"]}},
            _yes_no,
        ),
        Case(
            "structured_outputs",
            "regex",
            {**base, "structured_outputs": {"regex": "(yes|no)"}},
            _yes_no,
        ),
        Case(
            "structured_outputs",
            "grammar",
            {**base, "structured_outputs": {"grammar": 'root ::= "yes" | "no"'}},
            _yes_no,
        ),
        Case("guided_json", "a schema", {**base, "guided_json": SCHEMA}, _light),
        Case("guided_choice", "two", {**base, "guided_choice": ["yes", "no"]}, _yes_no),
        Case("guided_regex", "(yes|no)", {**base, "guided_regex": "(yes|no)"}, _yes_no),
    ]


def _reasoning(closers: dict[str, float]) -> list[Case]:
    def reasons(_: Send, response: ChatResponse) -> bool:
        return bool(response.choices[0].reasoning)

    def silent(_: Send, response: ChatResponse) -> bool:
        return not response.choices[0].reasoning and bool(response.text)

    def budgeted(_: Send, response: ChatResponse) -> bool:
        return bool(response.choices[0].reasoning) and bool(response.text)

    open_ended = {"messages": USER, "max_tokens": 60, "temperature": 1.0, "seed": 11}
    soon = {**open_ended, "logit_bias": closers, "max_tokens": 200}
    thinking = {**open_ended, "reasoning_effort": "high"}
    return [
        Case("reasoning_effort", "none", {**open_ended, "reasoning_effort": "none"}, silent),
        Case("reasoning_effort", "high", {**open_ended, "reasoning_effort": "high"}, reasons),
        *rejected("reasoning_effort", *given("reasoning_effort", "wild", 3, base=open_ended)),
        Case("enable_thinking", "false", {**open_ended, "enable_thinking": False}, silent),
        Case(
            "chat_template_kwargs",
            "enable_thinking false",
            {**open_ended, "chat_template_kwargs": {"enable_thinking": False}},
            silent,
        ),
        *rejected("chat_template_kwargs", *given("chat_template_kwargs", "x", [1])),
        Case(
            "include_reasoning",
            "false",
            {**soon, "include_reasoning": False},
            lambda _, response: not response.choices[0].reasoning,
        ),
        *rejected("include_reasoning", *given("include_reasoning", 3)),
        Case("thinking_token_budget", "5", {**thinking, "thinking_token_budget": 5}, budgeted),
        *rejected("thinking_token_budget", *given("thinking_token_budget", "x", -7)),
        Case("reasoning_budget", "5", {**thinking, "reasoning_budget": 5}, budgeted),
        Case("thinking", "disabled", {**open_ended, "thinking": {"type": "disabled"}}, silent),
    ]


def _thinks(body: Body) -> Body:
    return {**body, "chat_template_kwargs": {"enable_thinking": True}}


def _bare(name: str) -> Body:
    return {"type": "function", "function": {"name": name}}


def _format(schema: Body) -> Body:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


def _always_valid(send: Send, response: ChatResponse) -> bool:
    """All calls are valid, with eleven seeds. The error tool_schema_violation is allowed."""
    forced = {"tool_choice": "required", "tools": [UNIQUE], "parallel_tool_calls": False}
    found = [response, *(send(plain(**forced, max_tokens=200, seed=at)) for at in range(10))]
    return all(
        (each.error or {}).get("code") == "tool_schema_violation" or valid_calls(each, [UNIQUE])
        for each in found
    )


def _no_call(_: Send, response: ChatResponse) -> bool:
    return not response.choices[0].calls and "<tool_call>" not in response.text


def _clean(_: Send, response: ChatResponse) -> bool:
    calls = response.choices[0].calls
    return "<tool_call>" not in response.text and (not calls or valid_calls(response, TOOLS))


def _call_logprobs(_: Send, response: ChatResponse) -> bool:
    """The logprobs of the call are separate from those of the content and match its arguments."""
    choice = response.choices[0]
    spelled = b"".join(bytes(token.get("bytes") or ()) for token in choice.call_logprobs).decode()
    return bool(choice.calls) and choice.calls[0][1] in spelled


def _reports_truncation(_: Send, response: ChatResponse) -> bool:
    """A truncated call has finish_reason length, and its markup is not in the content."""
    choice = response.choices[0]
    return choice.finish == "length" and "<tool_call>" not in choice.content


def _object(_: Send, response: ChatResponse) -> bool:
    return isinstance(_json(response.text), dict)


def _light(_: Send, response: ChatResponse) -> bool:
    found = _json(response.text)
    return isinstance(found, dict) and found.keys() == {"room", "on"}


def _light_or_call(send: Send, response: ChatResponse) -> bool:
    return _light(send, response) if not response.choices[0].calls else valid_calls(response, TOOLS)


def _yes_no(_: Send, response: ChatResponse) -> bool:
    return response.text in ("yes", "no")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None

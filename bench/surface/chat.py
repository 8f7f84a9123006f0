"""Cases of tools, formats and reasoning."""

import json
from typing import Any

from bench.surface.cases import USER, Body, Case, Effect, given, plain, refused, valid_calls
from bench.surface.probe import AdmissionRequest, Seen


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
    """`closers`: a bias by which a random model ends strings, objects and turns."""
    base = plain(max_tokens=200, logit_bias=closers)
    return [*_tools(base), *_formats(base), *_reasoning(closers)]


def _tools(base: Body) -> list[Case]:
    offered = {**base, "tools": TOOLS}
    forced = {**offered, "tool_choice": "required"}
    calls: Effect = lambda _, seen: valid_calls(seen, TOOLS)  # noqa: E731
    booked: Effect = lambda _, seen: valid_calls(seen, [BOOK]) and len(seen.choices[0].calls) == 1  # noqa: E731
    allowed = {"mode": "required", "tools": [NAMED]}
    old = {**base, "functions": [tool["function"] for tool in TOOLS]}
    strict = {**LIGHT, "function": {**LIGHT["function"], "strict": True}}
    return [
        Case("tools", "with tool_choice required", forced, calls),
        Case("tools", "strict", {**forced, "tools": [strict]}, calls),
        Case(
            "tools",
            "uniqueItems, by ten seeds",
            {**forced, "tools": [UNIQUE], "parallel_tool_calls": False},
            _never_twice,
        ),
        Case(
            "tools",
            "without parameters",
            {**forced, "tools": [_bare("go")]},
            lambda _, s: valid_calls(s, [_bare("go")]),
        ),
        Case("tools", "[]", {**base, "tools": []}),
        *refused(
            "tools",
            ("an entry that is no tool", {**base, "tools": ["x"]}),
            ("a name twice", {**base, "tools": [BOOK, BOOK]}),
            ("a schema that is none", {**forced, "tools": [function("a", x={"type": "strange"})]}),
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
        *refused(
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
            lambda a, s: calls(a, s) and len(s.choices[0].calls) == 1,
        ),
        *refused("parallel_tool_calls", ('"no"', {**forced, "parallel_tool_calls": "no"})),
        Case(
            "functions",
            "with function_call",
            {**old, "function_call": {"name": "book"}},
            lambda a, s: booked(a, s) and s.choices[0].legacy,
        ),
        Case("stop", "inside a call", {**forced, "stop": ['"', ":"]}, calls),
        Case(
            "stop_token_ids",
            "inside a call",
            {**forced, "stop_token_ids": list(range(256, 3000))},
            calls,
        ),
        Case("logprobs", "of a call", {**forced, "logprobs": True}, _call_logprobs),
        Case("max_tokens", "too few for the call", {**forced, "max_tokens": 6}, _cut_is_said),
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
        Case("response_format", "json_schema beside tools", both, _light_or_call),
        *refused(
            "response_format",
            ("an unknown type", {**base, "response_format": {"type": "yaml"}}),
            ("no schema", {**base, "response_format": {"type": "json_schema"}}),
            ("a schema that is none", {**base, "response_format": _format({"type": "strange"})}),
            (
                "a schema that cannot be held",
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
    open_ended = {"messages": USER, "max_tokens": 60, "temperature": 1.0, "seed": 11}
    soon = {**open_ended, "logit_bias": closers, "max_tokens": 200}
    reasons: Effect = lambda _, seen: bool(seen.choices[0].reasoning)  # noqa: E731
    silent: Effect = lambda _, seen: not seen.choices[0].reasoning and bool(seen.text)  # noqa: E731
    budgeted: Effect = lambda _, seen: bool(seen.choices[0].reasoning) and bool(seen.text)  # noqa: E731
    thinking = {**open_ended, "reasoning_effort": "high"}
    return [
        Case("reasoning_effort", "none", {**open_ended, "reasoning_effort": "none"}, silent),
        Case("reasoning_effort", "high", {**open_ended, "reasoning_effort": "high"}, reasons),
        *refused("reasoning_effort", *given("reasoning_effort", "wild", 3, base=open_ended)),
        Case("enable_thinking", "false", {**open_ended, "enable_thinking": False}, silent),
        Case(
            "chat_template_kwargs",
            "enable_thinking false",
            {**open_ended, "chat_template_kwargs": {"enable_thinking": False}},
            silent,
        ),
        *refused("chat_template_kwargs", *given("chat_template_kwargs", "x", [1])),
        Case(
            "include_reasoning",
            "false",
            {**soon, "include_reasoning": False},
            lambda _, s: not s.choices[0].reasoning,
        ),
        *refused("include_reasoning", *given("include_reasoning", 3)),
        Case("thinking_token_budget", "5", {**thinking, "thinking_token_budget": 5}, budgeted),
        *refused("thinking_token_budget", *given("thinking_token_budget", "x", -7)),
        Case("reasoning_budget", "5", {**thinking, "reasoning_budget": 5}, budgeted),
        Case("thinking", "disabled", {**open_ended, "thinking": {"type": "disabled"}}, silent),
    ]


def _thinks(body: Body) -> Body:
    return {**body, "chat_template_kwargs": {"enable_thinking": True}}


def _bare(name: str) -> Body:
    return {"type": "function", "function": {"name": name}}


def _format(schema: Body) -> Body:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


def _never_twice(ask: AdmissionRequest, seen: Seen) -> bool:
    """No call that breaks its schema; an error that says so is none."""
    forced = {"tool_choice": "required", "tools": [UNIQUE], "parallel_tool_calls": False}
    found = [seen, *(ask(plain(**forced, max_tokens=200, seed=at)) for at in range(10))]
    return all(
        (each.error or {}).get("code") == "tool_schema_violation" or valid_calls(each, [UNIQUE])
        for each in found
    )


def _no_call(_: AdmissionRequest, seen: Seen) -> bool:
    return not seen.choices[0].calls and "<tool_call>" not in seen.text


def _clean(_: AdmissionRequest, seen: Seen) -> bool:
    calls = seen.choices[0].calls
    return "<tool_call>" not in seen.text and (not calls or valid_calls(seen, TOOLS))


def _call_logprobs(_: AdmissionRequest, seen: Seen) -> bool:
    """They spell the call, and are told apart from those of the content."""
    choice = seen.choices[0]
    spelled = b"".join(bytes(token.get("bytes") or ()) for token in choice.call_logprobs).decode()
    return bool(choice.calls) and choice.calls[0][1] in spelled


def _cut_is_said(_: AdmissionRequest, seen: Seen) -> bool:
    """No call that is not whole goes as a whole one, and no markup as content."""
    choice = seen.choices[0]
    return choice.finish == "length" and "<tool_call>" not in choice.content


def _object(_: AdmissionRequest, seen: Seen) -> bool:
    return isinstance(_json(seen.text), dict)


def _light(_: AdmissionRequest, seen: Seen) -> bool:
    found = _json(seen.text)
    return isinstance(found, dict) and found.keys() == {"room", "on"}


def _light_or_call(ask: AdmissionRequest, seen: Seen) -> bool:
    return _light(ask, seen) if not seen.choices[0].calls else valid_calls(seen, TOOLS)


def _yes_no(_: AdmissionRequest, seen: Seen) -> bool:
    return seen.text in ("yes", "no")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None

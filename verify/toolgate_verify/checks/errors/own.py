"""Requests that one API refuses."""

from __future__ import annotations

from typing import Any

from ...asking.ask import Ask
from ...exchange import Body
from ...terms import Api, Severity, Suite
from .common import refused
from .wrong import BASE, body_of

PLAIN = Ask(max_tokens=16)


def _refused(api: Api, name: str, title: str, requirement: str, change: Body, **more: Any) -> None:
    ask = more.pop("ask", PLAIN)
    refused(
        f"errors.{name}",
        title,
        requirement,
        lambda each: body_of(each, change, ask),
        apis=(api,),
        **{"topic": "request", "suite": Suite.FULL, **more},
    )


_refused(Api.CHAT, "n_zero", "`n` of 0 is refused", "`n` is at least 1.", {"n": 0})
_refused(
    Api.CHAT,
    "top_logprobs_alone",
    "`top_logprobs` without `logprobs` is refused",
    "`top_logprobs` requires `logprobs: true`.",
    {"top_logprobs": 2},
)
_refused(
    Api.CHAT,
    "top_logprobs_range",
    "`top_logprobs` above 20 is refused",
    "`top_logprobs` is at most 20.",
    {"logprobs": True, "top_logprobs": 1000},
)
_refused(
    Api.CHAT,
    "penalty_range",
    "A `presence_penalty` above 2 is refused",
    "Penalties are between -2 and 2.",
    {"presence_penalty": 5},
)
_refused(
    Api.CHAT,
    "stop_type",
    "A `stop` that is a number is refused",
    "`stop` is a text or an array of texts.",
    {"stop": 5},
)
_refused(
    Api.CHAT,
    "parallel_type",
    "`parallel_tool_calls` as a text is refused",
    "`parallel_tool_calls` is a boolean.",
    {"parallel_tool_calls": "no"},
    ask=BASE,
)
_refused(
    Api.CHAT,
    "no_messages",
    "No messages are refused",
    "There is at least one message.",
    {"messages": []},
)
_refused(
    Api.CHAT,
    "tool_kind",
    "A tool of an unknown type is refused",
    "A tool is a function or a custom tool.",
    {"tools": [{"type": "spell", "spell": {"name": "fly"}}]},
)
_refused(
    Api.RESPONSES,
    "include",
    "An unknown value of `include` is refused",
    "`include` has the specified values.",
    {"include": ["everything"]},
)
_refused(
    Api.RESPONSES,
    "item_type",
    "An unknown type of item is refused",
    "Items of the input have the specified types.",
    {"input": [{"type": "spell"}]},
    severity=Severity.CRITICAL,
)
_refused(
    Api.RESPONSES,
    "tool_kind",
    "A tool of an unknown type is refused",
    "Tools have the specified types.",
    {"tools": [{"type": "spell", "name": "fly"}]},
)
_refused(
    Api.RESPONSES,
    "unknown_previous",
    "An unknown `previous_response_id` is refused",
    "`previous_response_id` names a stored response.",
    {"previous_response_id": "resp_0000000000000000"},
    severity=Severity.CRITICAL,
)
_refused(
    Api.RESPONSES,
    "effort",
    "An unknown reasoning effort is refused",
    "`reasoning.effort` has the specified values.",
    {"reasoning": {"effort": "wild"}},
)
_refused(
    Api.MESSAGES,
    "no_limit",
    "A request without `max_tokens` is refused",
    "`max_tokens` is required.",
    {"max_tokens": None},
    suite=Suite.QUICK,
)
_refused(
    Api.MESSAGES,
    "no_messages",
    "No messages are refused",
    "There is at least one message.",
    {"messages": []},
)
_refused(
    Api.MESSAGES,
    "no_input_schema",
    "A tool without `input_schema` is refused",
    "A tool has an `input_schema`.",
    {"tools": [{"name": "fly"}]},
)
_refused(
    Api.MESSAGES,
    "block_type",
    "An unknown type of block is refused",
    "Blocks have the specified types.",
    {"messages": [{"role": "user", "content": [{"type": "spell"}]}]},
    severity=Severity.CRITICAL,
)
_refused(
    Api.MESSAGES,
    "thinking_type",
    "An unknown type of `thinking` is refused",
    "`thinking` is enabled, disabled or adaptive.",
    {"thinking": {"type": "wild"}},
)
_refused(
    Api.MESSAGES,
    "thinking_budget",
    "Thinking without a budget is refused",
    "`thinking` of the type enabled has `budget_tokens`.",
    {"thinking": {"type": "enabled"}, "max_tokens": 2000},
)
_refused(
    Api.MESSAGES,
    "stop_type",
    "`stop_sequences` as a text are refused",
    "`stop_sequences` is an array of texts.",
    {"stop_sequences": "end"},
)

"""Requests in whose history a search has found tools, in the form of each API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolgate_verify.asking import chat, messages, responses
from toolgate_verify.terms import Api
from toolgate_verify.tools.tool import Tool

Json = dict[str, Any]
SEARCH = "tool_search"
"""The search's name for the model. In the Responses API it has no other one."""
CALL = "toolu_search"
DEFERRED = {"defer_loading": True}


def with_search(api: Api, body: Json, later: Sequence[Tool]) -> Json:
    """Return the body of a request whose first tool is the search. It has found the other tools,
    but not `later`, which are deferred."""
    add = {Api.CHAT: _in_chat, Api.MESSAGES: _in_messages, Api.RESPONSES: _in_responses}
    return {**body, **add[api](body, *body["tools"], later=later)}


def _in_chat(body: Json, search: Json, *found: Json, later: Sequence[Tool]) -> Json:
    function = {"name": SEARCH, "arguments": "{}"}
    call = {"id": CALL, "type": "function", "function": function}
    references = [_reference(each["function"]["name"]) for each in found]
    others = [chat.tool(each, strict=None) for each in later]
    return {
        "messages": [
            *body["messages"],
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": CALL, "content": references},
        ],
        "tools": [search, *({**each, **DEFERRED} for each in (*found, *others))],
    }


def _in_messages(body: Json, search: Json, *found: Json, later: Sequence[Tool]) -> Json:
    call = {"type": "tool_use", "id": CALL, "name": SEARCH, "input": {}}
    references = [_reference(each["name"]) for each in found]
    result = {"type": "tool_result", "tool_use_id": CALL, "content": references}
    others = [messages.tool(each, strict=None) for each in later]
    return {
        "messages": [
            *body["messages"],
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ],
        "tools": [search, *({**each, **DEFERRED} for each in (*found, *others))],
    }


def _in_responses(body: Json, search: Json, *found: Json, later: Sequence[Tool]) -> Json:
    own = {name: search[name] for name in ("description", "parameters")}
    others = [responses.tool(each, strict=None) for each in later]
    return {
        "input": [
            *body["input"],
            {"type": "tool_search_call", "call_id": CALL, "arguments": {}},
            {"type": "tool_search_output", "call_id": CALL, "tools": [*found]},
        ],
        "tools": [
            {"type": "tool_search", "execution": "client", **own},
            *({**each, **DEFERRED} for each in others),
        ],
    }


def _reference(name: str) -> Json:
    return {"type": "tool_reference", "tool_name": name}

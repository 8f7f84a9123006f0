"""Requests in whose history a search has found tools, in the form of each API, and sessions in
which a model finds a tool in every other turn and calls it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolgate_verify.asking import chat, messages, responses
from toolgate_verify.terms import Api
from toolgate_verify.tools.tool import Tool

Json = dict[str, Any]
SEARCH = "tool_search"
"""The search's name for the model. In the Responses API it has no other one."""
CALL = "toolu_search"
DEFERRED = {"defer_loading": True}
SCHEMA: Json = {"type": "object", "properties": {"room": {"type": "string"}}}
ARGUMENTS = '{"room": "4"}'


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


# --- sessions ---


@dataclass(frozen=True)
class Form:
    api: Api
    head: Callable[[str, list[str]], Json]
    """The request without a history: its system prompt and the names of its tools."""
    found: Callable[[str], list[Json]]
    """The messages or items of a turn in which the tool of this name is found and called."""
    history: str = "messages"


def bodies(form: Form, system: str, turns: int) -> Iterator[Json]:
    """Yield the request of each turn."""
    body = form.head(system, [f"tool_{at}" for at in range(turns)])
    history: list[Json] = body.pop(form.history, [])
    for at in range(turns):
        history = [*history, {"role": "user", "content": f"Question {at}"}]
        yield {**body, form.history: history}
        more = form.found(f"tool_{at}") if at % 2 == 0 else []
        history = [*history, *more, {"role": "assistant", "content": f"Answer {at}"}]


def _function(name: str) -> Json:
    return {"type": "function", "name": name, "description": "Does it.", "parameters": SCHEMA}


def _wrapped(name: str, **more: Any) -> Json:
    function = {"name": name, "description": "Does it.", "parameters": SCHEMA}
    return {"type": "function", "function": function, **more}


def _chat(system: str, names: list[str]) -> Json:
    tools = [_wrapped(SEARCH), *(_wrapped(name, **DEFERRED) for name in names)]
    return {"messages": [{"role": "system", "content": system}], "tools": tools, "max_tokens": 4}


def _chat_call(name: str, found: str | None = None) -> list[Json]:
    """Return a call and its result, which names a tool that was found."""
    function = {"name": name, "arguments": ARGUMENTS}
    call = {"id": f"c_{name}_{found}", "type": "function", "function": function}
    result = "ok" if found is None else [_reference(found)]
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": result},
    ]


def _hidden(system: str, names: list[str]) -> Json:
    body = _chat(system, names)
    return {**body, "tools": [{"type": SEARCH}, _wrapped("look"), *body["tools"][1:]]}


def _messages(system: str, names: list[str]) -> Json:
    own = {"description": "Does it.", "input_schema": SCHEMA}
    deferred = [{"name": name, **own, **DEFERRED} for name in names]
    return {"system": system, "tools": [{"name": SEARCH, **own}, *deferred], "max_tokens": 4}


def _messages_call(name: str, found: str | None = None) -> list[Json]:
    use = {"type": "tool_use", "id": f"toolu_{name}_{found}", "name": name}
    result = "ok" if found is None else [_reference(found)]
    block = {"type": "tool_result", "tool_use_id": use["id"], "content": result}
    return [
        {"role": "assistant", "content": [{**use, "input": {"room": "4"}}]},
        {"role": "user", "content": [block]},
    ]


def _responses(system: str, names: list[str]) -> Json:
    search = {"type": SEARCH, "execution": "client", "description": "Finds.", "parameters": SCHEMA}
    deferred = [{**_function(name), **DEFERRED} for name in names]
    tools = [search, *deferred]
    return {"instructions": system, "tools": tools, "max_output_tokens": 16, "store": False}


def _responses_found(name: str) -> list[Json]:
    searched, called = f"s_{name}", f"c_{name}"
    return [
        {"type": "tool_search_call", "call_id": searched, "arguments": {"room": name}},
        {"type": "tool_search_output", "call_id": searched, "tools": [_function(name)]},
        {"type": "function_call", "call_id": called, "name": name, "arguments": ARGUMENTS},
        {"type": "function_call_output", "call_id": called, "output": "ok"},
    ]


FORMS = {
    "chat": Form(Api.CHAT, _chat, lambda name: [*_chat_call(SEARCH, name), *_chat_call(name)]),
    "chat, the gateway searches": Form(Api.CHAT, _hidden, _chat_call),
    "messages": Form(
        Api.MESSAGES, _messages, lambda name: [*_messages_call(SEARCH, name), *_messages_call(name)]
    ),
    "responses": Form(Api.RESPONSES, _responses, _responses_found, "input"),
}
"""In the second one, the gateway searches inside its responses, and the history has the calls of
the tools only."""

"""One line of a log: a response of any API, and the request, if the log has it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ..api.responses.builtin_tools.table import BUILTIN_TOOLS, BY_TYPE
from ..api.shared.mcp import MCP
from ..api.shared.web_search import NAME as WEB_SEARCH
from ..api.shared.web_search import QUERY
from ..receipts.json_value import DuplicateMember, NotJson, canonical, read

Api = Literal["chat completions", "responses", "messages"]
Kind = Literal["function", "custom"]
MAX_DIGITS = 4_000


class LoggedCall(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    choice: int
    index: int
    """Position among the calls of the choice."""
    kind: Kind
    id: str | None
    """None for `function_call` of chat completions, which has no id."""
    name: str
    text: str
    """The arguments as JSON text. Of a custom tool, its input."""
    is_value: bool = False
    """Whether the response has the arguments as an object, of which the text is the canonical
    form: in the Messages API, and of searches and built-in tools."""
    spelling: str | None = None
    """The text of other arguments of which the response has the same object."""
    complete: bool | None
    """None if the response does not state it."""

    @property
    def place(self) -> str:
        return place_of(self.choice, self.index)


def place_of(choice: int, index: int) -> str:
    return f"call {index} of choice {choice}" if choice else f"call {index}"


@dataclass(frozen=True)
class LogLine:
    api: Api
    response_id: str
    receipt: Any
    calls: list[LoggedCall] = field(default_factory=list)
    request: Mapping[str, Any] | None = None
    hides_cut: bool = False
    """Whether the response may lack calls that were cut: it shows some calls only as a whole."""


class NotALine(Exception):
    """The line has no response of a known API."""


def read_line(text: str) -> LogLine:
    """Read one line of a log. Raises NotALine. Duplicate members are refused: which of them a
    program reads differs, so one could hide the other. The gateway sends none."""
    try:
        value, plain = read(text, unique=True), json.loads(text, parse_int=_integer)
    except DuplicateMember as error:
        raise NotALine(f"it can be read in two ways: {error}") from error
    except (NotJson, ValueError) as error:
        raise NotALine(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise NotALine("not a JSON object")
    response, request = value.get("response", value), plain.get("request")
    if not isinstance(response, dict) or not isinstance(response.get("id"), str):
        raise NotALine("no response with an `id`")
    if not isinstance(request, dict | None):
        raise NotALine("`request` is not a JSON object")
    own = response.get("toolgate")
    receipt = own.get("receipt") if isinstance(own, dict) else None
    api = _api(response)
    try:
        calls = [*_READERS[api](response)]
    except (KeyError, TypeError, AttributeError) as error:
        raise NotALine(f"not a response of a known API: {error!r}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise NotALine(f"not a call of a known API: {first['loc'][0]}: {first['msg']}") from error
    return LogLine(api, response["id"], receipt, calls, request, _hides_cut(api, response))


def _hides_cut(api: Api, response: Mapping[str, Any]) -> bool:
    """Return whether a response shows no beginnings of calls: those of the Messages API, and of
    tools of the Responses API of which the response names the type."""
    if api == "responses":
        offered = response.get("tools")
        types = [each.get("type") for each in offered or () if isinstance(each, dict)]
        return any(each == MCP or each in BY_TYPE for each in types)
    return api == "messages"


def _integer(text: str) -> int | float:
    """Read a long integer as a float: Python refuses it. No schema has them; arguments are read
    exactly."""
    return int(text) if len(text) <= MAX_DIGITS else float(text)


def _api(response: Mapping[str, Any]) -> Api:
    """Return the API that has such responses. Raises NotALine."""
    found: list[Api] = []
    if "choices" in response:
        found.append("chat completions")
    if "output" in response:
        found.append("responses")
    if response.get("type") == "message":
        found.append("messages")
    elif found and "content" in response:
        raise NotALine("a response has `choices`, `output` or `content`, not several of them")
    if len(found) != 1:
        raise NotALine("not a response of a known API: it needs `choices`, `output` or `content`")
    return found[0]


def _chat_calls(response: Mapping[str, Any]) -> Iterator[LoggedCall]:
    for choice in response["choices"]:
        message = choice["message"]
        calls = message.get("tool_calls") or ()
        if (legacy := message.get("function_call")) is not None:
            if calls:
                raise NotALine("a message has `tool_calls` or `function_call`, not both")
            calls = [{"type": "function", "id": "", "function": legacy}]
        if own := (message.get("provider_specific_fields") or {}).get("mcp_tool_calls"):
            if calls:
                raise NotALine("the order of calls of MCP servers and of other calls is unknown")
            calls = own
        for index, call in enumerate(calls):
            kind: Kind = call["type"]
            inner = call[kind]
            yield LoggedCall(
                choice=choice["index"],
                index=index,
                kind=kind,
                id=None if legacy is not None else str(call["id"]),
                name=inner["name"],
                text=inner["input" if kind == "custom" else "arguments"],
                complete=_is_complete(choice) if index == len(calls) - 1 else True,
            )


def _is_complete(choice: Mapping[str, Any]) -> bool | None:
    """Return whether the last call of a choice is complete."""
    if choice["finish_reason"] != "length":
        return True
    last: str = (choice.get("toolgate") or {}).get("last_call", "")
    return {"cut": False, "closed": True}.get(last)


def _response_calls(response: Mapping[str, Any]) -> Iterator[LoggedCall]:
    index = count()
    for item in response["output"]:
        if (read_item := _ITEMS.get(item["type"])) is None:
            if item["type"].endswith("_call"):
                raise NotALine(f"no receipt has calls of the type {item['type']!r}")
        elif item.get("approval_request_id") is None:
            # A call that was approved is in the receipt of the response that asked.
            fields: dict[str, Any] = {
                "kind": "function",
                "complete": item.get("status") == "completed",
            }
            yield LoggedCall(choice=0, index=next(index), **fields | read_item(item))


def _function(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": item["call_id"], "name": _full_name(item), "text": item["arguments"]}


def _custom(item: Mapping[str, Any]) -> dict[str, Any]:
    named = {"id": item["call_id"], "name": _full_name(item)}
    return {**named, "kind": "custom", "text": item["input"]}


def _full_name(item: Mapping[str, Any]) -> str:
    name, namespace = item["name"], item.get("namespace")
    # The namespace of a deferred function without one is its name.
    return name if namespace in (None, "", name) else f"{namespace}.{name}"


def _search(item: Mapping[str, Any]) -> dict[str, Any]:
    named = {"id": item["call_id"], "name": "tool_search"}
    return {**named, "text": canonical(item["arguments"]), "is_value": True}


def _web_search(item: Mapping[str, Any]) -> dict[str, Any]:
    text = canonical({QUERY: item["action"]["query"]})
    return {"id": item.get("call_id"), "name": WEB_SEARCH, "text": text, "is_value": True}


def _mcp(item: Mapping[str, Any]) -> dict[str, Any]:
    complete = item.get("status", "completed") in ("completed", "failed")
    return {"id": None, "name": item["name"], "text": item["arguments"], "complete": complete}


def _builtin(item: Mapping[str, Any]) -> dict[str, Any]:
    tool = next(tool for tool in BUILTIN_TOOLS if tool.call == item["type"])
    given = tool.to_arguments(item[tool.member])
    named = {"id": item["call_id"], "name": tool.type, "complete": True}
    return {
        **named,
        "text": canonical(given),
        "is_value": True,
        "spelling": canonical({**tool.always, **given}),
    }


_ITEMS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "function_call": _function,
    "custom_tool_call": _custom,
    "tool_search_call": _search,
    "web_search_call": _web_search,
    "mcp_call": _mcp,
    "mcp_approval_request": _mcp,
    **{tool.call: _builtin for tool in BUILTIN_TOOLS},
}
"""What reads the call of an item, by its type."""


def _message_calls(response: Mapping[str, Any]) -> Iterator[LoggedCall]:
    """Complete messages have complete calls only."""
    calls = ("tool_use", "server_tool_use", "mcp_tool_use")
    blocks = [block for block in response["content"] if block["type"] in calls]
    for index, block in enumerate(blocks):
        text = canonical(block["input"])
        yield LoggedCall(
            choice=0,
            index=index,
            kind="function",
            id=block["id"],
            name=block["name"],
            text=text,
            is_value=True,
            complete=True,
        )


_READERS = {
    "chat completions": _chat_calls,
    "responses": _response_calls,
    "messages": _message_calls,
}

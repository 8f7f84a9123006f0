"""Signed responses of all three APIs, whole and as clients assemble them from streams."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import orjson

from tests.support.apis.chat_events import VALIDATORS, events, fed, request
from tests.support.servers.fake_backend import INFO
from toolgate_core import wire
from toolgate_core.dialects.families.hermes import QWEN3
from toolgate_core.plan import make_plan
from toolgate_core.tools import parse_tools
from toolgate_proxy.api.surface import Surface
from toolgate_proxy.backend_client.event_stream import SseParser
from toolgate_proxy.chat.calls import CallCheck
from toolgate_proxy.chat.receipt_log import ReceiptLog
from toolgate_proxy.chat.response import ChatResponse
from toolgate_proxy.cli.audit import audit_line
from toolgate_proxy.cli.audit_log import read_line
from toolgate_proxy.receipts.keys import new_key, read_key

PRIVATE, PUBLIC = (read_key(text) for text in new_key("ed25519"))
NAMES = ("look", "walk")
CUSTOM = "note"
"""A custom tool; its input is text."""
SEARCH_FUNCTION = {"name": "tool_search", "parameters": {"type": "object"}}
SEARCH = {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}}
Form = Literal["whole", "streamed"]
FORMS: tuple[Form, ...] = ("whole", "streamed")


def signed_response(
    surface: Surface,
    *texts: str,
    cut: Sequence[int] = (),
    form: Form = "whole",
    custom: bool = False,
    search: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """The response to `texts`, one for each choice, with its receipt. `cut`: the choices that
    `max_tokens` ended. `custom`, `search`: whether the request has the custom tool, and the search
    for tools of the Responses API."""
    asked = request(n=len(texts), receipt=True, **more)
    if custom:
        asked = replace(asked, tools=parse_tools([*function_tools(), custom_tool()]))
    if search:
        own = parse_tools([{"type": "function", "function": {**SEARCH_FUNCTION}}])
        asked = replace(asked, tools=(*asked.tools, *own), repeated={"search": "client"})
    plan = make_plan(asked, QWEN3)
    response = ChatResponse(asked, plan, QWEN3, INFO, CallCheck(plan.candidates, (), VALIDATORS))
    response.receipts = ReceiptLog(PRIVATE, plan, {}, INFO)
    sent = _events(texts, cut)
    if form == "whole":
        whole = surface.whole(response, "tiny")
        whole.add(fed(response, sent))
        return _loaded(orjson.dumps(whole.body()))  # type: ignore[no-any-return]
    stream = surface.stream(response, "tiny")
    data = b"".join(stream.events(fed(response, [event])) for event in sent) + stream.end()
    found = [json.loads(each) for each in SseParser().feed(data) if each != b"[DONE]"]
    assemble = {"chat completions": _chat, "responses": _response, "messages": _message}
    return assemble[surface.name](found)


def checked(body: dict[str, Any], tools: Sequence[dict[str, Any]] | None = None) -> None:
    """Audits `body`. `tools`: those of the request; None: the log has no request."""
    line = body if tools is None else {"request": {"tools": tools}, "response": body}
    audit_line(read_line(json.dumps(line)), PUBLIC)


def function_tools() -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in NAMES
    ]


def custom_tool() -> dict[str, Any]:
    return {"type": "custom", "custom": {"name": CUSTOM}}


def tools_for(surface: Surface, *, custom: bool = False) -> list[dict[str, Any]]:
    """The tools in the form of an API."""
    given = [*function_tools(), *([custom_tool()] if custom else ())]
    if surface.name == "chat completions":
        return given
    flat = [{"type": tool["type"], **tool[tool["type"]]} for tool in given]
    if surface.name == "responses":
        return flat
    return [{"name": tool["name"], "input_schema": tool["parameters"]} for tool in flat]


def _loaded(text: str | bytes) -> Any:
    """Python refuses integers of more than 4,300 digits."""
    return json.loads(text, parse_int=lambda digits: int(digits[:4_000]))


def _events(texts: Sequence[str], cut: Sequence[int]) -> list[wire.StreamEvent]:
    ended = [text if at in cut else f"{text}<|im_end|>" for at, text in enumerate(texts)]
    sent = events(*ended, finish="length")
    return [
        event.model_copy(update={"finish_reason": "stop"})
        if isinstance(event, wire.EndEvent) and event.choice not in cut
        else event
        for event in sent
    ]


def _chat(chunks: Iterable[dict[str, Any]]) -> dict[str, Any]:
    body: dict[str, Any] = {"object": "chat.completion", "choices": []}
    choices: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        body |= {name: value for name, value in chunk.items() if name in ("id", "toolgate")}
        for part in chunk["choices"]:
            new = {"index": part["index"], "message": {}, "finish_reason": None}
            choice = choices.setdefault(part["index"], new)
            choice |= {
                name: value
                for name, value in part.items()
                if name not in ("delta", "index") and value is not None
            }
            for delta in part["delta"].get("tool_calls", ()):
                calls = choice["message"].setdefault("tool_calls", [])
                if delta["index"] == len(calls):
                    calls.append(delta)
                    continue
                call = calls[delta["index"]]
                kind, text = _text_of(call)
                call[kind][text] += delta[kind][text]
    body["choices"] = [*choices.values()]
    return body


def _text_of(call: dict[str, Any]) -> tuple[str, str]:
    return ("custom", "input") if call["type"] == "custom" else ("function", "arguments")


def _response(found: Iterable[dict[str, Any]]) -> dict[str, Any]:
    body: dict[str, Any] = [*found][-1]["response"]
    return body


def _message(found: Iterable[dict[str, Any]]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    open_blocks: dict[int, dict[str, Any]] = {}
    for event in found:
        match event["type"]:
            case "message_start":
                body = event["message"]
            case "content_block_start":
                open_blocks[event["index"]] = {**event["content_block"], "json": ""}
            case "content_block_delta":
                open_blocks[event["index"]]["json"] += event["delta"].get("partial_json", "")
            case "content_block_stop":
                block = open_blocks.pop(event["index"])
                text = block.pop("json")
                body["content"].append({**block, "input": _loaded(text)} if text else block)
            case "message_delta":
                body |= event["delta"] | {"toolgate": event["toolgate"]}
    return body

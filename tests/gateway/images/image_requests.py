"""One conversation with images in the form of each API, and the answers in one form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from tests.support.apis.messages_api import accumulated, check_message
from tests.support.apis.read_responses import collected, of_whole, read_events
from tests.support.apis.responses_api import check_response
from toolgate_proxy.backend_client.event_stream import SseParser

Api = Literal["chat", "responses", "messages"]
APIS: tuple[Api, ...] = ("chat", "responses", "messages")
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
COUNTS = {"responses": "/v1/responses/input_tokens", "messages": "/v1/messages/count_tokens"}
ID = "1" * 24


@dataclass(frozen=True)
class Conversation:
    images: Sequence[str] = ()
    """URLs or data URIs, after the text of the user."""
    result: Sequence[str] | None = None
    """Those in the result of a call that follows."""
    text: str = "What is it?"
    images_first: bool = False


PLACES = {
    "user": lambda *images: Conversation(images=images),
    "result": lambda *images: Conversation(result=images),
}
"""Where images are: in the user's message, or in the result of a call."""


@dataclass(frozen=True)
class Answer:
    text: str
    calls: list[tuple[str, Any]]
    prompt_tokens: int
    cached_tokens: int


def body(api: Api, asked: Conversation, *, tools: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Without sampling parameters. With tools, a call is required."""
    match api:
        case "chat":
            return {"messages": _chat(asked), **_chat_tools(tools), "enable_thinking": False}
        case "responses":
            made = {"input": _items(asked), "enable_thinking": False, "store": False}
            return made | _responses_tools(tools)
        case "messages":
            made = {"messages": _messages(asked), "thinking": {"type": "disabled"}}
            return made | _messages_tools(tools)


def send(http: httpx.Client, api: Api, sent: dict[str, Any], *, stream: bool = False) -> Answer:
    if api == "responses" and "max_tokens" in sent:
        sent = {**sent, "max_output_tokens": sent["max_tokens"]}
        del sent["max_tokens"]
    if stream:
        sent = {**sent, "stream": True}
    if stream and api == "chat":
        sent["stream_options"] = {"include_usage": True}
    answer = http.post(PATHS[api], json=sent)
    assert answer.status_code == 200, answer.text
    return _READ[api](answer.content, stream)


def _read_chat(data: bytes, stream: bool) -> Answer:
    if stream:
        chunks = [json.loads(each) for each in SseParser().feed(data) if each != b"[DONE]"]
        choice, usage = collected(chunks)[0], chunks[-1]["usage"]
    else:
        whole = json.loads(data)
        choice, usage = of_whole(whole)[0], whole["usage"]
    calls = [(name, json.loads(arguments)) for name, arguments in choice["calls"]]
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Answer(choice["content"] or "", calls, usage["prompt_tokens"], cached)


def _read_responses(data: bytes, stream: bool) -> Answer:
    whole = read_events(data)[-1]["response"] if stream else json.loads(data)
    check_response(whole)
    texts, calls = [], []
    for item in whole["output"]:
        if item["type"] == "message":
            texts += [part["text"] for part in item["content"]]
        elif item["type"] == "function_call":
            calls.append((item["name"], json.loads(item["arguments"])))
    usage = whole["usage"]
    cached = usage["input_tokens_details"]["cached_tokens"]
    return Answer("".join(texts), calls, usage["input_tokens"], cached)


def _read_messages(data: bytes, stream: bool) -> Answer:
    whole = accumulated(read_events(data)) if stream else json.loads(data)
    check_message(whole)
    text = "".join(each["text"] for each in whole["content"] if each["type"] == "text")
    used = [each for each in whole["content"] if each["type"] == "tool_use"]
    usage = whole["usage"]
    cached = usage["cache_read_input_tokens"]
    calls = [(each["name"], each["input"]) for each in used]
    return Answer(text, calls, usage["input_tokens"] + cached, cached)


_READ = {"chat": _read_chat, "responses": _read_responses, "messages": _read_messages}


def _user(asked: Conversation, text: dict[str, Any], images: list[dict[str, Any]]) -> list[Any]:
    return [*images, text] if asked.images_first else [text, *images]


def _chat(asked: Conversation) -> list[dict[str, Any]]:
    def images(urls: Sequence[str]) -> list[dict[str, Any]]:
        return [{"type": "image_url", "image_url": {"url": url}} for url in urls]

    content = _user(asked, {"type": "text", "text": asked.text}, images(asked.images))
    messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if asked.result is not None:
        call_id, function = f"call_{ID}", {"name": "look", "arguments": "{}"}
        call = {"id": call_id, "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        found = [{"type": "text", "text": "Here"}, *images(asked.result)]
        messages.append({"role": "tool", "tool_call_id": call_id, "content": found})
    return messages


def _items(asked: Conversation) -> list[dict[str, Any]]:
    def images(urls: Sequence[str]) -> list[dict[str, Any]]:
        return [{"type": "input_image", "image_url": url} for url in urls]

    content = _user(asked, {"type": "input_text", "text": asked.text}, images(asked.images))
    items: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if asked.result is not None:
        call_id = f"call_{ID}"
        call = {"type": "function_call", "call_id": call_id, "name": "look", "arguments": "{}"}
        found = [{"type": "input_text", "text": "Here"}, *images(asked.result)]
        items += [call, {"type": "function_call_output", "call_id": call_id, "output": found}]
    return items


def _messages(asked: Conversation) -> list[dict[str, Any]]:
    def image(url: str) -> dict[str, Any]:
        if url.startswith("data:"):
            kind, data = url.removeprefix("data:").split(";base64,")
            return {"type": "base64", "media_type": kind, "data": data}
        return {"type": "url", "url": url}

    def images(urls: Sequence[str]) -> list[dict[str, Any]]:
        return [{"type": "image", "source": image(url)} for url in urls]

    content = _user(asked, {"type": "text", "text": asked.text}, images(asked.images))
    messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if asked.result is not None:
        use_id = f"toolu_{ID}"
        call = {"type": "tool_use", "id": use_id, "name": "look", "input": {}}
        found = [{"type": "text", "text": "Here"}, *images(asked.result)]
        result = {"type": "tool_result", "tool_use_id": use_id, "content": found}
        messages.append({"role": "assistant", "content": [call]})
        messages.append({"role": "user", "content": [result]})
    return messages


def _chat_tools(tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"tools": [*tools], "tool_choice": "required"} if tools else {}


def _responses_tools(tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    functions = [{"type": "function", **tool["function"]} for tool in tools]
    return {"tools": functions, "tool_choice": "required"} if tools else {}


def _messages_tools(tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    made = [
        {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]}
        | {name: tool["function"][name] for name in ("description",) if name in tool["function"]}
        for tool in tools
    ]
    return {"tools": made, "tool_choice": {"type": "any"}} if tools else {}

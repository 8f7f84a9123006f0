"""The forms in which LiteLLM's hooks get the responses of each API, and the calls in them; and
messages of Anthropic's API as chat completions, which LiteLLM's log events contain."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from litellm.llms.openai.responses.transformation import OpenAIResponsesAPIConfig
from litellm.types.llms.openai import ResponseCompletedEvent, ResponsesAPIResponse
from litellm.types.utils import ModelResponse, ModelResponseStream
from pydantic import BaseModel

FRAME_END = b"\n\n"
DATA = b"data: "
DONE = b"[DONE]"
Event = Mapping[str, Any]


@dataclass(frozen=True)
class ResponseCall:
    """A call in a response, or its content."""

    name: str | None
    """None: it is content."""
    arguments: str


def body_of(response: Any) -> dict[str, Any] | None:
    """Return a copy of the body of LiteLLM's object of a whole response; None if it is not a
    response. Its objects have more null fields after they were written to."""
    if isinstance(response, BaseModel):
        return response.model_dump(mode="json", exclude_none=True)
    return copy.deepcopy(response) if isinstance(response, dict) else None


def frame_of(item: Any) -> bytes:
    """Return the server-sent event of what a hook yields."""
    if isinstance(item, bytes):
        return item
    if isinstance(item, str):
        text = item.encode()
        return text if text.startswith((DATA, b"event: ")) else DATA + text + FRAME_END
    data = item
    if isinstance(item, BaseModel):
        data = item.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    kind = data.get("type") if "choices" not in data else None
    name = b"" if kind is None else b"event: " + str(kind).encode() + b"\n"
    return name + DATA + orjson.dumps(data) + FRAME_END


def events_of(frames: bytes) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in server-sent events."""
    for line in frames.split(b"\n"):
        if line.startswith(DATA) and (data := line.removeprefix(DATA)) != DONE:
            event = orjson.loads(data)
            if isinstance(event, dict):
                yield event


class ChatForm:
    """The form of chat completions, which those of the other APIs replace."""

    marks: tuple[bytes, ...] = (b'"tool_calls"', b'"function_call"')
    """What is in each event of a stream that has a part of a call."""
    is_chat = True

    def response(self, body: dict[str, Any]) -> Any:
        """Return LiteLLM's object of a whole response."""
        return ModelResponse(**copy.deepcopy(body))

    def item(self, frame: bytes) -> Any:
        """Return LiteLLM's object of a server-sent event."""
        return ModelResponseStream(**next(events_of(frame)))

    def calls(self, body: Event) -> Iterator[ResponseCall]:
        """Yield the calls and the content of a whole response."""
        for choice in body.get("choices") or ():
            message = choice.get("message") or {}
            yield ResponseCall(None, message.get("content") or "")
            for call in message.get("tool_calls") or ():
                yield _chat_call(call)
            if message.get("function_call"):
                yield _chat_call({"function": message["function_call"]})

    def streamed_calls(self, events: Iterable[Event]) -> Iterator[ResponseCall]:
        """Yield the calls and the content of a stream, each as often as the stream has it."""
        calls: dict[tuple[Any, Any], dict[str, Any]] = {}
        contents: dict[Any, str] = {}
        for choice in (choice for event in events for choice in event.get("choices") or ()):
            at, delta = choice.get("index"), choice.get("delta") or {}
            contents[at] = contents.get(at, "") + (delta.get("content") or "")
            parts = [*(delta.get("tool_calls") or ())]
            if delta.get("function_call"):
                parts.append({"index": "function_call", "function": delta["function_call"]})
            for part in parts:
                _join(calls.setdefault((at, part.get("index")), {}), part)
        yield from map(_chat_call, calls.values())
        yield from (ResponseCall(None, content) for content in contents.values())


class ResponsesForm(ChatForm):
    marks = (b"function_call", b"custom_tool_call")
    is_chat = False

    def response(self, body: dict[str, Any]) -> Any:
        return ResponsesAPIResponse(**copy.deepcopy(body))

    def item(self, frame: bytes) -> Any:
        return OpenAIResponsesAPIConfig().transform_streaming_response(
            model="", parsed_chunk=next(events_of(frame)), logging_obj=None
        )

    def calls(self, body: Event) -> Iterator[ResponseCall]:
        for item in body.get("output") or ():
            yield from _item_calls(item)

    def streamed_calls(self, events: Iterable[Event]) -> Iterator[ResponseCall]:
        items: dict[Any, dict[str, Any]] = {}
        texts: dict[tuple[Any, Any], str] = {}
        for event in events:
            kind, at = str(event.get("type")), event.get("item_id")
            if "response" in event:
                yield from self.calls(event["response"])
            elif kind == "response.output_item.added":
                items[event["item"].get("id")] = {**event["item"], "arguments": "", "input": ""}
            elif kind == "response.output_item.done":
                yield from _item_calls(event["item"])
            elif kind == "response.output_text.delta":
                place = at, event.get("content_index")
                texts[place] = texts.get(place, "") + event["delta"]
            elif kind == "response.output_text.done":
                yield ResponseCall(None, event["text"])
            elif kind.endswith("_call_arguments.delta") or kind.endswith("_call_input.delta"):
                item = items.setdefault(at, {"arguments": "", "input": ""})
                item["input" if "input" in kind else "arguments"] += event["delta"]
            elif kind.endswith("_call_arguments.done"):
                yield from _item_calls({**items.get(at, {}), "arguments": event["arguments"]})
            elif kind.endswith("_call_input.done"):
                yield from _item_calls({**items.get(at, {}), "input": event["input"]})
        for item in items.values():
            yield from _item_calls({**item, "content": None})
        yield from (ResponseCall(None, text) for text in texts.values())


class MessagesForm(ChatForm):
    marks = (b'"tool_use"', b'"input_json_delta"')
    is_chat = False

    def response(self, body: dict[str, Any]) -> Any:
        return copy.deepcopy(body)

    def item(self, frame: bytes) -> Any:
        return frame

    def calls(self, body: Event) -> Iterator[ResponseCall]:
        blocks = body.get("content") or ()
        for block in blocks:
            if block.get("type") == "tool_use":
                yield ResponseCall(str(block.get("name")), _json(block.get("input")))
        yield ResponseCall(None, "".join(block.get("text") or "" for block in blocks))

    def streamed_calls(self, events: Iterable[Event]) -> Iterator[ResponseCall]:
        names: dict[Any, str] = {}
        parts: dict[Any, str] = {}
        text = ""
        for event in events:
            at, block, delta = (event.get(name) for name in ("index", "content_block", "delta"))
            if block and block.get("type") == "tool_use":
                names[at] = str(block.get("name"))
                parts[at] = _json(block["input"]) if block.get("input") else ""
            text += (block or {}).get("text") or ""
            if isinstance(delta, Mapping):
                text += delta.get("text") or ""
                parts[at] = parts.get(at, "") + (delta.get("partial_json") or "")
        yield from (ResponseCall(name, parts.get(at) or "{}") for at, name in names.items())
        yield ResponseCall(None, text)


FORMS: Mapping[str, ChatForm] = {
    "acompletion": ChatForm(),
    "aresponses": ResponsesForm(),
    "anthropic_messages": MessagesForm(),
}
"""By LiteLLM's name of the operation."""


def _chat_call(call: Event) -> ResponseCall:
    if custom := call.get("custom"):
        return ResponseCall(str(custom.get("name")), _json({"input": custom.get("input")}))
    function = call.get("function") or {}
    return ResponseCall(str(function.get("name")), function.get("arguments") or "")


def _join(call: dict[str, Any], part: Event) -> None:
    """Add a delta to the call."""
    for kind in ("function", "custom"):
        if part.get(kind):
            joined = call.setdefault(kind, {})
            for name, text in part[kind].items():
                joined[name] = (joined.get(name) or "") + (text or "")


def _item_calls(item: Event) -> Iterator[ResponseCall]:
    kind = item.get("type")
    name = ".".join(str(item[each]) for each in ("namespace", "name") if item.get(each))
    if kind == "function_call":
        yield ResponseCall(name, item.get("arguments") or "")
    elif kind == "custom_tool_call":
        yield ResponseCall(name, _json({"input": item.get("input")}))
    elif kind == "message":
        for part in item.get("content") or ():
            yield ResponseCall(None, part.get("text") or "")


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def logged_response(call_type: str, whole: Mapping[str, Any], *, stream: bool) -> Any:
    """Return LiteLLM's object of a response; in a Responses stream it is that of the last event."""
    if call_type == "anthropic_messages":
        return ModelResponse(**completion_of(whole))
    if call_type != "aresponses":
        return ModelResponse(**whole)
    # Parts of the tools are those of all requests that have them, and callbacks may change these.
    tools = {"tools": orjson.loads(orjson.dumps(whole["tools"]))} if "tools" in whole else {}
    response = ResponsesAPIResponse(**{**whole, **tools})
    if not stream:
        return response
    return ResponseCompletedEvent(type="response.completed", response=response)


FINISH_REASONS = {"tool_use": "tool_calls", "max_tokens": "length"}
"""By `stop_reason`; `stop` for others."""


def completion_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chat.completion object."""
    blocks, usage = message["content"], message["usage"]
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    thinking = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": orjson.dumps(block["input"]).decode()},
        }
        for block in blocks
        if block["type"] == "tool_use"
    ]
    answer: dict[str, Any] = {"role": "assistant", "content": text or None}
    if thinking:
        answer["reasoning_content"] = thinking
    if calls:
        answer["tool_calls"] = calls
    spent = [usage, *(each for each in usage.get("iterations", ()) if each["type"] == "compaction")]
    cached = sum(each["cache_read_input_tokens"] for each in spent)
    prompt = sum(each["input_tokens"] for each in spent) + cached
    completion = sum(each["output_tokens"] for each in spent)
    return {
        "id": message["id"],
        "object": "chat.completion",
        "created": int(time.time()),
        "model": message["model"],
        "choices": [
            {
                "index": 0,
                "message": answer,
                "finish_reason": FINISH_REASONS.get(message["stop_reason"], "stop"),
            }
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }

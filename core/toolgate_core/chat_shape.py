"""Messages to a backend in the shape of chat completions, which every router can pass on.

`POST /v1/chat/completions` has the fields that routers read (`model`, `messages`, `tools`,
`stream`, `max_tokens`), and a member `toolgate` with `op`, the name of the message, and its other
fields. A body without this member is vLLM's own.

Some routers parse a body and write it anew: with sorted members, and numbers as floats. Schemas
depend on both. So a *sealed* message has its other fields, and the tools of the prompt, as a text.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json, to_json

PATH = "/v1/chat/completions"
MEMBER = "toolgate"
SHAPED = "toolgate.chat_shape"
"""Where an ASGI scope has the parsed body."""
PROMPT = ("messages", "tools")
"""Fields of a prompt that are members of the body."""
SEALED = "sealed"
TRANSFER = "kv_transfer_params"
"""Member by which routers connect an engine for prefill and one for decode. No gateway sends it."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def body_of(op: str, message: BaseModel | None, model: str, *, sealed: bool = False) -> bytes:
    """Return the body of a message. `model`: for messages that do not name one. Raise what
    pydantic's serializer raises."""
    prompt = getattr(message, "prompt", None)
    apart = {"prompt", "model", "stream"}
    rest = b"{}" if message is None else to_json(message, exclude_none=True, exclude=apart)
    outer = [b'"model":' + to_json(getattr(message, "model", model))]
    if (stream := getattr(message, "stream", None)) is not None:
        outer.append(b'"stream":' + to_json(stream))
    sampling = getattr(message, "sampling", None)
    if sampling is not None and sampling.max_tokens is not None:
        outer.append(b'"max_tokens":%d' % sampling.max_tokens)
    inner = [] if rest == b"{}" else [rest[1:-1]]
    if prompt is not None:
        # pydantic takes six times as long for a prompt that is a member.
        left_out = {"messages"} if sealed else {*PROMPT}
        inner.append(b'"prompt":' + to_json(prompt, exclude_none=True, exclude=left_out))
    if sealed:
        inner = [b'"%b":%b' % (SEALED.encode(), to_json((b"{%b}" % b",".join(inner)).decode()))]
    tools = None if sealed else getattr(prompt, "_tools_json", None)
    included = {*PROMPT} if tools is None else {"messages"}
    prompt_json = b"" if prompt is None else to_json(prompt, exclude_none=True, include=included)
    outer.append(prompt_json[1:-1] if len(prompt_json) > 2 else b'"messages":[]')
    if tools is not None:
        outer.append(b'"tools":' + tools)
    inner.insert(0, b'"op":' + to_json(op))
    return b'{%b,"%b":{%b}}' % (b",".join(outer), MEMBER.encode(), b",".join(inner))


def message_in(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the message in a body. A router may have changed `stream`, and made it
    one of the two steps of separate prefill and decode engines."""
    member = body[MEMBER]
    fields = _opened(member)
    op = fields.pop("op", None)
    if isinstance(prompt := fields.get("prompt"), dict):
        members = {name: body[name] for name in PROMPT if name in body}
        fields["prompt"] = (members if prompt.get("kind") == "chat" else {}) | prompt
        fields["model"] = body.get("model")
    if "stream" in body:
        fields["stream"] = body["stream"]
    if op == "generate":
        fields[TRANSFER] = body.get(TRANSFER)
        fields["prefill_only"] = _is_prefill_step(body, fields.get("sampling"))
    # A prefill step has no grammars, and its routers do not pass refusals on.
    if next(iter(member), "op") != "op" and SEALED not in member and not fields.get("prefill_only"):
        fields["rewritten"] = True
    return fields


def _opened(member: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a message. If it is sealed by nobody who knows how, it stays so."""
    with suppress(KeyError, RecursionError, TypeError, ValueError):
        return {"op": member.get("op"), **_parsed(member[SEALED])}
    return dict(member)


def _is_prefill_step(body: Mapping[str, Any], sampling: object) -> bool:
    """Return whether a router drops the response and needs only the KV cache of the prompt. It asks
    for that by `do_remote_decode`, or by lowering `max_tokens` to 1 if the engines share their
    storage. The gateway's own `max_tokens` is also in the message, where no router changes it."""
    transfer = body.get(TRANSFER)
    if isinstance(transfer, dict) and transfer.get("do_remote_decode"):
        return True
    max_tokens = sampling.get("max_tokens") if isinstance(sampling, dict) else None
    return max_tokens != 1 and body.get("max_tokens") == 1


class ChatShape:
    """ASGI middleware of a backend: sends messages in the shape of chat completions to the routes
    `/v1/toolgate/<op>`, with the parsed body in the scope. Other bodies pass unchanged. One of more
    than `max_bytes` may be a message, so the route of `generate` gets it, which refuses it."""

    def __init__(self, app: Any, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or scope["method"] != "POST" or path != PATH:
            await self._app(scope, receive, send)
            return
        parts, size, last = list[bytes](), 0, False
        while not last and size <= self._max_bytes:
            event = await receive()
            if event["type"] != "http.request":
                return  # the client has left
            parts.append(event.get("body", b""))
            size, last = size + len(parts[-1]), not event.get("more_body", False)
        content = b"".join(parts)
        shaped = _shaped(content) if size <= self._max_bytes else None
        if shaped is not None or size > self._max_bytes:
            op = "generate" if shaped is None else shaped[MEMBER].get("op", "")
            path = f"{scope.get('root_path', '')}/v1/toolgate/{op}"
            scope = {**scope, "path": path, "raw_path": path.encode(), SHAPED: shaped}
        first: list[MutableMapping[str, Any]] = [
            {"type": "http.request", "body": content, "more_body": not last}
        ]

        async def again() -> MutableMapping[str, Any]:
            return first.pop() if first else await receive()

        await self._app(scope, again, send)


def _shaped(content: bytes) -> dict[str, Any] | None:
    """Return the parsed body if it has a message."""
    if f'"{MEMBER}"'.encode() not in content:
        return None
    try:
        body = _parsed(content)
    except (ValueError, RecursionError):
        return None
    is_ours = isinstance(body, dict) and isinstance(body.get(MEMBER), dict)
    return body if is_ours else None


def _parsed(content: bytes) -> Any:
    try:
        return from_json(content)
    except ValueError:
        return json.loads(content)  # slower, but it reads more than 200 levels

"""The outermost shape of a chat request, checked before LiteLLM sees it.

LiteLLM 1.106.2 reads fields of messages and tools before it validates them: a string among the
messages ends in an answer with a traceback in it. The types that OpenAI's API gives these few
fields hold for every provider; what only ours refuses is admission's business.
"""

from __future__ import annotations

from typing import Any

from litellm.types.llms.openai import ValidUserMessageContentTypes
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from .api.chat_completions.parameters import unknown
from .body_guard import check_controls, first_unknown, parse
from .checks import Fields
from .keepalives import STREAMED
from .litellm_host.router import is_foreign

CHAT = "/chat/completions"
PLAIN_CHAT = (CHAT, f"/v1{CHAT}")
"""The paths that name no model: LiteLLM takes one that a path names before the body's."""
MESSAGES = "/messages"
PATHS = (CHAT, "/completions", "/responses", MESSAGES, "/embeddings")
"""Ends of the paths that take a body for a model."""


class RequestShape:
    """ASGI middleware: answers 400 to a request for a model whose body steers the gateway, and to a
    chat request whose fields are of the wrong types."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or not _has_body(scope["path"]):
            await self._app(scope, receive, send)
            return
        messages = await _whole_body(receive)
        try:
            _check_type(scope)
            values = parse(b"".join(message.get("body", b"") for message in messages))
            check_controls(values)
            if CHAT in scope["path"]:
                check_model(scope["path"], values)
                scope[STREAMED] = check_shape(values)
            elif scope["path"].rstrip("/").endswith(MESSAGES):
                check_messages(values)
        except InvalidRequest as error:
            await JSONResponse(error.body(), error.status)(scope, receive, send)
            return
        await self._app(scope, _again(messages, receive), send)


def check_model(path: str, values: dict[str, Any]) -> None:
    """That one model is asked, and where it is ours, that it will be our provider who is: LiteLLM
    would ask each of several and count one, and obeys fields that are no parameters. Raises
    InvalidRequest, UnsupportedParameter."""
    model = Fields(values).text("model") or ""
    if "," in model + path:
        raise InvalidRequest("'model' must name one model; send a request to each.", param="model")
    name = first_unknown(values)
    if name is not None and not (path in PLAIN_CHAT and is_foreign(model)):
        raise unknown(name)


def check_shape(values: dict[str, Any]) -> bool:
    """Whether a stream is asked for. Raises InvalidRequest."""
    fields = Fields(values)
    fields.text("model")
    streamed = fields.flag("stream") or False
    for at, message in enumerate(_objects(fields, "messages")):
        _check_message(message, f"messages[{at}]")
    _objects(fields, "tools")
    fields.mapping("response_format")
    fields.mapping("extra_headers")
    options = Fields(fields.mapping("stream_options") or {}, "stream_options")
    for name in ("include_usage", "continuous_usage_stats", "include_obfuscation"):
        options.flag(name)  # LiteLLM drops options that are none
    return streamed


def check_messages(values: dict[str, Any]) -> None:
    """LiteLLM 1.106.2 leaves this one out as it makes a chat request of Anthropic's (its
    llms/anthropic/pass_through/adapters/transformation.py): several calls would come where one was
    asked for. Raises InvalidRequest, UnsupportedParameter."""
    fields = Fields(values)
    choice = Fields(fields.mapping("tool_choice") or {}, "tool_choice")
    if choice.flag("disable_parallel_tool_use") and not is_foreign(fields.text("model") or ""):
        raise UnsupportedParameter(
            "'tool_choice.disable_parallel_tool_use' is not supported here; use "
            "/v1/chat/completions with `parallel_tool_calls: false`.",
            param="tool_choice.disable_parallel_tool_use",
        )


def _has_body(path: str) -> bool:
    return CHAT in path or path.rstrip("/").endswith(PATHS)


def _check_type(scope: Scope) -> None:
    """LiteLLM reads forms, too, where OpenAI's API has none."""
    for name, value in scope["headers"]:
        if name == b"content-type" and b"form" in value.lower():
            raise InvalidRequest("The body must be JSON, sent as `content-type: application/json`.")


def _check_message(message: dict[str, Any], param: str) -> None:
    fields = Fields(message, param)
    role = fields.text("role")
    if role is None:
        raise fields.wrong("role", "a string")
    _objects(fields, "tool_calls")
    content = message.get("content")
    if isinstance(content, list):
        for at, part in enumerate(_objects(fields, "content")):
            kind = part.get("type")
            if role == "user" and kind not in ValidUserMessageContentTypes:
                raise Fields(part, f"{param}.content[{at}]").wrong(
                    "type", "a known type of content"
                )
    else:
        fields.text("content")


def _objects(fields: Fields, name: str) -> list[dict[str, Any]]:
    items = fields.items(name) or []
    for at, item in enumerate(items):
        if not isinstance(item, dict):
            raise fields.wrong(f"{name}[{at}]", "an object")
    return items


async def _whole_body(receive: Receive) -> list[Message]:
    messages = [await receive()]
    while messages[-1]["type"] == "http.request" and messages[-1].get("more_body", False):
        messages.append(await receive())
    return messages


def _again(messages: list[Message], receive: Receive) -> Receive:
    """The messages that were read, then those that follow: the client's hanging up among them."""
    waiting = iter(messages)

    async def read() -> Message:
        message = next(waiting, None)
        return await receive() if message is None else message

    return read

"""The API surface for Anthropic's Messages API, with errors in its form and in its words.

The engine and the backends name the parameters of chat completions.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import ContextLengthExceeded, ToolgateError
from toolgate_core.errors.base import MAX_MESSAGE, MAX_PARAM, shortened
from toolgate_core.text_size import BYTES_PER_TOKEN, text_bytes

from ...form import RateLimitHeaders
from ..shared.output import typed_events
from ..surface import Counting, Stateless
from .feature import written_of
from .output.stream import MessageStream, WholeMessage
from .parameters import BY_NAME, with_defaults
from .request import parse_request

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    415: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""By HTTP status; `api_error` for others."""
NAMES = {
    "max_completion_tokens": "max_tokens",
    "response_format": "output_config.format",
    "reasoning_effort": "output_config.effort",
}
NAME = re.compile(rf"(?<![\w.])(?:{'|'.join(NAMES)})(?!\w)")
MESSAGE = re.compile(
    r"(?<![\w.])messages\[(?P<message>\d+)\](?:\.content\[(?P<part>\d+)\](?P<image>\.image_url)?)?"
)
CONTINUED = "continue_final_message"
"""Clients of this API do not set it: a last message of the assistant is continued."""
REQUIRED = 'tool_choice "required"'
THREAD: Mapping[str, Any] = {
    "error_code": "thread_unsupported_request",
    "unsupported": ["thread"],
}
"""Anthropic's SDKs send `thread` at first, and continue without it after this error."""


def error_body(
    error: ToolgateError, request: ChatRequest | None = None, request_id: str | None = None
) -> dict[str, Any]:
    """`request`: the request that failed, if it was parsed."""
    given = error.body()["error"]
    shown = {
        **given,
        "type": TYPES.get(error.status, "api_error"),
        "message": shortened(_message(error, request), MAX_MESSAGE),
    }
    if error.param is not None:
        shown["param"] = shortened(_in_own_words(error.param, request), MAX_PARAM)
    if error.param == "thread":
        shown["details"] = THREAD
    return {"type": "error", "error": shown, "request_id": request_id}


def _message(error: ToolgateError, request: ChatRequest | None) -> str:
    if isinstance(error, ContextLengthExceeded):
        return _context_message(error, request)
    return _in_own_words(error.message, request)


def _in_own_words(text: str, request: ChatRequest | None) -> str:
    if request is None:
        return text  # the error of the parser, which names the parameters of this API
    text = NAME.sub(lambda found: NAMES[found[0]], text)
    if text == CONTINUED and request.message_paths:
        return request.message_paths[-1]
    text = text.replace(f"Remove {CONTINUED}", "Remove the last message")
    text = text.replace(REQUIRED, 'tool_choice "any"')
    return MESSAGE.sub(lambda found: _path(found, request), text)


def _path(found: re.Match[str], request: ChatRequest) -> str:
    at, part = int(found["message"]), found["part"]
    if at >= len(request.message_paths):
        return found[0]
    if part is None:
        return request.message_paths[at]
    paths = written_of(request).part_paths[at]
    path: str = paths[int(part)] if int(part) < len(paths) else request.message_paths[at]
    return f"{path}.source" if found["image"] else path


def _context_message(error: ContextLengthExceeded, request: ChatRequest | None) -> str:
    """Return the message of an error about the context length in Anthropic's words, which clients
    such as Claude Code recognize: they shorten the conversation, or lower `max_tokens` by the
    numbers. `request`: the request that failed, if it was parsed."""
    context, prompt, output = error.context, error.prompt, error.output
    if context is None:
        return f"prompt is too long: {error.message}"
    if prompt is not None and output is not None:
        return (
            f"input length and `max_tokens` exceed context limit: {prompt} + {output} > {context}, "
            "decrease input length or `max_tokens` and try again"
        )
    if output is not None:
        return error.message
    counted = f"about {_estimate(context, request)}" if prompt is None else f"{prompt}"
    return f"prompt is too long: {counted} tokens > {context} maximum"


def _estimate(context: int, request: ChatRequest | None) -> int:
    if request is None:
        return context + 1
    tools = [tool.definition for tool in request.tools]
    return max(context + 1, text_bytes(request.messages, tools) // BYTES_PER_TOKEN)


OWN = ("thinking", "redacted_thinking")
"""Types of the blocks that this gateway has signed."""
COMPACTION = "compaction"


def portable(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body without the thinking of earlier turns, whose signatures other providers refuse.
    They also refuse a turn without thinking while `thinking` is on, so it is left out then. A
    summary becomes text."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return dict(body)
    kept = [_without_thinking(message) for message in messages]
    if kept == messages:
        return dict(body)
    return {**{name: value for name, value in body.items() if name != "thinking"}, "messages": kept}


def _without_thinking(message: Any) -> Any:
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return message
    left = [
        _with_text(block)
        for block in content
        if not (isinstance(block, dict) and block.get("type") in OWN)
    ]
    return {**message, "content": left}


def _with_text(block: Any) -> Any:
    if not isinstance(block, dict) or block.get("type") != COMPACTION:
        return block
    return {"type": "text", "text": block.get("content") or ""}


PATH = re.compile(r"/v1/messages")
"""The path that LiteLLM accepts."""
MODELS = re.compile(r"(?:/v1)?/models(?:/.+)?", re.DOTALL)
VERSION_HEADER = "anthropic-version"
"""A header that only clients of Anthropic's API send. Some paths are in both APIs."""


def _counted(tokens: int, cleared: int | None) -> dict[str, Any]:
    body: dict[str, Any] = {"input_tokens": tokens}
    if cleared is not None:
        body["context_management"] = {"original_input_tokens": tokens + cleared}
    return body


COUNTING = Counting(
    path=re.compile(r"/v1/messages/count_tokens"),
    # `max_tokens` is required for a message, and no parameter here.
    prepared=lambda body: {**body, "max_tokens": body.get("max_tokens") or 1},
    body=_counted,
)


class Messages(Stateless):
    name = "messages"
    path = PATH
    call_type = "anthropic_messages"
    parameters = frozenset(BY_NAME)
    keep_alive = typed_events([{"type": "ping"}])
    rate_limits: RateLimitHeaders = "anthropic"
    request_id_header: str | None = "request-id"
    counting: Counting | None = COUNTING
    parse = staticmethod(parse_request)
    portable = staticmethod(portable)
    with_defaults = staticmethod(with_defaults)
    stream = staticmethod(MessageStream)
    whole = staticmethod(WholeMessage)
    error = staticmethod(error_body)

    def owns(self, path: str, headers: Container[str]) -> bool:
        if MODELS.fullmatch(path) is not None:
            return VERSION_HEADER in headers
        return path == "/v1/messages" or path.startswith("/v1/messages/")

    def error_event(self, shown: Mapping[str, Any]) -> bytes:
        return typed_events([shown])

"""Streamed and complete responses, and errors in the words of the API.

The engine and the backends name the parameters of chat completions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from toolgate_core.deltas import Finish
from toolgate_core.errors import ContextLengthExceeded, ToolgateError
from toolgate_core.errors.base import MAX_MESSAGE, MAX_PARAM, shortened
from toolgate_core.text_size import BYTES_PER_TOKEN, text_bytes

from ...chat.response import ChatResponse, ResponseEvent, TokenCounts
from ...features.feature import outputs
from ...request.chat_request import ChatRequest
from ..shared.output import prompt_fields, typed_events
from ..surface import ANY_CLIENT, ApiResponse, Client, Writer
from .blocks import Content, ThinkingBlock
from .feature import Event, MessagesFeature


def stop(content: Content) -> dict[str, Any]:
    """`stop_reason` and `stop_sequence`. After complete calls the reason is `tool_use`, also for a
    named tool: clients run the calls then."""
    finish = content.finish or Finish("stop")
    if (reason := content.stop_reason) is not None:
        return {"stop_reason": reason, "stop_sequence": None}
    if finish.reason == "length":
        return {"stop_reason": "max_tokens", "stop_sequence": None}
    if content.has_calls:
        return {"stop_reason": "tool_use", "stop_sequence": None}
    if isinstance(finish.stop_reason, str):
        return {"stop_reason": "stop_sequence", "stop_sequence": finish.stop_reason}
    return {"stop_reason": "end_turn", "stop_sequence": None}


class Message(ApiResponse):
    """A message object, or its server-sent events. Each has its type in `event:` and in its data.
    `model` is the name that the client sent."""

    _begun = False

    def __init__(self, response: ChatResponse, model: str, content: Content) -> None:
        self._response, self._model, self._content = response, model, content

    def shown(self, events: Iterable[ResponseEvent]) -> Iterator[Event]:
        if not self._begun:
            self._begun = True
            message = self._made([], {"stop_reason": None, "stop_sequence": None})
            yield {"type": "message_start", "message": message}
        yield from self._content.add(events)

    def events(self, events: Iterable[ResponseEvent]) -> bytes:
        return typed_events(self.shown(events))

    def end(self) -> bytes:
        ended = {"container": None, "stop_details": None, **stop(self._content)}
        delta = {"type": "message_delta", "delta": ended, **self._at_end({})}
        return typed_events([delta, {"type": "message_stop"}])

    def failed(self, error: Mapping[str, Any]) -> bytes:
        return typed_events([{"type": "error", "error": error}])

    def body(self) -> dict[str, Any]:
        body = self._made(self._content.blocks(), stop(self._content))
        return {**body, **self._at_end(body["usage"])}

    def _made(self, content: list[dict[str, Any]], ended: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": self._response.head.id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "container": None,
            "stop_details": None,
            **ended,
            "usage": {
                **usage_of(self._response.counts),
                "cache_creation": {**CREATED},
                "service_tier": "standard",
            },
        }

    def _at_end(self, usage: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members that are complete at the end: the usage, those of features, and fields
        beyond Anthropic's, as in chat completions."""
        response, content = self._response, self._content
        answered, finish = content.stop_reason is None, content.finish or Finish("stop")
        counted = with_iterations(response.counts, response.summary_counts, answered=answered)
        fields = {"usage": {**usage, **counted, **content.usage()}, **content.members()}
        toolgate: dict[str, Any] = {}
        if finish.call is not None:
            toolgate["last_call"] = finish.call
        if isinstance(finish.stop_reason, int):
            toolgate["stop_token"] = finish.stop_reason
        if toolgate:
            fields["toolgate"] = toolgate
        if response.request.extras.return_token_ids:
            fields["token_ids"] = content.token_ids
        return fields | prompt_fields(response)


CREATED = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
"""Tokens that were written to the cache, which is not billed."""


def usage_of(counts: TokenCounts) -> dict[str, Any]:
    """Anthropic's `input_tokens` are those that were not read from the cache."""
    return {**_tokens(counts), "output_tokens_details": {"thinking_tokens": counts.reasoning}}


def with_iterations(
    counts: TokenCounts, compaction: TokenCounts | None, *, answered: bool
) -> dict[str, Any]:
    """Return the usage of a message. If the conversation was compacted, the tokens of the summary
    are in `iterations` only. `answered`: whether the message has more than the summary."""
    usage = usage_of(counts)
    if compaction is None:
        return usage
    iterations = [{"type": "compaction", **_iteration(compaction)}]
    if answered:
        iterations.append({"type": "message", **_iteration(counts)})
    return {**usage, "iterations": iterations}


def _iteration(counts: TokenCounts) -> dict[str, Any]:
    return {**_tokens(counts), "cache_creation": {**CREATED}}


def _tokens(counts: TokenCounts) -> dict[str, Any]:
    return {
        "input_tokens": counts.prompt - counts.cached,
        "cache_creation_input_tokens": 0,  # nothing is billed for writing to the cache
        "cache_read_input_tokens": counts.cached,
        "output_tokens": counts.completion,
    }


@dataclass
class MessagesWriter(Writer):
    features: tuple[MessagesFeature, ...] = ()
    """Those of the request."""
    eager: frozenset[str] = frozenset()
    """The names of tools whose input is streamed before it is complete."""
    omits_thinking: bool = False
    """Whether the client gets only the signatures of thinking."""
    sign: Callable[[str], str] = lambda _: ""
    """Returns the signature of thinking."""
    part_paths: Sequence[Sequence[str]] = ()
    """The paths of the parts of each message's content."""

    def response(self, answer: ChatResponse, model: str, client: Client = ANY_CLIENT) -> Message:
        thinking = partial(ThinkingBlock, sign=self.sign, omitted=self.omits_thinking)
        features = outputs(self.features, answer)
        return Message(answer, model, Content(answer, features, self.eager, thinking))

    def error(self, error: ToolgateError, request_id: str | None = None) -> dict[str, Any]:
        return error_body(error, request_id, self)


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
THREAD: Mapping[str, Any] = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
"""Anthropic's SDKs send `thread` at first, and continue without it after this error."""


def error_body(
    error: ToolgateError, request_id: str | None = None, writer: MessagesWriter | None = None
) -> dict[str, Any]:
    """`writer`: of the request that failed, if it was read."""
    error_object = error.body()["error"]
    shown = {
        **error_object,
        "type": TYPES.get(error.status, "api_error"),
        "message": shortened(_message(error, writer), MAX_MESSAGE),
    }
    if error.param is not None:
        shown["param"] = shortened(_in_own_words(error.param, writer), MAX_PARAM)
    if error.param == "thread":
        shown["details"] = THREAD
    return {"type": "error", "error": shown, "request_id": request_id}


def _message(error: ToolgateError, writer: MessagesWriter | None) -> str:
    if isinstance(error, ContextLengthExceeded):
        return _context_message(error, None if writer is None else writer.request)
    return _in_own_words(error.message, writer)


def _in_own_words(text: str, writer: MessagesWriter | None) -> str:
    if writer is None:
        return text  # the error of the parser, which names the parameters of this API
    text, paths = NAME.sub(lambda match: NAMES[match[0]], text), writer.request.message_paths
    if text == CONTINUED and paths:
        return paths[-1]
    text = text.replace(f"Remove {CONTINUED}", "Remove the last message")
    text = text.replace(REQUIRED, 'tool_choice "any"')
    return MESSAGE.sub(lambda match: _path(match, paths, writer.part_paths), text)


def _path(match: re.Match[str], paths: Sequence[str], parts: Sequence[Sequence[str]]) -> str:
    at, part = int(match["message"]), match["part"]
    if at >= len(paths):
        return match[0]
    if part is None:
        return paths[at]
    path = parts[at][int(part)] if int(part) < len(parts[at]) else paths[at]
    return f"{path}.source" if match["image"] else path


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

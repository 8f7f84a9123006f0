"""Streamed and complete responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolgate_core.deltas import Finish

from ....chat.response import ChatResponse, ResponseEvent, TokenCounts
from ...shared.output import prompt_fields, typed_events
from ...surface import ANY_CLIENT, Client, Stateless
from ..feature import Event
from .collector import Content


class Body:
    """The message objects of one response. `model` is the name that the client sent."""

    def __init__(self, response: ChatResponse, model: str) -> None:
        self._response = response
        self._model = model

    def at_start(self) -> dict[str, Any]:
        """Before the first block."""
        return self._made([], {"stop_reason": None, "stop_sequence": None})

    def whole(self, content: Content) -> dict[str, Any]:
        body = self._made(content.blocks(), stop(content))
        usage = {**body["usage"], **self._iterations(content), **content.usage()}
        return {**body, "usage": usage, **content.members(), **self._additions(content)}

    def delta(self, content: Content) -> dict[str, Any]:
        """The last event but one of a stream."""
        return {
            "type": "message_delta",
            "delta": {"container": None, "stop_details": None, **stop(content)},
            "usage": self._iterations(content) | content.usage(),
            **content.members(),
            **self._additions(content),
        }

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
                "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
                "service_tier": "standard",
            },
        }

    def _iterations(self, content: Content) -> dict[str, Any]:
        response, answered = self._response, content.stop_reason is None
        return with_iterations(response.counts, response.earlier, answered=answered)

    def _additions(self, content: Content) -> dict[str, Any]:
        """Fields beyond Anthropic's, as in chat completions."""
        response, finish = self._response, content.finish or Finish("stop")
        fields: dict[str, Any] = {}
        own: dict[str, Any] = {}
        if finish.call is not None:
            own["last_call"] = finish.call
        if isinstance(finish.stop_reason, int):
            own["stop_token"] = finish.stop_reason
        if own:
            fields["toolgate"] = own
        if response.request.return_token_ids:
            fields["token_ids"] = content.token_ids
        return fields | prompt_fields(response)


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


class MessageStream(Stateless):
    """The server-sent events of one message. Each has its type in `event:` and in its data."""

    def __init__(self, response: ChatResponse, model: str, client: Client = ANY_CLIENT) -> None:
        self._body = Body(response, model)
        self._content = Content(response)
        self._begun = False

    def events(self, events: Iterable[ResponseEvent]) -> bytes:
        made: list[Event] = []
        if not self._begun:
            self._begun = True
            made.append({"type": "message_start", "message": self._body.at_start()})
        return typed_events([*made, *self._content.add(events)])

    def end(self) -> bytes:
        return typed_events([self._body.delta(self._content), {"type": "message_stop"}])

    def failed(self, error: Mapping[str, Any]) -> bytes:
        return typed_events([{"type": "error", "error": error}])


class WholeMessage(Stateless):
    """A message object."""

    def __init__(self, response: ChatResponse, model: str, client: Client = ANY_CLIENT) -> None:
        self._body = Body(response, model)
        self._content = Content(response)

    def add(self, events: Iterable[ResponseEvent]) -> None:
        for _ in self._content.add(events):
            pass

    def body(self) -> dict[str, Any]:
        return self._body.whole(self._content)


def usage_of(counts: TokenCounts) -> dict[str, Any]:
    """Anthropic's `input_tokens` are those that were not read from the cache."""
    return {
        **_tokens(counts),
        "output_tokens_details": {"thinking_tokens": counts.reasoning},
    }


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
    created = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
    return {**_tokens(counts), "cache_creation": created}


def _tokens(counts: TokenCounts) -> dict[str, Any]:
    return {
        "input_tokens": counts.prompt - counts.cached,
        "cache_creation_input_tokens": 0,  # nothing is billed for writing to the cache
        "cache_read_input_tokens": counts.cached,
        "output_tokens": counts.completion,
    }

"""Messages requests, and checks of events and messages by Anthropic's own models."""

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from anthropic.types.shared import ErrorResponse
from pydantic import TypeAdapter

from toolgate_proxy.api.surface import Client
from toolgate_proxy.sealing import OwnerSeal, Sealer

Event = dict[str, Any]
LOOK = {"name": "look", "input_schema": {"type": "object"}}
SEAL = OwnerSeal(Sealer(b"secret"), "team a")
CLIENT = Client(seal=SEAL)
HI = [{"role": "user", "content": "hi"}]


@lru_cache
def _event_model(beta: bool) -> TypeAdapter[Any]:
    return TypeAdapter(BetaRawMessageStreamEvent if beta else RawMessageStreamEvent)


def check_message(body: dict[str, Any], *, beta: bool = False) -> None:
    """`beta`: with what only the beta API has, such as calls that the server runs."""
    model = BetaMessage if beta else Message
    model.model_validate_json(json.dumps(body), strict=True)


def check_error(body: dict[str, Any]) -> None:
    """`request_too_large` is in Anthropic's documentation, but not in its SDK."""
    if body["error"]["type"] == "request_too_large":
        body = {**body, "error": {**body["error"], "type": "invalid_request_error"}}
    assert ErrorResponse.model_validate_json(json.dumps(body), strict=True).error.message


def check_event(event: Event, *, beta: bool = False) -> None:
    _event_model(beta).validate_json(json.dumps(event), strict=True)


FILLED = {"text": "text", "thinking": "thinking", "tool_use": "input"}
"""By type of a block: the member that its deltas fill."""
CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")


class BlockGrammar:
    """The order of events that Anthropic documents, and the message that they add up to.

    A block without `content_block_stop` is only allowed at the end of a message that the maximum
    number of tokens cut; it is no part of the message."""

    def __init__(self, *, beta: bool = False) -> None:
        self._beta = beta
        self.message: dict[str, Any] = {}
        self._open: dict[str, Any] | None = None
        self._input = ""
        self._state = "new"
        self._seen = 0
        """Number of blocks that began."""

    def add(self, event: Event) -> None:
        if event["type"] == "ping":
            return
        check_event(event, beta=self._beta)
        getattr(self, f"_{event['type']}")(event)

    @property
    def ended(self) -> bool:
        return self._state == "stopped"

    def _message_start(self, event: Event) -> None:
        assert self._state == "new"
        self.message = json.loads(json.dumps(event["message"]))
        assert self.message["content"] == []
        assert self.message["stop_reason"] is None
        self._state = "blocks"

    def _content_block_start(self, event: Event) -> None:
        assert (self._state, self._open) == ("blocks", None), "blocks do not overlap"
        assert event["index"] == self._seen, "indices are contiguous"
        self._seen += 1
        self._open, self._input = json.loads(json.dumps(event["content_block"])), ""
        assert not self._open.get(FILLED.get(self._open["type"], ""))

    def _content_block_delta(self, event: Event) -> None:
        assert self._open is not None
        assert event["index"] == self._seen - 1
        block, delta = self._open, event["delta"]
        match delta["type"]:
            case "text_delta":
                assert block["type"] == "text"
                assert delta["text"]
                block["text"] += delta["text"]
            case "thinking_delta":
                assert block["type"] == "thinking"
                assert not block["signature"], "the signature is last"
                block["thinking"] += delta["thinking"]
            case "signature_delta":
                assert block["type"] == "thinking"
                assert not block["signature"]
                block["signature"] = delta["signature"]
            case "input_json_delta":
                assert block["type"] in CALLS
                self._input += delta["partial_json"]
            case "compaction_delta":
                assert block["type"] == "compaction"
                self._open = block | {name: delta[name] for name in delta if name != "type"}
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
            case other:
                raise AssertionError(other)

    def _content_block_stop(self, event: Event) -> None:
        assert self._open is not None
        assert event["index"] == self._seen - 1
        if self._open["type"] == "tool_use" or self._input:
            self._open["input"] = json.loads(self._input)
        if self._open["type"] == "thinking":
            assert self._open["signature"]
        self.message["content"].append(self._open)
        self._open = None

    def _message_delta(self, event: Event) -> None:
        assert self._state == "blocks"
        reason = event["delta"]["stop_reason"]
        if self._open is not None:
            assert (self._open["type"], reason) == ("tool_use", "max_tokens")
        assert (reason == "stop_sequence") == (event["delta"]["stop_sequence"] is not None)
        extra = {key: event[key] for key in event if key not in ("type", "delta", "usage")}
        self.message |= event["delta"] | extra
        self.message["usage"] |= event["usage"]
        self._state = "ended"

    def _message_stop(self, event: Event) -> None:
        assert self._state == "ended"
        self._state = "stopped"


def accumulated(made: Iterable[Event], *, beta: bool = False) -> dict[str, Any]:
    """The message that the events of a stream add up to. Asserts Anthropic's rules on the way."""
    grammar = BlockGrammar(beta=beta)
    for event in made:
        grammar.add(event)
    assert grammar.ended
    check_message(grammar.message, beta=beta)
    return grammar.message

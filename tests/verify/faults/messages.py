"""Faults of checks of the Messages API."""

from __future__ import annotations

from typing import Any

from tests.verify.reference_server.reply import Reply

from . import changes as c
from .fault import Fault


def _blocks(kind: str, change: Any) -> Fault:
    def apply(made: Any) -> None:
        for block in made["content"]:
            if block["type"] == kind:
                change(block)

    return c.body(apply)


def _start(change: Any) -> Fault:
    return c.each_event(lambda event: change(event["message"]), "message_start")


def _block_start(change: Any) -> Fault:
    return c.each_event(lambda event: change(event["content_block"]), "content_block_start")


def _delta(change: Any) -> Fault:
    return c.each_event(change, "message_delta")


def _overlap(sent: c.Events) -> c.Events:
    """The second block begins before the first one ends."""
    stop = next(at for at, (name, _) in enumerate(sent) if name == "content_block_stop")
    return [*sent[:stop], sent[stop + 1], sent[stop], *sent[stop + 2 :]]


def _block_last(sent: c.Events) -> c.Events:
    """`message_delta` comes before the last block ends."""
    return [*sent[:-3], sent[-2], sent[-3], sent[-1]]


def _other_indices(event: Any) -> None:
    if "index" in event:
        event["index"] += 1


def _twice(sent: c.Events) -> c.Events:
    return [sent[0], *sent]


def _other_sequence(made: Reply) -> None:
    if made.stop is not None:
        made.stop = "another"


def _text_delta(event: Any) -> None:
    if event["delta"]["type"] == "input_json_delta":
        event["delta"] = {"type": "text_delta", "text": event["delta"]["partial_json"]}


def _joined(text: str) -> str:
    return text[:-1]


def _no_signature(sent: c.Events) -> c.Events:
    return [
        (name, data)
        for name, data in sent
        if data.get("delta", {}).get("type") != "signature_delta"
    ]


MESSAGES: dict[str, Fault] = {
    "body.object": c.body(lambda made: made.update(type="completion")),
    "body.stop_reason": c.body(lambda made: made.update(stop_reason="length")),
    "body.stop_sequence_null": c.body(lambda made: made.update(stop_sequence="x")),
    "body.tool_use": _blocks("tool_use", lambda block: block.update(input='{"room": "hall"}')),
    "body.text_blocks": c.body(
        lambda made: made["content"].insert(0, {"type": "text", "text": ""})
    ),
    "reasoning.signature": _blocks("thinking", lambda block: block.update(signature="")),
    "reasoning.first": c.body(lambda made: made["content"].reverse()),
    "stop.sequence": c.reply(_other_sequence),
    "prefill.accepted": c.text_before("The city is"),
    "events.names": c.events(lambda sent: [("", data) for _, data in sent]),
    "events.begin": c.events(_twice),
    "events.begin_empty": _start(lambda message: message.update(stop_reason="end_turn")),
    "events.begin_usage": _start(
        lambda message: message.update(usage={"input_tokens": 0, "output_tokens": 0})
    ),
    "events.end": c.events(_block_last),
    "events.stop_reason": _delta(lambda event: event["delta"].update(stop_reason=None)),
    "events.usage": _delta(lambda event: event.pop("usage")),
    "events.indices": c.each_event(_other_indices),
    "events.no_overlap": c.events(_overlap),
    "events.blocks_end": c.without("content_block_stop"),
    "events.empty_at_first": _block_start(lambda block: block.update(input={"room": "hall"})),
    "events.delta_types": c.each_event(_text_delta, "content_block_delta"),
    "events.tool_use_head": _block_start(lambda block: block.update(id="")),
    "events.input_joined": c.stream_fragments(_joined),
    "events.cut_reason": _delta(lambda event: event["delta"].update(stop_reason="tool_use")),
    "events.signature": c.events(_no_signature),
}

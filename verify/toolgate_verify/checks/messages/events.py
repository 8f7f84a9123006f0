"""The event grammar of the Messages API."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ...check import rule
from ...reading.sse import events
from ...scenario import Evidence, brief
from ...terms import Failed, Severity, Skipped, require
from ..calls import CALL, SEVERAL
from ..cut_calls import CUT, of_cut
from ..reasoning import REASONING
from ..text import TEXT
from .body import MESSAGES

EMPTY: dict[str, tuple[str, Any]] = {
    "text": ("text", ""),
    "thinking": ("thinking", ""),
    "tool_use": ("input", {}),
}
DELTAS = {
    "text": {"text_delta", "citations_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
    "tool_use": {"input_json_delta"},
}


def sent(evidence: Evidence) -> list[dict[str, Any]]:
    events = evidence.events()
    require(events, "the stream has no events")
    return events


def of(evidence: Evidence, kind: str) -> list[dict[str, Any]]:
    return [each for each in sent(evidence) if each.get("type") == kind]


def _rule(name: str, title: str, requirement: str, **more: Any) -> Callable[[Any], Any]:
    options = {"topic": "stream", "scenario": TEXT, "apis": MESSAGES, **more}
    return rule(f"events.{name}", title, requirement, **options)


@_rule("names", "`event:` is the type of the event", "The name of an event is its `type`.")
def _names(evidence: Evidence) -> None:
    for event in events(evidence.ok(1).text):
        kind = event.data.get("type") if isinstance(event.data, dict) else None
        require(event.name == kind, f"`event: {event.name}` with the type {kind!r}")


@_rule(
    "begin",
    "The stream begins with `message_start`, once",
    "The first event is `message_start`, with an empty message.",
)
def _begin(evidence: Evidence) -> None:
    events = sent(evidence)
    require(events[0].get("type") == "message_start", f"it begins with {events[0].get('type')!r}")
    require(len(of(evidence, "message_start")) == 1, "`message_start` comes more than once")


@_rule(
    "begin_empty",
    "`message_start` has an empty message",
    "The first message has no content and no stop reason yet.",
)
def _begin_empty(evidence: Evidence) -> None:
    message = sent(evidence)[0].get("message") or {}
    require(message.get("content") == [], f"`content` is {message.get('content')!r}")
    require(message.get("stop_reason") is None, f"`stop_reason` is {message.get('stop_reason')!r}")


@_rule(
    "begin_usage",
    "`message_start` has the input tokens",
    "The usage of the first message has the input tokens.",
)
def _begin_usage(evidence: Evidence) -> None:
    usage = (sent(evidence)[0].get("message") or {}).get("usage") or {}
    tokens = (usage.get("input_tokens") or 0) + (usage.get("cache_read_input_tokens") or 0)
    require(tokens > 0, f"the usage is {usage}")


@_rule(
    "end",
    "The stream ends with `message_delta` and `message_stop`",
    "After the blocks come `message_delta` and, last, `message_stop`.",
    severity=Severity.CRITICAL,
)
def _end(evidence: Evidence) -> None:
    types = [event.get("type") for event in sent(evidence)]
    require(types[-1] == "message_stop", f"the last event is {types[-1]!r}")
    require(types.count("message_stop") == 1, "`message_stop` comes more than once")
    require("message_delta" in types, "there is no `message_delta`")
    late = types[types.index("message_delta") :]
    require(not any(str(kind).startswith("content_block") for kind in late), "a block comes late")


@_rule(
    "stop_reason",
    "`message_delta` has the stop reason",
    "The stop reason comes with `message_delta`.",
)
def _reason(evidence: Evidence) -> None:
    reasons = [
        (event.get("delta") or {}).get("stop_reason") for event in of(evidence, "message_delta")
    ]
    require(reasons and reasons[-1], f"the stop reasons are {reasons}")


@_rule(
    "usage",
    "`message_delta` has the output tokens",
    "The usage of `message_delta` has the cumulative output tokens.",
)
def _usage(evidence: Evidence) -> None:
    tokens = [
        (event.get("usage") or {}).get("output_tokens") for event in of(evidence, "message_delta")
    ]
    require(tokens and isinstance(tokens[-1], int), f"the output tokens are {tokens}")


@_rule(
    "indices",
    "Blocks are numbered from 0, as in the content",
    "The index of a block is its place in the message's content.",
    scenario=SEVERAL,
)
def _indices(evidence: Evidence) -> None:
    indices = [event.get("index") for event in of(evidence, "content_block_start")]
    require(indices, "the stream has no blocks")
    require(indices == list(range(len(indices))), f"blocks with the indices {indices}")


@_rule(
    "no_overlap",
    "A block ends before the next one begins",
    "Each block has a start, deltas and a stop; blocks do not overlap.",
    scenario=SEVERAL,
    severity=Severity.CRITICAL,
)
def _overlap(evidence: Evidence) -> None:
    open_block: Any = None
    for event in sent(evidence):
        kind, index = event.get("type"), event.get("index")
        if kind == "content_block_start":
            require(open_block is None, f"block {index} begins before {open_block} ends")
            open_block = index
        elif kind in ("content_block_delta", "content_block_stop"):
            require(index == open_block, f"{kind} of block {index}, open is {open_block}")
            open_block = open_block if kind == "content_block_delta" else None


@_rule(
    "blocks_end",
    "Each block has a stop",
    "Each block ends with `content_block_stop`.",
)
def _blocks_end(evidence: Evidence) -> None:
    starts, stops = of(evidence, "content_block_start"), of(evidence, "content_block_stop")
    require(len(starts) == len(stops), f"{len(starts)} blocks begin, {len(stops)} end")


@_rule(
    "empty_at_first",
    "Blocks begin empty",
    "The block of `content_block_start` has no content yet: an empty text, an empty input.",
    scenario=CALL,
)
def _empty(evidence: Evidence) -> None:
    for event in of(evidence, "content_block_start"):
        block = event.get("content_block") or {}
        name, empty = EMPTY.get(str(block.get("type")), ("type", block.get("type")))
        require(block.get(name) == empty, f"`{name}` is {brief(str(block.get(name)))}")


@_rule(
    "delta_types",
    "Deltas fit their block",
    "Text has text deltas, a call has `input_json_delta`, thinking has thinking deltas.",
    scenario=CALL,
)
def _delta_types(evidence: Evidence) -> None:
    kinds: dict[Any, Any] = {}
    for event in sent(evidence):
        if event.get("type") == "content_block_start":
            kinds[event.get("index")] = (event.get("content_block") or {}).get("type")
        elif event.get("type") == "content_block_delta":
            block, delta = kinds.get(event.get("index")), (event.get("delta") or {}).get("type")
            require(delta in DELTAS.get(str(block), {delta}), f"{delta} in a block of {block}")


@_rule(
    "tool_use_head",
    "A call begins with its name and ID",
    "`content_block_start` of a call has its name and ID.",
    scenario=CALL,
    severity=Severity.CRITICAL,
)
def _head(evidence: Evidence) -> None:
    blocks = [event.get("content_block") or {} for event in of(evidence, "content_block_start")]
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    if not calls:
        raise Skipped("the stream has no call")
    require(all(call.get("id") and call.get("name") for call in calls), "a call has no ID or name")


@_rule(
    "input_joined",
    "The parts of an input are JSON when joined",
    "The `partial_json` of a block that ended are together a JSON object.",
    scenario=CALL,
    severity=Severity.CRITICAL,
)
def _joined(evidence: Evidence) -> None:
    parts: dict[Any, str] = {}
    for event in of(evidence, "content_block_delta"):
        delta = event.get("delta") or {}
        if delta.get("type") == "input_json_delta":
            parts[event.get("index")] = parts.get(event.get("index"), "") + str(
                delta.get("partial_json")
            )
    ended = {event.get("index") for event in of(evidence, "content_block_stop")}
    if not parts.keys() & ended:
        raise Skipped("the stream has no complete call")
    for index in parts.keys() & ended:
        try:
            value = json.loads(parts[index] or "{}")
        except ValueError as error:
            raise Failed(f"not JSON ({error}): {brief(parts[index])}") from error
        require(isinstance(value, dict), f"not an object: {brief(parts[index])}")


@_rule(
    "cut_reason",
    "A message that is cut inside a call ends with `max_tokens`",
    "A message that the limit cuts has the stop reason `max_tokens`, also inside a call.",
    scenario=CUT,
    severity=Severity.CRITICAL,
)
@of_cut
def _cut(evidence: Evidence) -> None:
    usage = evidence.streamed.usage
    if usage is None or usage.completion < evidence.ask.max_tokens:
        raise Skipped("the answer did not reach the token limit")
    reasons = [
        (event.get("delta") or {}).get("stop_reason") for event in of(evidence, "message_delta")
    ]
    require(reasons[-1:] == ["max_tokens"], f"the stop reasons are {reasons}")


@_rule(
    "signature",
    "A stream of thinking has a signature at its end",
    "A block of thinking ends with a `signature_delta`.",
    scenario=REASONING,
)
def _signature(evidence: Evidence) -> None:
    if not evidence.streamed.reasoning:
        raise Skipped("the stream has no thinking")
    deltas = [
        event["delta"].get("type")
        for event in of(evidence, "content_block_delta")
        if event["delta"].get("type") in DELTAS["thinking"]
    ]
    require(deltas[-1] == "signature_delta", f"the last delta of thinking is {deltas[-1]!r}")

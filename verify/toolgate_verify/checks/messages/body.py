"""The message object of the Messages API."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ...asking.ask import Ask, User
from ...check import rule
from ...scenario import Evidence
from ...terms import Api, Severity, Skipped, Suite, require
from ..calls import CALL
from ..common import longer_prompt, paired
from ..histories import BASE, LONG_TEXT, against_base
from ..reasoning import REASONING
from ..stops import STOPS, STREAMED, WHOLE
from ..text import TEXT

MESSAGES = (Api.MESSAGES,)
REASONS = {"end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal"}


_rule = partial(rule, apis=MESSAGES)


@_rule(
    "body.object",
    "`type` is `message` and `role` is `assistant`",
    "A message has `type: message`, `role: assistant` and an array of blocks.",
    topic="body",
    scenario=TEXT,
)
def _object(evidence: Evidence) -> None:
    body = evidence.body()
    require(body.get("type") == "message", f"`type` is {body.get('type')!r}")
    require(body.get("role") == "assistant", f"`role` is {body.get('role')!r}")
    require(isinstance(body.get("content"), list), "`content` is no array")


@_rule(
    "body.stop_reason",
    "`stop_reason` has a specified value",
    "The stop reason is never null in a whole message.",
    topic="finish",
    scenario=TEXT,
)
def _reason(evidence: Evidence) -> None:
    reason = evidence.body().get("stop_reason")
    require(reason in REASONS, f"`stop_reason` is {reason!r}")


@_rule(
    "body.stop_sequence_null",
    "`stop_sequence` is null without one",
    "`stop_sequence` is always present, and null unless a stop sequence ended the message.",
    topic="body",
    scenario=TEXT,
    severity=Severity.MINOR,
)
def _no_sequence(evidence: Evidence) -> None:
    body = evidence.body()
    require("stop_sequence" in body, "`stop_sequence` is missing")
    require(body["stop_sequence"] is None, f"`stop_sequence` is {body['stop_sequence']!r}")


@_rule(
    "stop.sequence",
    "`stop_sequence` is the sequence that came",
    "`stop_sequence` has the sequence that ended the message.",
    topic="stop",
    scenario=STOPS,
)
def _sequence(evidence: Evidence) -> None:
    if evidence.answer(WHOLE).finish != "stop_sequence":
        raise Skipped("no stop sequence ended the message")
    sent = evidence.at(WHOLE).request.body or {}
    wanted = sent["stop_sequences"][0]
    sequence = evidence.body(WHOLE).get("stop_sequence")
    require(sequence == wanted, f"`stop_sequence` is {sequence!r} instead of {wanted!r}")
    evidence.answer(STREAMED)
    text = evidence.at(STREAMED).text
    require('"stop_sequence":' in text.replace(" ", ""), "the stream has no `stop_sequence`")


@_rule(
    "body.tool_use",
    "A call is a block with `id`, `name` and an object `input`",
    "The input of a call is a JSON object, not a text.",
    topic="calls",
    scenario=CALL,
    severity=Severity.CRITICAL,
)
def _tool_use(evidence: Evidence) -> None:
    blocks = [block for block in evidence.body()["content"] if block.get("type") == "tool_use"]
    if not blocks:
        raise Skipped("the message has no call")
    for block in blocks:
        require(isinstance(block.get("input"), dict), f"`input` is {block.get('input')!r}")
        require(block.get("id") and block.get("name"), "a block has no `id` or `name`")


@_rule(
    "body.text_blocks",
    "No block of text is empty",
    "Blocks of text have text; the API refuses empty ones when they are sent back.",
    topic="body",
    scenario=CALL,
)
def _no_empty(evidence: Evidence) -> None:
    blocks = [block for block in evidence.body()["content"] if block.get("type") == "text"]
    require(all(block.get("text") for block in blocks), "a block of text is empty")


@_rule(
    "reasoning.signature",
    "Thinking blocks have a signature",
    "A block of thinking has a signature, with which it is sent back.",
    topic="reasoning",
    scenario=REASONING,
)
def _signature(evidence: Evidence) -> None:
    blocks = [block for block in evidence.body()["content"] if block.get("type") == "thinking"]
    if not blocks:
        raise Skipped("the message has no thinking")
    require(all(block.get("signature") for block in blocks), "a thinking block has no signature")


@_rule(
    "reasoning.first",
    "Thinking blocks come first",
    "Blocks of thinking come before text and calls.",
    topic="reasoning",
    scenario=REASONING,
)
def _first(evidence: Evidence) -> None:
    kinds = [block.get("type") for block in evidence.body()["content"]]
    if "thinking" not in kinds:
        raise Skipped("the message has no thinking")
    require(kinds[0] == "thinking", f"the blocks are {kinds}")


_SYSTEM = [{"type": "text", "text": LONG_TEXT, "cache_control": {"type": "ephemeral"}}]
_rule(
    "prompt.system_blocks",
    "`system` as blocks reaches the prompt",
    "`system` is a text or an array of blocks, which may have `cache_control`.",
    topic="request",
    scenario=against_base("prompt.system_blocks", replace(BASE, extra={"system": _SYSTEM})),
    suite=Suite.FULL,
)(longer_prompt)

PREFILL = paired(
    "prefill",
    Ask(
        (User("Name a city."),),
        max_tokens=8,
        extra={
            "messages": [
                {"role": "user", "content": "Name a city."},
                {"role": "assistant", "content": "The city is"},
            ]
        },
    ),
)


@_rule(
    "prefill.accepted",
    "A last message of the assistant is continued",
    "If the last message is the assistant's, the response continues it and does not repeat it.",
    topic="request",
    scenario=PREFILL,
    suite=Suite.FULL,
    severity=Severity.MINOR,
)
def _prefill(evidence: Evidence) -> None:
    for index in range(2):
        text = evidence.answer(index).text
        require(not text.startswith("The city is"), "the response repeats the message")

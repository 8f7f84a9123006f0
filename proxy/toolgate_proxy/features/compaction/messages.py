"""Compaction and context edits in the Messages API: their parameters, and the blocks that
compaction leaves in messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from toolgate_core.chat_request import Shortening
from toolgate_core.context_edits import Compaction
from toolgate_core.errors import InvalidRequest

from ...api.messages.blocks import block_delta, block_start, block_stop
from ...api.messages.content import check_fields
from ...api.messages.feature import Block, Event, MessagesFeature, Output
from ...api.shared.history import Turns
from ...api.shared.value_types import Choice, Flag, Integer, Object, Text
from ...request_fields import Fields
from .compacted import PAUSED, Compacted, opened, sealed
from .edits import COMPACT, read_edits, shown_edits
from .respond import respond

TOKENS = Object(
    {"type": Choice(("input_tokens",)), "value": Integer(1)}, required=("type", "value")
)
MEMBERS = Object(
    {"type": Text(), "trigger": TOKENS, "pause_after_compaction": Flag(), "instructions": Text()}
)
DEFAULT_TRIGGER = 150_000
BLOCK = "compaction"
CONTEXT = "context_management"
BLOCK_FIELDS = (
    "type",
    "content",
    "encrypted_content",
    "signature",
    "tool_changes",
    "cache_control",
)


class _Output(Output):
    feature: CompactionInMessages

    def block(self, event: object, index: int) -> Block | None:
        if not isinstance(event, Compacted):
            return None
        return CompactionBlock(index, event.summary, sealed(event, self.feature.asked.client.seal))

    def stop_reason(self, reason: str) -> str | None:
        return "compaction" if reason == PAUSED else None

    def members(self) -> Mapping[str, Any]:
        edits = shown_edits(self.response.request.shortening.applied)
        return {CONTEXT: edits} if CONTEXT in self.feature.asked.values else {}


class CompactionInMessages(MessagesFeature):
    ITEMS = (BLOCK,)
    OUTPUT = _Output
    PARAMETERS = (CONTEXT, "compaction")
    _block: object = None
    """The last block with a summary. The messages before it are no part of the conversation."""
    _made: Compacted | None = None
    """The conversation before it."""
    _is_foreign = False
    """Whether another service or key has made the block, of which only the text is known."""

    def begin(self, messages: Sequence[object]) -> int:
        for at in reversed(range(len(messages))):
            for block in reversed(_blocks(messages[at])):
                if not isinstance(block, dict) or block.get("type") != BLOCK:
                    continue
                made = opened(block.get("encrypted_content"), self.asked.client.seal)
                self._is_foreign, content = made is None, block.get("content")
                if made is None and isinstance(content, str) and content:
                    made = Compacted(content)
                if made is None:
                    continue
                if made.pauses and _role(messages, at + 1) == "user":
                    made = replace(made, recent=())  # the client decides what stays
                self._block, self._made = block, made
                return at
        return 0

    def again(self, block: Fields, kind: str, turns: Turns) -> bool:
        check_fields(block, BLOCK_FIELDS)
        if self._made is None or block.values is not self._block:
            if block.values.get("encrypted_content") is not None:
                turns.history.note("left_out", block.place)
            return True
        if self._is_foreign:
            turns.history.note("as_text", block.place)
        turns.compacted(self._made.remaining, self._made.messages(), block.place)
        return True

    def fields(self) -> Mapping[str, Any]:
        values = self.asked.values
        edits, compaction = read_edits(values.get(CONTEXT, {}).get("edits", ()), read_compaction)
        rule = demanded(values, compaction)
        return {
            "shortening": Shortening(edits=edits),
            "responds": None if rule is None else partial(respond, rule),
        }


@dataclass(frozen=True)
class CompactionBlock:
    """The block before which, or for which, the conversation was compacted."""

    index: int
    summary: str
    sealed: str
    """The compacted conversation."""

    def begin(self) -> Iterator[Event]:
        """All of the text is in one event."""
        empty = {"type": BLOCK, "content": None, "encrypted_content": None}
        yield block_start(self.index, empty)
        yield block_delta(self.index, {**self.body(), "type": "compaction_delta"})

    def end(self) -> Iterator[Event]:
        yield block_stop(self.index)

    def body(self) -> dict[str, Any]:
        return {"type": BLOCK, "content": self.summary, "encrypted_content": self.sealed}


def read_compaction(edit: Mapping[str, Any], path: str) -> Compaction:
    """Return the compaction that an edit asks for. Raise InvalidRequest."""
    values = MEMBERS.parse(edit, path)
    return Compaction(
        values.get("trigger", {}).get("value", DEFAULT_TRIGGER),
        pauses=values.get("pause_after_compaction", False),
        instructions=values.get("instructions", ""),
    )


def demanded(values: Mapping[str, Any], edit: Compaction | None) -> Compaction | None:
    """Return the compaction of a request. `edit`: as one of its edits asks for it. Raise
    InvalidRequest."""
    given = values.get("compaction")
    if given is None:
        return edit
    if edit is not None:
        raise InvalidRequest(
            f"'compaction' can't be combined with a {COMPACT}… edit. Remove one of them.",
            param="compaction",
        )
    return Compaction(pauses=True, instructions=given.get("instructions", ""))


def _blocks(message: object) -> Sequence[object]:
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return ()
    content = message.get("content")
    return content if isinstance(content, list) else ()


def _role(messages: Sequence[object], at: int) -> object:
    message = messages[at] if at < len(messages) else None
    return message.get("role") if isinstance(message, dict) else None

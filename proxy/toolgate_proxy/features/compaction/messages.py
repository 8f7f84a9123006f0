"""Compaction and context edits in the Messages API: their parameters, and the blocks that
compaction leaves in messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolgate_core.errors import InvalidRequest

from ...api.messages.content import check_fields
from ...api.messages.feature import Block, Event, MessagesFeature, MessagesOutput
from ...api.shared.history import Turns
from ...api.shared.value_types import Anything, Choice, Flag, Integer, Object, Text, Texts
from ...request_fields import Fields
from .compacted import PAUSED, Summary, opened, sealed
from .edits import AppliedEdit, ClearThinking, ClearToolUses, ContextEdit
from .respond import Compaction, Shortening

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


class MessagesCompactionOutput(MessagesOutput):
    feature: CompactionInMessages

    def block(self, event: object, index: int) -> Block | None:
        if not isinstance(event, Summary):
            return None
        return CompactionBlock(index, event.summary, sealed(event, self.feature.input.client.seal))

    def stop_reason(self, reason: str) -> str | None:
        return "compaction" if reason == PAUSED else None

    def members(self) -> Mapping[str, Any]:
        if CONTEXT not in self.feature.input.values:
            return {}
        applied = map(_shown, self.feature.shortening.applied)
        return {CONTEXT: {"applied_edits": list(applied)}}


class CompactionInMessages(MessagesFeature):
    ITEMS = (BLOCK,)
    OUTPUT = MessagesCompactionOutput
    PARAMETERS = (CONTEXT, "compaction")
    shortening = Shortening()
    """As the parameters ask for it."""
    _block: object = None
    """The last block with a summary. The messages before it are no part of the conversation."""
    _summary: Summary | None = None
    """The conversation before it."""
    _is_foreign = False
    """Whether another service or key has made the block, of which only the text is known."""

    def begin(self, messages: Sequence[object]) -> int:
        for at in reversed(range(len(messages))):
            for block in reversed(_blocks(messages[at])):
                if not isinstance(block, dict) or block.get("type") != BLOCK:
                    continue
                summary = opened(block.get("encrypted_content"), self.input.client.seal)
                self._is_foreign, content = summary is None, block.get("content")
                if summary is None and isinstance(content, str) and content:
                    summary = Summary(content)
                if summary is None:
                    continue
                if summary.pauses and _role(messages, at + 1) == "user":
                    summary = replace(summary, recent=())  # the client decides what stays
                self._block, self._summary = block, summary
                return at
        return 0

    def read_back(self, block: Fields, kind: str, turns: Turns) -> bool:
        check_fields(block, BLOCK_FIELDS)
        if self._summary is None or block.values is not self._block:
            if block.values.get("encrypted_content") is not None:
                turns.history.note("left_out", block.place)
            return True
        if self._is_foreign:
            turns.history.note("as_text", block.place)
        turns.compacted(self._summary.remaining, self._summary.messages(), block.place)
        return True

    def fields(self) -> Mapping[str, Any]:
        edits, rule = read_edits(self.input.values)
        self.shortening = Shortening(rule, edits)
        return {"shortener": self.shortening if edits or rule else None}


@dataclass
class CompactionBlock(Block):
    """The block before which, or for which, the conversation was compacted."""

    summary: str
    sealed: str
    """The compacted conversation."""

    def begin(self) -> Iterator[Event]:
        """All of the text is in one event."""
        empty = {"type": BLOCK, "content": None, "encrypted_content": None}
        yield self.start(empty)
        yield self.delta("compaction_delta", **self._content())

    def body(self) -> dict[str, Any]:
        return {"type": BLOCK, **self._content()}

    def _content(self) -> dict[str, Any]:
        return {"content": self.summary, "encrypted_content": self.sealed}


def _blocks(message: object) -> Sequence[object]:
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return ()
    content = message.get("content")
    return content if isinstance(content, list) else ()


def _role(messages: Sequence[object], at: int) -> object:
    message = messages[at] if at < len(messages) else None
    return message.get("role") if isinstance(message, dict) else None


COMPACT = "compact_"
"""Beginning of the type of the edit that asks for compaction."""
DEFAULT_TRIGGER = 150_000
NAMES = Texts(maximum=1_000)


def _amount(*units: str, least: int = 0) -> Object:
    return Object({"type": Choice(units), "value": Integer(least)}, required=("type", "value"))


TURNS = _amount("thinking_turns")
ALL_TURNS: Sequence[object] = ("all", {"type": "all"})
THINKING = Object(
    {"type": Text(), "keep": Anything('"all", or an object with the type "thinking_turns"')}
)
TOOL_USES = Object(
    {
        "type": Text(),
        "trigger": _amount("input_tokens", "tool_uses"),
        "keep": _amount("tool_uses"),
        "clear_at_least": _amount("input_tokens"),
        "exclude_tools": NAMES,
        "clear_tool_inputs": Anything("true, false or an array of names of tools"),
    }
)
SUMMARY = Object(
    {
        "type": Text(),
        "trigger": _amount("input_tokens", least=1),
        "pause_after_compaction": Flag(),
        "instructions": Text(),
    }
)


def read_edits(values: Mapping[str, Any]) -> tuple[tuple[ContextEdit, ...], Compaction | None]:
    """Return the edits that shorten the conversation where the tokens of a prompt can be counted
    (edits.py), and the compaction, which is done after them. Raise InvalidRequest and
    UnsupportedParameter."""
    path, sent_edits = f"{CONTEXT}.edits", values.get(CONTEXT, {}).get("edits", ())
    edits = [_edit(Fields.of(edit, f"{path}[{at}]")) for at, edit in enumerate(sent_edits)]
    rules = [edit for edit in edits if isinstance(edit, Compaction)]
    if len(rules) > 1:
        raise InvalidRequest(f"{path!r} has more than one {COMPACT}… edit. Keep one.", param=path)
    if (demanded := values.get("compaction")) is not None:
        if rules:
            problem = f"cannot be combined with a {COMPACT}… edit. Remove one of them."
            raise Fields(values).refusal("compaction", problem, InvalidRequest)
        rules = [Compaction(pauses=True, instructions=demanded.get("instructions", ""))]
    others = tuple(edit for edit in edits if not isinstance(edit, Compaction))
    return others, rules[0] if rules else None


def _shown(applied: AppliedEdit) -> dict[str, Any]:
    kind = "thinking_turns" if isinstance(applied.edit, ClearThinking) else "tool_uses"
    return {
        "type": applied.edit.type,
        f"cleared_{kind}": applied.cleared,
        "cleared_input_tokens": applied.tokens,
    }


def _edit(edit: Fields) -> ContextEdit | Compaction:
    kind, place = edit.given_text("type", "the type of an edit"), edit.place
    if kind.startswith("clear_thinking_"):
        return ClearThinking(kind, _kept_turns(THINKING.parse(edit.values, place), place))
    if kind.startswith("clear_tool_uses_"):
        return _tool_uses(kind, TOOL_USES.parse(edit.values, place), place)
    if kind.startswith(COMPACT):
        values = SUMMARY.parse(edit.values, place)
        return Compaction(
            values.get("trigger", {}).get("value", DEFAULT_TRIGGER),
            pauses=values.get("pause_after_compaction", False),
            instructions=values.get("instructions", ""),
        )
    problem = f"is {kind!r}, which is not supported. Shorten the messages in the client."
    raise edit.refusal("type", problem)


def _kept_turns(values: dict[str, Any], path: str) -> int | None:
    keep = values.get("keep")
    if keep is None:
        return ClearThinking.keep
    if keep in ALL_TURNS:
        return None
    turns: int = TURNS.parse(keep, f"{path}.keep")["value"]
    return turns


def _tool_uses(kind: str, values: dict[str, Any], path: str) -> ClearToolUses:
    members: dict[str, Any] = {}
    if "trigger" in values:
        members |= {"trigger": values["trigger"]["value"], "unit": values["trigger"]["type"]}
    if "keep" in values:
        members["keep"] = values["keep"]["value"]
    if "clear_at_least" in values:
        members["at_least"] = values["clear_at_least"]["value"]
    inputs = values.get("clear_tool_inputs", False)
    if not isinstance(inputs, bool):
        inputs = frozenset(NAMES.parse(inputs, f"{path}.clear_tool_inputs"))
    excluded = frozenset(values.get("exclude_tools", ()))
    return ClearToolUses(kind, excluded=excluded, inputs=inputs, **members)

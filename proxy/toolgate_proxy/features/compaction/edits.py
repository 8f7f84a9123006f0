"""`context_management`: edits that shorten a conversation before it reaches the model.

They are applied where the tokens of a prompt can be counted (chat/shortening.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolgate_core.context_edits import (
    AppliedEdit,
    ClearThinking,
    ClearToolUses,
    Compaction,
    ContextEdit,
)
from toolgate_core.errors import InvalidRequest

from ...api.shared.value_types import Anything, Choice, Integer, Object, Text, Texts
from ...request_fields import Fields

COMPACT = "compact_"
"""Beginning of the type of the edit that asks for compaction."""
NAMES = Texts(maximum=1_000)


def _amount(*units: str) -> Object:
    return Object({"type": Choice(units), "value": Integer(0)}, required=("type", "value"))


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


def read_edits(
    edits: Sequence[object], compaction: Callable[[Mapping[str, Any], str], Compaction]
) -> tuple[tuple[ContextEdit, ...], Compaction | None]:
    """Return the edits, and the compaction, which is done after them. `compaction`: reads the edit
    that asks for it, at its path. Raise InvalidRequest and UnsupportedParameter."""
    path = "context_management.edits"
    read = [_edit(edit, f"{path}[{at}]", compaction) for at, edit in enumerate(edits)]
    compactions = [edit for edit in read if isinstance(edit, Compaction)]
    if len(compactions) > 1:
        raise InvalidRequest(f"{path!r} has more than one {COMPACT}… edit. Keep one.", param=path)
    others = tuple(edit for edit in read if not isinstance(edit, Compaction))
    return others, compactions[0] if compactions else None


def shown_edits(applied: Sequence[AppliedEdit]) -> dict[str, Any]:
    """Return `context_management` of a message."""
    return {"applied_edits": [_shown(each) for each in applied]}


def _shown(applied: AppliedEdit) -> dict[str, Any]:
    kind = "thinking_turns" if isinstance(applied.edit, ClearThinking) else "tool_uses"
    return {
        "type": applied.edit.type,
        f"cleared_{kind}": applied.cleared,
        "cleared_input_tokens": applied.tokens,
    }


def _edit(
    edit: object, path: str, compaction: Callable[[Mapping[str, Any], str], Compaction]
) -> ContextEdit | Compaction:
    fields = Fields.of(edit, path)
    kind = fields.given_text("type", "the type of an edit")
    if kind.startswith("clear_thinking_"):
        return ClearThinking(kind, _kept_turns(THINKING.parse(fields.values, path), path))
    if kind.startswith("clear_tool_uses_"):
        return _tool_uses(kind, TOOL_USES.parse(fields.values, path), path)
    if kind.startswith(COMPACT):
        return compaction(fields.values, path)
    problem = f"is {kind!r}, which is not supported. Shorten the messages in the client."
    raise fields.refusal("type", problem)


def _kept_turns(values: dict[str, Any], path: str) -> int | None:
    keep = values.get("keep")
    if keep is None:
        return ClearThinking.keep
    if keep in ALL_TURNS:
        return None
    turns: int = TURNS.parse(keep, f"{path}.keep")["value"]
    return turns


def _tool_uses(kind: str, values: dict[str, Any], path: str) -> ClearToolUses:
    given: dict[str, Any] = {}
    if "trigger" in values:
        given |= {"trigger": values["trigger"]["value"], "unit": values["trigger"]["type"]}
    if "keep" in values:
        given["keep"] = values["keep"]["value"]
    if "clear_at_least" in values:
        given["at_least"] = values["clear_at_least"]["value"]
    inputs = values.get("clear_tool_inputs", False)
    if not isinstance(inputs, bool):
        inputs = frozenset(NAMES.parse(inputs, f"{path}.clear_tool_inputs"))
    excluded = frozenset(values.get("exclude_tools", ()))
    return ClearToolUses(kind, excluded=excluded, inputs=inputs, **given)

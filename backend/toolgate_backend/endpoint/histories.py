"""Bring conversations and tools into the form that the model's chat template accepts.

Templates refuse turns that agents send, leave out their texts or move them. What a template accepts
is learnt when it is loaded: each rule has short conversations, and applies to all requests if it
mends one of them. A rule drops no text and keeps the order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from toolgate_core.wire import Adaptation

from .added_tools import KNOWN, PROBE, Message, RenderText, Tools

REMINDER = "<system-reminder>\n{}\n</system-reminder>"  # as models know it from clients
FILLER = " "  # some templates refuse an empty text
MAX_CHANGES = 50
Turn = tuple[int, Message]
Change = tuple[Adaptation, int]


@dataclass(frozen=True)
class TemplateForm:
    """The form that a template accepts. The default changes nothing."""

    lists_tools: bool = False  # an empty list instead of no tools
    completes_tools: bool = False  # with the members that are optional
    calls_as_text: bool = False
    single_calls: bool = False  # one call in a message, each before its results
    systems: float = float("inf")  # messages after which a system message is text of the user
    joins: Sequence[str] = ()  # roles whose consecutive messages are joined
    gaps: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Roles of messages that are added, by the kinds of the messages before and after them."""

    def tools(self, given: Tools | None) -> Tools | None:
        if given and self.completes_tools:
            return [*map(_completed, given)]
        return given or ([] if self.lists_tools else None)

    def messages(self, given: Sequence[Message]) -> tuple[list[Message], tuple[Change, ...]]:
        """Return the messages as the template accepts them, and which of them are changed."""
        turns, kind = [*enumerate(given)], ""
        changes: dict[Change, None] = {}
        if self.calls_as_text:
            turns = [(at, _as_text(message)) for at, message in turns]
            changes = {("as_text", at): None for at, message in turns if message is not given[at]}
        elif self.single_calls:
            turns = _one_by_one(turns)
            several = [at for at, each in enumerate(given) if len(each.get("tool_calls") or ()) > 1]
            changes = {("split", at): None for at in several}
        shown: list[Message] = []
        last, reminded = "", False
        for at, message in (*turns, (len(given) - 1, {"role": "end"})):
            before, kind = kind, "call" if message.get("tool_calls") else message["role"]
            keeps = len(shown) < self.systems or before == "system" in self.joins
            reminds = kind == "system" and not keeps
            if reminds:
                changes["system", at] = None
                text = "\n\n".join(part["text"] for part in _parts(message.get("content")))
                message, kind = {"role": "user", "content": REMINDER.format(text)}, "user"
            if kind == before and (reminded or kind in self.joins):
                if not reminded and not reminds:
                    changes["joined", at] = None
                message = _both(shown.pop(), message)
            elif role := self.gaps.get((last, kind)):
                changes["added", at] = None
                shown.append({"role": role, "content": FILLER})
            if self.gaps and kind == "assistant" and not message.get("content"):
                message = {**message, "content": FILLER}
            shown.append(message)
            reminded, last = reminds, last if kind == "system" else kind
        return shown[:-1], tuple(changes)[:MAX_CHANGES]


FIRST = {("", kind): "user" for kind in ("assistant", "call", "end")}
BETWEEN = {("tool", "user"): "assistant", ("assistant", "call"): "user"}
BARE = {"type": "function", "function": {"name": PROBE, "description": None, "parameters": {}}}
RULES: Sequence[tuple[Mapping[str, Any], Sequence[str], Tools | None]] = (
    ({"lists_tools": True}, ("u",), None),
    ({"completes_tools": True}, ("u",), (BARE,)),
    ({"calls_as_text": True}, ("ucr",), (KNOWN,)),
    ({"single_calls": True}, ("u2rr",), (KNOWN,)),
    ({"joins": ("system",)}, ("ssu",), (KNOWN,)),
    ({"systems": 1}, ("suasu", "uasu", "us"), (KNOWN,)),
    ({"systems": 0}, ("su",), (KNOWN,)),
    ({"joins": ("system", "user", "assistant")}, ("uu", "uaau"), (KNOWN,)),
    ({"gaps": FIRST}, ("au", "cru", "2rr", "s", "sa"), (KNOWN,)),
    ({"gaps": FIRST | BETWEEN}, ("ucru", "uacrau"), (KNOWN,)),
)
"""Rules, each with the conversations that show whether a template needs it: a letter for each
message (of the system, user or assistant, a call, 2 calls, a result)."""
CALLS = [
    {"id": f"probecal{at}", "type": "function", "function": {"name": PROBE, "arguments": arguments}}
    for at, arguments in enumerate(('{"key": "a"}', '{"key": "mark9"}'))
]


def conversation(letters: str) -> list[Message]:
    """Return the conversation of a rule. Its texts are marks; some templates show no calls."""
    roles = {"s": "system", "u": "user", "r": "tool"}
    made: list[Message] = []
    for at, each in enumerate(letters):
        made.append({"role": roles.get(each, "assistant"), "content": f"mark{at}"})
        if each == "r":
            made[at]["tool_call_id"] = CALLS[letters[at - 1] == "r"]["id"]
        elif each in "c2":
            made[at] |= {"content": None, "tool_calls": CALLS[: 1 + (each == "2")]}
    return made


async def learnt(render: RenderText) -> TemplateForm:
    """Return the form of the template with which `render` renders."""

    async def shows(form: TemplateForm, letters: str, tools: Tools | None) -> bool:
        """Return whether the prompt has all marks of the messages, in their order."""
        at, (messages, _) = 0, form.messages(conversation(letters))
        try:
            text = await render(messages, form.tools(tools))
            for mark in re.findall(r"mark\d", json.dumps(messages)):
                at = text.index(mark, at)
        except Exception:  # noqa: BLE001  templates raise errors of any type
            return False
        return True

    form = TemplateForm()
    for rule, probes, tools in RULES:
        other = replace(form, **rule)
        for probe in probes:
            if not await shows(form, probe, tools) and await shows(other, probe, tools):
                form = other
    return form


def _one_by_one(turns: Sequence[Turn]) -> list[Turn]:
    shown: list[list[Turn]] = []
    by_id: dict[str, list[Turn]] = {}
    for at, message in turns:
        if message["role"] == "tool" and message["tool_call_id"] in by_id:
            by_id[message["tool_call_id"]].append((at, message))
            continue
        by_id = {}
        for call in message.get("tool_calls") or ():
            by_id[call["id"]] = [(at, {**message, "tool_calls": [call]})]
            message = {"role": "assistant", "content": None}
        shown += by_id.values() or [[(at, message)]]
    return [*chain(*shown)]


def _as_text(message: Message) -> Message:
    """Return calls as text of the assistant, and a result as text of the user."""
    if message["role"] == "tool":
        ends = _parts("<tool_response>"), _parts(message.get("content")), _parts("</tool_response>")
        return {"role": "user", "content": [*chain(*ends)]}
    if calls := message.get("tool_calls"):
        texts = [f"<tool_call>{json.dumps(call['function'])}</tool_call>" for call in calls]
        return _both(message, {"content": "\n".join(texts), "tool_calls": None})
    return message


def _both(first: Message, second: Message) -> Message:
    """Return one message with the content and the reasoning of two."""
    joined = {**first, **second}
    for name in ("content", "reasoning_content", "reasoning"):
        values = [each[name] for each in (first, second) if each.get(name)]
        if any(isinstance(value, list) for value in values):
            joined[name] = [*chain(*map(_parts, values))]
        elif values:
            joined[name] = "\n\n".join(values)
    return joined


def _parts(content: Any) -> list[Any]:
    text = [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else text


def _completed(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    schema = {"type": "object", "properties": {}} | (function.get("parameters") or {})
    described = {"description": function.get("description") or "", "parameters": schema}
    return {**tool, "function": {**function, **described}}

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

from toolgate_core.wire import Adaptation, Adapted

from .added_tools import KNOWN, PROBE, Message, RenderText, Tools

REMINDER = "<system-reminder>\n{}\n</system-reminder>"
"""A system message as text of the user, in the form that models know from clients."""
FILLER = " "
"""The text of a message that only the template needs. Some refuse an empty one."""
MAX_CHANGES = 50
"""Most changes of a conversation that are reported."""


@dataclass(frozen=True)
class TemplateForm:
    """The form that a template accepts. The default changes nothing."""

    lists_tools: bool = False
    """Requests without tools have an empty list."""
    completes_tools: bool = False
    """Tools have the members that are optional."""
    calls_as_text: bool = False
    single_calls: bool = False
    """Calls of one message are shown one after the other, each with its results."""
    systems: float = float("inf")
    """Number of messages after which a system message is shown as text of the user, at the
    beginning of the user's message after it."""
    joins: Sequence[str] = ()
    """Roles whose consecutive messages are joined."""
    gaps: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Roles of messages that are added, by the kinds of the messages before and after them."""

    def tools(self, given: Tools | None) -> Tools | None:
        if given and self.completes_tools:
            return [*map(_completed, given)]
        return given or ([] if self.lists_tools else None)

    def messages(self, given: Sequence[Message]) -> tuple[list[Message], tuple[Adapted, ...]]:
        """Return the messages as the template accepts them, and which of them are changed."""
        changes: dict[tuple[Adaptation, int], None] = {}
        turns = [*enumerate(given)]
        if self.calls_as_text:
            turns = [(at, _as_text(message)) for at, message in turns]
            changes = {("as_text", at): None for at, message in turns if message is not given[at]}
        elif self.single_calls:
            turns = _one_by_one(turns)
            changes = {("split", at): None for at, each in enumerate(given) if _calls(each) > 1}
        shown: list[Message] = []
        last = before = ""
        reminded = False
        for at, message in (*turns, (len(given) - 1, {"role": "end"})):
            kind = "call" if _calls(message) else message["role"]
            joined = kind == before and (reminded or kind in self.joins)
            if reminds := kind == "system" and not joined and len(shown) >= self.systems:
                changes["system", at] = None
                message, kind = {"role": "user", "content": _reminder(message)}, "user"
                joined = before == "user" in self.joins
            elif joined and not reminded:
                changes["joined", at] = None
            if (role := self.gaps.get((last, kind))) and not joined:
                changes["added", at] = None
                shown.append({"role": role, "content": FILLER})
            if self.gaps and kind == "assistant" and not message.get("content"):
                message = {**message, "content": FILLER}
            shown[-joined or len(shown) :] = [_both(shown[-1], message) if joined else message]
            reminded, before = reminds, kind
            last = last if kind == "system" else kind
        adapted = (Adapted(kind=kind, message=at) for kind, at in [*changes][:MAX_CHANGES])
        return shown[:-1], tuple(adapted)


FIRST = {("", kind): "user" for kind in ("assistant", "call", "end")}
BETWEEN = {("tool", "user"): "assistant", ("assistant", "call"): "user"}
RULES: Sequence[tuple[Mapping[str, Any], Sequence[str]]] = (
    ({"calls_as_text": True}, ("ucr",)),
    ({"single_calls": True}, ("u2rr",)),
    ({"joins": ("system",)}, ("ssu",)),
    ({"systems": 1}, ("suasu", "uasu", "us")),
    ({"systems": 0}, ("su",)),
    ({"joins": ("system", "user", "assistant")}, ("uu", "uaau")),
    ({"gaps": FIRST}, ("au", "cru", "s", "sa")),
    ({"gaps": FIRST | BETWEEN}, ("ucru", "uacrau")),
)
"""Rules, each with the conversations that show whether a template needs it: a letter for each
message (of the system, user or assistant, a call, 2 calls, a result)."""
ROLES = {"s": "system", "u": "user", "r": "tool"}
ARGUMENTS = {"c": ("key",), "2": ("mark8", "mark9")}
BARE = {"type": "function", "function": {"name": PROBE, "description": None, "parameters": {}}}


def conversation(letters: str) -> list[Message]:
    """Return the conversation of a rule. Its texts are marks."""
    made: list[Message] = []
    ids: list[str] = []
    for at, letter in enumerate(letters):
        message: Message = {"role": ROLES.get(letter, "assistant"), "content": f"mark{at}"}
        if letter == "r":
            message["tool_call_id"] = ids.pop(0)
        elif letter in ARGUMENTS:
            written = [json.dumps({"key": text}) for text in ARGUMENTS[letter]]
            ids = [f"probecal{number}" for number in range(len(written))]
            calls = zip(ids, [{"name": PROBE, "arguments": each} for each in written], strict=True)
            message |= {"content": None, "tool_calls": [_call(*each) for each in calls]}
        made.append(message)
    return made


async def learnt(render: RenderText) -> TemplateForm:
    """Return the form of the template with which `render` renders."""

    async def shows(form: TemplateForm, letters: str, tools: Tools | None = (KNOWN,)) -> bool:
        """Return whether the prompt has all marks of the messages, in their order."""
        at = 0
        try:
            messages, _ = form.messages(conversation(letters))
            text = await render(messages, form.tools(tools))
            for mark in re.findall(r"mark\d", json.dumps(messages)):
                at = text.index(mark, at)
        except Exception:  # noqa: BLE001  templates raise errors of any type
            return False
        return True

    async def mended(form: TemplateForm, rule: Mapping[str, Any], *probe: Any) -> TemplateForm:
        other = replace(form, **rule)
        return form if await shows(form, *probe) or not await shows(other, *probe) else other

    form = await mended(TemplateForm(), {"lists_tools": True}, "u", None)
    form = await mended(form, {"completes_tools": True}, "u", (BARE,))
    for rule, probes in RULES:
        for probe in probes:
            form = await mended(form, rule, probe)
    return form


def _calls(message: Message) -> int:
    return len(message.get("tool_calls") or ())


def _call(name: str, function: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": function}


def _one_by_one(turns: Sequence[tuple[int, Message]]) -> list[tuple[int, Message]]:
    shown: list[list[tuple[int, Message]]] = []
    by_id: dict[str, list[tuple[int, Message]]] = {}
    for at, message in turns:
        if message["role"] == "tool" and message["tool_call_id"] in by_id:
            by_id[message["tool_call_id"]].append((at, message))
            continue
        by_id = {}
        for call in message.get("tool_calls") or ():
            by_id[call["id"]] = [(at, {**message, "tool_calls": [call]})]
            message = {"role": "assistant", "content": None}
        shown += by_id.values() if by_id else [[(at, message)]]
    return [*chain(*shown)]


def _as_text(message: Message) -> Message:
    """Return calls as text of the assistant, and a result as text of the user."""
    content, calls = message.get("content"), message.get("tool_calls")
    if message["role"] == "tool":
        parts = [*_parts("<tool_response>"), *_parts(content), *_parts("</tool_response>")]
        return {"role": "user", "content": parts}
    written = [f"<tool_call>{json.dumps(call['function'])}</tool_call>" for call in calls or ()]
    text = {"content": "\n".join(written), "tool_calls": None}
    return _both(message, text) if calls else message


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


def _reminder(message: Message) -> str:
    return REMINDER.format("\n\n".join(part["text"] for part in _parts(message.get("content"))))


def _completed(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    schema = {"type": "object", "properties": {}} | (function.get("parameters") or {})
    described = {"description": function.get("description") or "", "parameters": schema}
    return {**tool, "function": {**function, **described}}

"""Bring conversations and tools into the form that the model's chat template accepts.

Templates refuse turns that agents send, leave out their texts or move them. What a template accepts
is learnt when it is loaded: each rule has short conversations, and applies to all requests if it
mends one of them. A rule drops no text and keeps the order.

Templates write tools at the beginning only. So tools that are added in the messages are shown in a
form that is taken from the template itself: a short conversation is rendered with and without the
tools, and what they add is their text. It is inside `<tools>`, as in the templates that do have a
form for results with tools (GLM-5.1).
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count, pairwise
from os.path import commonprefix
from typing import Any, NamedTuple

from toolgate_core.wire import TOOL_DEFINITIONS, Adaptation, ChatPrompt

Tools = Sequence[Mapping[str, Any]]
Message = dict[str, Any]
RenderText = Callable[[Sequence[Message], Tools | None], Awaitable[str]]
"""Returns the text of a prompt. Raises any exception if the template refuses it."""
PROBE = "toolgate_probe"
KNOWN: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": PROBE,
        "description": "Looks it up.",
        "parameters": {
            "type": "object",
            "properties": {"key": {"type": "string", "description": "The key."}},
            "required": ["key"],
        },
    },
}
"""A tool that is in the list before the others: the first one adds instructions as well."""
CONVERSATIONS: Sequence[Sequence[Message]] = (
    ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello."}),
    ({"role": "user", "content": "Hello."},),
)
"""Some templates have no system message."""
BEGINNINGS = "\n<{[,"
"""Characters with which the text of a tool begins."""
MAX_CACHED = 256
MAX_CACHED_LENGTH = 32_000
"""Length of a text that is cached, in characters."""


class AddedTools:
    def __init__(self, render: RenderText, special: Iterable[str]) -> None:
        """`special`: the texts of special tokens. They would break the message around them."""
        self._render = render
        self._special = tuple(special)
        self._texts: OrderedDict[str, str] = OrderedDict()

    async def shown(self, prompt: ChatPrompt) -> Sequence[Message]:
        """Return the messages with a text for each content part with tools. The same tools always
        have the same text. Raise TimeoutError."""
        return [await self._message(message) for message in prompt.messages]

    async def _message(self, message: Message) -> Message:
        content = message.get("content")
        if not isinstance(content, list) or not any(map(_has_tools, content)):
            return message
        parts = []
        for part in content:
            if not _has_tools(part):
                parts.append(part)
            elif part["tools"]:
                parts.append({"type": "text", "text": await self._text(part["tools"])})
        return {**message, "content": _joined(parts)}

    async def _text(self, tools: Tools) -> str:
        key = json.dumps(tools)
        text = self._texts.pop(key, None)
        if text is None:
            text = await self._from_template(tools)
            if text is None:
                text = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        if len(key) + len(text) <= MAX_CACHED_LENGTH:
            self._texts[key] = text
            while len(self._texts) > MAX_CACHED:
                self._texts.popitem(last=False)
        return f"<tools>\n{text}\n</tools>"

    async def _from_template(self, tools: Tools) -> str | None:
        """Return what the template adds for these tools; None if that is not one text."""
        for conversation in CONVERSATIONS:
            try:
                before = await self._render(conversation, [KNOWN])
                text = inserted(before, await self._render(conversation, [KNOWN, *tools]))
            except TimeoutError:
                raise
            except Exception:  # noqa: BLE001, S112  templates raise errors of any type
                continue
            if text is not None and self._is_whole(text, tools):
                return text
        return None

    def _is_whole(self, text: str, tools: Tools) -> bool:
        names = [tool["function"]["name"] for tool in tools]
        has_special = any(token in text for token in self._special)
        return not has_special and PROBE not in text and all(name in text for name in names)


def inserted(before: str, after: str) -> str | None:
    """Return the text that makes `after` of `before` if it is inserted at one place, without the
    separators around it; None if more has changed.

    If the text ends like the text before it, several places are possible: `<t>A</t>` and
    `<t>A</t><t>B</t>` differ in `t>B</t><` as well. The last place is taken at which a tool can
    begin."""
    length = len(after) - len(before)
    last = len(commonprefix([before, after]))
    if length <= 0 or after[last + length :] != before[last:]:
        return None
    at = last
    while not _can_begin(after, at):
        at -= 1
        if at < 0 or last - at > length or after[at + length] != before[at]:
            at = last
            break
    return after[at : at + length].strip(" \n,")


def _can_begin(text: str, at: int) -> bool:
    return text[at] in BEGINNINGS or at == 0 or text[at - 1] == "\n"


def _has_tools(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == TOOL_DEFINITIONS


def _joined(parts: list[Any]) -> str | list[Any]:
    """Return the parts as one text if all are text: templates that know text only join them."""
    if all(isinstance(part, dict) and part.get("type") == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


REMINDER = "<system-reminder>\n{}\n</system-reminder>"  # as models know it from clients
FILLER = " "  # some templates refuse an empty text
MAX_CHANGES = 50
Change = tuple[Adaptation, int]


class HistoryTurn(NamedTuple):
    at: int
    """Place of the message in the request."""
    message: Message
    is_reminder: bool = False
    """Whether it is a system message as text of the user."""

    @property
    def kind(self) -> str:
        return "call" if self.message.get("tool_calls") else self.message.get("role", "")


@dataclass(frozen=True)
class TemplateForm:
    """The form that a template accepts. The default changes nothing."""

    lists_tools: bool = False  # an empty list instead of no tools
    completes_tools: bool = False  # with the members that are optional
    calls_as_text: bool = False
    single_calls: bool = False  # one call in a message, each before its results
    systems: float = float("inf")  # 0 or 1 if a system message after these is text of the user
    joins: Sequence[str] = ()  # roles whose consecutive messages are joined
    gaps: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Roles of messages that are added, by the kinds of the messages before and after them."""

    def tools(self, tools: Tools | None) -> Tools | None:
        if tools and self.completes_tools:
            return [*map(_completed, tools)]
        return tools or ([] if self.lists_tools else None)

    def messages(self, given: Sequence[Message]) -> tuple[list[Message], tuple[Change, ...]]:
        """Return the messages as the template accepts them, and which of them are changed."""
        turns = [*map(HistoryTurn, count(), given)]
        changes: dict[Change, None] = {}
        if self.calls_as_text:
            turns = [HistoryTurn(at, _as_text(message)) for at, message, _ in turns]
            changes = {("as_text", at): None for at, new, _ in turns if new is not given[at]}
        elif self.single_calls:
            turns = _one_by_one(turns)
            several = [at for at, each in enumerate(given) if len(each.get("tool_calls") or ()) > 1]
            changes = {("split", at): None for at in several}
        messages: list[Message] = []
        end, last = HistoryTurn(len(given) - 1, {"role": "end"}), ""
        for before, turn in pairwise((HistoryTurn(-1, {}), *self._reminding(turns), end)):
            message = turn.message
            if turn.is_reminder:
                changes["system", turn.at] = None
            if self._joins(before, turn):
                if not before.is_reminder and not turn.is_reminder:
                    changes["joined", turn.at] = None
                message = _both(messages.pop(), message)
            elif role := self.gaps.get((last, turn.kind)):
                changes["added", turn.at] = None
                messages.append({"role": role, "content": FILLER})
            messages.append(self._filled(turn.kind, message))
            last = last if turn.kind == "system" else turn.kind
        return messages[:-1], tuple(changes)[:MAX_CHANGES]

    def _reminding(self, turns: Iterable[HistoryTurn]) -> Iterator[HistoryTurn]:
        """Yield the turns, with system messages that are too late as text of the user."""
        before = ""
        for number, turn in enumerate(turns):
            keeps = number < self.systems or before == "system" in self.joins
            if turn.kind == "system" and not keeps:
                text = "\n\n".join(part["text"] for part in _parts(turn.message.get("content")))
                reminder = {"role": "user", "content": REMINDER.format(text)}
                turn = turn._replace(message=reminder, is_reminder=True)
            before = turn.kind
            yield turn

    def _joins(self, before: HistoryTurn, turn: HistoryTurn) -> bool:
        return turn.kind == before.kind and (before.is_reminder or turn.kind in self.joins)

    def _filled(self, kind: str, message: Message) -> Message:
        empty = self.gaps and kind == "assistant" and not message.get("content")
        return {**message, "content": FILLER} if empty else message


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
    messages: list[Message] = []
    for at, letter in enumerate(letters):
        messages.append({"role": roles.get(letter, "assistant"), "content": f"mark{at}"})
        if letter == "r":
            messages[at]["tool_call_id"] = CALLS[letters[at - 1] == "r"]["id"]
        elif letter in "c2":
            messages[at] |= {"content": None, "tool_calls": CALLS[: 1 + (letter == "2")]}
    return messages


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


def _one_by_one(turns: Sequence[HistoryTurn]) -> list[HistoryTurn]:
    groups: list[list[HistoryTurn]] = []
    by_id: dict[str, list[HistoryTurn]] = {}
    for at, message, _ in turns:
        if message["role"] == "tool" and message["tool_call_id"] in by_id:
            by_id[message["tool_call_id"]].append(HistoryTurn(at, message))
            continue
        by_id = {}
        for call in message.get("tool_calls") or ():
            by_id[call["id"]] = [HistoryTurn(at, {**message, "tool_calls": [call]})]
            message = {"role": "assistant", "content": None}
        groups += by_id.values() or [[HistoryTurn(at, message)]]
    return [*chain(*groups)]


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

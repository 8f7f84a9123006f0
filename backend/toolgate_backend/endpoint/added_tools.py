"""Show tools that are added in the messages, in the form in which the model's template lists tools.

Templates write tools at the beginning only. So the form is taken from the template itself: a short
conversation is rendered with and without the tools, and what they add is their text. It is inside
`<tools>`, as in the templates that do have a form for results with tools (GLM-5.1).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from os.path import commonprefix
from typing import Any

from toolgate_core.wire import TOOL_DEFINITIONS, ChatPrompt

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

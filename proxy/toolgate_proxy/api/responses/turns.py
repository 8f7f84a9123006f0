"""Messages under construction, in the form of chat templates.

An item of an assistant's turn begins a new message where the current one already has its kind of
content.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolgate_core.errors import InvalidRequest
from toolgate_core.tools import Tool
from toolgate_core.toolset import Toolset

from ...request_fields import Fields
from ..shared.history import History, lost_call, with_results
from ..shared.tool_changes import ToolChanges
from .content import Content

Message = dict[str, Any]
Define = Callable[[Sequence[object], str], tuple[Tool, ...]]


class Turns:
    def __init__(
        self, instructions: str | None, history: History, tools: Toolset, define: Define
    ) -> None:
        """`define`: parses an array of tools at its path."""
        self.history = history
        self._define = define
        self.tools = tools
        self._messages: list[Message] = []
        self._paths: list[str] = []
        self._call_ids: set[str] = set()
        if instructions:
            self._append({"role": "system", "content": instructions}, "instructions")

    @property
    def count(self) -> int:
        """The number of messages so far."""
        return len(self._messages)

    def ordered(self) -> tuple[list[Message], tuple[str, ...]]:
        pairs = with_results(zip(self._messages, self._paths, strict=True), self.history)
        return [message for message, _ in pairs], tuple(path for _, path in pairs)

    def message(self, role: str, content: Content, path: str) -> None:
        last = self._messages[-1] if self._messages else {}
        if role == "assistant" and last.get("role") == "assistant" and last["content"] is None:
            last["content"] = content
            return
        self._append({"role": role, "content": content}, path)

    def reasoning(self, text: str, path: str) -> None:
        if not text:
            return
        last = self._messages[-1] if self._messages else {}
        if "reasoning_content" in last and last["content"] is None and "tool_calls" not in last:
            last["reasoning_content"] += f"\n\n{text}"
            return
        self._append({"role": "assistant", "content": None, "reasoning_content": text}, path)

    def call(self, call: dict[str, Any], path: str) -> None:
        self._call_ids.add(call["id"])
        last = self._messages[-1] if self._messages else {}
        if last.get("role") != "assistant":
            last = {"role": "assistant", "content": None}
            self._append(last, path)
        last.setdefault("tool_calls", []).append(call)

    def has_call(self, call_id: str) -> bool:
        return call_id in self._call_ids

    def result(self, call_id: str, content: Content, path: str) -> None:
        if not self.has_call(call_id):
            param = f"{path}.call_id"
            raise InvalidRequest(
                f"{param!r}: no function call with this call_id precedes it. Include that item in "
                "`input`.",
                param=param,
            )
        self._append({"role": "tool", "tool_call_id": call_id, "content": content}, path)

    def replace_result(self, content: str, new: str) -> None:
        """Replace the content of a result."""
        for message in self._messages:
            if message["role"] == "tool" and message["content"] == content:
                message["content"] = new

    def other_result(self, name: str, text: str, path: str) -> None:
        """The text of a tool that another service ran, as the result of a call of it."""
        call_id = f"other_{len(self._messages)}"
        self.call(lost_call(call_id, name), path)
        self._append({"role": "tool", "tool_call_id": call_id, "content": text}, path)

    def named_result(self, call_id: str, name: str, content: Content, path: str) -> None:
        """A result whose call is found by its id, or if it has none, by the name of its tool."""
        result = {"role": "tool", "tool_call_id": call_id}
        if not call_id:
            result["name"] = name
        self._append({**result, "content": content}, path)

    def defined(self, item: Fields) -> tuple[Tool, ...]:
        """Parse the tools of an item."""
        return self._define(item.items("tools") or [], item.path("tools"))

    def additional(self, tools: Sequence[Tool], path: str) -> None:
        """Tools that are added from here on."""
        changes = ToolChanges(self.tools)
        changes.define(tools)
        if parts := changes.parts(heading=True):
            self._append({"role": "system", "content": parts}, path)

    def compacted(
        self,
        remaining: Callable[[Sequence[str]], Sequence[int]],
        messages: Sequence[Message],
        path: str,
    ) -> None:
        """Replace the conversation so far. `remaining`: returns the places of the messages that
        stay, by the roles of all."""
        stays = remaining([message["role"] for message in self._messages])
        self._messages = [self._messages[at] for at in stays]
        self._paths = [self._paths[at] for at in stays]
        for message in messages:
            self._call_ids |= {call["id"] for call in message.get("tool_calls") or ()}
            self._append(message, path)

    def _append(self, message: Message, path: str) -> None:
        if message["role"] != "system":
            self.tools.begin()
        self._messages.append(message)
        self._paths.append(path)

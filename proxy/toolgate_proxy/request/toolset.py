"""The tools of a conversation: which of them can be called at each place of its history.

A request has tools that are loaded and tools that are deferred. At places in its history tools are
added and removed. Those that are loaded at its end can be called. The prompt lists only those that
it begins with: a tool that is added later is shown at its place, so that the beginning of the
prompt, and with it the prefix cache, stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from toolgate_core.errors import UnknownTool
from toolgate_core.tools import OnInvalid, Tool, refuse
from toolgate_core.wire import TOOL_DEFINITIONS

from .chat_request import AllowedTools, NamedTool, ToolChoice


class Toolset:
    """Read the history in its order, and make each change when its place is reached."""

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        deferred: Mapping[str, Callable[[OnInvalid], Tool | None]] | None = None,
        left_out: Set[str] = frozenset(),
        on_invalid: OnInvalid = refuse,
        searchable: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """`deferred`: by name. They are parsed when they are added: a request can have thousands.
        `left_out`: names of tools that the model is not offered. Changes of them have no effect.
        `on_invalid` gets the errors of deferred tools that are added. `searchable`: the deferred
        tools as functions, as they were sent."""
        self._beginning = {tool.name: tool for tool in tools}
        self._loaded = dict(self._beginning)
        self._shown = dict(self._beginning)
        """The definitions that the prompt has so far."""
        self._deferred = dict(deferred or {})
        """Those that were not added."""
        self.searchable = searchable
        self._left_out = left_out
        self._on_invalid = on_invalid
        self._begun = False

    @property
    def beginning(self) -> tuple[Tool, ...]:
        """The tools that the prompt lists."""
        return tuple(self._beginning.values())

    @property
    def loaded(self) -> tuple[Tool, ...]:
        """The tools that can be called."""
        return tuple(self._loaded.values())

    @property
    def begun(self) -> bool:
        """Whether the conversation has a turn so far."""
        return self._begun

    def begin(self) -> None:
        """Note the first turn. Changes before it are changes of the list at the beginning."""
        self._begun = True

    def is_loaded(self, name: str) -> bool:
        return name in self._loaded

    def is_deferred(self, name: str) -> bool:
        """Return whether a tool is not added so far."""
        return name in self._deferred

    def has(self, name: str) -> bool:
        """Return whether a tool of this name was declared so far."""
        return name in self._shown or self.is_deferred(name)

    def add(self, name: str) -> Tool | None:
        """Load a declared tool. Return it if the prompt must show its definition here. Raise
        KeyError if there is no tool of this name, and InvalidRequest if it is invalid."""
        if name in self._left_out:
            return None
        if name in self._shown:
            return self.define(self._shown[name])
        tool = self._deferred.pop(name)(self._on_invalid)
        return None if tool is None else self.define(tool)

    def define(self, tool: Tool) -> Tool | None:
        """Load a tool by its definition, which replaces an earlier one of its name. Return it if
        the prompt must show it here."""
        earlier = self._shown.get(tool.name)
        self._loaded[tool.name] = self._shown[tool.name] = tool
        if not self._begun:
            self._beginning[tool.name] = tool
            return None
        return None if earlier is not None and earlier.is_same(tool) else tool

    def remove(self, name: str) -> None:
        """Raise KeyError if there is no tool of this name."""
        if name in self._left_out:
            return
        if not self.has(name):
            raise KeyError(name)
        self._loaded.pop(name, None)
        if not self._begun:
            self._beginning.pop(name, None)

    def checked(self, choice: ToolChoice) -> ToolChoice:
        """Return the choice without declared tools that cannot be called. Raise UnknownTool if it
        requires a call of one. Names that were not declared stay: the plan refuses them."""
        if isinstance(choice, NamedTool) and self._is_hidden(choice.name):
            raise UnknownTool(_cannot_be_called(choice.name), param="tool_choice")
        if not isinstance(choice, AllowedTools):
            return choice
        names = tuple(name for name in choice.names if not self._is_hidden(name))
        if not names:
            raise UnknownTool(_cannot_be_called(choice.names[0]), param="tool_choice")
        return replace(choice, names=names)

    def _is_hidden(self, name: str) -> bool:
        return self.has(name) and name not in self._loaded


def _cannot_be_called(name: str) -> str:
    return (
        f"'tool_choice' names the tool {name!r}, which cannot be called yet: it is deferred, and "
        "the conversation has not added it, or it was removed. Add it first, or send it without "
        "'defer_loading'."
    )


def definitions(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the content parts of a message that define tools, which can be called from there on.
    Without them the prompt would not have these tools."""
    content = message.get("content")
    if not isinstance(content, list):
        return []
    return [part for part in content if part["type"] == TOOL_DEFINITIONS]

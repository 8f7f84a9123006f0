"""The tools that one message or result adds and removes, and how its content shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from toolgate_core.tools import Tool
from toolgate_core.wire import TOOL_DEFINITIONS

from ...request.toolset import Toolset
from ...request_fields import Fields
from .history import History

Part = dict[str, Any]
Define = Callable[[object, str], tuple[Tool, ...]]
"""Parses a definition in the form of an API, at its path in the request."""
REFERENCE = "tool_reference"
"""Type of a block in the result of a search, which names a tool that was found."""
ADDITION, REMOVAL = "tool_addition", "tool_removal"
"""Types of blocks of a system message."""
ADDED = "These tools can be called from here on:"
LISTED = "These tools can be called: {}"
REMOVED = "These tools cannot be called any more: {}"


@dataclass
class ToolChanges:
    """Makes and shows the changes of one message. Those at the beginning of the conversation are
    not shown: they change the list there."""

    toolset: Toolset
    history: History = field(default_factory=History)
    _new: list[Tool] = field(default_factory=list)
    _listed: list[str] = field(default_factory=list)
    _removed: list[str] = field(default_factory=list)

    def define(self, tools: Iterable[Tool]) -> None:
        for tool in tools:
            self._note(tool.name, self.toolset.define(tool))

    def refer(self, name: str) -> bool:
        """Load a tool that was found. Return whether it can be called: results of earlier turns may
        name tools that the client has no more."""
        if self.toolset.has(name):
            self._note(name, self.toolset.add(name))
        return self.toolset.is_loaded(name)

    def read(self, block: Fields, kind: str, define: Define) -> None:
        """Make the change of a block of the type ADDITION or REMOVAL. One that names no tool of the
        request is left out. Raise InvalidRequest and UnsupportedParameter."""
        tool = block.inner("tool", "an object with a type")
        match tool.text("type"):
            case "tool_reference":
                self._change(kind, tool)
            case "tool_definition" if kind == ADDITION:
                self.define(define(tool.values.get("definition"), tool.path("definition")))
            case _:
                self.history.note("left_out", block.place)

    def parts(self, *, heading: bool = False) -> list[Part]:
        """Return the content that shows the changes. `heading`: whether a sentence introduces the
        definitions."""
        parts: list[Part] = []
        if self._new:
            tools = [tool.definition for tool in self._new]
            parts += [text_part(ADDED)] if heading else []
            parts.append({"type": TOOL_DEFINITIONS, "tools": tools})
        for form, names in ((LISTED, self._listed), (REMOVED, self._removed)):
            if names:
                parts.append(text_part(form.format(", ".join(dict.fromkeys(names)))))
        return parts

    def _change(self, kind: str, tool: Fields) -> None:
        name = tool.required_text("name", "the name of a tool")
        try:
            if kind == ADDITION:
                self._note(name, self.toolset.add(name))
                return
            self.toolset.remove(name)
        except KeyError:  # the client has the tool no more
            self.history.note("left_out", tool.place)
            return
        if self.toolset.begun and self.toolset.has(name):
            self._removed.append(name)

    def _note(self, name: str, new: Tool | None) -> None:
        if new is not None:
            self._new.append(new)
        elif self.toolset.begun and self.toolset.is_loaded(name):
            self._listed.append(name)


def text_part(text: str) -> Part:
    return {"type": "text", "text": text}

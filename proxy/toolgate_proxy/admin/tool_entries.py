"""Tools of a prewarming request or a schema report, parsed one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from toolgate_core.errors import SchemaNotEnforceable, ToolgateError
from toolgate_core.tools import Tool, parse_tools

from ..grammars.tool_check import check_tool
from ..settings import Settings
from .tool_formats import as_chat_tool


class ToolReport(BaseModel):
    """Result of loading one tool into one backend."""

    name: str
    status: str
    """ready, refused, invalid (not a tool definition) or failed (error of the backend)."""
    tier: str | None = None
    engine: str | None = None
    reason: str | None = None
    code: str | None = None
    pointer: str | None = None
    compile_ms: float | None = None


def parse_entries(
    entries: Iterable[object], settings: Settings
) -> tuple[list[Tool], list[ToolReport]]:
    """Returns the tools without duplicates, and reports on invalid entries. The entries have one of
    the forms in tool_formats.py."""
    tools: dict[str, Tool] = {}
    invalid: list[ToolReport] = []
    for at, given in enumerate(entries):
        entry = as_chat_tool(given) or given
        try:
            (tool,) = parse_tools([entry], open_objects=settings.open_objects)
            check_tool(tool, tool.param)
            tools[tool.hash] = tool
        except SchemaNotEnforceable as error:
            invalid.append(_invalid(entry, at, "refused", error, error.pointer))
        except ToolgateError as error:
            invalid.append(_invalid(entry, at, "invalid", error))
    return list(tools.values()), invalid


def _invalid(
    entry: Any, at: int, status: str, error: ToolgateError, pointer: str | None = None
) -> ToolReport:
    kind = "custom" if isinstance(entry, dict) and entry.get("type") == "custom" else "function"
    function = entry.get(kind) if isinstance(entry, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return ToolReport(
        name=name if isinstance(name, str) else f"tools[{at}]",
        status=status,
        code=error.code,
        reason=error.message.replace("tools[0]", f"tools[{at}]"),  # it was parsed alone
        pointer=pointer,
    )

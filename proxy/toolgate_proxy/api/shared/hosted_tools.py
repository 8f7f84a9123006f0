"""Hosted tools: those that the provider of an API runs, so that no model here can be offered them.

Clients such as Codex and Claude Code send some with each request. All APIs leave them out, or
refuse them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from toolgate_core.chat_request import NamedTool, ToolChoice
from toolgate_core.errors import InvalidTools, UnsupportedParameter
from toolgate_core.tools import Tool

HOSTED = (
    "apply_patch",
    "code_interpreter",
    "computer",
    "computer_use",
    "computer_use_preview",
    "file_search",
    "image_generation",
    "local_shell",
    "mcp",
    "mcp_toolset",
    "programmatic_tool_calling",
    "shell",
    "tool_search",
    "tool_search_tool_bm25",
    "tool_search_tool_regex",
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
)
"""Types of tools that OpenAI or Anthropic runs or defines. They are in a response header, so no
other text may pass for one."""
VERSIONED = re.compile(
    r"(?:advisor|code_execution|tool_search_tool_bm25|tool_search_tool_regex|web_fetch|web_search)"
    r"_[0-9]{8}"
)
"""Types of Anthropic's server tools, which end with a date."""
SEARCH = "tool_search"
"""Beginning of the types of tools that search for deferred tools."""


@dataclass(frozen=True)
class _LeftOut:
    kind: str
    name: object
    """Anthropic's tools have names, by which a choice refers to them."""
    path: str


@dataclass
class HostedTools:
    """The hosted tools of one request. `omit`: leave them out instead of refusing them."""

    omit: bool
    _left_out: list[_LeftOut] = field(default_factory=list)

    @property
    def types(self) -> tuple[str, ...]:
        """The types of those that were left out, each once."""
        return tuple(dict.fromkeys(each.kind for each in self._left_out))

    @property
    def names(self) -> set[str]:
        """The names of those that were left out and have one."""
        return {each.name for each in self._left_out if isinstance(each.name, str)}

    @property
    def has_search(self) -> bool:
        """Whether a tool that searches for deferred tools was left out."""
        return any(each.kind.startswith(SEARCH) for each in self._left_out)

    def leaves_out(self, entry: object, path: str) -> bool:
        """Raises UnsupportedParameter for a hosted tool if such tools are refused."""
        kind = entry.get("type") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(kind, str) or not is_hosted(kind):
            return False
        if not self.omit:
            raise UnsupportedParameter(
                f"{path!r} is the hosted tool {kind!r}, which this gateway does not have. Remove "
                "it, or offer a function.",
                param=path,
            )
        self._left_out.append(_LeftOut(kind, entry.get("name"), path))
        return True

    def check_choice(self, choice: ToolChoice, offered: Sequence[Tool]) -> None:
        """Raises InvalidTools if the choice names a tool that was left out."""
        if not isinstance(choice, NamedTool) or any(tool.name == choice.name for tool in offered):
            return
        for each in self._left_out:
            if choice.name == each.name:
                raise InvalidTools(
                    f"'tool_choice' requires a call, but this gateway does not have the hosted "
                    f"tool {each.kind!r}. Offer a function.",
                    param=each.path,
                )


@lru_cache(maxsize=256)
def is_hosted(kind: str) -> bool:
    return kind in HOSTED or VERSIONED.fullmatch(kind) is not None

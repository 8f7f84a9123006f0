"""The search for deferred tools that the gateway runs: the tool that the model is offered, and the
result of a call, which loads the tools that were found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ...api.shared.tool_changes import ToolChanges
from ...api.shared.tools import closed, typed
from ...chat.tool_calls import begin_series
from ...request.gateway_tools import GatewayResult, ToolLabel
from ...request.toolset import Toolset
from .index import search

Method = Literal["bm25", "regex"]
TYPE = re.compile(r"tool_search_tool_(bm25|regex)(?:_[0-9]{8})?")
"""Anthropic's types of the search."""
MAX_FOUND = 5
"""Most tools that one search loads."""
NOTHING_FOUND = "No tool was found. Search again with other words."
QUERY = "query"
"""The only argument of a search."""
DESCRIPTIONS: dict[Method, str] = {
    "bm25": "Search for tools that are not listed here. The tools that match best can be called "
    "afterwards.",
    "regex": "Search for tools that are not listed here. The first tools of which the name, the "
    "description or an argument matches can be called afterwards.",
}
QUERIES: dict[Method, str] = {
    "bm25": "Words that describe what the tool does.",
    "regex": "A regular expression, for example (?i)weather|forecast.",
}


begin_series("tool_search", [""])


@dataclass(frozen=True)
class FoundTools:
    """What a search shows the client."""

    names: tuple[str, ...] = ()
    """The tools that were found."""
    error: str | None = None
    """Why the query could not be read."""


def method_of(kind: object) -> Method | None:
    """Return how a tool of this type of Anthropic's searches; None if it is no search."""
    match = TYPE.fullmatch(kind) if isinstance(kind, str) else None
    if match is None:
        return None
    return "regex" if match[1] == "regex" else "bm25"


def search_function(name: str, method: Method) -> dict[str, Any]:
    """Return the search as a function in OpenAI's form."""
    parameters = closed({QUERY: typed("string", QUERIES[method])})
    return {"name": name, "description": DESCRIPTIONS[method], "parameters": parameters}


@dataclass(frozen=True)
class ToolSearch:
    """The search of one request."""

    method: Method
    tools: Toolset
    """After the history was read."""
    owner: str = ""
    """The sender."""
    finds_any: bool = False
    """Whether it finds the first tools if none has words of the query: a call is required, and
    there may be no other tool."""
    shown: bool = True
    """Whether the client sees its calls."""

    @property
    def label(self) -> ToolLabel:
        name = f"tool_search_{self.method}"
        return ToolLabel("tool_search", name, counted=False, shown=self.shown)

    def refused(self, reason: str) -> GatewayResult:
        """Return the result of a search that does not run."""
        return GatewayResult(reason, FoundTools(error=reason), result="refused")

    async def run(self, arguments: str) -> GatewayResult:
        """Search for deferred tools, and load those that were found."""
        query = json.loads(arguments)[QUERY]
        searched = self.tools.searchable
        regex = self.method == "regex"
        found = await search(searched, query, MAX_FOUND, self.owner, regex=regex)
        if found.error is not None:
            return GatewayResult(found.error, FoundTools(error=found.error), result="error")
        names = found.names
        if self.finds_any and not names:
            names = [str(tool["name"]) for tool in searched[:MAX_FOUND]]
        # In the order of the request: an API that shows the tools by namespace has no other.
        places = {str(tool["name"]): at for at, tool in enumerate(searched)}
        names.sort(key=lambda name: places[name])
        content = found_content(names, self.tools)
        loaded = tuple(name for name in names if self.tools.is_loaded(name))
        return GatewayResult(content, FoundTools(loaded), self.tools.loaded)


def found_content(names: Iterable[str], tools: Toolset) -> str | list[dict[str, Any]]:
    """Load tools that a search has found, and return the content of its result."""
    changes = ToolChanges(tools)
    for name in names:
        changes.refer(name)
    return changes.parts() or NOTHING_FOUND

"""The operator's tools that the gateway runs: which of them a key may use by LiteLLM's object
permissions, and the search engine, one of LiteLLM's `search_tools`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from litellm.proxy._types import LiteLLM_ObjectPermissionTable, ProxyException, UserAPIKeyAuth

from toolgate_core.host_probe import find

from ..features.web.search import Page, SearchEngine, SearchFailed
from ..keys.key import Key
from .deployments.router import router
from .errors import own_errors
from .private_names import SEARCH_PERMISSION


def tool_permission(key: Key) -> LiteLLM_ObjectPermissionTable | None:
    """Return the permissions of a virtual key in LiteLLM's form; None without any, so that
    LiteLLM's defaults apply."""
    terms = key.terms
    if not (terms.mcp_servers or terms.search_tools):
        return None
    servers: list[str] = []
    tools: dict[str, list[str]] = {}
    for entry in terms.mcp_servers:
        server, _, tool = entry.partition("/")
        if tool:
            tools.setdefault(server, []).append(tool)
        else:
            servers.append(server)
    return LiteLLM_ObjectPermissionTable(
        object_permission_id=key.id,
        mcp_servers=servers if terms.mcp_servers else None,
        mcp_tool_permissions={name: each for name, each in tools.items() if name not in servers},
        search_tools=list(terms.search_tools),
    )


async def may_search(name: str, caller: UserAPIKeyAuth) -> bool:
    """Return whether the caller's key, and its team, may use a search tool. Raise ToolgateError if
    LiteLLM can't tell."""
    if name in _own_search_tools(caller):
        return True
    team = getattr(caller, "team_object_permission", None)
    granted = getattr(team, "search_tools", None)
    if granted and name not in granted:
        return False
    with own_errors():
        try:
            await find(SEARCH_PERMISSION)(search_tool_name=name, valid_token=caller)
        except ProxyException as error:
            if str(error.code) == "403":
                return False
            raise
    return True


def _own_search_tools(caller: UserAPIKeyAuth) -> list[str]:
    """Return the search tools of a virtual key. LiteLLM would not find them: with
    `search_tool_deny_by_default` it reads permissions from its database alone."""
    held = caller.object_permission
    if held is None or held.object_permission_id != caller.api_key:
        return []
    return held.search_tools or []


logger = logging.getLogger(__name__)

SECONDS = 20.0
"""Longest time of one search."""


@dataclass(frozen=True)
class LiteLLMSearch(SearchEngine):
    name: str
    """The `search_tool_name` of the configuration."""

    async def search(self, query: str, *, domains: Sequence[str], limit: int) -> list[Page]:
        """Search with LiteLLM's router, which has the credentials, and reports costs and failures
        to its callbacks. Raise SearchFailed."""
        options: dict[str, Any] = {"search_domain_filter": list(domains)} if domains else {}
        try:
            async with asyncio.timeout(SECONDS):
                response = await router().asearch(
                    query=query, search_tool_name=self.name, max_results=limit, **options
                )
            return [
                Page(each.url, each.title, each.snippet, each.date or each.last_updated)
                for each in response.results
            ]
        except Exception as error:  # of any provider: the model sees that the search failed
            logger.warning("The search tool %r failed: %s", self.name, type(error).__name__)
            raise SearchFailed from error


def search_tools() -> list[str]:
    """Return the names of the search tools of LiteLLM's configuration and of its database."""
    here = router()
    tools = () if here is None else here.search_tools
    names = (tool.get("search_tool_name") for tool in tools)
    return [name for name in names if isinstance(name, str)]


async def permitted_search(caller: UserAPIKeyAuth) -> LiteLLMSearch | None:
    """Return the first search tool that the caller may use. Raise ToolgateError if LiteLLM can't
    tell."""
    for name in search_tools():
        if await may_search(name, caller):
            return LiteLLMSearch(name)
    return None

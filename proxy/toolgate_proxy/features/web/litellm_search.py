"""The search engine of web searches, one of LiteLLM's `search_tools`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litellm.proxy._types import ProxyException, UserAPIKeyAuth
from litellm.proxy.auth.auth_checks import can_token_call_search_tool

from ...api.surface import Client
from ...chat.tool_calls import begin_series
from ...litellm_host.errors import own_errors
from ...litellm_host.routing.router import router, router_settings
from ..litellm_part import FeaturePart
from .search import SearchEngine, SearchFailed, WebPage

logger = logging.getLogger(__name__)

SECONDS = 20.0
"""Longest time of one search."""


@dataclass(frozen=True)
class LiteLLMSearch(SearchEngine):
    name: str
    """The `search_tool_name` of the configuration."""

    async def search(self, query: str, *, domains: Sequence[str], limit: int) -> list[WebPage]:
        """Search with LiteLLM's router, which has the credentials, and reports costs and failures
        to its callbacks. Raise SearchFailed."""
        options: dict[str, Any] = {"search_domain_filter": list(domains)} if domains else {}
        try:
            async with asyncio.timeout(SECONDS):
                response = await router().asearch(
                    query=query, search_tool_name=self.name, max_results=limit, **options
                )
            return [
                WebPage(each.url, each.title, each.snippet, each.date or each.last_updated)
                for each in response.results
            ]
        except Exception as error:  # of any provider: the model sees that the search failed
            logger.warning("The search tool %r failed: %s", self.name, type(error).__name__)
            raise SearchFailed from error


def search_tools() -> list[str]:
    """Return the names of the search tools of LiteLLM's configuration and of its database."""
    tools = () if router() is None else router_settings().search_tools
    names = (tool.get("search_tool_name") for tool in tools)
    return [name for name in names if isinstance(name, str)]


class LiteLLMSearches(FeaturePart):
    """The first search engine that the key of a request may use."""

    @staticmethod
    def begin_series() -> None:
        begin_series("search", search_tools())

    async def provide(
        self, client: Client, values: Mapping[str, Any], caller: UserAPIKeyAuth
    ) -> Client:
        for name in search_tools() if values.get("tools") else ():
            if await may_search(name, caller):
                return client.given(SearchEngine, LiteLLMSearch(name))
        return client


async def may_search(name: str, caller: UserAPIKeyAuth) -> bool:
    """Return whether the caller's key, and its team, may use a search tool. Raise ToolgateError."""
    if name in _own_search_tools(caller):
        return True
    team = caller.team_object_permission
    if team is not None and team.search_tools and name not in team.search_tools:
        return False
    with own_errors():
        try:
            await can_token_call_search_tool(search_tool_name=name, valid_token=caller)
        except ProxyException as error:
            if str(error.code) == "403":
                return False
            raise
    return True


def _own_search_tools(caller: UserAPIKeyAuth) -> list[str]:
    """Return the search tools of a virtual key. LiteLLM would not find them: with
    `search_tool_deny_by_default` it reads permissions from its database alone."""
    permission = caller.object_permission
    if permission is None or permission.object_permission_id != caller.api_key:
        return []
    return permission.search_tools or []

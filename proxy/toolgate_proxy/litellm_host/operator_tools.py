"""Which of the operator's tools a key may use by LiteLLM's object permissions."""

from __future__ import annotations

from litellm.proxy._types import LiteLLM_ObjectPermissionTable, ProxyException, UserAPIKeyAuth

from toolgate_core.host_probe import find

from ..keys.key import Key
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

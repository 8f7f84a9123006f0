"""The list of features, the only place outside their folders that names them."""

from __future__ import annotations

from . import client_tools, mcp, tool_search, web

FEATURES = (
    client_tools.FEATURE,
    mcp.FEATURE,
    tool_search.FEATURE,
    web.FEATURE,
)
CHAT = tuple(each.chat for each in FEATURES if each.chat is not None)
RESPONSES = tuple(each.responses for each in FEATURES if each.responses is not None)
MESSAGES = tuple(each.messages for each in FEATURES if each.messages is not None)

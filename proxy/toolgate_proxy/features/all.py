"""The list of features. Only it and `litellm_all.py` import them."""

from __future__ import annotations

from ..limits.estimate import FILE_PARTS
from .client_tools import FEATURE as CLIENT_TOOLS
from .compaction import FEATURE as COMPACTION
from .custom_tools import FEATURE as CUSTOM_TOOLS
from .files.parts import FEATURE as FILES
from .mcp import FEATURE as MCP
from .parts import Parts
from .tool_search import FEATURE as TOOL_SEARCH
from .web import FEATURE as WEB

FEATURES: tuple[Parts, ...] = (
    CLIENT_TOOLS,
    COMPACTION,
    CUSTOM_TOOLS,
    FILES,
    MCP,
    TOOL_SEARCH,
    WEB,
)
CHAT = tuple(each.chat for each in FEATURES if each.chat is not None)
RESPONSES = tuple(each.responses for each in FEATURES if each.responses is not None)
MESSAGES = tuple(each.messages for each in FEATURES if each.messages is not None)
LATER = {kind: read for each in FEATURES for kind, read in each.later.items()}
for each in FEATURES:
    FILE_PARTS.update(each.sizes)

"""MCP servers of the operator, whose tools the gateway runs."""

from ..parts import Parts
from .chat import McpInChat
from .messages import McpInMessages
from .responses import McpInResponses

FEATURE = Parts(chat=McpInChat, responses=McpInResponses, messages=McpInMessages)

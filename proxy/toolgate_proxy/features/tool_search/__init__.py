"""The search for deferred tools, by the gateway or by the client."""

from ..parts import Parts
from .chat import SearchInChat
from .messages import SearchInMessages
from .responses import SearchInResponses

FEATURE = Parts(chat=SearchInChat, responses=SearchInResponses, messages=SearchInMessages)

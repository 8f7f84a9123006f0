"""The search for deferred tools, by the gateway or by the client."""

from ..parts import Parts
from .messages import SearchInMessages
from .responses import SearchInResponses

FEATURE = Parts(responses=SearchInResponses, messages=SearchInMessages)

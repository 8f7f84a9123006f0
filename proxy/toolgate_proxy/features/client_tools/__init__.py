"""Tools that OpenAI and Anthropic define, and clients run: the model is offered functions for them,
and a response has the calls in the form of the provider's API."""

from ..parts import Parts
from .messages import ClientToolsInMessages
from .responses import ClientToolsInResponses

FEATURE = Parts(responses=ClientToolsInResponses, messages=ClientToolsInMessages)

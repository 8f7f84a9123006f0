"""Custom tools: the client gets their only argument as plain text, which may have to match a
grammar."""

from ..parts import Parts
from .tools import CustomInChat, CustomInResponses

FEATURE = Parts(chat=CustomInChat, responses=CustomInResponses)

"""Summaries that replace the conversation so far, and edits that shorten it."""

from ..parts import Parts
from .messages import CompactionInMessages
from .responses import CompactionInResponses

FEATURE = Parts(responses=CompactionInResponses, messages=CompactionInMessages)

"""Searches in the web, and fetches of web pages, that the gateway runs."""

from ..parts import Parts
from .fetch import page_fetcher
from .messages import WebInMessages
from .responses import WebInResponses

FEATURE = Parts(
    responses=WebInResponses,
    messages=WebInMessages,
    setting="web_fetch",
    provided=page_fetcher,
)

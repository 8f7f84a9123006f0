"""Entries of `tools` that are searches: for deferred tools, and in the web."""

from __future__ import annotations

from typing import Any

from toolgate_core.errors import UnsupportedParameter

from ...request_fields import Fields, invalid_value, unknown_value
from .shown_tools import SEARCH

WEB_SEARCHES = (
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
)
"""Types of web searches, which the gateway runs if the operator has configured a search engine."""
WEB_SEARCH_FIELDS = ("type", "filters", "search_context_size", "user_location")
EXECUTIONS = ("client", "server")
SEARCH_FIELDS = ("type", "execution", "description", "parameters")


def search_tool(fields: Fields) -> dict[str, Any]:
    """Return a search of the client as a function in the form of chat completions. Raise
    InvalidRequest and UnsupportedParameter."""
    execution = fields.text("execution")
    if execution not in (None, *EXECUTIONS):
        raise unknown_value(fields.path("execution"), "client or server", execution, EXECUTIONS)
    for name, value in fields.values.items():
        if name not in SEARCH_FIELDS and value is not None:
            place = fields.path(name)
            raise UnsupportedParameter(f"{place!r} is not supported. Remove it.", param=place)
    function: dict[str, Any] = {"name": SEARCH}
    if (description := fields.text("description")) is not None:
        function["description"] = description
    if (parameters := fields.mapping("parameters")) is not None:
        function["parameters"] = parameters
    return {"type": "function", "function": function}


def allowed_domains(search: Fields) -> tuple[str, ...]:
    """Return the domains of which the pages of a web search may be. Further members have no effect:
    the search engine is the operator's. Raise InvalidRequest."""
    filters = search.mapping("filters") or {}
    fields = Fields(filters, search.path("filters"))
    given = fields.items("allowed_domains") or []
    for at, domain in enumerate(given):
        if not isinstance(domain, str) or not domain:
            raise invalid_value(f"{fields.path('allowed_domains')}[{at}]", "a domain", domain)
    return tuple(given)

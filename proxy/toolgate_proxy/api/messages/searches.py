"""Entries of `tools` that are searches, which the gateway runs: for deferred tools, and in the
web."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...request_fields import Fields, invalid_value
from ...sealing import OwnerSeal
from ..shared.web_search import SearchEngine, WebSearch
from .conversation.content import check_fields

WEB_SEARCH = re.compile(r"web_search_[0-9]{8}")
"""Types of web searches, which the gateway runs if the operator has configured a search engine."""
WEB_SEARCH_FIELDS = (
    "type",
    "name",
    "allowed_domains",
    "blocked_domains",
    "max_uses",
    "user_location",
    "allowed_callers",
    "cache_control",
    "defer_loading",
    "strict",
)
SEARCH_FIELDS = (
    "type",
    "name",
    "allowed_callers",
    "cache_control",
    "defer_loading",
    "strict",
)


def search_name(fields: Fields, known: Sequence[str]) -> str:
    """Return the name of a search. `known`: its fields. Raise InvalidRequest and
    UnsupportedParameter."""
    check_fields(fields, known)
    name = fields.text("name")
    if not name:
        raise fields.wrong("name", "the name of the tool")
    return name


def web_search(fields: Fields, engine: SearchEngine, seal: OwnerSeal | None) -> WebSearch:
    """Return a web search. `seal`: of the sender. Raise InvalidRequest."""
    fields.mapping("user_location")  # the search engine has the operator's
    most = fields.values.get("max_uses")
    if most is not None and (type(most) is not int or most < 1):
        raise fields.wrong("max_uses", "an integer from 1")
    allowed, blocked = (_domains(fields, name) for name in ("allowed_domains", "blocked_domains"))
    return WebSearch(engine, seal, allowed, blocked, most)


def _domains(fields: Fields, name: str) -> tuple[str, ...]:
    given = fields.items(name) or []
    for at, domain in enumerate(given):
        if not isinstance(domain, str) or not domain:
            raise invalid_value(f"{fields.path(name)}[{at}]", "a domain", domain)
    return tuple(given)

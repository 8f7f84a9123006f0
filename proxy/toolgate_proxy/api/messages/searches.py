"""Entries of `tools` that the gateway runs: searches for deferred tools, searches in the web, and
fetches of web pages."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...request_fields import Fields
from ...sealing import OwnerSeal
from ..shared.web_fetch import PageFetcher, WebFetch
from ..shared.web_search import Domains, SearchEngine, WebSearch, read_domains
from .conversation.content import check_fields

WEB_SEARCH = re.compile(r"web_search_[0-9]{8}")
"""Types of web searches, which the gateway runs if the operator has configured a search engine."""
WEB_FETCH = re.compile(r"web_fetch_[0-9]{8}")
"""Types of fetches, which the gateway runs if the operator allows pages."""
SEARCH_FIELDS = (
    "type",
    "name",
    "allowed_callers",
    "cache_control",
    "defer_loading",
    "strict",
)
WEB_FIELDS = (*SEARCH_FIELDS, "allowed_domains", "blocked_domains", "max_uses")
WEB_SEARCH_FIELDS = (*WEB_FIELDS, "user_location")
WEB_FETCH_FIELDS = (*WEB_FIELDS, "citations", "max_content_tokens")


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
    return WebSearch(engine, seal, _allowed(fields), _count(fields, "max_uses"))


def web_fetch(
    fields: Fields, fetcher: PageFetcher, given: object, searches: Collection[WebSearch]
) -> WebFetch:
    """Return a web fetch. `given`: what the model has not written of the conversation. `searches`:
    those of the request. Raise InvalidRequest."""
    citations = Fields(fields.mapping("citations") or {}, fields.path("citations"))
    check_fields(citations, ("enabled",))
    return WebFetch(
        fetcher,
        given,
        searches,
        _allowed(fields),
        _count(fields, "max_uses"),
        _count(fields, "max_content_tokens"),
        citations.flag("enabled") is True,
    )


def not_of_the_model(values: Mapping[str, Any]) -> list[object]:
    """Return the parts of a conversation, as JSON, that the model has not written: the system
    prompt, messages of others, and results of calls."""
    messages = values.get("messages")
    parts: list[object] = [values.get("system")]
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(message, dict) and message.get("role") == "assistant":
            blocks = content if isinstance(content, list) else ()
            parts += [each for each in blocks if isinstance(each, dict) and _is_result(each)]
        else:
            parts.append(content)
    return parts


def _is_result(block: Mapping[str, Any]) -> bool:
    return str(block.get("type")).endswith("_tool_result")


def _count(fields: Fields, name: str) -> int | None:
    most = fields.values.get(name)
    if most is not None and (type(most) is not int or most < 1):
        raise fields.wrong(name, "an integer from 1")
    return most


def _allowed(fields: Fields) -> Domains:
    allowed, blocked = (
        read_domains(fields, name) for name in ("allowed_domains", "blocked_domains")
    )
    return Domains(allowed, blocked)

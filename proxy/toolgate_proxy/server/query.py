"""The query of a request for stored responses or conversations."""

from __future__ import annotations

from starlette.datastructures import QueryParams
from starlette.types import Scope

from toolgate_core.errors import InvalidRequest

from ..api.responses.parameters import INCLUDES
from ..api.responses.state.retrieval import Page
from ..request_fields import invalid_value

MAX_PAGE, PAGE = 100, 20


class Query:
    """Each method raises InvalidRequest for an invalid value."""

    def __init__(self, scope: Scope) -> None:
        self._given = QueryParams(scope["query_string"])

    def include(self) -> list[str]:
        include = [*self._given.getlist("include"), *self._given.getlist("include[]")]
        for name in include:
            if name not in INCLUDES:
                raise invalid_value("include", f"one of {', '.join(INCLUDES)}", name)
        return include

    def page(self) -> Page:
        limit = self.integer("limit", 1, MAX_PAGE) or PAGE
        order = self._given.get("order", "desc")
        if order not in ("asc", "desc"):
            raise invalid_value("order", '"asc" or "desc"', order)
        return Page(limit, order == "asc", self._given.get("after"))

    def flag(self, name: str) -> bool:
        value = self._given.get(name, "false").lower()
        if value not in ("true", "false"):
            raise invalid_value(name, "true or false", value)
        return value == "true"

    def integer(self, name: str, low: int, high: int) -> int | None:
        given = self._given.get(name)
        if given is None:
            return None
        number = int(given) if given.isascii() and given.isdigit() and len(given) < 17 else -1
        if not low <= number <= high:
            raise InvalidRequest(
                f"{name!r} must be an integer between {low} and {high}.", param=name
            )
        return number

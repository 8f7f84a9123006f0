"""LiteLLM's part of a feature: what it provides of the operator's, and what only it may see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

from litellm.proxy._types import UserAPIKeyAuth

from ..api.surface import Client
from ..keys.access import Header


class FeaturePart:
    """LiteLLM's part of one feature in one request. What most do not need is the default."""

    PARAMETERS: ClassVar[frozenset[str]] = frozenset()
    """Parameters that it reads, except `tools`."""

    @staticmethod
    def begin_series() -> None:
        """Begin the series of the operator's tools, so that their first failure is seen."""

    @staticmethod
    def secret_headers(headers: Collection[Header]) -> frozenset[str]:
        """Return the names of a request's headers that hooks and log events do not get."""
        return frozenset()

    def hide(self, values: dict[str, Any], headers: Collection[Header]) -> dict[str, Any]:
        """Return the parameters with placeholders for what only the feature may see. Raise
        InvalidRequest."""
        return values

    def reveal(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the parameters as the client sent them, for LiteLLM's handler."""
        return values

    async def provide(
        self, client: Client, values: Mapping[str, Any], caller: UserAPIKeyAuth
    ) -> Client:
        """Return the sender with what its request uses of the operator's. Raise ToolgateError."""
        return client


SECRET_HEADERS: list[Callable[[Collection[Header]], frozenset[str]]] = []
"""The `secret_headers` of all parts, which the list of features adds."""


def secret_headers(headers: Collection[Header]) -> frozenset[str]:
    """Return the names of a request's headers that hooks and log events do not get."""
    return frozenset().union(*(names(headers) for names in SECRET_HEADERS))

"""LiteLLM's part of a feature: what the operator provides for it with LiteLLM, and what only the
feature may see of a request."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from litellm.proxy._types import UserAPIKeyAuth

from ..api.surface import Client
from ..keys.access import Header


class FeaturePart:
    """In one request. What most do not need is the default."""

    PARAMETERS: ClassVar[frozenset[str]] = frozenset()
    """Parameters that it reads, except `tools`."""

    @staticmethod
    def begin_series() -> None:
        """Begin the series of the operator's tools, so that their first failure is seen."""

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

"""Salts of the backends' prefix caches. vLLM shares a cached prefix only between requests that have
the same salt."""

from __future__ import annotations

from dataclasses import replace

from toolgate_core.chat_request import ChatRequest

from ..sealing import Sealer


class CacheSalts:
    """`shared`: whether all owners share the prefix caches."""

    def __init__(self, sealer: Sealer, *, shared: bool) -> None:
        self._sealer = sealer
        self._shared = shared

    def salted(self, request: ChatRequest, owner: str) -> ChatRequest:
        """Return the request with the salt of its owner, the team or key that sent it. It is a
        keyed digest, the same at all gateways with the same secret, and tells a backend nothing
        about the owner. A client's own `cache_salt` divides the cache of its owner further."""
        if self._shared:
            return request
        text = f"{owner}\0{request.cache_salt or ''}"
        return replace(request, cache_salt=self._sealer.digest(text, purpose="cache salt"))

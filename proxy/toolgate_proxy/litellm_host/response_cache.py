"""LiteLLM's response cache (`cache: true` in `litellm_settings`), for the answers of our models.

LiteLLM's own code reads and writes it. An answer is sealed for the team or key that sent the
request, and its name tells nothing without the fleet's secret.
"""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import Mapping
from typing import Any

import litellm

from ..background import in_background
from ..chat.answers import Answers
from ..sealing import OwnerSeal, SealBroken

PURPOSE = "kept answer"
MEMBER = "toolgate"
"""Where the answer is in what LiteLLM keeps."""
MAX_BYTES = 1_000_000
"""Maximum size of a compressed answer."""
LOOKUP_SECONDS = 1.0
"""Time after which a request does without the cache."""
CALL_TYPES = {
    "acompletion": ("acompletion",),
    "aresponses": ("aresponses", "responses"),
    "anthropic_messages": ("anthropic_messages",),
}
"""Names in LiteLLM's `supported_call_types` that stand for an operation."""


def is_semantic(cache: Any) -> bool:
    """Return whether a cache has answers to similar requests, whose schemas may differ."""
    return "semantic" in str(cache.type).lower()


def kept_answers(call_type: str, body: Mapping[str, Any], seal: OwnerSeal | None) -> Answers | None:
    """Return the answers to a request; None: they are not kept. `call_type`: LiteLLM's name of the
    operation."""
    cache = litellm.cache
    if cache is None or seal is None or is_semantic(cache) or body.get("caching") is False:
        return None
    supported = cache.supported_call_types or ()
    if not any(name in supported for name in CALL_TYPES[call_type]):
        return None
    return ResponseCache(cache, seal, body)


class ResponseCache:
    """For one request. `body`: has the controls that LiteLLM reads."""

    def __init__(self, cache: Any, seal: OwnerSeal, body: Mapping[str, Any]) -> None:
        self._cache = cache
        self._seal = seal
        self._controls: Mapping[str, Any] = body.get("cache") or {}
        self._arguments = {name: body[name] for name in ("messages", "input") if name in body} | {
            "cache": dict(self._controls)
        }

    async def get(self, name: str) -> bytes | None:
        if self._controls.get("no-cache") is True:
            return None
        key = self._key(name)
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                found = await self._cache.async_get_cache(cache_key=key, **self._arguments)
        except TimeoutError:
            return None
        sealed = found.get(MEMBER) if isinstance(found, Mapping) else None
        return self._opened(sealed) if isinstance(sealed, str) else None

    def put(self, name: str, data: bytes) -> None:
        packed = zlib.compress(data, 1)
        if self._controls.get("no-store") is True or len(packed) > MAX_BYTES:
            return
        sealed = base64.b64encode(self._seal.seal(packed, purpose=PURPOSE)).decode()
        adding = self._cache.async_add_cache(
            {MEMBER: sealed}, cache_key=self._key(name), **self._arguments
        )
        in_background(adding)

    def _key(self, name: str) -> str:
        """Return the key, in the namespace of the request or of the cache."""
        digest = self._seal.sealer.digest(f"{self._seal.owner}\0{name}", purpose=PURPOSE)
        namespace = self._controls.get("namespace") or self._cache.namespace
        return ":".join(str(part) for part in (namespace, "toolgate", digest) if part)

    def _opened(self, sealed: str) -> bytes | None:
        try:
            packed = base64.b64decode(sealed, validate=True)
            return zlib.decompress(self._seal.open(packed, purpose=PURPOSE))
        except (SealBroken, ValueError):
            return None

"""Counts kept in Redis: exact over all gateways, by two scripts that Redis runs whole.

`toolgate:limit:{<key id>}:requests|tokens`  hash: slice of the minute → count
`toolgate:limit:{<key id>}:leases`           sorted set: request in flight → when it is given up
`toolgate:limit:{<key id>}:days`             hash: day → tokens

Time is Redis' own, so the clocks of the gateways need not agree. A request in flight is a lease
that its gateway renews: those of a gateway that was killed run out by themselves.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import cast

from redis.exceptions import NoScriptError

from ..redis.batch import RedisBatch
from ..redis.client import Argument, Command, SharedRedis
from .counter import (
    LIMITS,
    SLICES,
    WINDOW_MS,
    AdmissionRequest,
    AdmissionResult,
    LimitUsage,
    Unavailable,
    UsageUpdate,
)


class _Script:
    def __init__(self, name: str) -> None:
        self._text = resources.files(__package__).joinpath(name).read_text()
        self._sha = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, redis: RedisBatch, keys: list[str], *arguments: Argument) -> object:
        """Raises Unavailable."""
        rest = (len(keys), *keys, *arguments)
        reply = await _reply(redis, ("EVALSHA", self._sha, *rest))
        if isinstance(reply, NoScriptError):
            reply = await _reply(redis, ("EVAL", self._text, *rest))
        if isinstance(reply, Exception):  # out of memory, read only, loading …
            raise Unavailable from reply
        return reply


async def _reply(redis: RedisBatch, command: Command) -> object:
    reply = await redis.run(command)
    if reply is None:
        raise Unavailable
    return reply


ADMIT, NOTE = _Script("admit.lua"), _Script("note.lua")


class RedisCounter:
    """`lease`: seconds after which a request counts no longer as in flight unless it is noted."""

    def __init__(self, redis: SharedRedis, lease: float, window_ms: int = WINDOW_MS) -> None:
        self._redis = RedisBatch(redis)
        self._lease_ms = round(lease * 1000)
        self._window_ms = window_ms

    async def admit(self, ask: AdmissionRequest) -> AdmissionResult:
        limits = ask.limits
        wanted = (limits.rpm, limits.tpm, limits.max_parallel_requests, limits.tokens_per_day)
        said = await ADMIT.run(
            self._redis,
            _names(ask.key_id, "requests", "tokens", "leases", "days"),
            self._window_ms,
            SLICES,
            *(-1 if limit is None else limit for limit in wanted),
            ask.tokens,
            ask.request_id,
            self._lease_ms,
        )
        refused, wait, asked, asked_ms, used, used_ms, parallel, today, at, day = cast(
            list[int], said
        )
        return AdmissionResult(
            requests=LimitUsage(asked, asked_ms),
            tokens=LimitUsage(used, used_ms),
            parallel=parallel,
            tokens_today=today,
            slice=at,
            day=day,
            refused=LIMITS[refused - 1] if refused else None,
            wait_ms=wait,
        )

    async def note(self, note: UsageUpdate) -> None:
        lease = -1 if not note.parallel else 0 if note.ended else self._lease_ms
        await NOTE.run(
            self._redis,
            _names(note.key_id, "tokens", "leases", "days"),
            self._window_ms,
            SLICES,
            note.tokens,
            note.slice,
            note.day,
            note.request_id,
            lease,
        )


def _names(key_id: str, *kinds: str) -> list[str]:
    return [f"toolgate:limit:{{{key_id}}}:{kind}" for kind in kinds]

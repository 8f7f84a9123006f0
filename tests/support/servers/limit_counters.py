"""Requests against limits with a short sliding window, and their outcomes."""

from __future__ import annotations

from dataclasses import replace

from pydantic import SecretStr

from tests.support.servers.redis_server import RedisServer
from toolgate_proxy.keys.limit_kinds import IN_FLIGHT, KINDS, MINUTE, LimitKind, Tokens
from toolgate_proxy.limits.counter import (
    AdmissionRequest,
    AdmissionResult,
    Change,
    Cost,
    UsageUpdate,
)
from toolgate_proxy.limits.redis_counter import RedisCounter
from toolgate_proxy.redis_client import SharedRedis

WINDOW = 6_000
"""Milliseconds of a sliding window in these tests."""

SHORT = {MINUTE: replace(MINUTE, milliseconds=WINDOW)}
LIMITS = {"rpm": 5, "tpm": 100, "max_parallel_requests": 3, "tokens_per_day": 400}


def request(
    at: int,
    tokens: int = 1,
    limits: dict[str, int] = LIMITS,
    kinds: tuple[LimitKind, ...] = KINDS,
    short: bool = True,
) -> AdmissionRequest:
    """A request of a key with those limits; `short`: with the short sliding window."""
    costs = []
    for kind in kinds:
        limit = limits.get(kind.name)
        if limit is not None or kind.counted_for != "keys with this limit":
            window = SHORT.get(kind.window, kind.window) if short else kind.window
            amount = kind.unit.amount(Tokens(tokens))
            costs.append(Cost(replace(kind, window=window), limit, amount))
    return AdmissionRequest("key_1", f"r{at}", tuple(costs))


def update(
    admitted: AdmissionRequest, result: AdmissionResult, tokens: int, ended: bool = True
) -> UsageUpdate:
    """`tokens`: used beyond the reservation, or below 0: not used."""
    changes = []
    for cost in admitted.costs:
        amount = tokens if cost.kind.unit.counts_output else 0
        if amount or cost.kind.window == IN_FLIGHT:
            changes.append(Change(cost.kind, amount, result.usage[cost.kind.name].period))
    return UsageUpdate(admitted.key_id, admitted.request_id, tuple(changes), ended)


def refused(result: AdmissionResult) -> str | None:
    return None if result.refused is None else result.refused.kind.name


def in_redis(redis: RedisServer, lease: float = 3600) -> RedisCounter:
    return RedisCounter(SharedRedis(SecretStr(redis.url), 5.0), lease)

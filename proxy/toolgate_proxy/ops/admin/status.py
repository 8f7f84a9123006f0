"""`GET /toolgate/status` and `/toolgate/keys`: the state of this process, and its virtual keys."""

from __future__ import annotations

from contextlib import aclosing, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from redis.exceptions import RedisError

from toolgate_core.version import VERSION

from ...keys.key import Hasher, Key, now
from ...keys.redis_store import KeyUsage, RedisStore
from ...litellm_host.proxy_server import has_database
from ...litellm_host.routing import router
from ...litellm_host.routing.model_route import litellms_reason
from ...routing.deployments import Deployment
from ...server.traffic import RECENT, Minute
from ...state import GatewayState


def status(state: GatewayState) -> dict[str, Any]:
    """Return the response of `GET /toolgate/status`. Times are in UTC."""
    deployments = state.deployments
    cache, names = deployments.shared_cache, router.model_names()
    return {
        "time": datetime.now(UTC),
        "versions": {"toolgate": VERSION, "litellm": version("litellm")},
        # Models with Toolgate backends, by their names for clients. LiteLLM's `/health` reports on
        # other providers.
        "models": [
            {
                "model": name,
                # The handler of chat completions, and the setting that the own route lacks.
                "route": "litellm" if (why := litellms_reason(name)) else "own",
                "reason": why,
                "backends": [_backend(deployments.at(place), place.model) for place in places],
            }
            for name in names
            if (places := router.placements(name))
        ],
        # All other models, with the models of their providers.
        "others": {
            name: [row["litellm_params"]["model"] for row in router.rows_of(name)]
            for name in names
            if not router.placements(name)
        },
        # Requests that this process answered in the last minutes, the earliest first.
        "recent": [_minute(each) for each in RECENT.minutes()],
        "keys": len(state.key_sync.key_cache) if state.key_sync is not None else 0,
        # Limits are counted across all gateways (`fleet`), by this `process` alone, or not at all
        # (`unavailable`: requests with limited keys are refused).
        "limits": {"counted": state.limiter.counted, "in_flight": state.limiter.leases.in_flight},
        "fleet_cache": cache is not None and cache.redis.available,
        # Where responses are stored, in the same words. `unavailable` while Redis is.
        "responses": state.responses.kept,
        # Only with LiteLLM's database, LiteLLM's own UI can be used.
        "database": has_database(),
    }


def _backend(deployment: Deployment, model: str) -> dict[str, Any]:
    """`model`: the model's name at the backend."""
    state, info = deployment.state, deployment.backend.last_info
    return {
        "url": deployment.url,
        "model": model,
        "up": state.up,
        "since": datetime.fromtimestamp(state.since, UTC),  # of the last change of `up`
        "error": state.error,  # the last; none while the backend responds
        "probe_ms": state.probe_ms,
        "requests": deployment.load.requests,  # in flight, of this gateway process
        # Those behind the address that responded to this gateway process in the last 30 seconds: an
        # opaque name of the engine, and the hash of what must be the same at all of them.
        "replicas": [
            {"replica": each.name, "fingerprint": each.fingerprint}
            for each in deployment.backend.replicas.seen()
        ],
        # None until the backend has responded.
        "description": info
        and {
            "vllm": info.vllm_version,
            "adapter": info.adapter,
            "dialect": info.dialect,
            "max_model_len": info.limits.max_model_len,
        },
    }


def _minute(minute: Minute) -> dict[str, Any]:
    seconds = sorted(minute.first_token_seconds)
    places = {"p50": 0.5, "p90": 0.9, "p99": 0.99} if seconds else {}
    last = len(seconds) - 1
    return {
        "minute": datetime.fromtimestamp(minute.start * 60, UTC),  # its start
        "requests": minute.requests,
        "refused": minute.refused,  # with a status of 4xx
        "failed": minute.failed,  # with a status of 5xx, or an error in a stream
        # Of which the model did not see all as it was sent: hosted tools, a part of the history.
        "omitted": minute.omitted,
        # Of streamed responses; None without one.
        "first_token_ms": {
            name: round(seconds[min(last, int(len(seconds) * part))] * 1000, 1)
            for name, part in places.items()
        }
        or None,
    }


async def list_keys(state: GatewayState) -> dict[str, Any]:
    """Return the response of `GET /toolgate/keys`: the virtual keys that this gateway knows, and
    whether their use is known, which is counted in Redis."""
    known = state.key_sync.key_cache.all() if state.key_sync is not None else ()
    keys = sorted(known, key=lambda key: key.alias)
    usages = await _usages(keys, state) if state.key_sync is not None else None
    pairs = zip(keys, usages or [KeyUsage() for _ in keys], strict=True)
    return {"keys": [_described(*each) for each in pairs], "usage": usages is not None}


async def _usages(keys: list[Key], state: GatewayState) -> list[KeyUsage] | None:
    """Return None without Redis, and while it does not respond."""
    url, secret = state.settings.redis_url, state.settings.key_secret
    if url is None or secret is None:
        return None
    with suppress(RedisError, OSError):
        async with aclosing(RedisStore(url, Hasher(secret))) as store:
            return await store.usages(keys, now())
    return None


def _described(key: Key, usage: KeyUsage) -> dict[str, Any]:
    return {
        "id": key.id,
        "alias": key.alias,
        "team": key.terms.team,
        "status": key.status(now()),  # active, blocked, expired or revoked
        "hints": [secret.hint for secret in key.secrets],
        "models": list(key.terms.models),  # empty for all
        "limits": {name: limit for name, limit in key.limits.model_dump().items() if limit},
        "expires": key.terms.expires,
        "today": usage.today,  # by names such as `tokens_today`
        "last_used": usage.last_used,
    }

"""Response of `GET /toolgate/keys`: the virtual keys that this gateway knows, and their use."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel
from redis.exceptions import RedisError

from ...keys.key import Hasher, Key, now
from ...keys.redis_store import KeyUsage, RedisStore
from ...settings import Settings
from ...state import GatewayState


class KeyDescription(BaseModel):
    id: str
    alias: str
    team: str | None
    status: str
    """active, blocked, expired or revoked."""
    hints: list[str]
    """The beginning and the end of each secret."""
    models: list[str]
    """Empty for all models."""
    limits: dict[str, int]
    expires: datetime | None
    today: dict[str, int]
    """Use of the current day, by names such as `tokens_today`."""
    last_used: datetime | None


class KeyList(BaseModel):
    keys: list[KeyDescription]
    usage: bool
    """Whether the use is known. It is counted in Redis."""


async def list_keys(state: GatewayState) -> KeyList:
    if state.key_sync is None:
        return KeyList(keys=[], usage=False)
    keys = sorted(state.key_sync.key_cache.all(), key=lambda key: key.alias)
    usages = await _usages(keys, state.settings)
    return KeyList(
        keys=[
            _described(key, usage)
            for key, usage in zip(keys, usages or [KeyUsage() for _ in keys], strict=True)
        ],
        usage=usages is not None,
    )


async def _usages(keys: Sequence[Key], settings: Settings) -> list[KeyUsage] | None:
    """Return None without Redis, and while it does not respond."""
    if settings.redis_url is None or settings.key_secret is None:
        return None
    store = RedisStore(settings.redis_url, Hasher(settings.key_secret))
    try:
        return await store.usages(keys, now())
    except (RedisError, OSError):
        return None
    finally:
        await store.aclose()


def _described(key: Key, usage: KeyUsage) -> KeyDescription:
    return KeyDescription(
        id=key.id,
        alias=key.alias,
        team=key.terms.team,
        status=key.status(now()),
        hints=[secret.hint for secret in key.secrets],
        models=list(key.terms.models),
        limits={name: limit for name, limit in key.limits.model_dump().items() if limit},
        expires=key.terms.expires,
        today=usage.today,
        last_used=usage.last_used,
    )

"""State of a gateway process: keys, limits, deployments and the engine."""

from __future__ import annotations

from functools import lru_cache

from toolgate_core.killable import FairSlots

from .api.surfaces import RequestReader
from .chat.failover import Failover
from .chat.preparation import Engine
from .kept_reasoning import KeptReasoning
from .kept_values import MemoryValues, RedisValues
from .keys.sync import KeySync
from .limits.key_bounds import BodyBudget, FailedAttempts
from .limits.limiter import Limiter
from .response_store.store import ResponseStore
from .routing.deployments import Deployments
from .routing.health import Readiness
from .sealing import Sealer
from .settings import Settings, settings


class GatewayState:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.limiter = Limiter(settings)
        self.bodies = BodyBudget(settings.max_body_bytes)
        self.reading = FairSlots(2)
        self.failed_attempts = FailedAttempts(settings.wrong_keys_per_minute)
        self.key_sync = KeySync.from_settings(settings)
        self.deployments = Deployments(settings)
        self.readiness = Readiness(self.deployments, lambda: self.limiter.reached_redis)
        self.engine = Engine(settings)
        self.failover = Failover(self.engine, self.deployments)
        self.sealer = Sealer.from_settings(settings)
        self.responses = ResponseStore.from_settings(settings, self.sealer)
        self.kept_values = RedisValues(settings) if settings.redis_url else MemoryValues()
        self.kept_reasoning = KeptReasoning(self.kept_values, settings)
        self.reader = RequestReader(settings, self.sealer)

    async def aclose(self) -> None:
        await self.limiter.aclose()
        await self.responses.aclose()
        await self.kept_values.aclose()
        if self.key_sync is not None:
            await self.key_sync.aclose()
        await self.deployments.aclose()


@lru_cache(maxsize=1)
def gateway() -> GatewayState:
    """Return the state of this process, created on first use."""
    return GatewayState(settings())

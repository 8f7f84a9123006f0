"""The backends that deployments point to: one client, and one record of grammars, for each."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
from pydantic import SecretStr

from ..backend_client.client import Backend
from ..grammars.redis_cache import RedisCache
from ..grammars.service import GrammarService
from ..settings import Settings

logger = logging.getLogger(__name__)

FAILURES = 2
"""Probes in a row that must fail before a backend counts as down, unless it can't be reached."""


ON_ITS_WAY = 2.0
"""Seconds in which a request that was told where to go should have arrived there."""


@dataclass(frozen=True)
class Placement:
    """Where a deployment of ours points to, and what the model is called there."""

    model: str
    api_base: str | None
    api_key: str | None


@dataclass
class State:
    """Whether a backend answers; what `health.py` and requests have met."""

    url: str
    up: bool = True
    since: float = field(default_factory=time.time)
    """Seconds since 1970; when it last came or went."""
    error: str | None = None
    probe_ms: float | None = None
    failures: int = 0

    def answered(self, seconds: float) -> None:
        self.probe_ms, self.failures, self.error = round(seconds * 1000, 1), 0, None
        if not self.up:
            logger.warning("The backend %s answers again.", self.url)
            self.up, self.since = True, time.time()

    def failed(self, error: str, *, at_once: bool) -> None:
        """`at_once`: there is no doubt."""
        self.failures += 1
        self.error = error
        if self.up and (at_once or self.failures >= FAILURES):
            logger.warning("The backend %s is out of the rotation (%s).", self.url, error)
            self.up, self.since = False, time.time()


class Load:
    """Requests that a backend answers, and those that were just sent its way: between LiteLLM's
    choice of a deployment and the provider's work others are chosen for, and without those a whole
    burst would go to one backend."""

    def __init__(self) -> None:
        self._running = 0
        self._expected: deque[float] = deque()
        """When each was sent its way, by time.monotonic."""

    def expect(self) -> None:
        self._expected.append(time.monotonic())

    @contextmanager
    def carried(self) -> Iterator[None]:
        """While a request is answered there."""
        if self._expected:
            self._expected.popleft()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    @property
    def requests(self) -> int:
        late = time.monotonic() - ON_ITS_WAY
        while self._expected and self._expected[0] < late:
            self._expected.popleft()
        return self._running + len(self._expected)


@dataclass(frozen=True)
class Deployment:
    url: str
    """As it may be shown: without user and password."""
    backend: Backend
    grammars: GrammarService
    state: State
    load: Load = field(default_factory=Load)


class Deployments:
    """Deployments by base URL and key, made when they are first asked for."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.fleet = RedisCache.from_settings(settings)
        self._known: dict[tuple[str, str], Deployment] = {}

    def get(self, api_base: str | None, api_key: str | None) -> Deployment:
        """What a deployment leaves out comes from the settings."""
        url = api_base or self._settings.backend_url
        key = SecretStr(api_key) if api_key else self._settings.backend_key
        name = (url, key.get_secret_value() if key else "")
        if name not in self._known:
            backend = Backend(url, key, self._settings)
            grammars = GrammarService(backend, self._settings, self.fleet, label=_shown(url))
            self._known[name] = Deployment(_shown(url), backend, grammars, State(_shown(url)))
        return self._known[name]

    def at(self, placement: Placement) -> Deployment:
        return self.get(placement.api_base, placement.api_key)


def _shown(url: str) -> str:
    return str(httpx.URL(url).copy_with(username=None, password=None))

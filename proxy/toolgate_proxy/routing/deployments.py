"""Backends of the deployments. Each has one client, one grammar service and one state."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pydantic import SecretStr

from .. import metrics
from ..backend_client.client import Backend
from ..discovery import Discovery, is_discovered, is_name, without_password
from ..grammars.service import GrammarService
from ..grammars.verdicts import RedisCache
from ..settings import Settings

logger = logging.getLogger(__name__)

FAILURES = 2
"""Number of consecutive failed probes after which a backend is down. A refused one is enough."""

PROBE_INTERVAL = 1.0
"""Seconds between two probes of a backend."""

PROBE_SECONDS = 2.0
"""Time for the response to a probe, which needs no computation."""

MISSED_PROBES = 3
"""Number of probes that may be late before a failure is forgotten."""

EXPECTED_SECONDS = 2.0
"""Time for which a selected deployment counts a request that has not arrived yet."""


@dataclass(frozen=True)
class Placement:
    """Address of a Toolgate deployment, and the model's name at its backend."""

    model: str
    api_base: str | None
    api_key: str | None
    group: str | None = None
    """The name under which the configuration has it. One name and key: one operator."""


@dataclass
class BackendState:
    """Whether a backend is available, according to probes (health.py) and requests."""

    url: str
    memory: float = 9.0
    """Seconds for which a failure is known. Each failed probe renews it."""
    up: bool = True
    since: float = field(default_factory=time.time)
    """Time of the last change of `up`, in seconds since 1970."""
    error: str | None = None
    """Cause of the last failure (health.py). None while the backend responds."""
    probe_ms: float | None = None
    failures: int = 0
    failed_at: float = 0.0
    """Time of the last failure, by time.monotonic."""

    @property
    def has_responded(self) -> bool:
        """Whether a probe has succeeded since the start of this process."""
        return self.probe_ms is not None

    @property
    def is_down(self) -> bool:
        """Whether requests would fail. False if there was no probe for a while, as in LiteLLM's own
        server, which runs no health checks: then a request must find out."""
        return not self.up and time.monotonic() - self.failed_at < self.memory

    def note_success(self, seconds: float) -> None:
        self.probe_ms, self.failures, self.error = round(seconds * 1000, 1), 0, None
        if not self.up:
            logger.warning("Backend %s responds again. It gets requests again.", self.url)
            self.up, self.since = True, time.time()

    def note_response(self) -> None:
        """Note a response to a request: the backend, or one of its replicas, responds, whatever
        happened to the last probe."""
        self.failures = 0

    def note_failure(self, error: str, *, at_once: bool) -> None:
        """Note a failure. `at_once`: one failure is sufficient."""
        self.failures += 1
        self.error, self.failed_at = error, time.monotonic()
        if self.up and (at_once or self.failures >= FAILURES):
            logger.warning(
                "Backend %s failed its health check (%s). It gets no requests until it responds.",
                self.url,
                error,
            )
            self.up, self.since = False, time.time()


class Load:
    """In-flight requests of a backend, including selected ones that have not arrived yet. LiteLLM
    selects deployments for further requests before the first one arrives. Without counting it, a
    burst of requests would go to one backend."""

    def __init__(self) -> None:
        self._running = 0
        self._elsewhere = 0
        """Requests of other gateway processes, as of the last probe."""
        self._expected: deque[float] = deque()
        """Times of selection, by time.monotonic."""

    def expect(self) -> None:
        self._expected.append(time.monotonic())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count a request while it is in flight."""
        if self._expected:
            self._expected.popleft()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    def note_reported(self, in_flight: int | None) -> None:
        """Note the load. `in_flight`: requests of all gateways, as the backend reports them."""
        self._elsewhere = max(0, (in_flight or 0) - self._running)

    @property
    def total(self) -> int:
        """Requests of all gateway processes."""
        return self.requests + self._elsewhere

    @property
    def requests(self) -> int:
        """Requests of this process."""
        expired = time.monotonic() - EXPECTED_SECONDS
        while self._expected and self._expected[0] < expired:
            self._expected.popleft()
        return self._running + len(self._expected)


@dataclass(frozen=True)
class Deployment:
    """A backend, for the models of one name. It is equal to itself under other names."""

    url: str = field(compare=False)
    """For display: without user and password."""
    backend: Backend
    grammars: GrammarService = field(compare=False)
    state: BackendState = field(compare=False)
    load: Load = field(default_factory=Load, compare=False)


class Deployments:
    """Deployments by base URL, key and name, created on first use."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.shared_cache = RedisCache.from_settings(settings)
        self.discovery = Discovery()
        self._deployments: dict[tuple[str, str, str | None], Deployment] = {}

    def at(self, placement: Placement) -> Deployment:
        """Return the deployment at a place. Missing values are taken from the settings."""
        url = placement.api_base or self._settings.backend_url
        key = SecretStr(placement.api_key) if placement.api_key else self._settings.backend_key
        name = (url, key.get_secret_value() if key else "", placement.group)
        if name not in self._deployments:
            known = self._deployments.items()
            same = next((each for at, each in known if at[:2] == name[:2]), None)
            backend = same.backend if same else Backend(url, key, self._settings, placement.model)
            cache, place = self.shared_cache, placement.group or url
            operator = cache.operator(place, name[1]) if cache is not None else ""
            grammars = GrammarService(backend, cache, operator)
            if same is None:
                label = without_password(url)
                state = BackendState(label, MISSED_PROBES * (PROBE_INTERVAL + PROBE_SECONDS))
                self._deployments[name] = Deployment(label, backend, grammars, state)
            else:
                self._deployments[name] = replace(same, grammars=grammars)
        return self._deployments[name]

    def replicas_of(self, placement: Placement) -> list[Placement]:
        """Return the placements of the replicas of a name; for any other address, the placement."""
        url = placement.api_base or self._settings.backend_url
        if not is_name(url):
            return [placement]
        return [replace(placement, api_base=each) for each in self.discovery.replicas(url)]

    async def forget_left(self, current: Collection[Deployment]) -> None:
        """Close the replicas that are not `current` any more, once their requests have ended."""
        for name, deployment in [*self._deployments.items()]:
            gone = is_discovered(name[0]) and deployment not in current
            if gone and not deployment.load.requests:
                del self._deployments[name]
                metrics.forget(metrics.BACKEND_UP, deployment.url)
                await deployment.backend.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        if self.shared_cache is not None:
            await self.shared_cache.aclose()
        for deployment in self._deployments.values():
            await deployment.backend.aclose()

"""The backends that deployments point to: one client, and one record of grammars, for each."""

from __future__ import annotations

from dataclasses import dataclass

import httpx
from pydantic import SecretStr

from .backend_client import Backend
from .fleet_cache import FleetCache
from .grammars import Grammars
from .settings import Settings


@dataclass(frozen=True)
class Deployment:
    url: str
    """As it may be shown: without user and password."""
    backend: Backend
    grammars: Grammars


class Deployments:
    """Deployments by base URL and key, made when they are first asked for."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.fleet = FleetCache.of(settings)
        self._known: dict[tuple[str, str], Deployment] = {}

    def get(self, api_base: str | None, api_key: str | None) -> Deployment:
        """What a deployment leaves out comes from the settings."""
        url = api_base or self._settings.backend_url
        key = SecretStr(api_key) if api_key else self._settings.backend_key
        name = (url, key.get_secret_value() if key else "")
        if name not in self._known:
            backend = Backend(url, key, self._settings)
            grammars = Grammars(backend, self._settings, self.fleet, label=_shown(url))
            self._known[name] = Deployment(_shown(url), backend, grammars)
        return self._known[name]


def _shown(url: str) -> str:
    return str(httpx.URL(url).copy_with(username=None, password=None))

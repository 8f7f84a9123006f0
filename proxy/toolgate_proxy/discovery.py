"""Discovery of replicas by DNS: `dns+http://name:8000` stands for one backend at each address of a
name, for example of a headless Service of Kubernetes.

The name is resolved every few seconds while it is in use. The URL of a replica is that of the name
with the address as its fragment, `dns+http://name:8000#10.0.0.7`: its requests have the name in
`Host`, and TLS verifies the name, but only the address is contacted. Until the name is resolved,
its URL stands for whichever address the operating system finds.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from dataclasses import dataclass

import httpx
from aiohttp.abc import AbstractResolver, ResolveResult

from .background import in_background

logger = logging.getLogger(__name__)

PREFIX = "dns+"
INTERVAL = 5.0
"""Seconds between two resolutions of a name."""


def is_name(url: str) -> bool:
    """Return whether a URL stands for the replicas of a name."""
    return url.startswith(PREFIX) and "#" not in url


def is_discovered(url: str) -> bool:
    """Return whether a URL is one that may leave: of a replica, or of a name."""
    return url.startswith(PREFIX)


def addressed(url: str) -> tuple[str, str | None]:
    """Return the HTTP URL of a backend, and the address that its name has; None: any."""
    if not url.startswith(PREFIX):
        return url, None
    http, _, address = url.removeprefix(PREFIX).partition("#")
    return http, address or None


def without_password(url: str) -> str:
    return str(httpx.URL(url).copy_with(username=None, password=None))


@dataclass
class _Name:
    replicas: tuple[str, ...]
    """Their URLs."""
    due: float = 0.0
    """Time of the next resolution, by time.monotonic."""
    busy: bool = False
    """Whether it is being resolved. A server that does not respond has one thread at most."""
    failed: bool = False


class Discovery:
    def __init__(self) -> None:
        self._names: dict[str, _Name] = {}
        """By URL."""

    def replicas(self, url: str) -> tuple[str, ...]:
        """Return the URLs of the replicas of a name, as of its last resolution; the URL itself
        before the first one. Resolve the name in the background, if it is due. `url`: that of a
        name (see `is_name`)."""
        name = self._names.setdefault(url, _Name((url,)))
        if time.monotonic() >= name.due and not name.busy:
            in_background(self._resolve(url, name))
            name.busy = True
        return name.replicas

    async def _resolve(self, url: str, name: _Name) -> None:
        try:
            addresses = await _addresses(url)
        except OSError as error:
            if not name.failed:
                logger.warning(
                    "The name of %s cannot be resolved (%s). Its last addresses stay in use.",
                    without_password(url),
                    error.strerror or type(error).__name__,
                )
            name.failed = True
        else:
            name.failed = False
            replicas = tuple(f"{url}#{address}" for address in addresses)
            if replicas != name.replicas:
                listed = ", ".join(addresses)
                logger.info("The addresses of %s are %s.", without_password(url), listed)
                name.replicas = replicas
        finally:
            name.due, name.busy = time.monotonic() + INTERVAL, False


async def _addresses(url: str) -> list[str]:
    """Return the addresses of the URL's name, those of IPv4 if there are any: a replica may have
    one of each kind. Raise OSError."""
    parts = httpx.URL(url)
    entries = await asyncio.get_running_loop().getaddrinfo(
        parts.host, parts.port, type=socket.SOCK_STREAM
    )
    kinds = {family for family, *_ in entries}
    kind = socket.AF_INET if socket.AF_INET in kinds else socket.AF_INET6
    return sorted({str(address[0]) for family, *_, address in entries if family == kind})


class PinnedResolver(AbstractResolver):
    """The resolver of a client that connects to one address, whatever the name of the server is."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        kind = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        return [
            ResolveResult(
                hostname=host,
                host=self._address,
                port=port,
                family=kind,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
        ]

    async def close(self) -> None:
        pass

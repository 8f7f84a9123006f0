"""Fetches from public addresses.

A URL chosen by a client or a model could reach internal services (SSRF). Therefore only public IP
addresses are fetched, the address that was checked is the one that is used, redirects are not
followed, nothing is decompressed, and bytes are limited. The caller limits the time.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Literal

import httpx

GLOBAL_UNICAST = IPv6Network("2000::/3")
"""All other IPv6 addresses are loopback, local, multicast, translated or unassigned."""
NOT_PUBLIC = (
    IPv4Network("168.63.129.16/32"),  # services of Azure's hosts, an address that is in no registry
    IPv4Network("192.0.0.0/24"),  # protocol assignments, and a cloud's metadata service
    IPv4Network("192.88.99.0/24"),  # 6to4 relays, deprecated
    IPv4Network("224.0.0.0/4"),  # multicast
    IPv6Network("2001::/23"),  # protocol assignments, Teredo among them
    IPv6Network("2002::/16"),  # 6to4: contains an IPv4 address
    IPv6Network("3fff::/20"),  # documentation
)
"""What Python's `is_global` takes for public, in some releases at least."""
Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Resolves host and port to IP addresses. Raises OSError."""
Problem = Literal["invalid_url", "other_scheme", "zone", "not_public", "too_large", "unreachable"]


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address is public. An IPv4-mapped IPv6 address counts as its IPv4 address.
    An address with a zone (`%eth0`) is one of a single link."""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address not in GLOBAL_UNICAST:
            return False
    return address.is_global and not any(address in network for network in NOT_PUBLIC)


class NotFetched(Exception):
    """A URL was not fetched. The message reveals nothing of its content, which may be secret."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


@dataclass(frozen=True)
class Answer:
    status: int
    headers: httpx.Headers
    data: bytes
    """As it was sent, of an answer with the status 200."""


class PublicFetch:
    """Fetches public URLs. `resolve` and `transport` replace the network in tests."""

    def __init__(
        self, resolve: Resolve | None = None, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._resolve = resolve or _resolve
        self._transport = transport

    async def get(self, source: str, *, accept: str, max_bytes: int) -> Answer:
        """Raise NotFetched."""
        try:
            url = checked(source)
            host, port = url.raw_host.decode(), url.port or (443 if url.scheme == "https" else 80)
            address = _public(await self._resolve(host, port))
            async with httpx.AsyncClient(
                transport=self._transport, trust_env=False, follow_redirects=False
            ) as client:
                # To the checked address, because the name could resolve differently the next time.
                request = client.build_request(
                    "GET",
                    url.copy_with(host=address),
                    headers={
                        "Host": url.netloc.decode(),
                        "Accept": accept,
                        "Accept-Encoding": "identity",
                    },
                    extensions={"sni_hostname": host},
                )
                response = await client.send(request, stream=True)
                try:
                    data = await _read(response, max_bytes) if response.status_code == 200 else b""
                finally:
                    await response.aclose()
        except (httpx.HTTPError, OSError, UnicodeError) as error:
            # An invalid host name raises UnicodeError.
            raise NotFetched("unreachable") from error
        return Answer(response.status_code, response.headers, data)


def checked(address: str) -> httpx.URL:
    """Return a URL with a host. Raise NotFetched."""
    try:
        url = httpx.URL(address)
    except (httpx.InvalidURL, ValueError) as error:
        raise NotFetched("invalid_url") from error
    if url.scheme not in ("http", "https") or not url.host or url.userinfo:
        raise NotFetched("other_scheme")
    if "%" in url.host:
        raise NotFetched("zone")
    return url


async def _read(response: httpx.Response, max_bytes: int) -> bytes:
    data = bytearray()
    async for part in response.aiter_raw():  # raw: decompression could exceed the limit
        data += part
        if len(data) > max_bytes:
            raise NotFetched("too_large")
    return bytes(data)


async def _resolve(host: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in entries]


def _public(addresses: Sequence[str]) -> str:
    """Return the first address. Raise NotFetched unless all addresses are public."""
    try:
        parsed = [ipaddress.ip_address(address) for address in addresses]
    except ValueError:  # an invalid zone
        parsed = []
    if not parsed or not all(map(is_public, parsed)):
        raise NotFetched("not_public")
    return str(parsed[0])

"""Images fetched over real connections, to servers on loopback addresses only.

127.0.0.1 and ::1 stand for public addresses, all others for internal ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest

from toolgate_core.errors import InvalidRequest
from toolgate_proxy.chat.request.images import Images
from toolgate_proxy.fetching import public_fetch

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 40
PUBLIC = (ip_address("127.0.0.1"), ip_address("::1"))


@pytest.fixture(autouse=True)
def _public_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_public(address: IPv4Address | IPv6Address) -> bool:
        return address in PUBLIC

    monkeypatch.setattr(public_fetch, "is_public", is_public)


@dataclass
class Server:
    """Answers every request with `response`."""

    response: bytes
    port: int = 0
    requests: list[bytes] = field(default_factory=list)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.response)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def serving(response: bytes, host: str, port: int = 0) -> AsyncIterator[Server]:
    server = Server(response)
    listener = await asyncio.start_server(server.handle, host, port)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()


def whole(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def resolving(*answers: str) -> tuple[Callable[[str, int], object], list[str]]:
    """A resolver with another answer each time, and the names that it was given."""
    names: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        names.append(host)
        return [answers[min(len(names), len(answers)) - 1]]

    return resolve, names


async def fetched(url: str, resolve: Callable[[str, int], object] | None = None) -> object:
    fetcher = Images(resolve=resolve)  # type: ignore[arg-type]
    content = [{"type": "image_url", "image_url": {"url": url}}]
    [message] = await fetcher.inlined([{"role": "user", "content": content}], accepts_images=True)
    return message["content"][0]["image_url"]["url"]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_image_is_fetched_from_the_address_that_was_checked(host: str) -> None:
    """The name has no address of its own, and its second address would be an internal one."""
    resolve, names = resolving(host, "127.0.0.3")
    async with serving(whole(PNG), host) as server:
        url = f"http://rebinding.invalid:{server.port}/a.png"
        assert str(await fetched(url, resolve)).startswith("data:image/png;base64,")
        assert names == ["rebinding.invalid"]
        assert b"rebinding.invalid" in server.requests[0]


async def test_internal_address_gets_no_connection() -> None:
    resolve, _ = resolving("127.0.0.3")
    async with serving(whole(PNG), "127.0.0.3") as internal:
        with pytest.raises(InvalidRequest, match="not public"):
            await fetched(f"http://internal.invalid:{internal.port}/a.png", resolve)
        with pytest.raises(InvalidRequest, match="not public"):
            await fetched(f"http://127.0.0.3:{internal.port}/a.png")
        for spelling in ("2130706435", "0x7f.3", "0177.0.0.3", "127.3"):
            with pytest.raises(InvalidRequest):
                await fetched(f"http://{spelling}:{internal.port}/a.png")
        assert internal.requests == []


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
async def test_redirect_to_an_internal_address_is_not_followed(status: str) -> None:
    resolve, names = resolving("127.0.0.1")
    async with serving(whole(PNG), "127.0.0.3") as internal:
        location = f"Location: http://127.0.0.3:{internal.port}/a.png"
        async with serving(whole(b"", status, location), "127.0.0.1") as public:
            with pytest.raises(InvalidRequest, match=f"HTTP {status[:3]}"):
                await fetched(f"http://redirecting.invalid:{public.port}/a.png", resolve)
            assert len(public.requests) == len(names) == 1
        assert internal.requests == []


@pytest.mark.parametrize("address", ["::1%lo", "::1%1", "fe80::1%eth0", "::1%", "127.0.0.1%lo", ""])
async def test_address_with_a_zone_is_not_public(address: str) -> None:
    """Zones are for addresses of one link."""
    resolve, _ = resolving(address)
    async with serving(whole(PNG), "::1") as server:
        with pytest.raises(InvalidRequest, match="not public"):
            await fetched(f"http://zoned.invalid:{server.port}/a.png", resolve)
        for zone in ("%25lo", "%lo", "%251"):
            with pytest.raises(InvalidRequest):
                await fetched(f"http://[::1{zone}]:{server.port}/a.png")
        assert server.requests == []


async def test_web_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve, _ = resolving("127.0.0.1")
    async with serving(whole(PNG), "127.0.0.1") as proxy, serving(whole(PNG), "127.0.0.1") as site:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await fetched(f"http://pictures.invalid:{site.port}/a.png", resolve)
        assert (len(site.requests), proxy.requests) == (1, [])

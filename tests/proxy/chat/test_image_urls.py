"""Images by URL: accepted types and sizes, and protection of the internal network. Real
connections go to loopback addresses only, of which 127.0.0.1 and ::1 stand for public ones."""

from __future__ import annotations

import asyncio
import base64
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import httpx
import pytest

from toolgate_core.errors import InvalidRequest
from toolgate_proxy import public_fetch
from toolgate_proxy.chat import images as images_module
from toolgate_proxy.chat.images import LEFT_OUT, Images, without_images_in_results

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 40
URI = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
SITE = "https://pictures.example/a.png"
PUBLIC = "93.184.215.14"
PARAM = "messages[0].content[1].image_url"
Handler = Callable[[httpx.Request], httpx.Response]
Resolve = Callable[[str, int], Awaitable[list[str]]]


def messages_with(*urls: str) -> list[dict[str, Any]]:
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [{"type": "text", "text": "see"}, *images]}]


def png(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, stream=httpx.ByteStream(PNG))


def never(_: httpx.Request) -> httpx.Response:
    raise AssertionError("no request may be sent")


def images(*addresses: str, handler: Handler = png, fetch: bool = True) -> Images:
    """Names have the addresses; an address that stands in a URL has itself."""

    async def resolve(host: str, port: int) -> list[str]:
        if host == "2130706433":
            return ["127.0.0.1"]
        return [host] if host[:1].isdigit() or ":" in host else list(addresses or (PUBLIC,))

    return Images(fetch=fetch, resolve=resolve, transport=httpx.MockTransport(handler))


async def error_for(url: str, *addresses: str, **options: Any) -> str:
    with pytest.raises(InvalidRequest) as refused:
        await images(*addresses, **options).inlined(messages_with(url), accepts_images=True)
    assert refused.value.param == PARAM
    return refused.value.message


async def test_images_given_by_url_become_data_uris():
    requests: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return png(request)

    given = messages_with("https://pictures.example:8443/a.png?x=1", URI)
    [message] = await images(handler=handler).inlined(given, accepts_images=True)
    shown = [part.get("image_url") for part in message["content"]]
    assert shown == [None, {"url": URI}, {"url": URI}]
    [request] = requests
    # The checked IP address, with the name in the URL.
    assert request.url == f"https://{PUBLIC}:8443/a.png?x=1"
    assert request.headers["host"] == "pictures.example:8443"
    assert request.extensions["sni_hostname"] == "pictures.example"
    assert "authorization" not in request.headers


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
     "0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fd00::1",
     "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "2001:0:a00:1::"],
)  # fmt: skip
async def test_image_urls_with_private_addresses_are_refused(address):
    """Also if another address of the host is public."""
    url = "http://innocent.example/a.png"
    assert "not public" in await error_for(url, address, handler=never)
    await error_for(url, PUBLIC, address, handler=never)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest/meta-data",
     "http://2130706433/", "file:///etc/passwd", "ftp://example.com/a.png",
     "http://user:secret@example.com/a.png", "http://", "//example.com/a.png", "a.png",
     "http://exa mple.com\x00/", "data:image/png;base64,!!!", "data:image/png;base64,AAAA",
     "data:image/png;base64,é", "data:image/svg+xml;base64,AAAA", "data:text/html,hi",
     URI.replace("png", "jpeg")],
)  # fmt: skip
async def test_local_and_unsupported_image_urls_are_refused(url):
    await error_for(url, handler=never)


@pytest.mark.parametrize(
    "url", ["http://a..b/a.png", f"http://{'a' * 64}.example/a.png", "http://xn--a/a.png"]
)
async def test_image_urls_with_invalid_host_names_are_refused(url):
    fetcher = Images(transport=httpx.MockTransport(never))
    with pytest.raises(InvalidRequest, match="could not be fetched"):
        await fetcher.inlined(messages_with(url), accepts_images=True)


@pytest.mark.parametrize("status", [301, 302, 307, 308, 404, 500, 206])
async def test_redirects_and_error_statuses_are_refused(status):
    def handler(request: httpx.Request) -> httpx.Response:
        assert request.url.host == PUBLIC
        return httpx.Response(status, headers={"location": "http://10.0.0.1/"}, content=PNG)

    assert str(status) in await error_for(SITE, handler=handler)


async def test_errors_reveal_neither_the_content_nor_the_address():
    def secret(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=httpx.ByteStream(b"secret"))

    def refusing(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("10.0.0.1 refused")

    assert "secret" not in await error_for(SITE, handler=secret)
    assert "10.0.0.1" not in await error_for(SITE, handler=refusing)


async def test_compressed_responses_are_not_decompressed():
    def handler(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept-encoding"] == "identity"
        packed = httpx.ByteStream(gzip.compress(PNG + bytes(10**6)))
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=packed)

    assert "is not a PNG" in await error_for(SITE, handler=handler)


async def test_images_over_the_limits_are_refused(monkeypatch):
    with pytest.raises(InvalidRequest) as refused:
        await images().inlined(messages_with(*[URI] * 17), accepts_images=True)
    assert refused.value.param == "messages[0].content[17].image_url"
    assert "data URI" in await error_for(SITE, fetch=False)
    monkeypatch.setattr(images_module, "MAX_BYTES", 20)
    assert "larger" in await error_for(URI)
    assert "larger" in await error_for(SITE)


def test_an_image_in_a_result_is_a_text_for_a_model_without_images():
    [user] = messages_with(URI)
    parts = user["content"]
    messages = [user, {"role": "tool", "content": parts}, {"role": "tool", "content": "x"}]
    left, places = without_images_in_results(messages)
    assert left == (user, {"role": "tool", "content": [parts[0], LEFT_OUT]}, messages[2])
    assert places == (1,)
    assert messages[1]["content"] == parts, "a request may be sent again to a model with images"


@pytest.fixture
def public_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_public(address: IPv4Address | IPv6Address) -> bool:
        return address in (ip_address("127.0.0.1"), ip_address("::1"))

    monkeypatch.setattr(public_fetch, "is_public", is_public)


over_sockets = pytest.mark.usefixtures("public_loopback")


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
async def serving(
    host: str, body: bytes = PNG, status: str = "200 OK", *headers: str
) -> AsyncIterator[Server]:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    server = Server("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    listener = await asyncio.start_server(server.handle, host, 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()


def resolving(*answers: str) -> tuple[Resolve, list[str]]:
    """A resolver with another answer each time, and the names that it was given."""
    names: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        names.append(host)
        return [answers[min(len(names), len(answers)) - 1]]

    return resolve, names


async def fetched(url: str, resolve: Resolve | None = None) -> str:
    fetcher = Images(resolve=resolve) if resolve else Images()
    [message] = await fetcher.inlined(messages_with(url), accepts_images=True)
    return str(message["content"][1]["image_url"]["url"])


@over_sockets
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_image_is_fetched_from_the_address_that_was_checked(host):
    """The name has no address of its own, and its second address would be an internal one."""
    resolve, names = resolving(host, "127.0.0.3")
    async with serving(host) as server:
        url = f"http://rebinding.invalid:{server.port}/a.png"
        assert await fetched(url, resolve) == URI
        assert names == ["rebinding.invalid"]
        assert b"rebinding.invalid" in server.requests[0]


@over_sockets
async def test_internal_address_gets_no_connection():
    resolve, _ = resolving("127.0.0.3")
    async with serving("127.0.0.3") as internal:
        with pytest.raises(InvalidRequest, match="not public"):
            await fetched(f"http://internal.invalid:{internal.port}/a.png", resolve)
        with pytest.raises(InvalidRequest, match="not public"):
            await fetched(f"http://127.0.0.3:{internal.port}/a.png")
        for spelling in ("2130706435", "0x7f.3", "0177.0.0.3", "127.3"):
            with pytest.raises(InvalidRequest):
                await fetched(f"http://{spelling}:{internal.port}/a.png")
        assert internal.requests == []


@over_sockets
async def test_redirect_to_an_internal_address_is_not_followed():
    resolve, names = resolving("127.0.0.1")
    async with serving("127.0.0.3") as internal:
        location = f"Location: http://127.0.0.3:{internal.port}/a.png"
        async with serving("127.0.0.1", b"", "302 Found", location) as public:
            with pytest.raises(InvalidRequest, match="HTTP 302"):
                await fetched(f"http://redirecting.invalid:{public.port}/a.png", resolve)
            assert len(public.requests) == len(names) == 1
        assert internal.requests == []


@over_sockets
@pytest.mark.parametrize("address", ["::1%lo", "::1%1", "fe80::1%eth0", "::1%", "127.0.0.1%lo", ""])
async def test_address_with_a_zone_is_not_public(address):
    """Zones are for addresses of one link."""
    resolve, _ = resolving(address)
    async with serving("::1") as server:
        with pytest.raises(InvalidRequest, match="not public"):
            await fetched(f"http://zoned.invalid:{server.port}/a.png", resolve)
        for zone in ("%25lo", "%lo", "%251"):
            with pytest.raises(InvalidRequest):
                await fetched(f"http://[::1{zone}]:{server.port}/a.png")
        assert server.requests == []


@over_sockets
async def test_web_proxy_of_the_environment_is_not_used(monkeypatch):
    resolve, _ = resolving("127.0.0.1")
    async with serving("127.0.0.1") as proxy, serving("127.0.0.1") as site:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await fetched(f"http://pictures.invalid:{site.port}/a.png", resolve)
        assert (len(site.requests), proxy.requests) == (1, [])

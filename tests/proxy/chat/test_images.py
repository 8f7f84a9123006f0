"""Images: what is taken, and that nothing leads into the network."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_proxy.chat.images import Images
from toolgate_proxy.settings import Settings

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 40
URI = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
PUBLIC = "93.184.215.14"
WHERE = "messages[0].content[1].image_url"
Answer = Callable[[httpx.Request], httpx.Response]


def asking(*urls: str) -> list[dict[str, Any]]:
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [{"type": "text", "text": "see"}, *images]}]


def images(
    addresses: tuple[str, ...] = (PUBLIC,), answer: Answer | None = None, **settings: Any
) -> Images:
    async def resolve(host: str, port: int) -> list[str]:
        return [host] if host[0].isdigit() or ":" in host else list(addresses)

    transport = httpx.MockTransport(
        answer or (lambda _: httpx.Response(200, stream=httpx.ByteStream(PNG)))
    )
    return Images(Settings(**settings), resolve, transport)


async def refusal(url: str, **how: Any) -> str:
    with pytest.raises(InvalidRequest) as refused:
        await images(**how).inlined(asking(url), sees=True)
    assert refused.value.param == WHERE
    return refused.value.message


async def test_an_image_at_an_address_becomes_data() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, stream=httpx.ByteStream(PNG))

    url = "https://pictures.example:8443/a.png?x=1"
    [message] = await images(answer=answer).inlined(asking(url, URI), sees=True)
    assert [part.get("image_url") for part in message["content"]] == [
        None,
        {"url": URI},
        {"url": URI},
    ]
    [request] = asked
    # To the address that was looked at, by the name that was asked for.
    assert request.url == f"https://{PUBLIC}:8443/a.png?x=1"
    assert request.headers["host"] == "pictures.example:8443"
    assert request.extensions["sni_hostname"] == "pictures.example"
    assert "authorization" not in request.headers


def never(_: httpx.Request) -> httpx.Response:
    raise AssertionError("nothing may be sent there")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1%eth0",
        "fd00::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::",
        "2001:0:a00:1::",
    ],
)
async def test_private_addresses_are_refused(address: str) -> None:
    message = await refusal("http://innocent.example/a.png", addresses=(address,), answer=never)
    assert "not public" in message
    # Nor where one of several is public.
    both = (PUBLIC, address)
    await refusal("http://innocent.example/a.png", addresses=both, answer=never)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://169.254.169.254/latest/meta-data",
        "http://2130706433/",
        "file:///etc/passwd",
        "ftp://example.com/a.png",
        "http://user:secret@example.com/a.png",
        "http://",
        "//example.com/a.png",
        "a.png",
        "http://exa mple.com\x00/",
    ],
)
async def test_other_ways_in_are_refused(url: str) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"] if host == "2130706433" else [host]

    fetching = Images(Settings(), resolve, httpx.MockTransport(never))
    with pytest.raises(InvalidRequest):
        await fetching.inlined(asking(url), sees=True)


@pytest.mark.parametrize(
    "url", ["http://a..b/a.png", f"http://{'a' * 64}.example/a.png", "http://xn--a/a.png"]
)
async def test_names_that_no_host_has(url: str) -> None:
    fetching = Images(Settings(), transport=httpx.MockTransport(never))
    with pytest.raises(InvalidRequest, match="could not be fetched"):
        await fetching.inlined(asking(url), sees=True)


@pytest.mark.parametrize("status", [301, 302, 307, 308, 404, 500, 206])
async def test_redirects_and_failures_are_refused(status: int) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.host == PUBLIC
        return httpx.Response(status, headers={"location": "http://10.0.0.1/"}, content=PNG)

    assert str(status) in await refusal("https://pictures.example/a.png", answer=answer)


async def test_what_is_no_image_is_not_said() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=httpx.ByteStream(b"secret"))

    assert "secret" not in await refusal("https://pictures.example/a.png", answer=answer)


async def test_nothing_is_unpacked() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept-encoding"] == "identity"
        packed = httpx.ByteStream(gzip.compress(PNG + bytes(10**6)))
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=packed)

    assert "is no PNG" in await refusal("https://pictures.example/a.png", answer=answer)


async def test_a_host_that_breaks_off_or_is_not_there() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("10.0.0.1 refused")

    assert "10.0.0.1" not in await refusal("https://pictures.example/a.png", answer=answer)


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png;base64,!!!",
        "data:image/png;base64,AAAA",
        "data:image/png;base64,é",
        "data:image/svg+xml;base64,AAAA",
        "data:text/html,hi",
        URI.replace("png", "jpeg"),
    ],
)
async def test_data_must_be_an_image(url: str) -> None:
    await refusal(url)


async def test_limits() -> None:
    await refusal(URI, image_bytes=20)
    await refusal("https://pictures.example/a.png", image_bytes=20)
    assert "data URI" in await refusal("https://pictures.example/a.png", image_urls=False)
    with pytest.raises(InvalidRequest) as refused:
        await images(image_limit=2).inlined(asking(URI, URI, URI), sees=True)
    assert refused.value.param == "messages[0].content[3].image_url"


async def test_a_model_that_does_not_see() -> None:
    with pytest.raises(UnsupportedParameter) as refused:
        await images().inlined(asking("http://10.0.0.1/"), sees=False)
    assert refused.value.param == WHERE

"""Images: accepted types and sizes, and protection of the internal network."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from toolgate_core.errors import InvalidRequest
from toolgate_proxy.chat.request import images as images_module
from toolgate_proxy.chat.request.images import LEFT_OUT, Images, without_images_in_results

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 40
URI = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
PUBLIC = "93.184.215.14"
PARAM = "messages[0].content[1].image_url"
Handler = Callable[[httpx.Request], httpx.Response]


def messages_with(*urls: str) -> list[dict[str, Any]]:
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [{"type": "text", "text": "see"}, *images]}]


def images(
    addresses: tuple[str, ...] = (PUBLIC,), handler: Handler | None = None, *, fetch: bool = True
) -> Images:
    async def resolve(host: str, port: int) -> list[str]:
        return [host] if host[0].isdigit() or ":" in host else list(addresses)

    transport = httpx.MockTransport(
        handler or (lambda _: httpx.Response(200, stream=httpx.ByteStream(PNG)))
    )
    return Images(fetch=fetch, resolve=resolve, transport=transport)


async def error_for(url: str, **options: Any) -> str:
    with pytest.raises(InvalidRequest) as refused:
        await images(**options).inlined(messages_with(url), accepts_images=True)
    assert refused.value.param == PARAM
    return refused.value.message


async def test_images_given_by_url_become_data_uris() -> None:
    requests: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, stream=httpx.ByteStream(PNG))

    url = "https://pictures.example:8443/a.png?x=1"
    [message] = await images(handler=handler).inlined(messages_with(url, URI), accepts_images=True)
    assert [part.get("image_url") for part in message["content"]] == [
        None,
        {"url": URI},
        {"url": URI},
    ]
    [request] = requests
    # The checked IP address, with the name in the URL.
    assert request.url == f"https://{PUBLIC}:8443/a.png?x=1"
    assert request.headers["host"] == "pictures.example:8443"
    assert request.extensions["sni_hostname"] == "pictures.example"
    assert "authorization" not in request.headers


def never(_: httpx.Request) -> httpx.Response:
    raise AssertionError("no request may be sent")


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
async def test_image_urls_with_private_addresses_are_refused(address: str) -> None:
    message = await error_for("http://innocent.example/a.png", addresses=(address,), handler=never)
    assert "not public" in message
    # Also if another address of the host is public.
    both = (PUBLIC, address)
    await error_for("http://innocent.example/a.png", addresses=both, handler=never)


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
async def test_local_and_unsupported_image_urls_are_refused(url: str) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"] if host == "2130706433" else [host]

    fetcher = Images(resolve=resolve, transport=httpx.MockTransport(never))
    with pytest.raises(InvalidRequest):
        await fetcher.inlined(messages_with(url), accepts_images=True)


@pytest.mark.parametrize(
    "url", ["http://a..b/a.png", f"http://{'a' * 64}.example/a.png", "http://xn--a/a.png"]
)
async def test_image_urls_with_invalid_host_names_are_refused(url: str) -> None:
    fetcher = Images(transport=httpx.MockTransport(never))
    with pytest.raises(InvalidRequest, match="could not be fetched"):
        await fetcher.inlined(messages_with(url), accepts_images=True)


@pytest.mark.parametrize("status", [301, 302, 307, 308, 404, 500, 206])
async def test_redirects_and_error_statuses_are_refused(status: int) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert request.url.host == PUBLIC
        return httpx.Response(status, headers={"location": "http://10.0.0.1/"}, content=PNG)

    assert str(status) in await error_for("https://pictures.example/a.png", handler=handler)


async def test_errors_do_not_reveal_the_fetched_content() -> None:
    def handler(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=httpx.ByteStream(b"secret"))

    assert "secret" not in await error_for("https://pictures.example/a.png", handler=handler)


async def test_compressed_responses_are_not_decompressed() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept-encoding"] == "identity"
        packed = httpx.ByteStream(gzip.compress(PNG + bytes(10**6)))
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=packed)

    assert "is not a PNG" in await error_for("https://pictures.example/a.png", handler=handler)


async def test_connection_errors_do_not_reveal_the_address() -> None:
    def handler(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("10.0.0.1 refused")

    assert "10.0.0.1" not in await error_for("https://pictures.example/a.png", handler=handler)


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
async def test_data_uris_that_are_not_images_are_refused(url: str) -> None:
    await error_for(url)


async def test_images_over_the_limits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await images().inlined(messages_with(*[URI] * 17), accepts_images=True)
    assert refused.value.param == "messages[0].content[17].image_url"
    assert "data URI" in await error_for("https://pictures.example/a.png", fetch=False)
    monkeypatch.setattr(images_module, "MAX_BYTES", 20)
    assert "larger" in await error_for(URI)
    assert "larger" in await error_for("https://pictures.example/a.png")


def test_an_image_in_a_result_is_a_text_for_a_model_without_images() -> None:
    [user] = messages_with(URI)
    parts = user["content"]
    messages = [user, {"role": "tool", "content": parts}, {"role": "tool", "content": "x"}]
    left, places = without_images_in_results(messages)
    assert left == (user, {"role": "tool", "content": [parts[0], LEFT_OUT]}, messages[2])
    assert places == (1,)
    assert messages[1]["content"] == parts, "a request may be sent again to a model with images"

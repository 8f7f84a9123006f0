"""Images of a request's messages. One that stands at an address is fetched here and goes to the
backend as data, so that no backend follows what a client wrote.

An address is a way into the network of whoever follows it: only public ones are, by the very
address that was looked at, without redirects, and with limits on bytes and time.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import httpx

from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from ..settings import Settings

Message = dict[str, Any]
Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Host and port → IP addresses. Raises OSError."""

DATA_URI = re.compile(r"data:image/(png|jpeg|gif|webp);base64,")
KINDS = {"png": b"\x89PNG\r\n\x1a\n", "jpeg": b"\xff\xd8\xff", "gif": b"GIF8", "webp": b"RIFF"}
"""What files of each kind begin with."""
TUNNELS = tuple(
    map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"))
)
"""IPv6 networks whose addresses hold an IPv4 address: NAT64, 6to4, Teredo."""


class Images:
    """`resolve` and `transport` let tests stand in for the network."""

    def __init__(
        self,
        settings: Settings,
        resolve: Resolve | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._settings = settings
        self._resolve = resolve or _resolve
        self._transport = transport

    async def inlined(self, messages: Sequence[Message], *, sees: bool) -> tuple[Message, ...]:
        """The messages with every image as a data URI. Raises InvalidRequest that names the part;
        UnsupportedParameter where the model does not see."""
        found = [*_images(messages)]
        if not found:
            return tuple(messages)
        if not sees:
            raise UnsupportedParameter("This model takes no images: text only.", param=found[0][1])
        if len(found) > self._settings.image_limit:
            raise InvalidRequest(
                f"More than {self._settings.image_limit} images in one request.",
                param=found[self._settings.image_limit][1],
            )
        uris = await asyncio.gather(*(self._data_uri(url, param) for url, param in found))
        left = iter(uris)
        return tuple(_with_images(message, left) for message in messages)

    async def _data_uri(self, url: str, param: str) -> str:
        if url.startswith("data:"):
            self._check_data(url, param)
            return url
        try:
            async with asyncio.timeout(self._settings.image_timeout):
                data = await self._fetched(url, param)
        except (TimeoutError, httpx.HTTPError, OSError, UnicodeError) as error:
            # The last is what a host's name that is none ends in.
            raise _wrong(param, "could not be fetched") from error
        return f"data:image/{_kind(data, param)};base64,{base64.b64encode(data).decode()}"

    def _check_data(self, url: str, param: str) -> None:
        head = DATA_URI.match(url)
        if head is None:
            raise _wrong(param, "must be a base64 data URI of a PNG, JPEG, GIF or WebP image")
        if (len(url) - head.end()) * 3 // 4 > self._settings.image_bytes:
            raise self._too_large(param)
        try:
            data = base64.b64decode(url[head.end() :], validate=True)
        except ValueError as error:  # binascii's, and that of text that is not ASCII
            raise _wrong(param, "is not base64") from error
        if _kind(data, param) != head[1]:
            raise _wrong(param, f"is no {head[1].upper()} image")

    async def _fetched(self, given: str, param: str) -> bytes:
        if not self._settings.image_urls:
            raise _wrong(param, "must be a data URI: this gateway fetches no images")
        url = _checked(given, param)
        host, port = url.raw_host.decode(), url.port or (443 if url.scheme == "https" else 80)
        address = _public(await self._resolve(host, port), param)
        async with httpx.AsyncClient(
            transport=self._transport, trust_env=False, follow_redirects=False
        ) as client:
            # To the address that was looked at: the name may lead elsewhere the next time.
            request = client.build_request(
                "GET",
                url.copy_with(host=address),
                headers={
                    "Host": url.netloc.decode(),
                    "Accept": "image/*",
                    "Accept-Encoding": "identity",
                },
                extensions={"sni_hostname": host},
            )
            response = await client.send(request, stream=True)
            try:
                if response.status_code != 200:
                    raise _wrong(param, f"was answered HTTP {response.status_code}, not 200")
                return await self._read(response, param)
            finally:
                await response.aclose()

    async def _read(self, response: httpx.Response, param: str) -> bytes:
        data = bytearray()
        async for part in response.aiter_raw():  # nothing is unpacked: a little could become a lot
            data += part
            if len(data) > self._settings.image_bytes:
                raise self._too_large(param)
        return bytes(data)

    def _too_large(self, param: str) -> InvalidRequest:
        return _wrong(param, f"is larger than {self._settings.image_bytes:,} bytes")


def _images(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """URL and path of each image part."""
    for at, message in enumerate(messages):
        content = message.get("content")
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if part["type"] == "image_url":
                yield part["image_url"]["url"], f"messages[{at}].content[{place}].image_url"


def _with_images(message: Message, uris: Iterator[str]) -> Message:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    parts = [
        {"type": "image_url", "image_url": {"url": next(uris)}}
        if part["type"] == "image_url"
        else part
        for part in content
    ]
    return message | {"content": parts}


def _checked(given: str, param: str) -> httpx.URL:
    try:
        url = httpx.URL(given)
    except (httpx.InvalidURL, ValueError) as error:
        raise _wrong(param, "is no URL") from error
    if url.scheme not in ("http", "https") or not url.host or url.userinfo:
        raise _wrong(param, "must be an http or https URL without a user, or a data URI")
    return url


async def _resolve(host: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def _public(addresses: Sequence[str], param: str) -> str:
    """The first one, where all are public: of a name that also leads inside none is taken."""
    known = [ipaddress.ip_address(address.partition("%")[0]) for address in addresses]
    if not known or not all(map(_is_public, known)):
        raise _wrong(param, "leads to an address that is not public")
    return str(known[0])


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return _is_public(address.ipv4_mapped)
        if any(address in network for network in TUNNELS):
            return False
    return address.is_global and not address.is_multicast


def _kind(data: bytes, param: str) -> str:
    for kind, begin in KINDS.items():
        if data.startswith(begin) and (kind != "webp" or data[8:12] == b"WEBP"):
            return kind
    raise _wrong(param, "is no PNG, JPEG, GIF or WebP image")


def _wrong(param: str, what: str) -> InvalidRequest:
    """Says nothing of what stands at an address, which may not be the client's to know."""
    return InvalidRequest(f"The image at {param!r} {what}.", param=param)

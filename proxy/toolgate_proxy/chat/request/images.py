"""Images in messages. Images given by URL are fetched here and sent to the backend as data, so that
backends never connect to addresses that clients choose.

A URL chosen by a client could reach internal services (SSRF). Therefore only public IP addresses
are fetched, the address that was checked is the one that is used, redirects are not followed, and
bytes and time are limited.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import re
import socket
import string
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import httpx

from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from .public_addresses import is_public

Message = dict[str, Any]
Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Resolves host and port to IP addresses. Raises OSError."""

DATA_URI = re.compile(r"data:image/(png|jpeg|gif|webp);base64,")
MAX_IMAGES = 16
"""In one request. Models take fewer as a rule."""
MAX_BYTES = 10_000_000
"""Of one image. Cameras make smaller ones, and models see less of them."""
FETCH_SECONDS = 10.0
"""For fetching one image. The client waits for it."""
KINDS = {"png": b"\x89PNG\r\n\x1a\n", "jpeg": b"\xff\xd8\xff", "gif": b"GIF8", "webp": b"RIFF"}
"""First bytes of the files of each type."""
LEFT_OUT = {"type": "text", "text": "[image left out: this model takes text only]"}
BASE64 = f"{string.ascii_letters}{string.digits}+/".encode()


class Images:
    """Fetches images given by URL if `fetch`. `resolve` and `transport` replace the network in
    tests."""

    def __init__(
        self,
        *,
        fetch: bool = True,
        resolve: Resolve | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._fetch = fetch
        self._resolve = resolve or _resolve
        self._transport = transport

    async def inlined(
        self, messages: Sequence[Message], *, accepts_images: bool
    ) -> tuple[Message, ...]:
        """Returns the messages with all images as data URIs. Raises InvalidRequest, which names the
        content part, and UnsupportedParameter if the model does not accept images."""
        images = [*_images(messages)]
        if not images:
            return tuple(messages)
        if not accepts_images:
            raise UnsupportedParameter(
                "This model accepts only text. Remove the images.", param=images[0][1]
            )
        if len(images) > MAX_IMAGES:
            raise InvalidRequest(
                f"The request has {len(images)} images, but this gateway accepts at most "
                f"{MAX_IMAGES}. Send fewer images.",
                param=images[MAX_IMAGES][1],
            )
        uris = iter(await asyncio.gather(*(self._data_uri(url, param) for url, param in images)))
        return tuple(_with_images(message, uris) for message in messages)

    async def _data_uri(self, url: str, param: str) -> str:
        if url.startswith("data:"):
            self._check_data(url, param)
            return url
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                data = await self._fetched(url, param)
        except (TimeoutError, httpx.HTTPError, OSError, UnicodeError) as error:
            # An invalid host name raises UnicodeError.
            raise _error(
                param, "could not be fetched. Check its URL, or send it as a data URI"
            ) from error
        return f"data:image/{_kind(data, param)};base64,{base64.b64encode(data).decode()}"

    def _check_data(self, url: str, param: str) -> None:
        head = DATA_URI.match(url)
        if head is None:
            raise _error(
                param,
                "is not a supported data URI. Use data:image/png;base64,… (or jpeg, gif, webp)",
            )
        if (len(url) - head.end()) * 3 // 4 > MAX_BYTES:
            raise self._too_large(param)
        encoded = url[head.end() :].encode(errors="replace")
        if not _is_base64(encoded):
            raise _error(param, "is not valid base64")
        if (kind := _kind(base64.b64decode(encoded[:32]), param)) != head[1]:
            raise _error(param, f"is a {kind.upper()} image, but its data URI has {head[1]}")

    async def _fetched(self, given: str, param: str) -> bytes:
        if not self._fetch:
            raise _error(param, "is a URL, but this gateway does not fetch images. Use a data URI")
        url = _checked(given, param)
        host, port = url.raw_host.decode(), url.port or (443 if url.scheme == "https" else 80)
        address = _public(await self._resolve(host, port), param)
        async with httpx.AsyncClient(
            transport=self._transport, trust_env=False, follow_redirects=False
        ) as client:
            # To the checked address, because the name could resolve differently the next time.
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
                    raise _error(
                        param,
                        f"could not be fetched: its URL returned HTTP {response.status_code}",
                    )
                return await self._read(response, param)
            finally:
                await response.aclose()

    async def _read(self, response: httpx.Response, param: str) -> bytes:
        data = bytearray()
        async for part in response.aiter_raw():  # raw: decompression could exceed the limit
            data += part
            if len(data) > MAX_BYTES:
                raise self._too_large(param)
        return bytes(data)

    def _too_large(self, param: str) -> InvalidRequest:
        return _error(param, f"is larger than {MAX_BYTES:,} bytes (the limit)")


def without_images_in_results(
    messages: Sequence[Message],
) -> tuple[tuple[Message, ...], tuple[int, ...]]:
    """The messages for a model that takes text only, with a text for each image in the result of a
    call, and the positions of these results. A tool can't know which model reads its result, and a
    refusal would end the conversation."""
    read: list[Message] = []
    places: list[int] = []
    for at, message in enumerate(messages):
        content = message.get("content")
        parts = content if message["role"] == "tool" and isinstance(content, list) else []
        if any(part["type"] == "image_url" for part in parts):
            places.append(at)
            shown = [LEFT_OUT if part["type"] == "image_url" else part for part in parts]
            message = message | {"content": shown}
        read.append(message)
    return tuple(read), tuple(places)


def _images(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """URL and request parameter of each image."""
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


def _is_base64(encoded: bytes) -> bool:
    """Takes a fifth of the time of decoding, which would block other requests."""
    digits = encoded.rstrip(b"=")
    padding = len(encoded) - len(digits)
    return len(encoded) % 4 == 0 and padding <= 2 and not digits.translate(None, BASE64)


def _checked(given: str, param: str) -> httpx.URL:
    try:
        url = httpx.URL(given)
    except (httpx.InvalidURL, ValueError) as error:
        raise _error(param, "is not a valid URL") from error
    if url.scheme not in ("http", "https") or not url.host or url.userinfo:
        raise _error(param, "must be an http or https URL without user name, or a data URI")
    if "%" in url.host:
        raise _error(param, "has an IP address with a zone, which is not public. Use a data URI")
    return url


async def _resolve(host: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in entries]


def _public(addresses: Sequence[str], param: str) -> str:
    """Returns the first address. Raises InvalidRequest unless all addresses are public."""
    try:
        parsed = [ipaddress.ip_address(address) for address in addresses]
    except ValueError:  # an invalid zone
        parsed = []
    if not parsed or not all(map(is_public, parsed)):
        raise _error(param, "has a host whose IP address is not public. Use a data URI")
    return str(parsed[0])


def _kind(data: bytes, param: str) -> str:
    for kind, begin in KINDS.items():
        if data.startswith(begin) and (kind != "webp" or data[8:12] == b"WEBP"):
            return kind
    raise _error(param, "is not a PNG, JPEG, GIF or WebP image")


def _error(param: str, problem: str) -> InvalidRequest:
    """The message reveals nothing about the content at a URL, which the client may not access."""
    return InvalidRequest(f"The image at {param!r} {problem}.", param=param)

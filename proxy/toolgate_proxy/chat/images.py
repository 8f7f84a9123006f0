"""Images in messages. Images given by URL are fetched here and sent to the backend as data, so that
backends never connect to addresses that clients choose. Only public ones are fetched.
"""

from __future__ import annotations

import asyncio
import base64
import re
import string
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

import httpx

from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from ..public_fetch import NotFetched, Problem, PublicFetch, Resolve

Message = dict[str, Any]

DATA_URI = re.compile(r"data:image/(png|jpeg|gif|webp);base64,")
MAX_IMAGES = 16
"""Maximum number of images in one request. Most models accept fewer."""
MAX_BYTES = 10_000_000
"""Maximum size of one image, in bytes. Cameras make smaller ones, and models see less of them."""
FETCH_SECONDS = 10.0
"""Maximum time to fetch one image, in seconds. The client waits for it."""
TOO_LARGE = f"is larger than {MAX_BYTES:,} bytes (the limit)"
UNREACHABLE = "could not be fetched. Check its URL, or send it as a data URI"
PROBLEMS: dict[Problem, str] = {
    "invalid_url": "is not a valid URL",
    "other_scheme": "must be an http or https URL without user name, or a data URI",
    "zone": "has an IP address with a zone, which is not public. Use a data URI",
    "not_public": "has a host whose IP address is not public. Use a data URI",
    "too_large": TOO_LARGE,
    "unreachable": UNREACHABLE,
}
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
        self._public = PublicFetch(resolve, transport)

    async def inlined(
        self, messages: Sequence[Message], *, accepts_images: bool
    ) -> tuple[Message, ...]:
        """Return the messages with all images as data URIs. Raise InvalidRequest, which names the
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
        uris = await asyncio.gather(*(self._data_uri(url, param) for url, param in images))
        parts = iter([{"type": "image_url", "image_url": {"url": uri}} for uri in uris])
        return tuple(_with_images(message, parts) for message in messages)

    async def _data_uri(self, url: str, param: str) -> str:
        if url.startswith("data:"):
            self._check_data(url, param)
            return url
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                data = await self._fetched(url, param)
        except TimeoutError as error:
            raise _error(param, UNREACHABLE) from error
        except NotFetched as error:
            raise _error(param, PROBLEMS[error.problem]) from error
        return f"data:image/{_kind(data, param)};base64,{base64.b64encode(data).decode()}"

    def _check_data(self, url: str, param: str) -> None:
        head = DATA_URI.match(url)
        if head is None:
            raise _error(
                param,
                "is not a supported data URI. Use data:image/png;base64,… (or jpeg, gif, webp)",
            )
        if (len(url) - head.end()) * 3 // 4 > MAX_BYTES:
            raise _error(param, TOO_LARGE)
        encoded = url[head.end() :].encode(errors="replace")
        if not _is_base64(encoded):
            raise _error(param, "is not valid base64")
        if (kind := _kind(base64.b64decode(encoded[:32]), param)) != head[1]:
            raise _error(param, f"is a {kind.upper()} image, but its data URI has {head[1]}")

    async def _fetched(self, given: str, param: str) -> bytes:
        if not self._fetch:
            raise _error(param, "is a URL, but this gateway does not fetch images. Use a data URI")
        answer = await self._public.get(given, accept="image/*", max_bytes=MAX_BYTES)
        if answer.status != 200:
            raise _error(param, f"could not be fetched: its URL returned HTTP {answer.status}")
        return answer.data


def without_images_in_results(
    messages: Sequence[Message],
) -> tuple[tuple[Message, ...], tuple[int, ...]]:
    """Return the messages for a model that takes text only, with a text for each image in the
    result of a call, and the positions of these results. A tool cannot know which model reads its
    result, and a refusal would end the conversation."""
    read: list[Message] = []
    places: list[int] = []
    for at, message in enumerate(messages):
        content = message.get("content")
        parts = content if message["role"] == "tool" and isinstance(content, list) else []
        if any(part["type"] == "image_url" for part in parts):
            places.append(at)
            message = _with_images(message, repeat(LEFT_OUT))
        read.append(message)
    return tuple(read), tuple(places)


def _images(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """Yield the URL and request parameter of each image."""
    for at, message in enumerate(messages):
        content = message.get("content")
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if part["type"] == "image_url":
                yield part["image_url"]["url"], f"messages[{at}].content[{place}].image_url"


def _with_images(message: Message, new: Iterator[Message]) -> Message:
    """Return the message with the next parts of `new` in place of its images."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    parts = [next(new) if part["type"] == "image_url" else part for part in content]
    return message | {"content": parts}


def _is_base64(encoded: bytes) -> bool:
    """Return whether it is base64. Decoding, which takes five times as long, would block others."""
    digits = encoded.rstrip(b"=")
    padding = len(encoded) - len(digits)
    return len(encoded) % 4 == 0 and padding <= 2 and not digits.translate(None, BASE64)


def _kind(data: bytes, param: str) -> str:
    for kind, begin in KINDS.items():
        if data.startswith(begin) and (kind != "webp" or data[8:12] == b"WEBP"):
            return kind
    raise _error(param, "is not a PNG, JPEG, GIF or WebP image")


def _error(param: str, problem: str) -> InvalidRequest:
    """Return an error that reveals nothing about the content at a URL, which the client may not
    access."""
    return InvalidRequest(f"The image at {param!r} {problem}.", param=param)

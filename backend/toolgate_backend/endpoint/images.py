"""Errors of vLLM's renderer that images cause, with the path of the image.

vLLM loads the images of a prompt at once, and its errors do not name one. Only after an error, the
images are decoded here one after the other, in a thread.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

from PIL import Image
from vllm import envs

from toolgate_core.errors import InvalidRequest, TemplateRefused

TOO_MANY = re.compile(r"At most (\d+) image\(s\) may be provided in one prompt")
NOT_IN_PROMPT = re.compile(r"Failed to apply prompt replacement for mm_items")
TRUNCATED = re.compile(r"truncate_prompt_tokens=\d+ would split or drop ")
TRUNCATION = "truncate_prompt_tokens"
Messages = Sequence[dict[str, Any]]


def images(messages: Messages) -> Iterator[tuple[str, str]]:
    """Path and data URI of each image."""
    for at, message in enumerate(messages):
        content = message.get("content")
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(part, dict) and part.get("type") == "image_url":
                yield f"messages[{at}].content[{place}].image_url", part["image_url"]["url"]


async def image_error(
    messages: Messages, error: Exception, *, truncated: bool
) -> InvalidRequest | None:
    """The error for one of vLLM's renderer, if an image caused it. `truncated`: whether the request
    sets `truncate_prompt_tokens`."""
    found = [*images(messages)]
    if not found:
        return None
    if (limit := TOO_MANY.search(str(error))) is not None:
        most = int(limit[1])
        path = found[min(most, len(found) - 1)][0]
        return InvalidRequest(
            f"The request has {len(found)} images, but this model's backend accepts at most "
            f"{most}. Send fewer images.",
            param=path,
        )
    if TRUNCATED.match(str(error)) or (truncated and NOT_IN_PROMPT.match(str(error))):
        return InvalidRequest(
            f"{TRUNCATION!r} would remove an image, or a part of it, from the prompt. Raise it, or "
            "send fewer images.",
            param=TRUNCATION,
        )
    for path, uri in found:
        if (problem := await asyncio.to_thread(_problem, uri)) is not None:
            return InvalidRequest(f"The image at {path!r} {problem}", param=path)
    if NOT_IN_PROMPT.match(str(error)):
        return TemplateRefused(
            "The model's chat template leaves out an image of these messages, for example because "
            "it accepts images in user messages only. Move the images to a user message.",
            param="messages",
        )
    return None


def _problem(uri: str) -> str | None:
    """What is wrong with an image. Decoders raise many types of errors for invalid data."""
    most: int = getattr(envs, "VLLM_MAX_IMAGE_PIXELS", 0)  # not in vLLM 0.31
    try:
        with Image.open(BytesIO(base64.b64decode(uri.partition(",")[2]))) as image:
            width, height = image.size
            if 0 < most < width * height:
                return _too_large(most)
            image.load()
    except binascii.Error:
        return "is not valid base64. Send the whole file."
    except Image.DecompressionBombError:
        return _too_large(2 * (Image.MAX_IMAGE_PIXELS or 0))
    except Exception:  # noqa: BLE001 - see above
        return "can't be decoded. Send a complete PNG, JPEG, GIF or WebP file."
    return None


def _too_large(most: int) -> str:
    return f"has too many pixels: the backend accepts at most {most:,}. Send a smaller image."

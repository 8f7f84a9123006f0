"""Size of the text in JSON values."""

from __future__ import annotations

import sys

IMAGE = "image_url"
"""Type of a content part with an image, and its member with the image. The size of the image in
tokens does not depend on the length of this text."""
BYTES_PER_TOKEN = 4
"""Of English text and code, about. For prompts that are too long to be counted."""


def text_bytes(*values: object, limit: int = sys.maxsize) -> int:
    """Bytes of UTF-8 of all strings, including the names of members, without images. Stops when
    `limit` is exceeded."""
    size, waiting = 0, list(values)
    while waiting and size <= limit:
        value = waiting.pop()
        if isinstance(value, str):
            size += _size(value)
        elif isinstance(value, dict):
            is_image = value.get("type") == IMAGE
            for name, member in value.items():
                size += _size(name) if isinstance(name, str) else 0
                if not (is_image and name == IMAGE):
                    waiting.append(member)
        elif isinstance(value, list | tuple):
            waiting.extend(value)
    return size


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))

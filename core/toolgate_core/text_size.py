"""Texts in JSON values: their size, bounds of prompts and token ids that depend on the model, and
halves of surrogate pairs.

A gateway checks the bounds with the values that the backend reports, so that a large request is
not sent at all. The backend checks them for every client.

JSON's escapes can write one half of a pair (`\\ud83d`), for example if a client cut a text inside
an emoji. It is not valid Unicode, so no message to a backend can have it.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from . import wire
from .errors import ContextLengthExceeded, InvalidRequest
from .schema.walk import values

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


TOKEN_PARAMETERS = ("logit_bias", "allowed_token_ids", "stop_token_ids", "logprob_token_ids")
"""Sampling parameters with token ids."""


def check_token_ids(sampling: wire.Sampling, vocabulary_size: int) -> None:
    """Raise InvalidRequest for an id outside the vocabulary. vLLM's error would list all ids."""
    for name in TOKEN_PARAMETERS:
        tokens = getattr(sampling, name) or ()
        outside = next((token for token in tokens if not 0 <= token < vocabulary_size), None)
        if outside is not None:
            raise InvalidRequest(
                f"{name!r} contains the token ID {outside}, but this model's vocabulary has "
                f"{vocabulary_size:,} tokens. Remove it.",
                param=name,
            )


def check_text(*values: object, context: int, max_token_bytes: int) -> None:
    """Raise ContextLengthExceeded for text that exceeds the context even if every token is as long
    as the longest one. Rendering and tokenizing it would take a hundred times its size in memory.

    `values`: messages, tools and arguments of the template. `context`: in tokens."""
    most = context * max_token_bytes
    if text_bytes(*values, limit=most) > most:
        raise ContextLengthExceeded(
            f"This model's maximum context length is {context} tokens. However, the messages and "
            f"tools have more than {most} bytes of text, which cannot fit. Please reduce the "
            "length of the messages.",
            context=context,
            param="messages",
        )


_HALF = re.compile("[\ud800-\udfff]")


def half_pair_in(value: Any) -> str | None:
    """Return the first one in a text or a name of a JSON value, for an error message. The JSON
    Pointer of a name is that of its member."""
    for pointer, each in values(value):
        name = pointer.rpartition("/")[2]
        for text in (name, each):
            half = _HALF.search(text) if isinstance(text, str) else None
            if half is not None:
                place = f" at {pointer.encode(errors='backslashreplace').decode()}"
                return (
                    f"half of a surrogate pair (\\u{ord(half[0]):04x} after {half.start()} "
                    f"characters of the text{place if pointer else ''}), which is not valid Unicode"
                )
    return None

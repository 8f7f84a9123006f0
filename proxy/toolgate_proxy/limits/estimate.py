"""Estimates the tokens of a request, to reserve them before a backend has counted them.

The prompt is estimated by its bytes, the output by the request's own limit or a setting. The
request itself is not changed. The backend's counts replace the estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..keys.key import Limits
from ..keys.limit_kinds import KINDS, Tokens
from ..request_fields import as_integer

BYTES_PER_TOKEN = 3
"""UTF-8 bytes, a little less than in most texts. A low estimate would admit too many requests:
hundreds may be admitted before the tokens of the first have been counted."""
TOKENS_PER_MESSAGE = 8
"""Tokens that a chat template adds to each message."""
INLINE_FILE_BYTES = 4096
"""Bytes counted for an image or a file inside the body, however long its base64 is."""
PROMPT_FIELDS = (
    "messages",
    "input",
    "prompt",
    "tools",
    "functions",
    "documents",
    "chat_template_kwargs",
    "system",
    "output_config",
    "output_format",
    "instructions",
    "response_format",
    "text",
)
MAX_TOKENS = 2**40
"""Most tokens reserved for one request: more than any limit, and sums of it fit into 64 bits."""
FILE_FIELDS = ("url", "image_url", "file_data")
"""Fields in which a data URI is a file; in other fields it is text."""
OUTPUT_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")


def estimate(
    body: Mapping[str, Any], limits: Limits, default_output: int, *, output: bool
) -> Tokens:
    """At least one token. `default_output`: output tokens of a request without a maximum, but at
    most a quarter of the smallest limit, so that a small limit can be used at all. `output`:
    whether the response has output tokens."""
    messages = body.get("messages") or body.get("input")
    prompt = sum(_bytes(body.get(name)) for name in PROMPT_FIELDS) // BYTES_PER_TOKEN
    prompt += TOKENS_PER_MESSAGE * (len(messages) if isinstance(messages, list) else 1)
    if not output:
        return Tokens(max(1, prompt))
    stated = [value for name in OUTPUT_FIELDS if (value := _count(body.get(name))) is not None]
    if stated:
        length = max(stated)
    else:
        bounds = [limits.of(kind) for kind in KINDS if kind.unit.counts_output]
        length = min([default_output, *(max(1, bound // 4) for bound in bounds if bound)])
    total = length * max(1, _count(body.get("n")) or 1)
    return Tokens(prompt, min(MAX_TOKENS - prompt, total)) if prompt + total else Tokens(1)


def text_tokens(text: str) -> int:
    """Estimated tokens of a text."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def _count(value: object) -> int | None:
    number = as_integer(value)
    return number if number is not None and number >= 0 else None


def _is_file(outer: Mapping[str, Any], name: str, value: object) -> bool:
    """Whether a field has the content of a file. In Anthropic's API it is the field `data` of a
    source of the type `base64`."""
    if not isinstance(value, str):
        return False
    if name == "data":
        return outer.get("type") == "base64"
    return name in FILE_FIELDS and value.startswith("data:")


def _bytes(value: object) -> int:
    """Bytes of all texts in a value. The time is bounded by the size of the body."""
    total, left = 0, [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            total += len(each.encode("utf-8", "surrogatepass"))
        elif isinstance(each, dict):
            left += each
            for name, inner in each.items():
                if _is_file(each, name, inner):
                    total += min(len(inner), INLINE_FILE_BYTES)
                else:
                    left.append(inner)
        elif isinstance(each, list):
            left += each
        elif each is not None:
            total += BYTES_PER_TOKEN
    return total

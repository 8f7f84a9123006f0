"""How many tokens to set aside for a request before anyone has counted them.

The prompt by its bytes; the answer by what the request allows it, else by a guess. Nothing is
changed in the request. The backend's own counts take the place of these as they come.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..keys.key import Limits
from ..request_fields import as_integer

BYTES_PER_TOKEN = 3
"""Of UTF-8, and a little less than most texts have: what is set aside must rather be too much, for
hundreds of requests may be let in before the first of them has been counted."""
TOKENS_PER_MESSAGE = 8
"""What a template puts around each."""
INLINE_FILE_BYTES = 4096
"""What an image or a file within the body is taken for, however long its base64."""
PROMPT_FIELDS = (
    "messages",
    "input",
    "prompt",
    "tools",
    "functions",
    "documents",
    "chat_template_kwargs",
    "system",
    "instructions",
    "response_format",
)
MOST = 2**40
"""Set aside for one request: beyond every limit, and sums of it fit Redis' 64 bits."""
FILE_FIELDS = ("url", "image_url", "file_data")
"""Where a data URI stands for a file; anywhere else it is text."""
OUTPUT_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")


def tokens(body: Mapping[str, Any], limits: Limits, guess: int, *, output: bool) -> int:
    """`guess`: for an answer of which the request does not say how long it may be; a quarter of the
    smallest limit at most, so that a small limit can be used at all. At least 1."""
    messages = body.get("messages")
    prompt = sum(_bytes(body.get(name)) for name in PROMPT_FIELDS) // BYTES_PER_TOKEN
    prompt += TOKENS_PER_MESSAGE * (len(messages) if isinstance(messages, list) else 1)
    if not output:
        return max(1, prompt)
    stated = [value for name in OUTPUT_FIELDS if (value := _count(body.get(name))) is not None]
    if stated:
        answer = max(stated)
    else:
        bounds = [b for b in (limits.tpm, limits.tokens_per_day) if b is not None]
        answer = min([guess, *(max(1, bound // 4) for bound in bounds)])
    return min(MOST, max(1, prompt + answer * max(1, _count(body.get("n")) or 1)))


def _count(value: object) -> int | None:
    number = as_integer(value)
    return number if number is not None and number >= 0 else None


def _bytes(value: object) -> int:
    """Of all the text in it. Bounded by the body, which has been read into memory already."""
    total, left = 0, [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            total += len(each.encode("utf-8", "surrogatepass"))
        elif isinstance(each, dict):
            left += each
            for name, inner in each.items():
                if name in FILE_FIELDS and isinstance(inner, str) and inner.startswith("data:"):
                    total += min(len(inner), INLINE_FILE_BYTES)
                else:
                    left.append(inner)
        elif isinstance(each, list):
            left += each
        elif each is not None:
            total += BYTES_PER_TOKEN
    return total

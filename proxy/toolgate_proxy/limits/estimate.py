"""Estimates the tokens of a request, to reserve them before a backend has counted them.

The prompt is estimated by its text, the output by the request's own limit or a setting. The request
itself is not changed. The backend's counts replace the estimate.
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from ..keys.key import Limits
from ..keys.limit_kinds import OUTPUT_KINDS, Tokens
from ..request_fields import as_integer, without_deferred

TOKENS_PER_MESSAGE = 8
"""Tokens that a chat template adds to each message."""
TOKENS_PER_FILE = 1366
"""Tokens of an image, however long its base64 is, and of a file without known text."""
PARTS = ("messages", "input", "system", "prompt")
"""Fields with content parts, which can be images and files, or with ids of tokens."""
TEXTS = (
    "tools",
    "functions",
    "documents",
    "chat_template_kwargs",
    "output_config",
    "output_format",
    "instructions",
    "response_format",
    "text",
)
"""Fields in which everything is text of the prompt."""
MAX_TOKENS = 2**40
"""Most tokens reserved for one request: more than any limit, and sums of it fit into 64 bits."""
FileSize = tuple[str, Callable[[Any], int]]
"""The field of a content part with its file, and what returns the tokens of the file."""
IMAGES = {"image_url": "image_url", "input_image": "image_url", "image": "source"}
FILE_PARTS: dict[str, FileSize] = {
    kind: (field, lambda _: TOKENS_PER_FILE) for kind, field in IMAGES.items()
}
"""By type of content parts that are files. Features add theirs."""
TEXT_SOURCES = ("text", "content")
"""Types of sources in Anthropic's API that are text of the prompt."""
SUMMARY = "compaction"
"""Type of an item, or of a block of a message, that has a summary of the conversation before it."""
ARGUMENTS = ("input", "arguments", "tool_calls")
"""Fields of a message whose objects are text, even if they look like content parts."""
OUTPUT = 1024
"""Tokens reserved for the response to a request without a maximum, but at most a quarter of the
smallest limit, so that a small limit can be used at all. The rest is given back at its end."""
OUTPUT_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")


def estimate(body: Mapping[str, Any], limits: Limits, *, output: bool) -> Tokens:
    """Estimate the tokens of a request, at least one. `output`: for a response with tokens."""
    prompt = _prompt(body)
    if not output:
        return Tokens(max(1, prompt))
    stated = [value for name in OUTPUT_FIELDS if (value := _count(body.get(name))) is not None]
    if stated:
        length = max(stated)
    else:
        bounds = [limits.of(kind) for kind in OUTPUT_KINDS]
        length = min([OUTPUT, *(max(1, bound // 4) for bound in bounds if bound)])
    total = length * max(1, _count(body.get("n")) or 1)
    return Tokens(prompt, min(MAX_TOKENS - prompt, total)) if prompt + total else Tokens(1)


def _count(value: object) -> int | None:
    number = None if value is None else as_integer(value)
    return number if number is not None and number >= 0 else None


def _prompt(body: Mapping[str, Any]) -> int:
    """Estimate the tokens of the prompt. The time is bounded by the size of the body."""
    entries = {name: _since_summary(value) for name, value in body.items() if name in PARTS}
    messages = entries.get("messages") or entries.get("input")
    tokens = TOKENS_PER_MESSAGE * (len(messages) if isinstance(messages, list) else 1)
    texts: list[str] = []
    for name, value in body.items():
        if name in entries:
            tokens += _collect(entries[name], texts)
        elif name in TEXTS:
            texts.append(_written([*without_deferred(value)] if isinstance(value, list) else value))
    return tokens + text_tokens(texts)


def _since_summary(entries: Any) -> Any:
    """Return the messages or items from the latest summary of those before it, which are no part of
    the prompt. Messages of users before it may be, which the backend counts."""
    if not isinstance(entries, list):
        return entries
    for at in reversed(range(len(entries))):
        if _has_summary(entries[at]):
            return entries[at:]
    return entries


def _has_summary(entry: object) -> bool:
    if not isinstance(entry, dict):
        return False
    content = entry.get("content")
    if not isinstance(content, list):
        return entry.get("type") == SUMMARY
    return any(isinstance(part, dict) and part.get("type") == SUMMARY for part in (entry, *content))


def _collect(value: object, texts: list[str]) -> int:
    """Add all texts of content parts to `texts`. Return the tokens of its files."""
    tokens, left = 0, [value]
    while left:
        part = left.pop()
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, list):
            left += part
        elif isinstance(part, dict):
            file, size = _file_of(part)
            tokens += size
            for name, inner in part.items():
                if name in ARGUMENTS and not isinstance(inner, str):
                    texts.append(_written(inner))
                elif name != file:
                    left.append(inner)
        elif part is not None:
            texts.append("0")
    return tokens


def _written(value: object) -> str:
    """Return a value as a chat template writes it: a text, or JSON."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # half a surrogate pair
        return json.dumps(value)


def _file_of(part: Mapping[str, Any]) -> tuple[str | None, int]:
    """Return the field of a content part that has an image or a file, and the tokens of that; None
    and 0 if the part is text."""
    kind = part.get("type")
    reader = FILE_PARTS.get(kind) if isinstance(kind, str) else None
    source = None if reader is None else part.get(reader[0])
    is_text = isinstance(source, dict) and source.get("type") in TEXT_SOURCES
    if reader is None or source is None or is_text:
        return None, 0
    return reader[0], reader[1](source)


def files_beyond_estimate(texts: Sequence[str]) -> int:
    """Return the tokens of files' texts beyond those that were estimated before they were read."""
    return max(0, text_tokens(texts) - TOKENS_PER_FILE * len(texts))


SMALL = string.ascii_lowercase.encode() + b" "
DIGITS = string.digits.encode()
OTHERS = bytes({*range(256)} - {*DIGITS, *range(0xF0, 0xF8)})
"""All bytes but digits and the first bytes of characters of 4 bytes in UTF-8."""
SLICE = 2**20
"""Characters that are counted at once."""


def text_tokens(texts: Sequence[str]) -> int:
    """Estimate the tokens of several texts together, by their characters.

    The tokens of a byte in texts of nine languages, in code and in JSON, and in random
    characters, were measured with the vocabularies of Qwen3, GPT-4, GPT-4o, Claude 2 and Mistral
    (v1 and Tekken):

    | characters                        | in texts     | random    | estimate |
    |-----------------------------------|--------------|-----------|----------|
    | small letters of ASCII and spaces | 0.22 to 0.31 | 0.5, 0.6  | 1/3      |
    | digits                            | 0.33 to 1    | 1         | 1        |
    | emoji and others of 4 bytes       | 0.3 to 1     | 1         | 1        |
    | all others                        | 0.12 to 0.51 | 0.4 to 1  | 1/2      |

    So texts have at most as many tokens as estimated. Random characters can have twice as many.
    """
    return -(-sum(map(sixths, _slices(texts))) // 6)


def _slices(texts: Sequence[str]) -> Iterator[bytes]:
    """Join short texts and split long ones: no copy is as large as a whole prompt."""
    if sum(map(len, texts)) <= SLICE:
        yield "".join(texts).encode("utf-8", "surrogatepass")
        return
    waiting: list[str] = []
    size = 0
    for text in texts:
        for begin in range(0, len(text), SLICE):
            waiting.append(text[begin : begin + SLICE])
            size += len(waiting[-1])
            if size >= SLICE:
                yield "".join(waiting).encode("utf-8", "surrogatepass")
                waiting, size = [], 0
    yield "".join(waiting).encode("utf-8", "surrogatepass")


def sixths(text: bytes) -> int:
    """Return six times the tokens of a text in UTF-8."""
    others = text.translate(None, SMALL)
    rare = others.translate(None, OTHERS)
    wide = len(rare.translate(None, DIGITS))
    small, full = len(text) - len(others), len(rare) + 3 * wide
    return 2 * small + 6 * full + 3 * (len(others) - full)

"""Hashes of a prompt's prefixes, which identify deployments that may have cached them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

MIN_BYTES = 1024
"""Minimum size of a prefix, about 250 tokens. Shorter prompts are computed quickly without a
cache."""
MAX_BYTES = 1_000_000
"""Size to which a prefix is cut, because hashing takes time. Prefixes that agree so far share most
of a cache."""

HEAD_FIELDS = ("cache_salt", "tools", "functions", "system", "instructions")
"""Fields that precede the messages in every prompt. A `cache_salt` separates caches."""
MARK = "cache_control"
"""Clients move it to the last message of a conversation."""
BILLING = "x-anthropic-billing-header:"
"""Beginning of a system block of Claude Code, with a value that changes with each request."""
LEADING_ROLES = ("system", "developer")


@dataclass(frozen=True)
class PrefixHashes:
    """Hashes of two prefixes of a prompt. Later turns of a conversation have the same hashes."""

    head: bytes
    """Tools and system prompt, which many conversations share. If they are shorter than
    `MIN_BYTES`, the first `MIN_BYTES` of the prompt."""
    conversation: bytes
    """The prompt up to the end of the first user message."""


def hash_prefixes(request: Mapping[str, Any], messages: object = None) -> PrefixHashes | None:
    """`request`: the body of a chat, responses or messages request. Returns None for a short
    prompt."""
    turns = messages or request.get("messages") or request.get("input")
    if isinstance(turns, str):
        turns = [turns]
    if not isinstance(turns, Sequence):
        return None
    data = bytearray()
    for name in HEAD_FIELDS:
        if request.get(name):
            data += _bytes(request[name])
    remaining = iter(turns)
    first = _add_system_messages(remaining, data)
    head_length = max(len(data), MIN_BYTES)
    for message in chain(first, remaining):
        data += _bytes(message)
        if len(data) >= MIN_BYTES:
            break
    if len(data) < MIN_BYTES:
        return None
    return PrefixHashes(_hash(data[: min(head_length, MAX_BYTES)]), _hash(data[:MAX_BYTES]))


def _add_system_messages(messages: Iterable[Any], data: bytearray) -> list[Any]:
    """Adds the leading system messages to `data`. Returns a list with the message after them."""
    for message in messages:
        if not isinstance(message, Mapping) or message.get("role") not in LEADING_ROLES:
            return [message]
        data += _bytes(message)
    return []


def _bytes(value: object) -> bytes:
    value = _without_marks(value)
    try:
        return orjson.dumps(value, default=repr)
    except TypeError:  # a lone surrogate, a number beyond 64 bits
        return repr(value).encode("utf-8", "surrogatepass")


def _without_marks(value: object) -> object:
    """A message, tools or a system prompt without the fields of Anthropic's API that change from
    turn to turn and are no part of the prompt."""
    if isinstance(value, list):
        return [_without_marks(each) for each in value if not _is_billing(each)]
    if isinstance(value, Mapping) and (MARK in value or isinstance(value.get("content"), list)):
        return {
            name: _without_marks(inner) if name == "content" else inner
            for name, inner in value.items()
            if name != MARK
        }
    return value


def _is_billing(block: object) -> bool:
    text = block.get("text") if isinstance(block, Mapping) else None
    return isinstance(text, str) and text.startswith(BILLING)


def _hash(data: bytes | bytearray) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()

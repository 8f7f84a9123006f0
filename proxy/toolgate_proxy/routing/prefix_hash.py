"""What a prompt begins with, as far as it tells where that beginning may be cached already."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

LEAST = 1024
"""Bytes of a prompt from which on its beginning counts: some 250 tokens. Less is computed anew in
no time."""

HEAD = ("cache_salt", "tools", "functions", "system", "instructions")
"""Fields that stand before the messages in every prompt; a `cache_salt` keeps caches apart."""
LEADING_ROLES = ("system", "developer")


@dataclass(frozen=True)
class Prefix:
    """Hashes of two beginnings of a prompt. Later turns of a conversation have the same ones."""

    head: bytes
    """Tools and system prompt, which many conversations share; of a prompt in which they are short,
    its first `LEAST` bytes."""
    conversation: bytes
    """Up to the end of the first message of the user's."""


def prefix_of(request: Mapping[str, Any], messages: object = None) -> Prefix | None:
    """`request`: the body of a chat, a responses or a messages request; None where it is short."""
    said = messages or request.get("messages") or request.get("input")
    if isinstance(said, str):
        said = [said]
    if not isinstance(said, Sequence):
        return None
    data = bytearray()
    for name in HEAD:
        if request.get(name):
            data += _bytes(request[name])
    left = iter(said)
    opening = _leading(left, data)
    head = max(len(data), LEAST)
    for message in chain(opening, left):
        data += _bytes(message)
        if len(data) >= LEAST:
            break
    if len(data) < LEAST:
        return None
    return Prefix(_hash(data[:head]), _hash(data))


def _leading(messages: Iterable[Any], data: bytearray) -> list[Any]:
    """Adds the messages of the system's; returns the one after them."""
    for message in messages:
        if not isinstance(message, Mapping) or message.get("role") not in LEADING_ROLES:
            return [message]
        data += _bytes(message)
    return []


def _bytes(value: object) -> bytes:
    try:
        return orjson.dumps(value, default=repr)
    except TypeError:  # a lone surrogate, a number beyond 64 bits
        return repr(value).encode("utf-8", "surrogatepass")


def _hash(data: bytes | bytearray) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()

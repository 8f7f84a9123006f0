"""Hashes of a prompt's prefixes, which identify deployments that may have cached them.

They need no secret, so that they are the same in every process, and stay in the memory of this one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

from ..request_fields import without_deferred

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
"""Beginning of a block that Claude Code puts before its system prompt, for Anthropic's accounting.
It changes with each request, so no prefix of the prompt could be cached, and is no part of it."""
LEADING_ROLES = ("system", "developer")
KEY = "prompt_cache_key"
"""The client's name for requests that share a prefix, in OpenAI's APIs."""


@dataclass(frozen=True)
class PrefixHashes:
    """Hashes of two prefixes of a prompt. Later turns of a conversation have the same hashes."""

    head: bytes
    """Tools and system prompt, which many conversations share. If they are shorter than
    `MIN_BYTES`, the first `MIN_BYTES` of the prompt. With a `prompt_cache_key`, the key."""
    conversation: bytes
    """The prompt up to the end of the first user message. For a short prompt with a key, the
    key."""


def hash_request(
    request: Mapping[str, Any], messages: object = None, *, owner: str = "", shared: bool = False
) -> PrefixHashes | None:
    """Return the hashes by which a deployment is chosen. A `prompt_cache_key` takes the place of
    the head: requests of one owner with the same key go to the same deployment while it has
    capacity for all of them. If it has not, the conversations are spread, as those with one head
    are.

    `owner`: the key or team that sent the request; `shared`: whether all owners share the prefix
    caches. Otherwise the hashes of different owners differ, as their caches do. Returns None for a
    short prompt without key."""
    prefix = hash_prefixes(request, messages, owner="" if shared else owner)
    key = request.get(KEY)
    if not isinstance(key, str) or not key:
        return prefix
    head = _hash(f"{KEY}\0{key}".encode("utf-8", "surrogatepass"), owner)
    return PrefixHashes(head, head if prefix is None else prefix.conversation)


def hash_prefixes(
    request: Mapping[str, Any], messages: object = None, *, owner: str = ""
) -> PrefixHashes | None:
    """Hash the prefixes of a prompt. `request`: the body of a chat, responses or messages request.
    Returns None for a short prompt."""
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
    head = data[: min(head_length, MAX_BYTES)]
    return PrefixHashes(_hash(head, owner), _hash(data[:MAX_BYTES], owner))


def _add_system_messages(messages: Iterable[Any], data: bytearray) -> list[Any]:
    """Add the leading system messages to `data`. Returns a list with the message after them."""
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
    """Return a message, tools or a system prompt without what changes from turn to turn and is no
    part of the prompt's beginning: fields of Anthropic's API, and deferred tools. Claude Code adds
    those that it has found to its tools."""
    if isinstance(value, list):
        return [_without_marks(each) for each in without_deferred(value) if not _is_billing(each)]
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


def _hash(data: bytes | bytearray, owner: str) -> bytes:
    key = hashlib.blake2b(owner.encode("utf-8", "surrogatepass")).digest() if owner else b""
    return hashlib.blake2b(data, digest_size=16, key=key).digest()

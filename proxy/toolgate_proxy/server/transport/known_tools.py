"""The arrays of tools of the latest bodies, by which those of the next ones are known.

Clients send the same tools with each request of a conversation, and reading 10,000 of them takes
0.4 s. A body that has a known text after `"tools":` is parsed with a short text in its place: that
JSON texts are valid does not depend on which value is in a place.

Each sender has arrays of its own, so that nobody can tell from the time of a response which tools
another one has sent.
"""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Any

import orjson

from toolgate_core.errors import ToolgateError

from ...api.shared.mcp import CREDENTIALS
from ...json_values import SEPARATORS
from ...shared_tools import SharedTools

TOOLS = "tools"
NAME = b'"tools"'
PLACE = re.compile(NAME + rb"\s*:\s*(?=\[)")
PLACES = 3
"""Places of a body that are looked at from each end."""
MIN_SIZE = 50_000
"""Fewest bytes of an array that is kept. Others are read as fast as they are found."""
MAX_COST = 128_000_000
"""Bytes of memory of all arrays that are kept, as they are estimated: 90 MB for 10,000 real tools,
which take 50 with what was read of them."""
VALUE_COST = 100
"""Bytes of a value, without its text."""
DEFERRED_COST = 1_200
"""Bytes that requests keep of a deferred tool, without its text: its entry, its place …"""
TEXTS = 2
"""How often they may keep the text of an array: as the JSON of responses, and compressed."""
MISTAKEN = 1
"""Most arrays of a body that are read and are not its tools."""
AFTER_DOCUMENT = "unexpected content after document"
"""orjson's message for a text that goes on after its value."""
WIDE = (*(bytes([first]) for first in range(0xF0, 0xF5)), rb"\ud", rb"\uD")
"""What a JSON text has if it has a character beyond 16 bits: each character of that string takes 4
bytes."""

NOT_KEPT = frozenset((*CREDENTIALS, "authorization_token"))
"""Members of entries for MCP servers, which are in memory no longer than their request."""

Values = dict[str, Any]
Parse = Callable[[bytes, int], Any]
"""Parses a JSON text in which a number of values was left out. Raises ToolgateError."""
Check = Callable[[Values], None]
"""Checks parameters. Raises ToolgateError."""


@dataclass(frozen=True)
class _Known:
    owner: str
    text: bytes
    tools: SharedTools
    values: int
    """At least its number of values."""
    cost: int
    """Bytes of memory."""


class KnownTools:
    """Those that were not seen for the longest time are dropped first."""

    def __init__(self, max_cost: int = MAX_COST, min_size: int = MIN_SIZE) -> None:
        self._max_cost, self._min_size = max_cost, min_size
        self._known: OrderedDict[tuple[str, bytes], _Known] = OrderedDict()
        self._cost = 0
        self._lock = Lock()
        self._mark = secrets.token_hex()
        """Stands for an array. Clients don't know it."""

    def values(self, content: bytes, owner: str, parse: Parse, check: Check) -> Values | None:
        """Return the object of a body, in which the tools are SharedTools. None: it has no tools
        that are kept, or it must be read without them to say what is wrong. `owner`: who sent it.
        """
        mistaken = 0
        for at in _places(content):
            try:
                known = self._at(content, owner, at) or self._learnt(content, owner, at, check)
                if known is None:
                    continue
                end = at + len(known.text)
                rest = b'%b"%b"%b' % (content[:at], self._mark.encode(), content[end:])
                values = parse(rest, known.values)
                if not isinstance(values, dict) or values.get(TOOLS) != self._mark:
                    mistaken += 1  # these are others
                    if mistaken > MISTAKEN:
                        return None
                    continue
                check(values)
            except (ToolgateError, orjson.JSONDecodeError):
                return None
            return {**values, TOOLS: self._keep(known)}
        return None

    def _at(self, content: bytes, owner: str, at: int) -> _Known | None:
        with self._lock:
            latest = [each for each in reversed(self._known.values()) if each.owner == owner]
        return next((each for each in latest if content.startswith(each.text, at)), None)

    def _learnt(self, content: bytes, owner: str, at: int, check: Check) -> _Known | None:
        """Return the array at a place; None if it is not kept. Raise JSONDecodeError, and the
        errors of `check`."""
        if self._is_short(content, at):
            return None
        text = content[at : content.rfind(b"]") + 1]
        values = _count(text)
        if _cost(text, values) > self._max_cost:
            return None
        try:
            tools = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            # Another array ends there, so what follows this one is unexpected.
            text = text[: len(error.doc[: error.pos].encode())]
            if len(text) < self._min_size:
                return None
            tools, values = orjson.loads(text), _count(text)
        if len(text) < self._min_size:
            return None
        check({TOOLS: tools})
        shared = SharedTools(tools)
        cost = _cost(text, values) + len(text) * (_width(text) + TEXTS)
        return _Known(owner, text, shared, values, cost + DEFERRED_COST * len(shared.deferred))

    def _is_short(self, content: bytes, at: int) -> bool:
        """Return whether an array is too short to be kept, without a look at what follows it."""
        try:
            orjson.loads(content[at : at + self._min_size])
        except orjson.JSONDecodeError as error:
            return error.msg.startswith(AFTER_DOCUMENT)
        return True

    def _keep(self, known: _Known) -> SharedTools:
        """Return the tools that requests share."""
        key = known.owner, known.text
        is_new = key not in self._known
        if is_new and (known.cost > self._max_cost or _has_credentials(known.tools)):
            return known.tools  # of this request only
        with self._lock:
            if key not in self._known:
                self._known[key] = known
                self._cost += known.cost
            self._known.move_to_end(key)
            kept = self._known[key]
            while self._cost > self._max_cost:
                _, dropped = self._known.popitem(last=False)
                self._cost -= dropped.cost
            return kept.tools


def _has_credentials(tools: Iterable[object]) -> bool:
    """Return whether tools, or those of namespaces, have credentials."""
    for tool in tools:
        if isinstance(tool, dict):
            inner = tool.get("tools")
            if not NOT_KEPT.isdisjoint(tool) or (
                isinstance(inner, list) and _has_credentials(inner)
            ):
                return True
    return False


def _places(content: bytes) -> Iterator[int]:
    """Yield the begins of arrays: the first ones and the last ones, because the history may have
    tools as well."""
    at, last, seen = -1, len(content), set[int]()
    for _ in range(PLACES):
        at = content.find(NAME, at + 1)
        last = content.rfind(NAME, 0, last)
        for each in (last, at):
            if each >= 0 and each not in seen and (found := PLACE.match(content, each)):
                yield found.end()
            seen.add(each)
        if at < 0:
            return


def _cost(text: bytes, values: int) -> int:
    """Return the bytes of a text and of its values, without their texts."""
    return len(text) + VALUE_COST * values


def _width(text: bytes) -> int:
    """Return the most bytes of a character in the strings of a JSON text."""
    if any(each in text for each in WIDE):
        return 4
    return 1 if text.isascii() and rb"\u" not in text else 2


def _count(text: bytes) -> int:
    """Return at least the number of values in a JSON text."""
    return sum(text.count(separator) for separator in SEPARATORS)


KNOWN_TOOLS = KnownTools()
"""Those of this process."""

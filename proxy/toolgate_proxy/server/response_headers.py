"""The headers of every HTTP response: which are hidden, and the form and size of their values.

Parts of values come from others: parameters of clients, names of models and tools, headers of other
providers. A line break in a value would end the headers, and clients and load balancers close the
connection if headers are too large. So each value is checked here, after all code that sets it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..keys.header import Header

HIDDEN = {b"x-litellm-model-api-base"}
"""It has the address of a backend."""
COSTS = (b"x-litellm-response-cost", b"x-litellm-classifier-cost", b"x-litellm-key-spend")
"""Beginnings of headers that are hidden if they are zero, as LiteLLM reports them of models without
prices."""
ZERO = re.compile(rb"0(\.0*)?")
MAX_OWN = 1_024
"""Maximum length of a value of our own, in bytes. A longer one is cut."""
MAX_OTHER = 8_000
"""Maximum length of another value, in bytes. A header with a longer one is left out: a part of a
cookie or a location has another meaning."""
CUT = b"..."
_UNSAFE = re.compile(rb"[^\t\x20-\x7e\x80-\xff]")
"""Bytes that no value may have (RFC 9110, section 5.5)."""
_NOT_PRINTABLE = re.compile(r"[^\x20-\x7e]")


def response_headers(given: Iterable[Header], own: Mapping[str, str]) -> list[Header]:
    """`given`: as the app sent them; `own`: those of the request's context, which replace them."""
    replaced = {name.encode() for name in own} | HIDDEN
    kept = [
        (name, _UNSAFE.sub(b"?", value))
        for name, value in given
        if name not in replaced and len(value) <= MAX_OTHER and not _is_zero_cost(name, value)
    ]
    return [*kept, *((name.encode(), own_value(value)) for name, value in own.items())]


def own_value(text: str) -> bytes:
    value = _NOT_PRINTABLE.sub("?", text[: MAX_OWN + 1]).encode()
    return value if len(value) <= MAX_OWN else value[: MAX_OWN - len(CUT)] + CUT


def _is_zero_cost(name: bytes, value: bytes) -> bool:
    return name.startswith(COSTS) and ZERO.fullmatch(value) is not None

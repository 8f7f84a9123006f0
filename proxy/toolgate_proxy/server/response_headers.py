"""The headers of every HTTP response: which are added, which are hidden, and the form and size of
their values.

Parts of values come from others: parameters of clients, names of models and tools, headers of other
providers. A line break in a value would end the headers, and clients and load balancers close the
connection if headers are too large. So each value is checked here, after all code that sets it.

Headers that Toolgate adds:

- `x-request-id`: the client's own, or a generated one. The backend's logs contain it, too.
- `x-toolgate-grammar: known | new; n=<grammars>`: `new` if a backend had to report on one.
- `x-toolgate-enforced: full | residual | none`: masks enforce the whole schema of every tool; some
  keywords are only validated; there was nothing to enforce.
- `x-toolgate-fallback: not-enforced`: another provider's model answered for a Toolgate model.
- `x-toolgate-residual: <tools with such keywords>; keywords=<the keywords>`.
- `x-toolgate-omitted-tools: <types>`: hosted tools that were left out of the request.
- `x-toolgate-history: <change>=<paths>; …`: what the model sees of the conversation so far in
  another form than it was sent.
- `x-toolgate-invalid-tools: <name>; at=<JSON Pointer>, …`: invalid tools that were left out.
- `x-toolgate-corrected: <tools with slips in their schemas>; keywords=<the keywords>`: the slips
  were read as they were meant.
- `x-toolgate-max-tokens: <number>`: `max_tokens` was lowered to what the context leaves.
- `x-toolgate-dropped-messages: <number>`: the oldest messages, dropped by `truncation: "auto"`.
- `x-toolgate-resamples: <times a choice was sampled again>`; in a stream, before its first event.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import quote

from toolgate_core.schema.corrections import Correction
from toolgate_core.wire import ResidualKeyword

from ..context import REQUEST_ID, Notes, RequestContext
from ..keys.access import Header

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
KEYWORD = re.compile(r"[$A-Za-z]{1,64}")
CUT = b"..."
_UNSAFE = re.compile(rb"[^\t\x20-\x7e\x80-\xff]")
"""Bytes that no value may have (RFC 9110, section 5.5)."""
_NOT_PRINTABLE = re.compile(r"[^\x20-\x7e]")


def response_headers(given: Iterable[Header], own: Mapping[str, str]) -> list[Header]:
    """`given`: as the app sent them; `own`: those that Toolgate adds, which replace them."""
    added = {name.encode(): own_value(value) for name, value in own.items()}
    headers = [
        (name, _UNSAFE.sub(b"?", value))
        for name, value in given
        if name not in added and name not in HIDDEN and len(value) <= MAX_OTHER
    ]
    headers += added.items()
    return [
        (name, value)
        for name, value in headers
        if not name.startswith(COSTS) or ZERO.fullmatch(value) is None
    ]


def own_headers(context: RequestContext) -> dict[str, str]:
    """Return the headers that Toolgate adds to the response."""
    headers, notes = dict[str, str](), context.notes
    if context.request_id is not None:
        headers[REQUEST_ID] = context.request_id
        if context.form is not None and context.form.request_id_header:
            headers[context.form.request_id_header] = context.request_id
    headers |= notes.host_headers
    headers |= notes.headers
    if notes.omitted_tools:
        headers["x-toolgate-omitted-tools"] = ",".join(notes.omitted_tools)
    if notes.history_changes:
        headers["x-toolgate-history"] = _history(notes)
    if notes.invalid_tools:
        headers["x-toolgate-invalid-tools"] = _invalid_tools(notes)
    if notes.corrected:
        headers["x-toolgate-corrected"] = _keywords(notes.corrected)
    if notes.dropped_messages:
        headers["x-toolgate-dropped-messages"] = str(notes.dropped_messages)
    if notes.ignored_parameters:
        headers["x-toolgate-ignored-parameters"] = ",".join(notes.ignored_parameters)
    if context.fallback is not None:
        headers["x-litellm-model-group"] = context.fallback
        headers["x-litellm-attempted-fallbacks"] = str(context.attempted_fallbacks)
    if notes.cache_key is not None:
        headers["x-litellm-cache-key"] = notes.cache_key
    if notes.is_fallback:
        headers["x-toolgate-fallback"] = "not-enforced"
    if notes.enforced is None:
        return headers
    headers["x-toolgate-enforced"] = notes.enforced
    if (note := notes.grammars_note) is not None:
        headers["x-toolgate-grammar"] = note
    if notes.residual:
        headers["x-toolgate-residual"] = _keywords(notes.residual)
    if notes.resamples:
        headers["x-toolgate-resamples"] = str(notes.resamples)
    return headers


def _keywords(tools: Collection[Iterable[ResidualKeyword | Correction]]) -> str:
    """Return the number of tools, and their keywords."""
    names = {each.keyword for found in tools for each in found}
    safe = sorted(name for name in names if KEYWORD.fullmatch(name))
    return f"{len(tools)}; keywords={','.join(safe)}"


def _history(notes: Notes) -> str:
    paths: dict[str, list[str]] = {}
    for change in notes.history_changes:
        paths.setdefault(change.kind, []).append(change.path)
    return "; ".join(f"{kind}={','.join(each)}" for kind, each in paths.items())


def _invalid_tools(notes: Notes) -> str:
    """Return the names, or places, and pointers, which have names of the client's schema."""
    pointers = {name: getattr(error, "pointer", "") for name, error in notes.invalid_tools.items()}
    return ", ".join(
        f"{name}; at={quote(pointer, safe='/~$')}" if pointer else name
        for name, pointer in pointers.items()
    )


def own_value(text: str) -> bytes:
    value = _NOT_PRINTABLE.sub("?", text[: MAX_OWN + 1]).encode()
    return value if len(value) <= MAX_OWN else value[: MAX_OWN - len(CUT)] + CUT

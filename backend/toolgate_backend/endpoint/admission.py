"""Admission of requests: a limit on their number, none while shutting down, and the sources of the
grammars that one needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from toolgate_core import wire
from toolgate_core.errors import BackendUnavailable, InvalidRequest
from toolgate_core.tools import parse_tools

RETRY_SECONDS = 2
POLL_SECONDS = 0.05


class InFlightRequests:
    """Number of active requests. vLLM's queue has no limit, and requests that wait longer than
    their client's time-out are wasted work."""

    def __init__(self, limit: int, require_engines: Callable[[], None] = lambda: None) -> None:
        self._limit = limit
        self._require_engines = require_engines
        self._closed = False
        self.count = 0

    def close(self) -> None:
        """Refuse new requests from now on: the backend is shutting down."""
        self._closed = True

    def require_open(self) -> None:
        """Raise BackendUnavailable while the backend is shutting down or lacks an engine. Gateways
        then send nothing more."""
        if self._closed:
            raise BackendUnavailable(
                "This model's backend is shutting down. Send the request again.",
                retry_after=RETRY_SECONDS,
            )
        self._require_engines()

    def wait_until_idle(self, seconds: float) -> None:
        """Block the thread until no request is active, but no longer than `seconds`."""
        ends = time.monotonic() + seconds
        while self.count and time.monotonic() < ends:
            time.sleep(POLL_SECONDS)

    @contextmanager
    def track(self) -> Iterator[None]:
        """Count one more active request within the context. Raise BackendUnavailable if the limit
        is reached, and what `require_open` raises, so that the gateway tries another backend or
        asks the client to retry."""
        self.require_open()
        if self.count >= self._limit:
            raise BackendUnavailable(
                f"This model's backend has {self.count} active requests, which is its limit "
                "(TOOLGATE_MAX_REQUESTS). Send the request again.",
                retry_after=RETRY_SECONDS,
            )
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1


def needed_sources(
    request: wire.GenerateRequest,
) -> Mapping[str, Callable[[], wire.GrammarSource]]:
    """Return a function for each key, which makes the source. Schemas of known grammars are not
    read. Raise InvalidRequest if `enforcement` names a grammar that the request does not have."""
    sources = {each.key: partial(_source, each, request) for each in request.grammars}
    enforcement = request.enforcement
    if enforcement is not None:
        named = {enforcement.content, *(each.key for each in enforcement.candidates)} - {None}
        if not sources.keys() >= named:
            raise InvalidRequest(
                "The request names a grammar that it does not have. Install the same Toolgate "
                "version on the gateway and the backend.",
                param="grammars",
            )
    return sources


def _source(needed: wire.NeededGrammar, request: wire.GenerateRequest) -> wire.GrammarSource:
    prompt, source = request.prompt, needed.source
    tools = prompt.tools or () if isinstance(prompt, wire.ChatPrompt) else ()
    if source is None:
        if needed.tool is None or needed.tool >= len(tools):
            raise InvalidRequest("A grammar has neither a source nor a tool.", param="grammars")
        [tool] = parse_tools([tools[needed.tool]], open_objects=request.open_objects)
        source = wire.GrammarSource(key=needed.key, name=tool.name, parameters=tool.parameters)
    return source.model_copy(update={"owner": needed.owner, "examined": needed.examined})

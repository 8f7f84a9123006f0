"""The context of one request: whose it is, what it used, and how its response was made.

The outermost middleware makes one for each HTTP request and keeps it in the ASGI scope. Everything
after that gets it as an argument; only code that LiteLLM calls finds it in a context variable
(litellm_host/context.py).

Response headers made from it:

- `x-request-id`: the client's own, or one made here; the backend's logs contain it, too.
- `x-toolgate-grammar: <tier>; n=<grammars>; ms=<time spent on loading them>`, with the slowest tier
  that was needed.
- `x-toolgate-enforced: full | residual | none`: masks enforce the whole schema of every tool; some
  keywords are left to validation; there was nothing to enforce.
- `x-toolgate-residual: <tools with such keywords>; keywords=<the keywords>`.
- `x-toolgate-resamples: <times a choice was sampled again>`; in a stream, before its first event.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from toolgate_core.wire import ResidualKeyword

from .keys.key import Key
from .limits.kinds import Tokens

SCOPE = "toolgate.context"
"""Key of the request's context in the ASGI scope."""
REQUEST_ID = "x-request-id"
SAFE_ID = re.compile(r"[A-Za-z0-9_.:/=+-]{1,128}")
"""Ids of clients that are used unchanged in logs and headers."""

Tier = Literal["memory", "redis", "compiled"]
TIERS: tuple[Tier, ...] = ("memory", "redis", "compiled")
"""Where a grammar was found, the fastest first."""

KEYWORD = re.compile(r"[$A-Za-z]{1,64}")


def slowest(*tiers: Tier) -> Tier:
    return max(tiers, key=TIERS.index, default="memory")


@dataclass
class RequestContext:
    request_id: str | None = None
    """Value of `x-request-id`."""
    call_id: str | None = None
    """LiteLLM's id of the request; sent as `x-litellm-call-id`."""
    began: float = field(default_factory=time.monotonic)
    arrived: float = field(default_factory=time.time)
    """Seconds since 1970."""

    key: Key | None = None
    """None for the master key, and before authentication."""
    authenticated: bool = False
    """`key` was found by our own authentication; if not, LiteLLM's configuration names another."""
    model: str | None = None
    """As the client named it."""

    reserved_tokens: Tokens = field(default_factory=Tokens)
    admitted: bool = False
    """The key's limits admitted the request."""
    on_settle: Callable[[], Awaitable[None]] | None = None
    """Settles the reservation by what was used; None once it was called."""
    extra_headers: dict[str, str] = field(default_factory=dict)
    """Further headers of the response: rate limits."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    counted: bool = False
    """The tokens were counted, by a backend of ours or by LiteLLM."""
    complete: bool = False
    """Nothing more will be used: settling is final from here on."""

    status: int | None = None
    """HTTP status of the response, once it has begun."""
    failed: bool = False
    """The response is an error, even if its status was 200 when it began."""
    sent_whole: bool = False
    """The response was sent to its end."""
    first_byte_seconds: float | None = None

    enforced: Literal["full", "residual", "none"] | None = None
    residual_tools: int = 0
    residual_keywords: tuple[str, ...] = ()
    resamples: int = 0
    grammars: int = 0
    tier: Tier = "memory"
    grammar_ms: float = 0.0
    """Over all times that grammars had to be loaded for the request."""

    @classmethod
    def of_request(cls, sent_id: str | None) -> RequestContext:
        """`sent_id`: the client's `x-request-id`."""
        safe = sent_id is not None and SAFE_ID.fullmatch(sent_id) is not None
        return cls(sent_id if safe else f"req_{secrets.token_hex(16)}")

    def begin_response(self, status: int) -> None:
        self.status = status
        self.failed = status >= 400
        self.first_byte_seconds = round(time.monotonic() - self.began, 4)

    def note_tokens(self, prompt: int, completion: int, *, complete: bool = False) -> None:
        """Tokens used so far."""
        self.prompt_tokens, self.completion_tokens = prompt, completion
        self.counted = True
        self.complete = self.complete or complete

    def used_tokens(self) -> Tokens:
        """What counts against limits now: the reservation, until the tokens were counted."""
        if self.counted or self.failed:
            return Tokens(self.prompt_tokens, self.completion_tokens)
        return self.reserved_tokens

    async def settle(self) -> None:
        """Once; later calls do nothing."""
        settle, self.on_settle = self.on_settle, None
        if settle is not None:
            await settle()

    def note_grammars(self, grammars: int, tier: Tier, milliseconds: float) -> None:
        self.grammars = grammars
        self.tier = slowest(self.tier, tier)
        self.grammar_ms += milliseconds

    def note_enforcement(
        self, constrained: object, residual: Mapping[str, Sequence[ResidualKeyword]]
    ) -> None:
        """`constrained`: whether anything is; `residual`: by tool hash, the keywords that masks
        do not enforce."""
        self.enforced = "residual" if residual else "full" if constrained else "none"
        self.residual_tools = len(residual)
        names = {each.keyword for keywords in residual.values() for each in keywords}
        safe = {name for name in names if KEYWORD.fullmatch(name)}
        self.residual_keywords = tuple(sorted(safe))

    @property
    def grammar_header(self) -> str | None:
        if self.enforced is None or not self.grammars:
            return None
        return f"{self.tier}; n={self.grammars}; ms={self.grammar_ms:.1f}"

    def headers(self) -> dict[str, str]:
        """Headers that this gateway adds to the response."""
        headers = {} if self.request_id is None else {REQUEST_ID: self.request_id}
        headers |= self.extra_headers
        if self.enforced is None:
            return headers
        headers["x-toolgate-enforced"] = self.enforced
        if self.grammar_header is not None:
            headers["x-toolgate-grammar"] = self.grammar_header
        if self.residual_tools:
            keywords = ",".join(self.residual_keywords)
            headers["x-toolgate-residual"] = f"{self.residual_tools}; keywords={keywords}"
        if self.resamples:
            headers["x-toolgate-resamples"] = str(self.resamples)
        return headers


def context_of(scope: MutableMapping[str, Any]) -> RequestContext:
    """The context of a request, from its ASGI scope; a new one outside of `toolgate proxy`."""
    context = scope.get(SCOPE)
    if not isinstance(context, RequestContext):
        context = scope[SCOPE] = RequestContext()
    return context

"""Context of one request: what it asks for, who sent it, what it uses, and how it ends.

The outermost middleware creates it for each HTTP request and stores it in the ASGI scope. Later
steps receive it as an argument, or the part that they need. Only code that LiteLLM calls reads it
from a context variable (litellm_host/context.py).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from .form import Form
from .keys.caller import Caller
from .keys.limit_kinds import NO_TOKENS
from .limits.estimate import estimate
from .limits.limiter import Limiter
from .limits.meter import Meter
from .notes import Notes
from .outcome import Outcome

SCOPE = "toolgate.context"
"""Key of the request's context in the ASGI scope."""
REQUEST_ID = "x-request-id"
SAFE_ID = re.compile(r"[A-Za-z0-9_.:/=+-]{1,128}")
"""Client ids that are safe in logs and headers. Others are replaced."""


@dataclass
class RequestContext:
    request_id: str | None = None
    """Value of `x-request-id`."""
    method: str | None = None
    path: str | None = None
    """Of the HTTP request, without its query."""
    call_id: str | None = None
    """LiteLLM's id of the request; sent as `x-litellm-call-id`."""
    form: Form | None = None
    """The API in whose form errors and headers are. None: OpenAI's."""
    model: str | None = None
    """The model's name in the request."""
    fallback: str | None = None
    """The model to which the request went on, because `model` failed."""
    attempted_fallbacks: int = 0
    """Number of models to which it went on."""
    deployment: object = None
    """The Deployment to which the request was sent last."""
    free_memory: Callable[[], None] | None = None
    """Ends the reservation of memory for the body. None after it was called."""
    caller: Caller = field(default_factory=Caller)
    outcome: Outcome = field(default_factory=Outcome)
    notes: Notes = field(default_factory=Notes)
    meter: Meter = field(init=False)

    def __post_init__(self) -> None:
        self.meter = Meter(self.outcome)

    @classmethod
    def with_request_id(cls, sent_id: str | None) -> RequestContext:
        """Create the context of a request. `sent_id`: the client's `x-request-id`. A missing or
        unsafe id is replaced."""
        safe = sent_id is not None and SAFE_ID.fullmatch(sent_id) is not None
        return cls(sent_id if safe else f"req_{secrets.token_hex(16)}")

    async def admit(
        self, limiter: Limiter, body: Mapping[str, Any], *, output: bool = True
    ) -> None:
        """Admit the request under the limits of its key, once, reserve tokens for it, and note the
        rate-limit headers. `body`: as the client sent it; `output`: whether the response has output
        tokens. Raise RateLimited and LimitsUnavailable."""
        key, meter = self.caller.key, self.meter
        if key is None or meter.lease is not None:  # the master key has no limits
            return
        tokens = estimate(body, key.limits, output=output) if key.limits.any else NO_TOKENS
        names = "openai" if self.form is None else self.form.rate_limits
        meter.lease = await limiter.admit(
            key, self.call_id or "", tokens, meter.used_tokens, self.notes.headers, names
        )

    def release_body(self) -> None:
        """End the reservation of memory for the body: the request has ended. Later calls do
        nothing."""
        release, self.free_memory = self.free_memory, None
        if release is not None:
            release()

    def go_on(self, fallback: str | None, attempted: int) -> None:
        """Note that the request goes on to another model; None: that it failed at all of them."""
        self.fallback, self.attempted_fallbacks = fallback, attempted
        self.outcome.code = None
        self.notes.is_fallback, self.notes.cache_key, self.notes.host_headers = False, None, {}


def context_of(scope: MutableMapping[str, Any]) -> RequestContext:
    """Return the context in an ASGI scope. Create one if the app was not started by `toolgate
    proxy`."""
    context = scope.get(SCOPE)
    if not isinstance(context, RequestContext):
        context = scope[SCOPE] = RequestContext()
    return context

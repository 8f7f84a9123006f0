"""What is known of one request while it is served: whose it is, what was set aside, what it used.

It is set out by the gate (`gate.py`) and filled in on the way: the key by `auth.py`, the admission
by `limit_hook.py`, the tokens by the provider.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass, field

from .keys.key import Key
from .limits.limiter import Admission


@dataclass
class Meter:
    key: Key | None = None
    """None for the master key, and before anyone has looked."""
    model: str | None = None
    set_aside: int = 0
    admission: Admission | None = None
    headers: dict[str, str] = field(default_factory=dict)
    """For the response."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    counted: bool = False
    """The tokens have been counted, by our provider or by LiteLLM."""
    complete: bool = False
    """Nothing more will be used: what is settled from here on is final."""
    failed: bool = False
    status: int | None = None
    """Of the response, once it has begun."""
    request_id: str | None = None
    """LiteLLM's, which the response bears as x-litellm-call-id."""
    grammar: str | None = None
    """Where the grammars came from."""
    whole: bool = False
    """The response was sent to its end."""
    began: float = field(default_factory=time.monotonic)
    first_byte_seconds: float | None = None

    def begins(self, status: int) -> None:
        """The response's head is on its way."""
        self.status = status
        self.failed = status >= 400
        self.first_byte_seconds = round(time.monotonic() - self.began, 4)

    def note(self, prompt: int, completion: int) -> None:
        """Tokens used so far."""
        self.prompt_tokens, self.completion_tokens = prompt, completion
        self.counted = True

    def used(self) -> int:
        """What counts for now: what was set aside, until somebody has counted."""
        if self.counted or self.failed:
            return self.prompt_tokens + self.completion_tokens
        return self.set_aside


_current: ContextVar[Meter | None] = ContextVar("toolgate_meter", default=None)


def current() -> Meter | None:
    """The meter of the request at hand; None outside of our gateway."""
    return _current.get()


def set_out(meter: Meter) -> None:
    """For the rest of this context, and the tasks that begin in it."""
    _current.set(meter)


def failed() -> None:
    """The answer is an error, though its head had said otherwise."""
    meter = _current.get()
    if meter is not None:
        meter.failed = True


def note(prompt: int, completion: int, *, complete: bool = False) -> None:
    """For the provider, which does not ask who is reading."""
    meter = _current.get()
    if meter is not None:
        meter.note(prompt, completion)
        meter.complete = complete

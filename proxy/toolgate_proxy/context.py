"""Context of one request: what it asks for, who sent it, what it uses, and how it ends.

The outermost middleware creates it for each HTTP request and stores it in the ASGI scope. Later
steps receive it as an argument, or the part that they need. Only code that LiteLLM calls reads it
from a context variable (litellm_host/context.py).
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeVar

from toolgate_core.errors import InvalidRequest, ToolgateError
from toolgate_core.schema.corrections import Correction
from toolgate_core.tools import Tool
from toolgate_core.wire import ResidualKeyword

from .keys.access import key_of
from .keys.key import Key
from .keys.limit_kinds import NO_TOKENS, Tokens
from .limits.estimate import estimate
from .limits.limiter import Lease, Limiter
from .limits.reservation import RateLimitHeaders
from .request.chat_request import ChatRequest, HistoryChange
from .sealing import MASTER_KEY

SCOPE = "toolgate.context"
"""Key of the request's context in the ASGI scope."""
MATCH = "toolgate.match"
"""Key in the ASGI scope of the match of the pattern of its path (app.py)."""
REQUEST_ID = "x-request-id"
SAFE_ID = re.compile(r"[A-Za-z0-9_.:/=+-]{1,128}")
"""Client ids that are safe in logs and headers. Others are replaced."""
KEYWORD = re.compile(r"[$A-Za-z]{1,64}")


class Form(Protocol):
    """The form of one API's errors and headers."""

    rate_limits: RateLimitHeaders
    request_id_header: str | None
    """A further name of the header `x-request-id` in responses."""

    def error(self, error: ToolgateError, request_id: str | None = None) -> dict[str, Any]:
        """Return the body of an error response to a request that was not read. `request_id`: the
        value of `x-request-id`."""

    def error_event(self, body: Mapping[str, Any]) -> bytes:
        """Return the event that reports an error in a stream that has no other events. `body` is
        what `error` returned."""


@dataclass(slots=True)
class Caller:
    """Who sent a request. The authentication writes it."""

    key: Key | None = None
    """None for the master key, and before authentication."""
    require_key: Callable[[], None] | None = None
    """Raises RetiredKey if the key was revoked since the request began. None without `key`."""
    identity: str | None = None
    """Who sent the request, if LiteLLM's or another authentication is configured."""
    authenticated: bool = False
    """Toolgate authenticated the request, and not another authentication of LiteLLM's settings."""
    sent_key: str = field(default="", repr=False)
    """The API key in the request's headers, which nobody may have checked; "" without one."""

    @property
    def sender(self) -> str:
        """The key of the request, or who sent it, among which shared workers are divided."""
        return self.key.id if self.key is not None else self.identity or ""

    @property
    def name(self) -> str | None:
        """The alias of the key; None without a valid key, and if LiteLLM's configuration uses
        another authentication."""
        if self.key is not None:
            return self.key.alias
        return "master" if self.authenticated else None

    @property
    def team(self) -> str | None:
        return None if self.key is None else self.key.terms.team

    @property
    def owner(self) -> str:
        """Who may use the data that the request creates: the team of its key, or the key. Empty
        without an authenticated sender."""
        if self.key is not None:
            return f"team {self.team}" if self.team else f"key {self.key.id}"
        if self.authenticated:
            return MASTER_KEY
        return "" if self.identity is None else f"caller {self.identity}"


@dataclass(slots=True)
class Outcome:
    """How a request ends, and when. What sends the response writes it."""

    began: float = field(default_factory=time.monotonic)
    arrived: float = field(default_factory=time.time)
    """Seconds since 1970."""
    status: int | None = None
    """HTTP status of the response. None before its first byte."""
    failed: bool = False
    """The response is an error, even if its status was 200 when it began."""
    code: str | None = None
    """Of the error response, or of the error event in a stream."""
    cause: str | None = None
    """The exception behind a server error, without content of the request."""
    sent_whole: bool = False
    """The complete response was sent."""
    first_byte_seconds: float | None = None
    first_event: float | None = None
    """Monotonic time of the first event with output of a stream."""
    last_event: float | None = None

    @property
    def first_event_seconds(self) -> float | None:
        """Seconds until the first event with output of a stream."""
        return None if self.first_event is None else self.first_event - self.began

    def begin(self, status: int) -> None:
        """Note that the response begins."""
        self.status = status
        self.failed = status >= 400
        if not self.failed:
            self.code = None  # of an attempt that was repeated
        self.first_byte_seconds = round(time.monotonic() - self.began, 4)

    def note_event(self) -> None:
        """Note a write of a stream that has output."""
        self.last_event = time.monotonic()
        if self.first_event is None:
            self.first_event = self.last_event


@dataclass(slots=True)
class Meter:
    """What a request uses: its tokens and calls, and what its key is charged for them. What reads a
    model's response writes it."""

    outcome: Outcome
    prompt_tokens: int = 0
    completion_tokens: int = 0
    earlier: Tokens = NO_TOKENS
    """Those of generations that have ended, which the numbers above include."""
    tool_calls: int = 0
    """Number of calls of tools that the gateway ran."""
    counted: bool = False
    """The tokens were counted, by a Toolgate backend or by LiteLLM."""
    uncounted: Tokens = NO_TOKENS
    """What counts until the tokens are counted. Our backends count them from the beginning, LiteLLM
    those of other providers at the end."""
    complete: bool = False
    """The token counts are final, so the reservation can be settled."""
    on_counted: Callable[[], None] | None = None
    """Called when tokens are counted for the first time, if the request has ended before. LiteLLM
    reports the tokens of other providers after the end."""
    lease: Lease | None = None
    """Of the limits of the key; None before they have admitted the request, and without a key."""
    prompt_admitted: bool = False
    """The limits admitted the prompt as it was counted."""
    is_logged: bool = False
    """A log event reports the tokens, those of a response that its client leaves as well."""
    settled: Tokens | None = None
    """The tokens that the lease was settled by."""

    async def admit_prompt(self, prompt: int) -> None:
        """Check the limits again when a backend has counted the prompt. Raise RateLimited."""
        if self.lease is not None and prompt and not self.prompt_admitted:
            await self.lease.admit_prompt(self.earlier.total + prompt)
            self.prompt_admitted = True

    async def admit_tool_call(self) -> None:
        """Count a call of a tool that the gateway runs. Raise RateLimited."""
        if self.lease is not None:
            await self.lease.admit_tool_call()
        self.tool_calls += 1

    async def admit_files(self, texts: Sequence[str]) -> None:
        """Check the limits again when the texts of files were read. Raise RateLimited."""
        if self.lease is not None and texts:
            await self.lease.admit_files(texts)

    def note_tokens(self, prompt: int, completion: int, *, complete: bool = False) -> None:
        """Set the number of tokens that the present generation has used so far."""
        self.prompt_tokens = self.earlier.input + prompt
        self.completion_tokens = self.earlier.output + completion
        self.counted = True
        self.complete = self.complete or complete
        on_counted, self.on_counted = self.on_counted, None
        if on_counted is not None:
            on_counted()

    def begin_counting(self) -> None:
        """Note that no generation of the request has ended. An earlier attempt does not count."""
        self.earlier, self.prompt_admitted = NO_TOKENS, False

    def begin_generation(self) -> None:
        """Note that a generation has ended whose tokens count, and that another one begins."""
        self.earlier = Tokens(self.prompt_tokens, self.completion_tokens)
        self.prompt_admitted = False

    def await_counts(self) -> None:
        """Note that another provider gets the prompt. LiteLLM reports its tokens at the end."""
        self.counted, self.prompt_tokens, self.completion_tokens = False, 0, 0
        self.begin_counting()
        self.uncounted = NO_TOKENS if self.lease is None else self.lease.reserved

    def used_tokens(self) -> Tokens:
        """Return what counts against limits: what was read, generated and called so far."""
        tokens = self.uncounted
        if self.counted or self.outcome.failed:
            tokens = Tokens(self.prompt_tokens, self.completion_tokens)
        return Tokens(tokens.input, tokens.output, self.tool_calls)

    async def settle(self) -> None:
        """Settle the lease. Later calls correct it if other tokens were counted since."""
        if self.lease is not None and self.settled != (used := self.used_tokens()):
            self.settled = used
            await self.lease.settle()

    @property
    def unsettled(self) -> bool:
        return self.lease is not None and self.settled != self.used_tokens()


@dataclass(slots=True)
class Notes:
    """What response headers, the access log and metrics say about how a request was served. The
    steps of the response write it."""

    host_headers: Mapping[str, str] = field(default_factory=dict)
    """Response headers in which LiteLLM describes the response."""
    headers: dict[str, str] = field(default_factory=dict)
    """Further response headers: rate limits, and those of hooks."""
    enforced: Literal["full", "residual", "none"] | None = None
    is_fallback: bool = False
    """Another provider's model answers for a Toolgate model."""
    residual: Collection[Sequence[ResidualKeyword]] = ()
    """The keywords that masks do not enforce, by tool."""
    omitted_tools: Sequence[str] = ()
    """Types of the hosted tools that the model is not offered."""
    history_changes: tuple[HistoryChange, ...] = ()
    invalid_tools: dict[str, InvalidRequest] = field(default_factory=dict)
    """The tools that the model is not offered because they are invalid: their names, or places in
    the request, and the errors."""
    corrected: Collection[Sequence[Correction]] = ()
    """The slips that are read as they were meant, by tool."""
    ignored_parameters: Sequence[str] = ()
    """Names of the parameters that no row defines and that were dropped."""
    dropped_messages: int = 0
    """Number of the oldest messages that were dropped so that the prompt fits the context."""
    cleared_tokens: int | None = None
    """Number of tokens that context edits removed from the prompt. None without such edits."""
    resamples: int = 0
    grammars: int = 0
    """Number of the grammars that the response needs."""
    has_new_grammars: bool = False
    """Whether the verdict on one of them was not known."""

    def show(self, other: Notes) -> None:
        """Take over what the headers of a response say about another request."""
        self.headers = other.headers
        self.omitted_tools, self.history_changes = other.omitted_tools, other.history_changes
        self.invalid_tools, self.ignored_parameters = other.invalid_tools, other.ignored_parameters
        self.corrected = other.corrected

    def note_changes(self, changes: Iterable[HistoryChange]) -> None:
        """Note changes of a later step. One that is repeated elsewhere notes the same."""
        self.history_changes = tuple(dict.fromkeys((*self.history_changes, *changes)))

    def note_enforcement(
        self,
        constrained: object,
        residual: Mapping[str, Sequence[ResidualKeyword]],
        tools: Iterable[Tool] = (),
    ) -> None:
        """Note how much of the request is enforced, and the slips that were corrected.
        `constrained`: truthy if the request has tools or a content format. `residual`: keywords
        that masks do not enforce, by tool hash. `tools`: those that have grammars."""
        self.is_fallback = False
        self.enforced = "residual" if residual else "full" if constrained else "none"
        self.residual = [*residual.values()]
        self.corrected = [tool.corrections for tool in tools if tool.corrections]

    def note_grammars(self, number: int, *, new: bool) -> None:
        """Note the grammars that the request needs. One that is sent again had new ones before."""
        self.grammars, self.has_new_grammars = number, self.has_new_grammars or new

    @property
    def grammars_note(self) -> str | None:
        """Value of `x-toolgate-grammar`. None without grammars."""
        if not self.grammars:
            return None
        return f"{'new' if self.has_new_grammars else 'known'}; n={self.grammars}"

    def note_fallback(self) -> None:
        """Note that another provider's model responds, so that nothing is enforced, whatever an
        earlier attempt at a backend noted."""
        self.is_fallback, self.enforced, self.residual = True, "none", ()
        self.grammars, self.has_new_grammars, self.resamples = 0, False, 0


Content = TypeVar("Content", bound=str | Sequence[dict[str, Any]])
Guard = Callable[[Sequence[dict[str, Any]]], Awaitable[Sequence[dict[str, Any]]]]


@dataclass(slots=True)
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
    guard: Guard | None = None
    """Shows what comes into the prompt late to what reads requests. None: nothing does."""
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

    async def reserve(
        self, limiter: Limiter, body: Mapping[str, Any], *, output: bool = True
    ) -> None:
        """Check the limits of the request's key and reserve tokens, once, and note the rate-limit
        headers. `body`: as the client sent it; `output`: whether the response has output
        tokens. Raise RateLimited and LimitsUnavailable."""
        key, meter = self.caller.key, self.meter
        if key is None or meter.lease is not None:  # the master key has no limits
            return
        tokens = estimate(body, key.limits, output=output) if key.limits.any else NO_TOKENS
        names = "openai" if self.form is None else self.form.rate_limits
        meter.lease = await limiter.admit(
            key, self.call_id or "", tokens, meter.used_tokens, self.notes.headers, names
        )

    async def guarded(self, content: Content, role: str) -> Content:
        """Return the content of a late message as the guardrails leave it. Raise ToolgateError."""
        if self.guard is None:
            return content
        [message] = await self.guard([{"role": role, "content": content}])
        left: Content = message["content"]
        return left

    async def guarded_request(self, request: ChatRequest) -> ChatRequest:
        """Return a request as the guardrails leave the texts of its messages that they have not
        seen. Raise ToolgateError."""
        if self.guard is None:
            return request
        return replace(request, messages=tuple(await self.guard(request.messages)))

    def release_body(self) -> None:
        """End the reservation of memory for the body, when the request ends. May be repeated."""
        release, self.free_memory = self.free_memory, None
        if release is not None:
            release()

    def go_on(self, fallback: str | None, attempted: int) -> None:
        """Note that the request goes on to another model; None: that it failed at all of them."""
        self.fallback, self.attempted_fallbacks = fallback, attempted
        self.outcome.code = None
        self.notes.is_fallback, self.notes.host_headers = False, {}


def keywords_note(tools: Collection[Iterable[ResidualKeyword | Correction]]) -> str:
    """Return the number of tools, and their keywords; "" for none."""
    names = {each.keyword for residual in tools for each in residual}
    safe = sorted(name for name in names if KEYWORD.fullmatch(name))
    return f"{len(tools)}; keywords={','.join(safe)}" if tools else ""


def route_path(scope: MutableMapping[str, Any]) -> str:
    """Return the path of a request without LiteLLM's `SERVER_ROOT_PATH`. It is the path in the
    request line, which a forged Host header cannot change."""
    path = str(scope["path"])
    root = str(scope.get("app_root_path", scope.get("root_path", ""))).rstrip("/")
    return path.removeprefix(root) if path.startswith(f"{root}/") else path


def model_in_path(scope: MutableMapping[str, Any]) -> str:
    """Return the model that the path of a request names, or "" if it names none."""
    match = scope.get(MATCH)
    return "" if match is None else match.groupdict().get("model") or ""


def context_of(scope: MutableMapping[str, Any]) -> RequestContext:
    """Return the context in an ASGI scope. Create one if the app was not started by `toolgate
    proxy`. Raise InvalidKey if its headers have different keys."""
    context = scope.get(SCOPE)
    if not isinstance(context, RequestContext):
        caller = Caller(sent_key=key_of(scope.get("headers", ())) or "")
        context = scope[SCOPE] = RequestContext(caller=caller)
    return context

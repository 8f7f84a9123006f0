"""The kinds of limits that a key can have: one row of `KINDS` for each.

The rows define the fields of `keys.key.Limits` and of the key file, the options and columns of
`toolgate keys`, the counters in memory and in Redis, the rate-limit headers, the error messages
and docs/reference/settings.md. A new row is a new kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from toolgate_core.errors import QuotaExceeded, RateLimited

SLICES = 60
"""Parts of a sliding window. What is counted in a slice counts until one window after its end, so
no window, wherever it begins, exceeds the limit. Capacity returns up to one slice late."""


class Tokens(NamedTuple):
    """Tokens of one request, estimated or used, and what else counts of it."""

    input: int = 0
    output: int = 0
    tool_calls: int = 0
    """Calls of tools that the gateway runs."""

    @property
    def total(self) -> int:
        return self.input + self.output


NO_TOKENS = Tokens()


@dataclass(frozen=True)
class Unit:
    name: str
    """Plural, for messages and documents."""
    amount: Callable[[Tokens], int]
    """What one request adds to a limit."""
    error_type: Literal["requests", "tokens"]
    """`error.type` of a refused request."""

    @property
    def counts_output(self) -> bool:
        return self.amount(Tokens(0, 1)) > self.amount(NO_TOKENS)


@dataclass(frozen=True)
class Window:
    type: Literal["sliding", "fixed", "in_flight"]
    """sliding: any period of that length; fixed: periods since 1970-01-01 UTC; in_flight: a request
    counts until it has ended."""
    phrase: str
    """For messages, after a unit: `requests per minute`."""
    milliseconds: int = 0
    current: str = ""
    """Name of the current period of a fixed window: `tokens_today`."""

    @property
    def earlier(self) -> int:
        """Number of slices before the current one that count, too. A fixed window is one slice."""
        return SLICES if self.type == "sliding" else 0

    @property
    def slice_ms(self) -> float:
        return self.milliseconds / (self.earlier or 1)


REQUESTS = Unit("requests", lambda tokens: 1, "requests")
TOOL_CALLS = Unit("tool calls", lambda tokens: tokens.tool_calls, "requests")
TOKENS = Unit("tokens", lambda tokens: tokens.total, "tokens")

MINUTE = Window("sliding", "per minute", 60_000)
DAY = Window("fixed", "per day (UTC)", 86_400_000, "today")
IN_FLIGHT = Window("in_flight", "at once")


@dataclass(frozen=True, kw_only=True)
class LimitKind:
    name: str
    """Field of a key's limits: in Redis, in the key file and in the output of `toolgate keys`."""
    unit: Unit
    window: Window
    counted_for: Literal["every key", "limited keys", "keys with this limit"] = (
        "keys with this limit"
    )
    """Which keys have a counter: all; those with a limit of any kind, so that this limit is exact
    as soon as it is added; or only those with this limit."""
    counter: str = ""
    """Last part of the counter's name in Redis. By default `name`, as for the following fields."""
    label: str = ""
    """Label of the metric `toolgate_limited_total`."""
    header: str = ""
    """Last part of the `x-ratelimit-*` headers."""
    flag: str = ""
    """Option of `toolgate keys create` and `update`."""
    column: str = ""
    """Heading in `toolgate keys list`."""

    def __post_init__(self) -> None:
        dashed = self.name.replace("_", "-")
        defaults = dict.fromkeys(("counter", "label", "column"), self.name)
        defaults |= {"header": dashed, "flag": f"--{dashed}"}
        for field, default in defaults.items():
            object.__setattr__(self, field, getattr(self, field) or default)

    @property
    def title(self) -> str:
        """For messages and documents: `tokens per minute`."""
        return f"{self.unit.name} {self.window.phrase}"

    @property
    def usage_field(self) -> str | None:
        """Name of the use of the current period in `toolgate keys show`: `tokens_today`."""
        if not self.window.current:
            return None
        return f"{self.unit.name}_{self.window.current}".replace(" ", "_")

    @property
    def error(self) -> type[RateLimited]:
        """The error for a refused request, with OpenAI's `code`."""
        return QuotaExceeded if self.window.type == "fixed" else RateLimited

    def redis_key(self, key_id: str) -> str:
        return f"toolgate:limit:{{{key_id}}}:{self.counter}"


KINDS = (
    LimitKind(
        name="rpm",
        unit=REQUESTS,
        window=MINUTE,
        counted_for="limited keys",
        counter="requests",
        label="requests",
        header="requests",
    ),
    LimitKind(
        name="tpm",
        unit=TOKENS,
        window=MINUTE,
        counted_for="limited keys",
        counter="tokens",
        label="tokens",
        header="tokens",
    ),
    LimitKind(
        name="max_parallel_requests",
        unit=REQUESTS,
        window=IN_FLIGHT,
        counter="leases",
        label="parallel_requests",
        header="parallel-requests",
        flag="--max-parallel",
        column="parallel",
    ),
    LimitKind(
        name="tokens_per_day",
        unit=TOKENS,
        window=DAY,
        counted_for="every key",
        counter="days",
        header="tokens-day",
        column="tokens/day",
    ),
    LimitKind(
        name="tool_calls_per_day",
        unit=TOOL_CALLS,
        window=DAY,
        counter="tool_days",
        header="tool-calls-day",
        column="calls/day",
    ),
)
"""In the order in which they are checked."""
OUTPUT_KINDS = tuple(kind for kind in KINDS if kind.unit.counts_output)
"""Those that count the tokens of responses."""
TOOL_CALL_KINDS = tuple(kind for kind in KINDS if kind.unit is TOOL_CALLS)
"""Those that count the calls of tools that the gateway runs."""

"""How long the calls of each tool are, learnt from all calls of the fleet.

Reasoning before a required call leaves as many tokens for the call as nearly all earlier calls of
the tool needed. `toolgate:lengths:<grammar key>` in Redis is a hash of lengths, rounded up, to
numbers of calls. Each process sends its calls and reads those of the others every few seconds, so
no request waits for Redis. Without Redis, a process learns from its own calls.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from ..background import without_owner
from ..redis.client import Command, SharedRedis

PREFIX = "toolgate:lengths:"
INTERVAL = 5.0
"""Seconds for which calls are counted in this process before one pipeline sends them."""
SHARE = 0.95
"""Share of the calls that are not longer than the learnt length."""
LEAST_CALLS = 20
"""Number of calls from which on their lengths count."""
MOST_CALLS = 1000
"""Number of calls above which all counts are halved, so that new calls outweigh old ones."""
STEPS_PER_DOUBLING = 8
"""Lengths are rounded up by at most 9 % and one token, so that a hash has few fields."""
MOST_TOKENS = 2**20
MAX_TOOLS = 10_000
"""Maximum number of tools in memory. The lengths of others are read again from Redis."""

ADD = f"""
local total = 0
for i = 2, #ARGV, 2 do redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1]) end
local counts = redis.call('HGETALL', KEYS[1])
for i = 2, #counts, 2 do total = total + counts[i] end
if total > {MOST_CALLS} then
    for i = 1, #counts, 2 do
        counts[i + 1] = math.floor(counts[i + 1] / 2)
        if counts[i + 1] < 1 then redis.call('HDEL', KEYS[1], counts[i])
        else redis.call('HSET', KEYS[1], counts[i], counts[i + 1]) end
    end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return counts"""


class CallLengths:
    def __init__(self, redis: SharedRedis | None, ttl: float) -> None:
        """`ttl`: seconds for which the lengths of a tool are kept after its last call."""
        self._redis = redis
        self._ttl_ms = round(ttl * 1000)
        self._learnt: OrderedDict[str, int | None] = OrderedDict()
        """By grammar key; None if there were too few calls."""
        self._own: dict[str, Counter[int]] = {}
        """All calls of this process, if there is no Redis."""
        self._new: dict[str, Counter[int]] = {}
        """Calls that have not been sent, and tools whose lengths are to be read."""
        self._sending: asyncio.Task[None] | None = None

    def usual(self, keys: Iterable[str]) -> int | None:
        """Return the length of nearly all calls of each of these tools; None if none of them has
        had enough calls, or the lengths have not been read yet."""
        most: int | None = None
        for key in keys:
            if key in self._learnt:
                self._learnt.move_to_end(key)
                most = max(most or 0, self._learnt[key] or 0) or None
            elif self._redis is not None:
                self._new.setdefault(key, Counter())
                self._send_later(0)
        return most

    def note(self, key: str, tokens: int) -> None:
        """Count a complete call of `tokens` tokens."""
        self._new.setdefault(key, Counter())[rounded(tokens)] += 1
        self._send_later(INTERVAL)

    async def flush(self) -> None:
        """Send the counted calls, and read those of other processes."""
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        await self._send()

    def _send_later(self, seconds: float) -> None:
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_after(seconds))
            without_owner(self._sending)

    async def _send_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._sending = None
        await self._send()

    async def _send(self) -> None:
        new, self._new = self._new, {}
        if self._redis is None:
            for key, lengths in new.items():
                own = self._own.setdefault(key, Counter())
                own.update(lengths)
                if own.total() > MOST_CALLS:
                    self._own[key] = own = Counter({n: c // 2 for n, c in own.items() if c > 1})
                self._remember(key, own)
            return
        commands = [self._command(key, lengths) for key, lengths in new.items()]
        replies = await self._redis.run(commands, patient=True) if commands else []
        for key, reply in zip(new, replies or (), strict=False):
            # An error of one key is remembered, too, so that not each request reads it again.
            self._remember(key, _counts(reply) if isinstance(reply, list) else {})

    def _command(self, key: str, lengths: Mapping[int, int]) -> Command:
        pairs = (number for pair in lengths.items() for number in pair)
        return ("EVAL", ADD, 1, PREFIX + key, self._ttl_ms, *pairs)

    def _remember(self, key: str, counts: Mapping[int, int]) -> None:
        self._learnt[key] = percentile(counts)
        self._learnt.move_to_end(key)
        if len(self._learnt) > MAX_TOOLS:
            oldest, _ = self._learnt.popitem(last=False)
            self._own.pop(oldest, None)


def rounded(tokens: int) -> int:
    """Return the least step that is not below `tokens`."""
    tokens = min(max(tokens, 1), MOST_TOKENS)
    step = math.ceil(round(math.log2(tokens) * STEPS_PER_DOUBLING, 6))
    return math.ceil(round(2 ** (step / STEPS_PER_DOUBLING), 6))


def percentile(counts: Mapping[int, int]) -> int | None:
    """Return the length that `SHARE` of the calls do not exceed; None if there are too few
    calls."""
    total, passed = sum(counts.values()), 0
    if total < LEAST_CALLS:
        return None
    for tokens in sorted(counts):
        passed += counts[tokens]
        if passed >= SHARE * total:
            return tokens
    return None


def _counts(reply: Sequence[object]) -> dict[int, int]:
    """Return the fields of the hash, without those that are not from a gateway."""
    counts = {}
    for name, value in zip(reply[::2], reply[1::2], strict=False):
        try:
            tokens, calls = int(name), int(value)  # type: ignore[call-overload]
        except (TypeError, ValueError):
            continue
        if 0 < tokens <= MOST_TOKENS and calls > 0:
            counts[tokens] = calls
    return counts

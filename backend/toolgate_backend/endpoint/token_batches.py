"""Join the tokens of a response into fewer events, for a reader that shows none of them before the
end."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from toolgate_core.wire import StreamEvent, TokensEvent, joined

SECONDS = 0.25
"""Time over which tokens are joined. The tokens of a response that its client abandons are counted
up to this time before."""


async def batched(
    events: AsyncGenerator[StreamEvent, None], seconds: float = SECONDS
) -> AsyncGenerator[StreamEvent, None]:
    """Yield the same events, with the tokens of `seconds` as one event for each choice.

    The first tokens follow at once, so that the reader knows that the model has begun."""
    waiting: dict[int, list[TokensEvent]] = {}
    due = 0.0
    async with aclosing(events):
        async for event in events:
            if isinstance(event, TokensEvent):
                waiting.setdefault(event.choice, []).append(event)
                if (now := time.monotonic()) < due:
                    continue
                due = now + seconds
            for each in waiting.values():
                yield joined(each)
            waiting.clear()
            if not isinstance(event, TokensEvent):
                yield event

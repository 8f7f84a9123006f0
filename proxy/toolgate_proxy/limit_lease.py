"""What the limits of a key check and count for a request that they admitted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass


@dataclass
class Lease:
    """All but `settle` are None if the key has no such limit. They raise RateLimited."""

    settle: Callable[[], Awaitable[None]]
    """Settles the reservation by the tokens used."""
    admit_prompt: Callable[[int], Awaitable[None]] | None = None
    """Reserves what a prompt of that many tokens has beyond its estimate."""
    admit_files: Callable[[Sequence[str]], Awaitable[None]] | None = None
    """Reserves what the texts of PDFs have beyond their estimate. None after it was called."""
    admit_tool_call: Callable[[], Awaitable[None]] | None = None
    """Counts one more call of a tool that the gateway runs."""

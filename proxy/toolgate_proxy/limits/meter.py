"""What one request uses: its tokens and calls, and what its key is charged for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..keys.limit_kinds import NO_TOKENS, Tokens
from ..outcome import Outcome
from .lease import Lease


@dataclass(slots=True)
class Meter:
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
    """What counts until the tokens are counted. Our backends count them from the beginning, other
    providers at the end."""
    complete: bool = False
    """The token counts are final, so the reservation can be settled."""
    on_counted: Callable[[], None] | None = None
    """Called when tokens are counted for the first time, if the request has ended before. LiteLLM
    reports the tokens of other providers after the end."""
    lease: Lease | None = None
    """Of the limits of the key; None before they have admitted the request, and without a key."""
    prompt_admitted: bool = False
    """The limits admitted the prompt as it was counted."""
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
        """Check the limits again when the texts of PDFs were read. Raise RateLimited."""
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

    def await_counts(self, *, stream: bool) -> None:
        """Note that another provider gets the prompt now, which counts tokens at the end. If the
        client leaves, only a stream shows how much of the response was generated."""
        self.counted, self.prompt_tokens, self.completion_tokens = False, 0, 0
        self.begin_counting()
        reserved = NO_TOKENS if self.lease is None else self.lease.reserved
        self.uncounted = Tokens(reserved.input) if stream else reserved

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

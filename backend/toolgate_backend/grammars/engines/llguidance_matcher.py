"""Compiled grammars of llguidance, the matchers that walk through them, and their copies."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, Self

import llguidance
import llguidance.numpy
import numpy as np

from ...errors import BackendError, GrammarRefused
from ...tokens.masks import BitmaskRow
from .engine import Matcher


class Mark(NamedTuple):
    """A special token that a grammar can contain: its place in a bitmask, and its text."""

    word: int
    bit: np.int32
    text: bytes

    @classmethod
    def of(cls, token: int, text: bytes) -> Self:
        bit = np.array([1 << (token & 31)], dtype=np.uint32).view(np.int32)[0]
        return cls(token >> 5, bit, text)


def matchers_of(
    make: Callable[[], llguidance.LLMatcher], marks: tuple[Mark, ...] = ()
) -> Callable[[], Matcher]:
    """Return what makes the matchers of one grammar."""
    return partial(LLGuidanceMatcher, FreshMatcher(make), marks)


class LLGuidanceMatcher:
    """From the first rollback on, masks are computed by a copy, which is thrown away.

    llguidance (1.7.6) keeps the parser's rows of a mask, and after a rollback takes them for those
    of other tokens: after a mask at `{"`, the mask at `["` is that of a member's name. A copy takes
    6 to 400 µs, and sequences without drafts do not need it."""

    def __init__(self, fresh: FreshMatcher, marks: tuple[Mark, ...]) -> None:
        self._fresh = fresh
        self._matcher = fresh.copy()
        self._marks = marks
        self._accepted: list[int] | None = []
        """The tokens so far; None after the first rollback."""

    def accept(self, token: int) -> bool:
        # `consume_token` would enter an error state for a token that does not match.
        if self._matcher.is_stopped() or self._matcher.try_consume_tokens([token]) != 1:
            return False
        if self._accepted is not None:
            self._accepted.append(token)
        return True

    def rollback(self, count: int) -> None:
        if self._accepted is not None:
            tokens, self._accepted = self._accepted, None
            self._matcher = self._fresh.copy()
            if self._matcher.try_consume_tokens(tokens) != len(tokens):
                raise BackendError("The tokens of the call could not be read again.")
        if not self._matcher.rollback(count):
            raise BackendError(self._matcher.get_error())

    def fill(self, row: BitmaskRow) -> None:
        matcher = self._matcher if self._accepted is not None else self._matcher.deep_copy()
        llguidance.numpy.fill_next_token_bitmask(matcher, row.reshape(1, -1))
        self._finish(matcher, row)

    def check(self) -> None:
        if self._matcher.is_error():
            self._fresh.renew()
            raise BackendError(self._matcher.get_error())

    def _finish(self, matcher: llguidance.LLMatcher, row: BitmaskRow) -> None:
        """Check and correct the mask that `matcher` has computed. Raise BackendError."""
        if matcher.is_error():  # a limit was exceeded, so the mask is not valid
            self._fresh.renew()
            raise BackendError(matcher.get_error())
        for word, bit, text in self._marks:
            # Where the grammar continues with text that is spelled like a mark (`</tool_call>` in a
            # string), llguidance allows the mark only, and would refuse it.
            if row[word] & bit and matcher.compute_ff_bytes().startswith(text):
                row[word] &= ~bit

    def forced(self) -> bytes:
        return bytes(self._matcher.compute_ff_bytes())

    @property
    def finished(self) -> bool:
        return bool(self._matcher.is_stopped()) and not self._matcher.is_error()

    @property
    def complete(self) -> bool:
        return self.finished or bool(self._matcher.is_accepting())


PAUSE_SECONDS = 0.005
"""A grammar that takes longer to compile is compiled in another thread: the engine's next step,
and with it all sequences, would wait for it."""
_threads = ThreadPoolExecutor(1, thread_name_prefix="toolgate-renewal")


class FreshMatcher:
    """A matcher before its first token, of which copies are made.

    Copies share their lexer. One that has exceeded a limit refuses everything from then on, in
    copies that are made later, too."""

    def __init__(self, make: Callable[[], llguidance.LLMatcher]) -> None:
        self._make = make
        began = time.perf_counter()
        self._matcher = make()
        self._takes_long = time.perf_counter() - began > PAUSE_SECONDS
        self._renewal: Future[llguidance.LLMatcher] | None = None

    def copy(self) -> llguidance.LLMatcher:
        """Raise BackendError while the grammar is compiled again."""
        renewal = self._renewal
        if renewal is not None:
            if not renewal.done():
                raise BackendError(
                    "A text has exceeded a limit of the grammar's engine, so the grammar is being "
                    "compiled again. Send the request again."
                )
            self._matcher, self._renewal = renewal.result(), None
        return self._matcher.deep_copy()

    def renew(self) -> None:
        """Make later copies with another lexer: a copy has exceeded a limit."""
        if self._renewal is not None:
            return
        if self._takes_long:
            self._renewal = _threads.submit(self._make)
        else:
            self._matcher = self._make()


LEXER_FUEL = 1_000_000
"""Limit of the lexer's work for one mask, five times llguidance's own. Raw text that is counted and
has parts of its end mark in it needs more than that."""


def new_matcher(tokenizer: llguidance.LLTokenizer, grammar: str) -> llguidance.LLMatcher:
    """Raise GrammarRefused."""
    limits = llguidance.LLParserLimits(step_lexer_fuel=LEXER_FUEL)
    matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0, limits=limits)
    if matcher.is_error():
        raise GrammarRefused(first_line(matcher.get_error()), "")
    return matcher


def can_begin(tokenizer: llguidance.LLTokenizer, matcher: llguidance.LLMatcher) -> bool:
    """Return whether the text can begin with a token other than the end."""
    begun = matcher.deep_copy()
    row = llguidance.numpy.allocate_token_bitmask(1, tokenizer.vocab_size)
    llguidance.numpy.fill_next_token_bitmask(begun, row)
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")
    bits[tokenizer.eos_token] = 0
    return not begun.is_error() and bool(bits.any())


def first_line(error: str) -> str:
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return lines[0][:300] if lines else "refused without a reason"

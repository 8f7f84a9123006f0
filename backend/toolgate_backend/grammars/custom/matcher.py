"""The matcher of a call of a custom tool: fixed text, the input under the client's grammar, fixed
text.

The end of an input can be ambiguous: a line break may belong to the input or to the fixed text
after it. Then both are followed until one of them fails. A token can contain a part of the input
and a part of the text before or after it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import llguidance
import llguidance.numpy
import numpy as np

from ...errors import BackendError
from ...tokens import masks
from ...tokens.masks import BitmaskRow, TokenIds
from ...tokens.units import ESCAPE
from ..engines.engine import MAX_PREFIX_BYTES, Matcher
from .views import View

MAX_CLOSINGS = 48
"""Maximum number of tokens that are tried as the end of the input and the beginning of the text
after it, for one mask. If there are more, none of them is allowed: the input can still end before
such a token's text."""


MAX_AVOIDED = 24
"""Maximum number of tokens through which a way around the forbidden text is searched."""


@dataclass(frozen=True)
class Parts:
    """Fresh matchers, which are copied for each call."""

    before: llguidance.LLMatcher
    """The fixed text before the input."""
    input: llguidance.LLMatcher
    """The grammar, over `view`."""
    after: llguidance.LLMatcher
    """The fixed text after the input."""
    forbidden: bytes
    """A text that the input can't contain; empty if it can contain all."""
    view: View

    @cached_property
    def after_text(self) -> bytes:
        """The text after the input, up to its first mark."""
        return bytes(self.after.deep_copy().compute_ff_bytes()).partition(ESCAPE)[0]

    @cached_property
    def closing_arrays(self) -> tuple[TokenIds, TokenIds]:
        """The tokens of `closings`, and for each a token that spells its part of the input."""
        parts = [part for part, _ in self.closings.values()]
        return np.array([*self.closings], dtype=np.int64), np.array(parts, dtype=np.int64)

    @cached_property
    def closings(self) -> dict[int, tuple[int, int]]:
        return self.view.closings(self.after_text)


class CustomGrammar:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.fixed_prefix = bytes(parts.before.deep_copy().compute_ff_bytes())[:MAX_PREFIX_BYTES]

    def matcher(self) -> Matcher:
        return CustomMatcher(self._parts)


@dataclass(frozen=True)
class _Step:
    """What a token changed, for rollback."""

    before: bool
    """Whether `before` accepted it."""
    begun: bool
    """Whether the input had begun before it."""
    input: bool
    """Whether `input` accepted it."""
    pending: bool
    """Whether a backslash was pending before it."""
    alive: bool
    """Whether the input could go on before it."""
    tail: bytes
    """The end of the input before it, as far as it may begin the forbidden text."""
    ends: tuple[llguidance.LLMatcher, ...]
    """The matchers of `after` before it."""


class CustomMatcher:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._view = parts.view
        self._before = parts.before.deep_copy()
        self._input = parts.input.deep_copy()
        self._begun = False
        self._pending = False
        self._alive = True
        self._tail = b""
        self._ends: tuple[llguidance.LLMatcher, ...] = ()
        self._steps: list[_Step] = []
        self._searched = b""
        self._avoidable: dict[bytes, bool] = {}
        """Within one mask, by the text that follows: whether the forbidden text can be avoided
        after it."""

    # --- Matcher ---

    def accept(self, token: int) -> bool:
        if self.finished:
            return False
        step = _Step(
            before=False,
            begun=self._begun,
            input=False,
            pending=self._pending,
            alive=self._alive,
            tail=self._tail,
            ends=self._ends,
        )
        step = self._go_on(token, step) if self._begun else self._begin(token, step)
        if not step.before and not self._alive and not self._ends:
            self._undo(step)
            return False
        self._steps.append(step)
        return True

    def rollback(self, count: int) -> None:
        for _ in range(count):
            self._undo(self._steps.pop())

    def fill(self, row: BitmaskRow) -> None:
        if not self._begun:
            self._fill_before(row)
        else:
            row[:] = 0
            if self._alive:
                self._fill_input(row)
            more = np.empty_like(row)
            for end in self._ends_here():
                _fill(end, more)
                row |= more

    def forced(self) -> bytes:
        if not self._begun:
            return self._rest_before()
        if not self._alive and len(self._ends) == 1:
            return bytes(self._ends[0].compute_ff_bytes())
        return b""

    @property
    def finished(self) -> bool:
        return any(_is_finished(end) for end in self._ends)

    @property
    def complete(self) -> bool:
        return self.finished

    # --- steps ---

    def _rest_before(self) -> bytes:
        """The rest of the text before the input."""
        return bytes(self._before.compute_ff_bytes())

    def _begin(self, token: int, step: _Step) -> _Step:
        part = self._view.openings(self._rest_before()).get(token)
        if _accepts(self._before, token):
            self._begun = _is_finished(self._before)
            return replace(step, before=True)
        self._alive = (
            part is not None
            and self._follow(self._view.texts[part])
            and _accepts(self._input, part)
        )
        rest = self._rest_before()
        if _is_complete(self._input) and token in self._view.joints(rest, self._parts.after_text):
            length = len(self._view.texts[token]) - len(rest)
            self._ends = self._after(length)
        self._begun = True
        return replace(step, input=self._alive)

    def _go_on(self, token: int, step: _Step) -> _Step:
        ends = tuple(end for end in map(_copied, self._ends_here()) if _accepts(end, token))
        ends += self._closed(token)
        accepted = False
        if self._alive and self._pending:
            accepted = _accepts(self._input, token + self._view.offset)
            self._alive, self._pending = accepted, False
        elif self._alive and (begin := self._view.before_backslash(token)) is not None:
            self._alive = self._pending = token in self._view.possible_splits(self._mask_of_input())
            if self._alive and not self._view.is_backslash(token):
                accepted = _accepts(self._input, begin)
        elif self._alive:
            accepted = self._follow(self._view.texts[token]) and _accepts(self._input, token)
            self._alive = accepted
        self._ends = ends
        return replace(step, input=accepted)

    def _follow(self, text: bytes) -> bool:
        """Whether the input does not contain the forbidden text with `text`."""
        forbidden = self._parts.forbidden
        if not forbidden:
            return True
        written = self._tail + text
        self._tail = written[-(len(forbidden) - 1) :]
        return forbidden not in written

    def _closed(self, token: int) -> tuple[llguidance.LLMatcher, ...]:
        """The matcher of the text after the input, if `token` can end the input."""
        if not self._alive or self._pending or token not in self._parts.closings:
            return ()
        part, length = self._parts.closings[token]
        return self._after(length) if self._can_end_with(part) else ()

    def _can_end_with(self, part: int) -> bool:
        forbidden = self._parts.forbidden
        if forbidden and forbidden in self._tail + self._view.texts[part]:
            return False
        if not _accepts(self._input, part):
            return False
        complete = _is_complete(self._input)
        self._rolled_back(self._input, 1)
        return complete

    def _after(self, length: int) -> tuple[llguidance.LLMatcher, ...]:
        """The matcher of the text after the input, after some bytes of it."""
        tokens = self._view.tokens_of(self._parts.after_text[:length])
        end = self._parts.after.deep_copy()
        if tokens is None or end.try_consume_tokens(tokens) < len(tokens):
            return ()
        return (end,)

    def _ends_here(self) -> tuple[llguidance.LLMatcher, ...]:
        """The matchers of the text after the input that are possible now."""
        complete = self._alive and not self._pending and _is_complete(self._input)
        return (*self._ends, self._parts.after) if complete else self._ends

    def _undo(self, step: _Step) -> None:
        if step.before:
            self._rolled_back(self._before, 1)
        if step.input:
            self._rolled_back(self._input, 1)
        self._begun, self._pending = step.begun, step.pending
        self._alive, self._tail, self._ends = step.alive, step.tail, step.ends

    @staticmethod
    def _rolled_back(matcher: llguidance.LLMatcher, count: int) -> None:
        if not matcher.rollback(count):
            raise BackendError(matcher.get_error())

    # --- masks ---

    def _fill_before(self, row: BitmaskRow) -> None:
        _fill(self._before, row)
        rest = self._rest_before()
        if _is_complete(self._input):
            _allow(row, masks.token_ids(self._view.joints(rest, self._parts.after_text)))
        openings = self._view.openings(rest)
        if openings:
            found = self._mask_of_input().view(np.uint32)
            _allow(
                row,
                masks.token_ids(
                    token for token, part in openings.items() if found[part >> 5] >> (part & 31) & 1
                ),
            )

    def _fill_input(self, row: BitmaskRow) -> None:
        found = self._mask_of_input()
        width = len(row)
        if self._view.escaped is None:
            row[:] = found[:width] & self._view.plain[:width]
            self._forbid(row)
        elif self._pending:
            row[:] = found[self._view.offset // 32 :][:width] & self._view.escaped[:width]
        else:
            row[:] = found[:width] & self._view.plain[:width]
            _allow(row, self._view.possible_splits(found))
        if not self._pending:
            self._fill_closings(row, found)

    def _forbid(self, row: BitmaskRow, depth: int = 0) -> None:
        """Forbid tokens that complete the forbidden text, or after which the grammar requires
        it."""
        forbidden = self._parts.forbidden
        for begun in range(len(forbidden)):
            if self._tail.endswith(forbidden[:begun]):
                row &= ~self._view.completing(forbidden, begun)[: len(row)]
        if depth > MAX_AVOIDED:
            return
        words = row.view(np.uint32)
        if not depth:
            self._avoidable.clear()
        for token in self._approaching():
            if words[token >> 5] >> (token & 31) & 1:
                # What can follow depends on the text, not on the tokens that spell it.
                text = self._searched + self._view.texts[token]
                if text not in self._avoidable:
                    self._avoidable[text] = self._can_avoid(token, depth)
                if not self._avoidable[text]:
                    words[token >> 5] &= ~np.uint32(1 << (token & 31))

    def _approaching(self) -> list[int]:
        """The tokens that get near the forbidden text."""
        forbidden = self._parts.forbidden
        return [
            int(token)
            for begun in range(len(forbidden) - 1)
            if self._tail.endswith(forbidden[:begun])
            for token in self._view.approaching(forbidden, begun)
        ]

    def _can_avoid(self, token: int, depth: int) -> bool:
        """Whether the input can go on after `token` without the forbidden text."""
        for probe in self._view.probes():
            consumed = self._input.try_consume_tokens([token, probe])
            self._rolled_back(self._input, consumed)
            if not consumed:
                return False
            follows = self._tail + self._view.texts[token] + self._view.texts[probe]
            if consumed == 2 and not self._is_near(follows):
                return True
        tail, searched, row = self._tail, self._searched, np.zeros_like(self._view.plain)
        if not _accepts(self._input, token):
            return False
        self._follow(self._view.texts[token])
        self._searched += self._view.texts[token]
        try:
            if _is_complete(self._input):
                return True
            row[:] = self._mask_of_input()[: len(row)] & self._view.plain
            self._forbid(row, depth + 1)
            return bool(row.any())
        finally:
            self._rolled_back(self._input, 1)
            self._tail, self._searched = tail, searched

    def _is_near(self, text: bytes) -> bool:
        forbidden = self._parts.forbidden
        return text.endswith(tuple(forbidden[:n] for n in range(1, len(forbidden) + 1)))

    def _fill_closings(self, row: BitmaskRow, found: BitmaskRow) -> None:
        """Allow tokens that end the input."""
        tokens, parts = self._parts.closing_arrays
        words = found.view(np.uint32)
        possible = (words[parts >> 5] >> (parts & 31).astype(np.uint32)) & 1
        allowed = (row.view(np.uint32)[tokens >> 5] >> (tokens & 31).astype(np.uint32)) & 1
        at = np.flatnonzero(possible.astype(bool) & ~allowed.astype(bool))
        if 0 < len(at) <= MAX_CLOSINGS:
            closing = [int(tokens[each]) for each in at if self._can_end_with(int(parts[each]))]
            _allow(row, masks.token_ids(closing))

    def _mask_of_input(self) -> BitmaskRow:
        found = np.zeros(self._view.words, dtype=np.int32)
        if not self._input.is_stopped():
            _fill(self._input, found)
        return found


def _allow(row: BitmaskRow, tokens: TokenIds) -> None:
    words = np.uint32(1) << (tokens & 31).astype(np.uint32)
    np.bitwise_or.at(row.view(np.uint32), tokens >> 5, words)


def _copied(matcher: llguidance.LLMatcher) -> llguidance.LLMatcher:
    return matcher.deep_copy()


def _accepts(matcher: llguidance.LLMatcher, token: int) -> bool:
    return not matcher.is_stopped() and matcher.try_consume_tokens([token]) == 1


def _is_finished(matcher: llguidance.LLMatcher) -> bool:
    return bool(matcher.is_stopped()) and not matcher.is_error()


def _is_complete(matcher: llguidance.LLMatcher) -> bool:
    return _is_finished(matcher) or bool(matcher.is_accepting())


def _fill(matcher: llguidance.LLMatcher, row: BitmaskRow) -> None:
    llguidance.numpy.fill_next_token_bitmask(matcher, row.reshape(1, -1))
    if matcher.is_error():  # a limit was exceeded, so the mask is not valid
        raise BackendError(matcher.get_error())

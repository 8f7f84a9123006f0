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
import numpy as np

from ...errors import BackendError
from ...tokens import masks
from ...tokens.masks import BitmaskRow, TokenIds
from .custom_texts import Closings, FixedText, View
from .llguidance_matcher import FreshMatcher

MAX_TOKENS = 24
"""Maximum number of tokens through which a way around the forbidden text is searched."""


class Avoidance:
    """Leaves tokens out of one mask. `matcher` is at the position of the mask, and unchanged
    afterwards."""

    def __init__(self, matcher: llguidance.LLMatcher, view: View, forbidden: bytes) -> None:
        self._matcher = matcher
        self._view = view
        self._forbidden = forbidden
        self._known: dict[bytes, bool] = {}
        """By the text that follows: whether the forbidden text can be avoided after it. It does not
        depend on the tokens that spell the text."""

    def apply(self, row: BitmaskRow, tail: bytes, searched: bytes = b"", depth: int = 0) -> None:
        """Forbid the tokens that complete the forbidden text, or after which the grammar requires
        it. `tail`: the end of the input."""
        self._forbid_completing(row, tail)
        if depth > MAX_TOKENS:
            return
        tokens = self._approaching(tail)
        dead_ends = [
            token
            for token in tokens[masks.allows(row, tokens)].tolist()
            if not self._is_avoidable(token, tail, searched, depth)
        ]
        row &= ~masks.pack(dead_ends, 32 * len(row))

    def _forbid_completing(self, row: BitmaskRow, tail: bytes) -> None:
        for begun in range(len(self._forbidden)):
            if tail.endswith(self._forbidden[:begun]):
                row &= ~self._view.completing(self._forbidden, begun)[: len(row)]

    def _approaching(self, tail: bytes) -> TokenIds:
        """Return the tokens that get near the forbidden text."""
        approaching = [
            self._view.approaching(self._forbidden, begun)
            for begun in range(len(self._forbidden) - 1)
            if tail.endswith(self._forbidden[:begun])
        ]
        return np.concatenate(approaching or [masks.token_ids(())])

    def _is_avoidable(self, token: int, tail: bytes, searched: bytes, depth: int) -> bool:
        text = searched + self._view.texts[token]
        if text not in self._known:
            self._known[text] = self._can_avoid(token, tail, text, depth)
        return self._known[text]

    def _can_avoid(self, token: int, tail: bytes, searched: bytes, depth: int) -> bool:
        """Return whether the input can end or go on after `token` without the forbidden text."""
        written = tail + self._view.texts[token]
        for probe in self._view.probes():
            consumed = self._matcher.try_consume_tokens([token, probe])
            _roll_back(self._matcher, consumed)
            if not consumed:
                return False
            if consumed == 2 and not self._is_near(written + self._view.texts[probe]):
                return True
        if self._matcher.try_consume_tokens([token]) < 1:
            return False
        try:
            if self._matcher.is_stopped() or self._matcher.is_accepting():
                return not self._matcher.is_error()
            mask = self._view.mask(self._matcher)
            if self._matcher.is_error():
                raise BackendError(self._matcher.get_error())
            row = self._view.plain_tokens(mask, len(self._view.plain))
            end = written[-(len(self._forbidden) - 1) :]
            others = row & ~masks.pack(self._approaching(end), 32 * len(row))
            self._forbid_completing(others, end)
            if others.any():
                return True
            self.apply(row, end, searched, depth + 1)
            return bool(row.any())
        finally:
            _roll_back(self._matcher, 1)

    def _is_near(self, text: bytes) -> bool:
        forbidden = self._forbidden
        return text.endswith(tuple(forbidden[:n] for n in range(1, len(forbidden) + 1)))


MAX_CLOSINGS = 48
"""Maximum number of tokens that are tried as the end of the input and the beginning of the text
after it, for one mask. If there are more, none of them is allowed: the input can still end before
such a token's text."""


@dataclass(frozen=True)
class Parts:
    before: FixedText
    """The text before the input."""
    input: FreshMatcher
    """The grammar, over `view`."""
    after: FixedText
    """The text after the input."""
    forbidden: bytes
    """A text that the input cannot contain; empty if it can contain all."""
    view: View

    @cached_property
    def closings(self) -> Closings:
        return self.view.closings(self.after.plain)


@dataclass(frozen=True)
class _State:
    before_written: int = 0
    """Bytes of the text before the input that are written."""
    begun: bool = False
    """Whether the input has begun."""
    pending: bool = False
    """Whether the input so far ends in a backslash."""
    alive: bool = True
    """Whether the input can go on."""
    tail: bytes = b""
    """The end of the input, as far as it may begin the forbidden text."""
    after_written: tuple[int, ...] = ()
    """Bytes of the text after the input that may be written, one number for each possible end of
    the input."""
    consumed: int = 0
    """Number of tokens of `Parts.input` so far."""


class CustomMatcher:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._view = parts.view
        self._input = parts.input.copy()
        self._states = [_State()]

    # --- Matcher ---

    def accept(self, token: int) -> bool:
        if self.finished:
            return False
        state = self._go_on(token) if self._state.begun else self._begin(token)
        if state.begun and not state.alive and not state.after_written:
            _roll_back(self._input, state.consumed - self._state.consumed)
            return False
        self._states.append(state)
        return True

    def rollback(self, count: int) -> None:
        if count:
            consumed = self._state.consumed
            del self._states[-count:]
            _roll_back(self._input, consumed - self._state.consumed)

    def fill(self, row: BitmaskRow) -> None:
        row[:] = 0
        state = self._state
        if not state.begun:
            self._fill_before(row)
            return
        if state.alive:
            self._fill_input(row)
        for written in self._after_written():
            masks.allow(row, self._parts.after.allowed(written))

    def forced(self) -> bytes:
        state = self._state
        if not state.begun:
            return self._parts.before.units[state.before_written :]
        if not state.alive and len(state.after_written) == 1:
            return self._parts.after.units[state.after_written[0] :]
        return b""

    def check(self) -> None:
        if self._input.is_error():
            self._parts.input.renew()
            raise BackendError(self._input.get_error())

    @property
    def finished(self) -> bool:
        return len(self._parts.after) in self._state.after_written

    @property
    def complete(self) -> bool:
        return self.finished

    # --- steps; each returns the new state, in which `consumed` is that of the input ---

    @property
    def _state(self) -> _State:
        return self._states[-1]

    def _begin(self, token: int) -> _State:
        state, before = self._state, self._parts.before
        written = before.after(state.before_written, token)
        if written is not None:
            return replace(state, before_written=written, begun=written == len(before))
        rest = before.units[state.before_written :]
        after_written: tuple[int, ...] = ()
        if _is_complete(self._input) and token in self._view.joints(rest, self._parts.after.plain):
            after_written = (len(self._view.texts[token]) - len(rest),)
        part = self._view.openings(rest).get(token)
        follows = replace(state, begun=True, after_written=after_written, alive=False)
        return follows if part is None else self._with_part(follows, part)

    def _go_on(self, token: int) -> _State:
        state = self._state
        moved = (self._parts.after.after(written, token) for written in self._after_written())
        after_written = (*(n for n in moved if n is not None), *self._closed(token))
        follows = replace(state, after_written=after_written, alive=False, pending=False)
        if not state.alive:
            return follows
        if state.pending:
            return self._with_part(follows, self._view.after_backslash(token))
        begin = self._view.before_backslash(token)
        if begin is None:
            return self._with_part(follows, token)
        if token not in self._view.split_tokens(self._mask_of_input()):
            return follows
        if self._view.is_backslash(token):
            return replace(follows, alive=True, pending=True)
        return replace(self._with_part(follows, begin), pending=True)

    def _with_part(self, state: _State, part: int) -> _State:
        """Return the state after a part of the input."""
        tail, forbidden = state.tail, self._parts.forbidden
        if forbidden:
            written = tail + self._view.texts[part]
            if forbidden in written:
                return state
            tail = written[-(len(forbidden) - 1) :]
        if not _accepts(self._input, part):
            return state
        return replace(state, alive=True, tail=tail, consumed=state.consumed + 1)

    def _closed(self, token: int) -> tuple[int, ...]:
        """Return `after_written` after a token that ends the input."""
        state, closings = self._state, self._parts.closings.by_token
        if not state.alive or state.pending or token not in closings:
            return ()
        part, length = closings[token]
        return (length,) if self._can_end_with(part) else ()

    def _can_end_with(self, part: int) -> bool:
        forbidden = self._parts.forbidden
        if forbidden and forbidden in self._state.tail + self._view.texts[part]:
            return False
        if not _accepts(self._input, part):
            return False
        complete = _is_complete(self._input)
        _roll_back(self._input, 1)
        return complete

    def _after_written(self) -> tuple[int, ...]:
        """Return `after_written` of the state, and 0 if the input can end here."""
        state = self._state
        complete = state.alive and not state.pending and _is_complete(self._input)
        return (*state.after_written, 0) if complete else state.after_written

    # --- masks ---

    def _fill_before(self, row: BitmaskRow) -> None:
        written, before = self._state.before_written, self._parts.before
        masks.allow(row, before.allowed(written))
        rest = before.units[written:]
        if _is_complete(self._input):
            masks.allow(row, masks.token_ids(self._view.joints(rest, self._parts.after.plain)))
        if openings := self._view.openings(rest):
            tokens, parts = (np.array([*ids]) for ids in (openings, openings.values()))
            masks.allow(row, tokens[masks.allows(self._mask_of_input(), parts)])

    def _fill_input(self, row: BitmaskRow) -> None:
        mask, view = self._mask_of_input(), self._view
        if self._state.pending:
            row[:] = view.escaped_tokens(mask, len(row))
            return
        row[:] = view.plain_tokens(mask, len(row))
        masks.allow(row, view.split_tokens(mask))
        if self._parts.forbidden:
            Avoidance(self._input, view, self._parts.forbidden).apply(row, self._state.tail)
        self._fill_closings(row, mask)

    def _fill_closings(self, row: BitmaskRow, mask: BitmaskRow) -> None:
        """Allow tokens that end the input."""
        _, tokens, parts = self._parts.closings
        tokens = tokens[masks.allows(mask, parts) & ~masks.allows(row, tokens)]
        if 0 < len(tokens) <= MAX_CLOSINGS:
            masks.allow(row, masks.token_ids(filter(self._closed, tokens.tolist())))

    def _mask_of_input(self) -> BitmaskRow:
        mask = self._view.mask(self._input)
        self.check()  # a mask is not valid if a limit was exceeded
        return mask


def _roll_back(matcher: llguidance.LLMatcher, count: int) -> None:
    if count and not matcher.rollback(count):
        raise BackendError(matcher.get_error())


def _accepts(matcher: llguidance.LLMatcher, token: int) -> bool:
    return not matcher.is_stopped() and matcher.try_consume_tokens([token]) == 1


def _is_complete(matcher: llguidance.LLMatcher) -> bool:
    finished = bool(matcher.is_stopped()) and not matcher.is_error()
    return finished or bool(matcher.is_accepting())

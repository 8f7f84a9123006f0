"""The set of tools that the current call can still be a call of.

While all candidates are inside their fixed prefixes (call_prefix.py), masks are look-ups. After
that the matchers of the remaining candidates run side by side: the mask is the OR of their masks,
and a token removes the candidates that refuse it. Tool names differ, so usually only one matcher
remains by then, at the cost of one grammar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...errors import NoTokenAllowed
from ...grammars.compiled_grammar import MeasuredGrammar
from ...grammars.engines.engine import Matcher
from ...tokens import masks
from .call_prefix import CallPrefixes, Position, common_prefix
from .endless_values import EndlessValues, narrowed
from .head_matcher import CallVocabulary, HeadMatcher


@dataclass(frozen=True)
class Candidate:
    """A text that may come next: `head`, then a text of the grammar."""

    grammar: MeasuredGrammar
    head: bytes
    """Units (tokens/units.py)."""

    @property
    def prefix(self) -> bytes:
        """The text with which every text of the candidate begins."""
        return self.head + self.grammar.fixed_prefix


@dataclass
class _Runner:
    grammar: MeasuredGrammar
    matcher: HeadMatcher
    consumed: int = 0


class _Progress(NamedTuple):
    """How far the call has come: inside the fixed prefixes (`position`), or beyond (`running`)."""

    position: Position | None
    written: bytes = b""
    """The text so far, inside the prefixes only."""
    running: tuple[_Runner, ...] = ()
    """The matchers of the remaining candidates, beyond the prefixes only."""


class CandidateSet:
    def __init__(
        self,
        candidates: Sequence[Candidate],
        prefixes: CallPrefixes,
        vocabulary: CallVocabulary,
        written: bytes = b"",
    ) -> None:
        """`prefixes` are those of `candidates`. `written` is text that has been written before the
        first token."""
        self._candidates = candidates
        self._prefixes = prefixes
        self._vocabulary = vocabulary
        self._begun = written
        self._tokens: list[int] = []
        self._endless = EndlessValues(vocabulary.bounds, self._tokens, written)
        self._history: list[_Progress] = []
        self._progress = self._progress_after(written, range(len(candidates)))

    @property
    def count(self) -> int:
        """Number of remaining candidates."""
        position = self._progress.position
        return len(self._progress.running if position is None else position.candidates)

    @property
    def in_prefix(self) -> bool:
        """Whether all remaining candidates are inside their fixed prefixes."""
        return self._progress.position is not None

    @property
    def grammars(self) -> list[MeasuredGrammar]:
        """The grammars of the remaining candidates."""
        position = self._progress.position
        if position is None:
            return [runner.grammar for runner in self._progress.running]
        return [self._candidates[index].grammar for index in position.candidates]

    def matchers(
        self, grammars: Sequence[MeasuredGrammar]
    ) -> list[tuple[MeasuredGrammar, HeadMatcher]]:
        """Matchers of those `grammars` that remain, with all tokens so far accepted.

        Inside the fixed prefixes this creates the matchers, which is too expensive for every step.
        """
        position = self._progress.position
        runners = self._progress.running
        if position is not None:
            wanted = [i for i in position.candidates if self._candidates[i].grammar in grammars]
            runners = self._create_runners(wanted)
        return [(each.grammar, each.matcher) for each in runners if each.grammar in grammars]

    @property
    def tokens(self) -> Sequence[int]:
        """All tokens so far."""
        return self._tokens

    @property
    def finished(self) -> bool:
        """Whether the text is complete and nothing may follow it."""
        running = self._progress.running
        return len(running) == 1 and running[0].matcher.finished

    @property
    def complete(self) -> bool:
        """Whether the text is complete, although more may follow."""
        running = self._progress.running
        return len(running) == 1 and running[0].matcher.complete

    def accept(self, token: int) -> bool:
        """Advance by one token. Returns False and changes nothing if no candidate accepts it."""
        before = self._progress
        if before.position is None:
            accepting = [runner for runner in before.running if runner.matcher.accept(token)]
            if not accepting:
                return False
            for runner in accepting:
                runner.consumed += 1
            self._tokens.append(token)
            if len(accepting) < len(before.running):
                self._progress = _Progress(None, running=tuple(accepting))
        elif token in before.position.tokens:
            self._tokens.append(token)
            written = before.written + self._vocabulary.unit_bytes[token]
            self._progress = self._progress_after(written, before.position.candidates)
        else:
            return False
        self._endless.added(token)
        self._history.append(before)
        return True

    def truncate(self, length: int) -> None:
        """Undo all tokens after the first `length`, and restore the candidates that they
        removed."""
        if length == len(self._tokens):
            return
        while len(self._tokens) > length:
            self._progress = self._history.pop()
            self._tokens.pop()
        self._endless.truncated()
        for runner in self._progress.running:
            surplus = runner.consumed - length
            if surplus:
                runner.matcher.rollback(surplus)
                runner.consumed = length

    def forced(self) -> bytes:
        """The text that must come next in all remaining candidates."""
        if self._progress.position is not None:
            return self._progress.position.forced
        return common_prefix({runner.matcher.forced() for runner in self._progress.running})

    def mask(self) -> masks.Allow | masks.Bits:
        """The tokens that some candidate accepts next. Raises NoTokenAllowed if there are none."""
        if self._progress.position is not None:
            return self._progress.position.allow
        first, *others = self._progress.running
        row = np.empty_like(self._vocabulary.allowed)
        first.matcher.fill(row)
        if others:
            scratch = np.empty_like(row)
            for runner in others:
                runner.matcher.fill(scratch)
                row |= scratch
        if not row.any():
            return self._forced_text_mask()
        return masks.Bits(narrowed(row, self._refused()))

    @property
    def grammar_matcher(self) -> Matcher | None:
        """The matcher whose mask, without `CallVocabulary.refused`, is `mask()` unless it is empty;
        None if it is not that of a single grammar, or if a bound on values narrows it."""
        running = self._progress.running
        if len(running) != 1 or self._refused():
            return None
        return running[0].matcher.grammar

    def _refused(self) -> tuple[masks.BitmaskRow, ...]:
        """The tokens that bounds on values leave out of the mask (endless_values.py)."""
        running = self._progress.running
        if any(each.grammar.limits is None for each in running):
            return ()
        return self._endless.refused(running[0].grammar)

    def _forced_text_mask(self) -> masks.Allow:
        """The tokens that spell the forced text. If a special token has the same text,
        llguidance's mask contains that token only."""
        tokens = self._vocabulary.token_index.prefixes_of(self.forced())
        if not tokens:
            raise NoTokenAllowed(
                "The grammar allows no token at this position. This is a bug of the grammar engine "
                "or of Toolgate; please report it with the tool's schema."
            )
        return masks.Allow(masks.token_ids(tokens))

    def _progress_after(self, written: bytes, candidates: Sequence[int]) -> _Progress:
        """The progress after `written`, the text of `self._tokens`. Beyond the prefixes, a matcher
        is created for each of `candidates` that accepts the text."""
        position = self._prefixes.position_after(written)
        if position is not None:
            return _Progress(position, written)
        return _Progress(None, running=self._create_runners(candidates))

    def _create_runners(self, candidates: Sequence[int]) -> tuple[_Runner, ...]:
        """Matchers of those `candidates` that accept the text so far."""
        runners: list[_Runner] = []
        for index in candidates:
            candidate = self._candidates[index]
            matcher = HeadMatcher(
                candidate.head,
                candidate.grammar.matcher(),
                candidate.grammar.fixed_prefix,
                self._vocabulary,
            )
            if matcher.write(self._begun) and all(map(matcher.accept, self._tokens)):
                runners.append(_Runner(candidate.grammar, matcher, len(self._tokens)))
        return tuple(runners)

"""The tools that a call may still be.

As long as all of them are in their heads (heads.py), a look-up says what may come. After that their
matchers run side by side: the mask is the OR of theirs, a token drops those that refuse it. Tool
names differ, so one matcher is left by then, and it costs what one grammar costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..errors import DeadEnd
from ..grammars.compiled_grammar import MeasuredGrammar
from ..grammars.engines.engine import Matcher, Words
from . import masks
from .call_prefix import CallPrefixes, Position, TokenTexts, shared_beginning


@dataclass
class _Runner:
    grammar: MeasuredGrammar
    matcher: Matcher
    consumed: int = 0


class _Place(NamedTuple):
    """Where the call is: in the heads (`position`), or with the matchers that run (`alive`)."""

    position: Position | None
    written: bytes = b""
    """In the heads."""
    alive: tuple[_Runner, ...] = ()


class CandidateSet:
    def __init__(
        self,
        grammars: Sequence[MeasuredGrammar],
        heads: CallPrefixes,
        texts: TokenTexts,
        token_bytes: Sequence[bytes],
        keep: Words,
    ) -> None:
        """`keep` has the bits of all tokens but the special ones: inside a call they are never
        text. `heads` are those of `grammars`."""
        self._grammars = grammars
        self._heads = heads
        self._texts = texts
        self._token_bytes = token_bytes
        self._keep = keep
        self._tokens: list[int] = []
        self._trail: list[_Place] = []
        self._place = self._arrive(b"", range(len(grammars)))

    @property
    def candidates(self) -> int:
        """How many tools the call may still be."""
        position = self._place.position
        return len(self._place.alive if position is None else position.candidates)

    @property
    def in_heads(self) -> bool:
        """All candidates that are left are in what every call of theirs begins with."""
        return self._place.position is not None

    @property
    def grammars(self) -> list[MeasuredGrammar]:
        """Of the candidates that are left."""
        position = self._place.position
        if position is None:
            return [runner.grammar for runner in self._place.alive]
        return [self._grammars[at] for at in position.candidates]

    def matchers(
        self, grammars: Sequence[MeasuredGrammar]
    ) -> list[tuple[MeasuredGrammar, Matcher]]:
        """Of those among these that are left, each having taken the tokens so far. In the heads
        they are made for this: ask when it matters, not at every step."""
        position = self._place.position
        runners = self._place.alive
        if position is not None:
            wanted = [at for at in position.candidates if self._grammars[at] in grammars]
            runners = self._runners(wanted)
        return [(each.grammar, each.matcher) for each in runners if each.grammar in grammars]

    @property
    def finished(self) -> bool:
        alive = self._place.alive
        return len(alive) == 1 and alive[0].matcher.finished

    @property
    def complete(self) -> bool:
        """The text is whole, though it may go on."""
        alive = self._place.alive
        return len(alive) == 1 and alive[0].matcher.complete

    def accept(self, token: int) -> bool:
        """False, and nothing changed, when no candidate takes the token."""
        before = self._place
        if before.position is None:
            taking = [runner for runner in before.alive if runner.matcher.accept(token)]
            if not taking:
                return False
            for runner in taking:
                runner.consumed += 1
            self._tokens.append(token)
            if len(taking) < len(before.alive):
                self._place = _Place(None, alive=tuple(taking))
        elif token in before.position.tokens:
            self._tokens.append(token)
            written = before.written + self._token_bytes[token]
            self._place = self._arrive(written, before.position.candidates)
        else:
            return False
        self._trail.append(before)
        return True

    def rollback(self, count: int) -> None:
        """Undo the last `count` tokens; candidates they had dropped are back."""
        if not count:
            return
        for _ in range(count):
            self._place = self._trail.pop()
        del self._tokens[-count:]
        for runner in self._place.alive:
            surplus = runner.consumed - len(self._tokens)
            if surplus:
                runner.matcher.rollback(surplus)
                runner.consumed = len(self._tokens)

    def forced(self) -> bytes:
        """The text that must come next, whichever of the candidates it will be."""
        if self._place.position is not None:
            return self._place.position.forced
        return shared_beginning({runner.matcher.forced() for runner in self._place.alive})

    def mask(self) -> masks.Allow | masks.Bits:
        """What any of the candidates would take next. Raises DeadEnd when that is nothing."""
        if self._place.position is not None:
            return self._place.position.allow
        first, *others = self._place.alive
        row = np.empty_like(self._keep)
        first.matcher.fill(row)
        if others:
            scratch = np.empty_like(row)
            for runner in others:
                runner.matcher.fill(scratch)
                row |= scratch
        row &= self._keep
        return masks.Bits(row) if row.any() else self._spelt_out()

    def _spelt_out(self) -> masks.Allow:
        """The ordinary tokens of the text that must come. Where that text is a special token's too,
        llguidance's mask has the special token alone."""
        tokens = self._texts.beginning(self.forced())
        if not tokens:
            raise DeadEnd("the grammars of this call allow no token")
        return masks.Allow(masks.ids(tokens))

    def _arrive(self, written: bytes, candidates: Sequence[int]) -> _Place:
        """After `written`, which is all of `self._tokens`: in the heads still, or matchers begin,
        one for each of `candidates` that the text is of."""
        position = self._heads.at(written)
        if position is not None:
            return _Place(position, written)
        return _Place(None, alive=self._runners(candidates))

    def _runners(self, candidates: Sequence[int]) -> tuple[_Runner, ...]:
        """Of those among `candidates` that take the tokens so far."""
        grammars = [self._grammars[at] for at in candidates]
        runners = [_Runner(each, each.matcher(), len(self._tokens)) for each in grammars]
        return tuple(runner for runner in runners if all(map(runner.matcher.accept, self._tokens)))

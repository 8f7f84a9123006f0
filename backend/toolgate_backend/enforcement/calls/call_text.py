"""The text of a sequence's current call, for the searches for its end.

A search tries tokens and takes them back, for which the engines' own matchers are made. They are
brought to the last token when a search needs them, and kept for the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...grammars.compiled_grammar import MeasuredGrammar
from ...grammars.completions.json_texts import Scan
from .candidates import Candidates, CandidateSet
from .head_matcher import HeadMatcher


@dataclass
class _Followed:
    matcher: HeadMatcher
    taken: int = 0
    """Number of tokens that the matcher has accepted."""


class CallText:
    """Not thread-safe."""

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self._token_bytes = token_bytes
        self._of: CandidateSet | None = None
        self._begun = b""
        self._tokens: list[int] = []
        self._followed: dict[int, _Followed] = {}
        self._scan = Scan()
        self._scanned = 0

    def follow(self, candidates: Candidates, tokens: Sequence[int]) -> None:
        """Go to the end of a text: `tokens` are all of its tokens. Must be called before the other
        methods, for each position."""
        same = 0
        if candidates.of is not self._of or candidates.begun != self._begun:
            self._of, self._begun = candidates.of, candidates.begun
            self._followed.clear()
        else:
            shorter = min(len(self._tokens), len(tokens))
            differing = (at for at in range(shorter) if self._tokens[at] != tokens[at])
            same = next(differing, shorter)
        self._candidates = candidates
        for each in self._followed.values():
            if each.taken > same:
                each.matcher.rollback(each.taken - same)
                each.taken = same
        if self._scanned > same or not same:
            self._scan, self._scanned = Scan().after(candidates.begun), 0
        self._tokens = list(tokens)

    @property
    def scan(self) -> Scan:
        """The position in JSON at the end of the text."""
        for token in self._tokens[self._scanned :]:
            self._scan = self._scan.after(self._token_bytes[token])
        self._scanned = len(self._tokens)
        return self._scan

    def matchers(
        self, grammars: Sequence[MeasuredGrammar]
    ) -> list[tuple[MeasuredGrammar, HeadMatcher]]:
        """Matchers of those `grammars` that remain, at the end of the text."""
        assert self._of is not None
        found: list[tuple[MeasuredGrammar, HeadMatcher]] = []
        for number in self._candidates.numbers:
            grammar = self._of.candidates[number].grammar
            if grammar in grammars and (matcher := self._matcher(number)) is not None:
                found.append((grammar, matcher))
        return found

    def _matcher(self, number: int) -> HeadMatcher | None:
        """A matcher at the end of the text; None if it refuses the text. One that another text of
        the grammar has taken beyond a limit of the engine is replaced."""
        known = number in self._followed
        matcher = self._moved(number)
        if matcher is None and known:
            del self._followed[number]
            matcher = self._moved(number)
        return matcher

    def _moved(self, number: int) -> HeadMatcher | None:
        assert self._of is not None
        followed = self._followed.get(number)
        if followed is None:
            candidate = self._of.candidates[number]
            matcher = HeadMatcher(
                candidate.head,
                candidate.grammar.matcher(),
                candidate.grammar.fixed_prefix,
                self._of.vocabulary,
            )
            if not matcher.write(self._candidates.begun):
                return None
            followed = self._followed[number] = _Followed(matcher)
        for token in self._tokens[followed.taken :]:
            if not followed.matcher.accept(token):
                return None
            followed.taken += 1
        return followed.matcher

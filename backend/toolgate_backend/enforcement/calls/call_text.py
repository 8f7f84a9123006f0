"""The text of a sequence's current call, for the searches for its end.

A search tries tokens and takes them back, for which the engines' own matchers are made. They are
brought to the last token when a search needs them, and kept for the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import NoTokenAllowed
from ...grammars.compiled_grammar import MeasuredGrammar
from ...grammars.completions.json_texts import Scan
from ...grammars.engines.engine import Matcher
from ...tokens import masks
from ...tokens.masks import BitmaskRow
from .candidates import CallVocabulary, Candidates, CandidateSet


class HeadMatcher:
    """Matches `head`, then what `grammar` matches. `prefix` is the fixed text with which every text
    of the grammar begins. A token may extend from the head into the prefix, but not beyond it."""

    def __init__(
        self,
        head: bytes,
        grammar: Matcher,
        prefix: bytes,
        vocabulary: CallVocabulary,
    ) -> None:
        self._head = head
        self._grammar = grammar
        self._text = head + prefix
        self._vocabulary = vocabulary
        self._at = 0  # position in the head
        self._history: list[tuple[int, int]] = []  # by token: position before it, grammar's tokens

    def write(self, text: bytes) -> bool:
        """Begin with `text`, which is part of the head and the prefix."""
        return self._advance(text) is not None

    def accept(self, token: int) -> bool:
        before = self._at
        if before == len(self._head):
            if token in self._vocabulary.refused or not self._grammar.accept(token):
                return False
            self._history.append((before, 1))
            return True
        taken = self._advance(self._vocabulary.unit_bytes[token])
        if taken is None:
            return False
        self._history.append((before, taken))
        return True

    def _advance(self, text: bytes) -> int | None:
        """Consume `text`; the number of tokens that the grammar took, None if it does not match."""
        rest = self._head[self._at :]
        if rest.startswith(text):
            self._at += len(text)
            return 0
        if not text.startswith(rest) or not self._text.startswith(text, self._at):
            return None
        tokens = self._vocabulary.token_index.cover(text[len(rest) :])
        for taken, token in enumerate(tokens or ()):
            if not self._grammar.accept(token):
                self._grammar.rollback(taken)
                return None
        if tokens is None:
            return None
        self._at = len(self._head)
        return len(tokens)

    def rollback(self, count: int) -> None:
        grammar_tokens = 0
        for _ in range(count):
            self._at, taken = self._history.pop()
            grammar_tokens += taken
        if grammar_tokens:
            self._grammar.rollback(grammar_tokens)

    def fill(self, row: BitmaskRow) -> None:
        if self._at == len(self._head):
            self._grammar.fill(row)
            row &= self._vocabulary.allowed
            return
        tokens = self._vocabulary.token_index.prefixes_of(self._text[self._at :])
        if not tokens:
            raise NoTokenAllowed("No token spells the text that must come next in this call.")
        row[:] = masks.pack(masks.token_ids(tokens), len(row) * 32)

    def forced(self) -> bytes:
        if self._at == len(self._head):
            return self._grammar.forced()
        return self._text[self._at :]

    @property
    def finished(self) -> bool:
        return self._at == len(self._head) and self._grammar.finished

    @property
    def complete(self) -> bool:
        return self._at == len(self._head) and self._grammar.complete


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

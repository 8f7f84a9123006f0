"""Search for a short completion: tokens that take a matcher from its position to the end of its
text.

The search is greedy and works on masks. It writes forced text in the longest tokens, and prefers
tokens that close a JSON value to tokens that continue it. Where several members or strings are
possible, it tries those that the schema needs (hints.py). The result may not be the shortest
completion, but it is one that a sequence can be forced to take. Budgets need no more than that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property, lru_cache

from toolgate_core.dialects.codecs import Json
from toolgate_core.wire import NO_HINTS, Hints

from ...tokens import masks
from ...tokens.masks import BitmaskRow
from ...tokens.units import TokenIndex
from ..engines.engine import Matcher
from .hints import Beginnings, Needs
from .json_texts import SHORT_VALUES, Path, Scan, TokenTable, ending_rest, ends_text, rests_of

MAX_STEPS = 768
"""Maximum number of tokens of a completion. A schema that needs more has no short call."""
MAX_COST = 120
"""Maximum cost of the positions at which several tokens are tried. The completions of 3,013 real
schemas cost up to 100."""
FOUND = 1
"""Cost of a position at which a tried token leads to an end."""
MISSED = 6
"""Cost of a position at which none does, for which up to 2 * TRIED_TOKENS masks are computed."""
LONG_TEXT = 24
"""Length of a hint, in characters, from which a search without it is tried as well."""
FILLERS = "a/-.0"
"""Characters of strings that only have a `minLength`. The first is that of the hints."""
TRIED_TOKENS = 8
"""Number of short and of long tokens that are tried for one after which a value can be closed."""


class Completion:
    """The completion search for one vocabulary."""

    def __init__(
        self,
        token_bytes: Sequence[bytes],
        special: frozenset[int],
        grammar_marks: frozenset[int] = frozenset(),
        marks: frozenset[int] = frozenset(),
    ) -> None:
        """`special` tokens are never part of a grammar's text, except `grammar_marks`. `marks` can
        be part of the fixed text before a grammar."""
        self._bytes = token_bytes
        self.key_separator = Json().key_separator
        self.short_values: tuple[bytes, ...] = SHORT_VALUES
        self.call_scan = Scan()
        """The position in JSON at which the grammars of calls begin."""
        self._all_special = special
        self._marks = marks | grammar_marks
        self._tokens = TokenTable(token_bytes, special - grammar_marks, self._marks)
        self._member_texts = lru_cache(4096)(self.member_texts)
        self._beginnings = lru_cache(512)(self.beginnings)
        self._string_texts = lru_cache(1024)(self.string_texts)

    @cached_property
    def token_index(self) -> TokenIndex:
        return TokenIndex(self._bytes, self._all_special, self._marks)

    def member_texts(self, name: str) -> list[bytes]:
        """The texts with which a member of this name can begin."""
        written = json.dumps(name, ensure_ascii=False)
        return [f"{written}{self.key_separator}".encode(errors="replace")]

    def string_texts(self, text: str, in_string: bool) -> list[bytes]:
        """The texts of a whole string, or of the rests of one that has begun."""
        rests = rests_of(text) if in_string else (0,)
        found = [json.dumps(text[at:], ensure_ascii=False) for at in rests]
        if not in_string and not text.strip(FILLERS[0]):  # any character may do
            others = (json.dumps(filler * len(text)) for filler in FILLERS)
            found.insert(0, min(others, key=lambda each: self.cost(f" {each},")))
        return [each[int(in_string) :].encode(errors="replace") for each in found]

    def cost(self, text: str) -> int:
        """The number of tokens of a text."""
        fewest = self.token_index.fewest(text.encode(errors="replace"))
        return MAX_STEPS if fewest is None else len(fewest)

    def path(
        self,
        matcher: Matcher,
        scan: Scan = Scan(),  # noqa: B008 - frozen
        hints: Hints = NO_HINTS,
        earlier: Path = (),
    ) -> list[int] | None:
        """The tokens to the end of the matcher's text; None if none were found. The matcher is
        unchanged. As soon as a rest of `earlier`, a completion from another position of the text,
        ends the text, the search is over."""
        if earlier and ends_text(matcher, earlier):
            return list(earlier)
        needs = Needs(hints)
        found = self._search(matcher, scan, needs, earlier)
        if found is None or len(needs.longest) < LONG_TEXT:
            return found
        # Longer tokens than those of the hint may match its pattern.
        short = tuple(text for text in hints.texts if len(text) < LONG_TEXT)
        needs = Needs(Hints(names=hints.names, texts=short))
        other = self._search(matcher, scan, needs, earlier)
        return found if other is None else min(found, other, key=len)

    def _search(
        self, matcher: Matcher, scan: Scan, needs: Needs, earlier: Path
    ) -> list[int] | None:
        forced = self._forced_text(matcher, scan)
        taken = self._accepted(matcher, forced)
        if taken:
            needs.follow(forced, scan)
            scan = scan.after(forced)
        cost = 0
        try:
            while not matcher.finished:
                if len(taken) >= MAX_STEPS or cost >= MAX_COST:
                    return None
                row = self._tokens.mask(matcher)
                if rest := ending_rest(matcher, row, earlier):
                    return [*taken, *rest]
                tokens, more = self._next(matcher, row, scan, needs)
                cost += more
                for token in tokens:
                    if not matcher.accept(token):
                        return None
                    taken.append(token)
                    needs.follow(self._bytes[token], scan)
                    scan = scan.after(self._bytes[token])
                if not tokens:
                    return None
        finally:
            if taken:
                matcher.rollback(len(taken))
        return self._rewritten(matcher, taken)

    def _rewritten(self, matcher: Matcher, path: list[int]) -> list[int]:
        """The text of a path in the fewest tokens: one may end a value and begin the next member.
        The path itself if a mask does not allow that."""
        best = path
        for text in self.spellings(b"".join(map(self._tokens.units, path))):
            fewest = self.token_index.fewest(text)
            if fewest and len(fewest) < len(best) and ends_text(matcher, tuple(fewest)):
                best = fewest
        return best

    def spellings(self, text: bytes) -> list[bytes]:
        """The same values in other texts, if there are any."""
        return [text]

    def _forced_text(self, matcher: Matcher, scan: Scan) -> bytes:
        """Text that must come next, for which no masks are needed: most masks of a call are those
        of its fixed beginning. A space at the end is left to the next token, which often begins
        with it, and the beginning of a string to the hints."""
        text = matcher.forced().rstrip(b" ")
        if scan.in_string or not scan.after(text).in_string:
            return text
        return text[: text.rindex(b'"') + 1]

    def _next(
        self, matcher: Matcher, row: BitmaskRow, scan: Scan, needs: Needs
    ) -> tuple[list[int], int]:
        """The next tokens of the completion, and the cost if several were tried; no tokens if there
        are none. `row` is the matcher's mask."""
        may_begin = needs.may_begin_member
        if needs.opened and may_begin and (member := self._member(matcher, row, needs)):
            return member, 0
        closing = row & (self._tokens.closing[True] if scan.in_string else self._tokens.brackets)
        if closing.any():
            return [self._tokens.longest(masks.unpack(closing))], 0
        allowed = masks.unpack(row)
        if not len(allowed):
            return self._forced(matcher), 0
        if len(allowed) == 1:
            return [int(allowed[0])], 0
        if not scan.in_string:
            if may_begin and (member := self._member(matcher, row, needs)):
                return member, 0
            for ends in (self._tokens.closing[False], self._tokens.separators):
                if (row & ends).any():
                    return [self._tokens.longest(masks.unpack(row & ends))], 0
        longest = self._tokens.longest(allowed)
        if self._tokens.are_chain(allowed, longest):
            return [self._forced_part(matcher, allowed)], 0
        if not scan.in_string and (value := self._short_value(matcher, row)):
            return value, 0
        if text := self._text(matcher, row, scan, needs):
            return text, 0
        closable = self._closable(matcher, scan, allowed)
        return ([longest], MISSED) if closable is None else ([closable], FOUND)

    def _member(self, matcher: Matcher, row: BitmaskRow, needs: Needs) -> list[int]:
        """The tokens with which a member begins that the schema requires; none if none can begin
        here. `row` is the matcher's mask."""
        for name, text in self._beginnings(needs.names, needs.opened).allowed(row):
            if needs.is_written(name):
                continue
            if tokens := self._accepted(matcher, text, row):
                matcher.rollback(len(tokens))
                needs.write(name)
                return tokens
        return []

    def beginnings(self, names: tuple[str, ...], opened: bool) -> Beginnings:
        """The members of these names. `opened`: their first quotation mark is written already."""
        texts = [(name, text) for name in names for text in self._member_texts(name)]
        if opened:
            texts = [(name, text.removeprefix(b'"')) for name, text in texts]
        return Beginnings(texts, self.token_index)

    def _short_value(self, matcher: Matcher, row: BitmaskRow) -> list[int]:
        """The tokens of one of the short values; none if none is allowed here."""
        for value in self.short_values:
            for text in (value, b" " + value):
                if not (tokens := self._accepted(matcher, text, row)):
                    continue
                # Further digits may have to follow a digit.
                ends = not value.isdigit() or self._can_end(matcher)
                matcher.rollback(len(tokens))
                if ends:
                    return tokens
        return []

    def _can_end(self, matcher: Matcher) -> bool:
        """Whether the value before the position can be complete."""
        if matcher.finished:
            return True
        row = self._tokens.mask(matcher)
        return bool((row & (self._tokens.closing[False] | self._tokens.separators)).any())

    def _text(self, matcher: Matcher, row: BitmaskRow, scan: Scan, needs: Needs) -> list[int]:
        """The tokens of a string of the hints with its end; none if none is allowed here."""
        for text in needs.texts:
            for whole in self._string_texts(text, scan.in_string):
                if tokens := self._accepted(matcher, whole, row):
                    matcher.rollback(len(tokens))
                    needs.use(text)
                    return tokens
        return []

    def _accepted(self, matcher: Matcher, text: bytes, row: BitmaskRow | None = None) -> list[int]:
        """The tokens of `text`, which the matcher has accepted; none if it does not accept it.
        `row` is its mask."""
        taken: list[int] = []
        while text:
            prefixes = self.token_index.prefixes_of(text)
            if row is not None and not taken:
                prefixes = [each for each in prefixes if row[each >> 5] >> (each & 31) & 1]
            token = next((each for each in reversed(prefixes) if matcher.accept(each)), None)
            if token is None:
                if taken:
                    matcher.rollback(len(taken))
                return []
            taken.append(token)
            text = text[len(self._tokens.units(token)) :]
        return taken

    def _forced(self, matcher: Matcher) -> list[int]:
        """The longest token of the forced text: a special token may hide it from the mask, as in
        CandidateSet."""
        tokens = masks.token_ids(self.token_index.prefixes_of(matcher.forced()))
        return [self._tokens.longest(tokens)] if len(tokens) else []

    def _closable(self, matcher: Matcher, scan: Scan, allowed: masks.TokenIds) -> int | None:
        """A token after which a value can be closed. Short tokens are tried first."""
        for token in self._tokens.by_length(allowed, TRIED_TOKENS):
            if not matcher.accept(token):
                continue
            try:
                after = scan.after(self._bytes[token])
                ends = self._tokens.closing[after.in_string]
                if not after.in_string:
                    ends = ends | self._tokens.separators
                if matcher.finished or (self._tokens.mask(matcher) & ends).any():
                    return token
            finally:
                matcher.rollback(1)
        return None

    def _forced_part(self, matcher: Matcher, chain: masks.TokenIds) -> int:
        """The longest token of a chain that is forced. The text of ` [],` may be forced up to its
        comma only, and with the comma, another item must follow. So it is with the last character
        of ` {"` and `"><`."""
        forced = matcher.forced()
        within = [each for each in chain if forced.startswith(self._tokens.units(each))]
        if not within:
            texts = ((each, self._bytes[each].rstrip()) for each in chain)
            within = [each for each, text in texts if not text.endswith((b",", b'{"', b'["'))]
        return self._tokens.longest(masks.token_ids(within) if within else chain)

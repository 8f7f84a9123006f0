"""The languages of strings in which a schema demands patterns, formats or lengths: the state after
each text, and which language a string has.

Engines enforce them. Here they tell which texts can go on in the same ways, whatever they are.

A language is followed state by state, as far as texts reach its states. A state is the pattern of
what may follow (a derivative: Brzozowski, Journal of the ACM, 1964). Two texts with the same state
can go on in the same ways.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from string import ascii_letters, digits
from typing import Any, NamedTuple

from .keywords import LANGUAGES
from .patterns import either, matches, may_be_empty, options_of, sequence, whole
from .regular.parts import (
    ANYTHING,
    EMPTY,
    NOTHING,
    Alternatives,
    Characters,
    Part,
    Repetition,
    Sequence,
    Unsupported,
    every_part,
    has,
    text_of,
)
from .regular.reading import parse

MAX_STATES = 2_000
MAX_PARTS = 500
"""Maximum number of parts of a state."""
MAX_STEPS = 50_000
"""Maximum number of steps that are kept."""
BEGIN = 0


class Language:
    """Its states are numbered. Not thread-safe."""

    def __init__(self, pattern: Part) -> None:
        """`pattern` matches whole texts, without assertions (`patterns.whole`)."""
        self._states = [pattern]
        self._numbers = {pattern: BEGIN}
        self._steps: dict[tuple[int, str], int] = {}

    def after(self, state: int, character: str) -> int:
        """Return the state after one more character. Raise Unsupported if there are too many."""
        step = (state, character)
        following = self._steps.get(step)
        if following is None:
            following = self._number(derivative(self._states[state], character))
            if len(self._steps) >= MAX_STEPS:
                self._steps.clear()
            self._steps[step] = following
        return following

    def _number(self, state: Part) -> int:
        number = self._numbers.get(state)
        if number is None:
            if len(self._states) >= MAX_STATES or sum(1 for _ in every_part(state)) > MAX_PARTS:
                raise Unsupported("it has too many states")
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
        return number

    def is_dead(self, state: int) -> bool:
        """Return whether no text can follow."""
        return self._states[state] == NOTHING

    def is_free(self, state: int) -> bool:
        """Return whether any text can follow."""
        return self._states[state] == ANYTHING

    def is_whole(self, state: int) -> bool:
        """Return whether the text may end."""
        return may_be_empty(self._states[state])


def derivative(part: Part, character: str) -> Part:
    """Return what may follow `character` in a pattern. Raise Unsupported."""
    match part:
        case Characters():
            return EMPTY if _is_in(part, character) else NOTHING
        case Sequence(()):
            return NOTHING
        case Sequence((first, *others)):
            rest = others[0] if len(others) == 1 else Sequence(tuple(others))
            inside = sequence(derivative(first, character), rest)
            return _either(inside, derivative(rest, character)) if may_be_empty(first) else inside
        case Alternatives(options):
            return _either(*(derivative(each, character) for each in options))
        case Repetition(one, least, most):
            if most == 0:
                return NOTHING
            left = None if most is None else most - 1
            more = replace(part, least=max(0, least - 1), most=left, lazy=False)
            return sequence(derivative(one, character), EMPTY if left == 0 else more)
    raise Unsupported("it has a back-reference or look-around")


def _either(*ways: Part) -> Part:
    return either([option for way in ways for option in options_of(way)])


@lru_cache(maxsize=16_384)
def _is_in(part: Characters, character: str) -> bool:
    if part.properties:
        return matches(f"^{text_of(part)}$", character)
    return has(part.ranges, ord(character))


# --- the strings of a schema ---

MAX_LENGTH = 10_000
"""Maximum length of strings that is counted here: a matcher may have to read so much again."""
MAX_SEARCH = 200
"""Maximum number of texts that are tried to find one that tells languages apart."""
_PLAIN = "x" + ascii_letters + digits + " -_.:/@#+=~"
"""Characters that are written as they are in all kinds of strings, and end none."""


class Constraint(NamedTuple):
    """A string that matches all patterns, with a number of characters."""

    patterns: tuple[Part, ...] = ()
    """Of whole texts."""
    least: int = 0
    most: int | None = None


FREE = Constraint()


def constraints_of(node: dict[str, Any], counted: int | None) -> Iterator[Constraint]:
    """Yield what masks may demand of the strings of a subschema, one of which they do. `counted`:
    the length up to which they count, if they may not count longer strings. Raise Unsupported if it
    is not known."""
    patterns = [each["pattern"] for each in (node, *node.get("allOf", ())) if "pattern" in each]
    parts = tuple(whole(parse(pattern)) for pattern in patterns)
    lengths = {(_count(node, "minLength") or 0, _count(node, "maxLength"))}
    if counted is not None:
        lengths |= {
            (0 if least > counted else least, None if (most or 0) > counted else most)
            for least, most in lengths
        }
    formats: tuple[str, ...] = ("",)
    if "format" in node:
        formats = LANGUAGES.get(node["format"], ())
        if not formats:
            raise Unsupported("its language is not known")
    for name in formats:
        more = (parse(f"^(?:{name})$"),) if name else ()
        for least, most in lengths:
            yield Constraint((*parts, *map(whole, more)), least, most)


def _count(node: dict[str, Any], keyword: str) -> int | None:
    """Raise Unsupported."""
    count = node.get(keyword)
    if count is not None and not (count == int(count) and count <= MAX_LENGTH):
        raise Unsupported("a length that is not counted")
    return None if count is None else int(count)


State = tuple[tuple[int, ...] | None, ...]
"""By constraint: its number of characters, as far as it matters, and the state of each pattern;
None if it allows no text that begins so."""


class LengthState(NamedTuple):
    """A state of which only the number of characters matters."""

    length: int
    kind: tuple[int, ...]
    """The numbers of characters at which something changes: more than `length`. Negative if a
    string must not have so many."""

    @property
    def top(self) -> int:
        return max(map(abs, self.kind))

    def room(self, most: int) -> int:
        """Return how many characters may certainly follow, up to `most`."""
        return min((-each - 1 - self.length for each in self.kind if each < 0), default=most)

    def is_far(self, more: int) -> bool:
        """Return whether nothing changes with the next `more` characters."""
        return bool(self.kind) and all(abs(each) - self.length > more for each in self.kind)


class _ConstraintLanguage:
    """One constraint."""

    def __init__(self, constraint: Constraint) -> None:
        self._languages = [Language(pattern) for pattern in constraint.patterns]
        self._least, self._most = constraint.least, constraint.most
        self._top = self._least if self._most is None else self._most + 1
        self.begin = (0, *[BEGIN] * len(self._languages))
        self.has_patterns = bool(self._languages)

    def after(self, state: tuple[int, ...], text: str) -> tuple[int, ...] | None:
        """Raise Unsupported."""
        count, *places = state
        count = min(count + len(text), self._top)
        if count == self._top and self._most is not None:
            return None
        for at, language in enumerate(self._languages):
            for character in text:
                places[at] = language.after(places[at], character)
            if language.is_dead(places[at]):
                return None
        return (count, *places)

    def changes(self, state: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the `kind` of a state; None if a pattern matters."""
        if not all(map(Language.is_free, self._languages, state[1:])):
            return None
        most = () if self._most is None else (-self._top,)
        return (self._least, *most) if self._least > state[0] else most

    def may_go_on(self, state: tuple[int, ...] | None) -> bool | None:
        """Return whether there is a string with a text of this state at its beginning; None if that
        is not certain."""
        if state is None:
            return False
        is_long = state[0] >= self._least
        if is_long and all(map(Language.is_whole, self._languages, state[1:])):
            return True
        alone = not self._languages or (is_long and len(self._languages) == 1)
        return True if alone and self._most is None else None

    def texts(self) -> Iterator[tuple[str, tuple[int, ...] | None]]:
        """Yield short texts, each with its state."""
        pending: deque[tuple[str, tuple[int, ...]]] = deque([("", self.begin)])
        seen = {self.begin}
        tried = 0
        while pending and tried < MAX_SEARCH:
            text, before = pending.popleft()
            for character in _PLAIN:
                tried += 1
                state = self.after(before, character)
                yield text + character, state
                if state is not None and (state not in seen or not self._languages):
                    seen.add(state)
                    pending.append((text + character, state))


class StringLanguage:
    """What is known of one string: that it has one of these constraints."""

    def __init__(self, constraints: list[_ConstraintLanguage]) -> None:
        self._constraints = constraints
        self.begin: State = tuple(each.begin for each in constraints)

    def after(self, state: State, text: str) -> State | None:
        """Return the state after some more characters; None if it is not known."""
        pairs = zip(self._constraints, state, strict=True)
        try:
            following = tuple(None if at is None else each.after(at, text) for each, at in pairs)
        except (Unsupported, RecursionError):
            return None
        return None if following.count(None) == len(following) else following

    def counted(self, state: State) -> LengthState | None:
        """Return the state as `LengthState`; None if a pattern matters."""
        kind: set[int] = set()
        for constraint, at in zip(self._constraints, state, strict=True):
            if at is not None:
                changes = constraint.changes(at)
                if changes is None:
                    return None
                kind.update(changes)
        counts = [at[0] for at in state if at is not None]
        return LengthState(max(counts), tuple(sorted(kind)))


class StringLanguages:
    """Tells which constraints a string of a grammar has, by texts with which only some of them can
    begin. Not thread-safe."""

    def __init__(self, constraints: Iterable[Constraint], listed: frozenset[str]) -> None:
        """`listed`: other strings that there may be."""
        self._constraints = [_ConstraintLanguage(constraint) for constraint in constraints]
        self._listed = listed
        self._tests: dict[str, list[bool | None]] = {}
        """By text: what each constraint allows."""
        self._unlisted: set[str] = set()
        """Those with which no listed string begins."""
        self._known: dict[tuple[int, ...], StringLanguage] = {}
        for constraint in self._constraints:
            self._find_tests(constraint)

    def _find_tests(self, constraint: _ConstraintLanguage) -> None:
        """Find a text that the constraint allows and no list has, and one that it refuses."""
        wanted = {True, False} if constraint.has_patterns else {True}  # lengths take long to read
        try:
            for text, state in constraint.texts():
                verdict = constraint.may_go_on(state)
                if verdict in wanted and not (verdict and self._is_listed(text)):
                    wanted.remove(verdict)
                    self._unlisted |= {text} if verdict else set()
                    self._tests[text] = [*map(self._verdict(text), self._constraints)]
                if not wanted:
                    break
        except (Unsupported, RecursionError):
            pass

    def _verdict(self, text: str) -> Callable[[_ConstraintLanguage], bool | None]:
        def verdict(constraint: _ConstraintLanguage) -> bool | None:
            try:
                return constraint.may_go_on(constraint.after(constraint.begin, text))
            except (Unsupported, RecursionError):
                return None

        return verdict

    def _is_listed(self, text: str) -> bool:
        return any(each.startswith(text) for each in self._listed)

    def of(self, may_begin: Callable[[str], bool]) -> StringLanguage | None:
        """Return the language of a string, of which the engine says with which texts it may begin;
        None if that is not known, or if the string may be a listed one."""
        allowed = {text: may_begin(text) for text in self._tests}
        if not any(allowed[text] for text in self._unlisted):
            return None  # it may be a listed one
        fitting = tuple(
            at
            for at in range(len(self._constraints))
            if all(results[at] in (None, allowed[text]) for text, results in self._tests.items())
        )
        if not fitting:
            return None
        if fitting not in self._known:
            self._known[fitting] = StringLanguage([self._constraints[at] for at in fitting])
        return self._known[fitting]

"""Patterns of clients: what they match, which ones masks can enforce, and how engines get them.

An anchor asserts something about the rest of a text. In a pattern of whole texts, each part matches
the rest as a whole, so that anchors are not needed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import jsonschema_rs

from .regular.parts import (
    ANYTHING,
    EMPTY,
    NOTHING,
    Alternatives,
    Anchor,
    BackReference,
    Boundary,
    Characters,
    Look,
    Part,
    Ranges,
    Repetition,
    Sequence,
    Unsupported,
    every_part,
    has,
    is_always_empty,
    other_than,
    ranges_of,
    text_of,
    union,
    with_inside,
)
from .regular.reading import parse

_START, _END = Anchor(end=False), Anchor(end=True)

_ESCAPED = r"\\[\\/^$.*+?()[\]{}|nrt-]"
_CLASS_PART = rf"(?:[^\\[\]^&~-]|{_ESCAPED})"
_CLASS = rf"\[\^?-?(?:\\[dw]|{_CLASS_PART}(?:-{_CLASS_PART})?)+-?\]"
_PLAIN = re.compile(
    rf"(?:[\^$|]|\((?:\?:(?!\)))?|(?:[^\\[\](){{}}.*+?^$|]|\)|\\[dw]|{_ESCAPED}|{_CLASS})"
    r"(?:(?:[*+?]|\{\d{1,4}(?:,\d{0,4})?\})\??)?)*"
)
"""Patterns of which all readers have the same reading already."""


@lru_cache(maxsize=4_096)
def matches(pattern: str, text: str) -> bool:
    """Return whether a pattern of JSON Schema matches a text; true if it cannot be parsed. The
    steps of the engine are limited."""
    try:
        return jsonschema_rs.is_valid({"pattern": pattern}, text)
    except (ValueError, jsonschema_rs.ValidationError):
        return True


def is_portable(pattern: str) -> bool:
    """Return whether all readers read a pattern in the same way already, if it is one."""
    return _PLAIN.fullmatch(pattern) is not None


@lru_cache(maxsize=4_096)
def portable(pattern: str) -> str:
    """Return the pattern in the shared syntax. The same one if it is written so already, or if it
    cannot be translated."""
    if is_portable(pattern):
        return pattern
    try:
        return text_of(parse(pattern))
    except (Unsupported, RecursionError):
        return pattern


def is_maskable(pattern: str) -> bool:
    """Whether masks can enforce this pattern as it is. An engine may still find it too large."""
    return objection_to(pattern) is None


def matches_nothing(pattern: str) -> bool:
    """Return whether certainly no text matches a pattern, such as `/^a$/`, where `$` is in the
    middle."""
    whole_text = _whole(pattern)
    return not isinstance(whole_text, str) and is_nothing(whole_text)


def objection_to(pattern: str) -> str | None:
    """Why masks cannot enforce a pattern as it is; None if they can."""
    whole_text = _whole(pattern)
    return whole_text if isinstance(whole_text, str) else None


@lru_cache(maxsize=4_096)
def _whole(pattern: str) -> Part | str:
    """Return the pattern of whole texts, or why there is none."""
    try:
        return whole(parse(pattern))
    except Unsupported as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"


@lru_cache(maxsize=4_096)
def for_engines(pattern: str) -> tuple[str, ...]:
    """Return patterns that together match what a pattern matches, as far as possible without
    look-around, with anchors only where engines read them, and with characters that every validator
    accepts."""
    try:
        parsed = parse(pattern)
        parts = without_look_around(parsed)
        if parts == (parsed,):
            as_given = not has_inner_anchor(parsed) and with_certain_white_space(parsed) == parsed
            if as_given or not is_maskable(pattern):
                return (pattern,)
        return tuple(map(_for_engines, parts))
    except (Unsupported, RecursionError):
        return (pattern,)


def _for_engines(part: Part) -> str:
    part = with_certain_white_space(part)
    return f"^(?:{text_of(whole(part))})$" if has_inner_anchor(part) else text_of(part)


# --- patterns of whole texts ---

MAX_STEPS = 2_000
"""What follows alternatives with anchors is written once for each of them."""
_SOMETHING = Repetition(ANYTHING.part, 1, None)


def whole(part: Part) -> Part:
    """Return what matches as a whole the texts in which a pattern is found. Raise Unsupported."""
    if any(isinstance(each, BackReference) for each in every_part(part)):
        raise Unsupported("it has a back-reference")
    rewriter = _Rewriter()
    later = rewriter.rest((part,), at_start=False)
    if not _has_start(part):
        return sequence(ANYTHING, later)
    return either([rewriter.rest((part,), at_start=True), sequence(_SOMETHING, later)])


def has_inner_anchor(part: Part) -> bool:
    """Whether an anchor is elsewhere than at the beginning or the end of a pattern, or of one of
    its alternatives."""
    options = part.options if isinstance(part, Alternatives) else (part,)
    for option in options:
        parts = option.parts if isinstance(option, Sequence) else (option,)
        begins = parts[:1] == (_START,)
        ends = len(parts) > begins and parts[-1] == _END
        if any(map(has_assertion, parts[begins : len(parts) - ends])):
            return True
    return False


def has_assertion(part: Part) -> bool:
    return any(isinstance(each, Anchor | Boundary | Look) for each in every_part(part))


def _has_start(part: Part) -> bool:
    return _START in every_part(part)


class _Rewriter:
    def __init__(self) -> None:
        self._steps = 0

    def rest(self, parts: tuple[Part, ...], *, at_start: bool) -> Part:
        """Return the rests of a text that begin with a match of these parts."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise Unsupported("it has too many alternatives with anchors")
        if not parts:
            return ANYTHING
        part, following = parts[0], parts[1:]
        match part:
            case Anchor(end=False):
                return self.rest(following, at_start=True) if at_start else NOTHING
            case Anchor(end=True):
                rest = self.rest(following, at_start=at_start)
                return EMPTY if may_be_empty(rest) else NOTHING
            case Look() | Boundary():
                raise Unsupported("it has a word boundary or look-around")
            case Sequence(inside) if has_assertion(part):
                return self.rest((*inside, *following), at_start=at_start)
            case Alternatives(options) if has_assertion(part):
                return either(
                    [self.rest((each, *following), at_start=at_start) for each in options]
                )
            case Repetition(one, least, most) if has_assertion(part):
                if most != 1 and not is_always_empty(one):
                    raise Unsupported("it repeats an anchor")
                once = self.rest((one, *following), at_start=at_start)
                return once if least else either([once, self.rest(following, at_start=at_start)])
        if at_start and may_be_empty(part) and any(map(_has_start, following)):
            raise Unsupported("it has an anchor after what may be empty")
        return sequence(part, self.rest(following, at_start=False))


def is_nothing(part: Part) -> bool:
    """Return whether no text matches a part without anchors."""
    match part:
        case Sequence(parts):
            return any(map(is_nothing, parts))
        case Alternatives(options):
            return all(map(is_nothing, options))
        case Repetition(one, least):
            return least > 0 and is_nothing(one)
    return part == NOTHING


def may_be_empty(part: Part) -> bool:
    match part:
        case Sequence(parts):
            return all(map(may_be_empty, parts))
        case Alternatives(options):
            return any(map(may_be_empty, options))
        case Repetition(one, least):
            return not least or may_be_empty(one)
    return not isinstance(part, Characters)


def sequence(first: Part, rest: Part) -> Part:
    if NOTHING in (first, rest):
        return NOTHING
    if rest == EMPTY or (first == rest == ANYTHING):
        return first
    if first == EMPTY:
        return rest
    return Sequence((*_parts(first), *_parts(rest)))


def _parts(part: Part) -> tuple[Part, ...]:
    return part.parts if isinstance(part, Sequence) else (part,)


def either(options: list[Part]) -> Part:
    ways = [each for each in dict.fromkeys(options) if each != NOTHING]
    if len(ways) < 2:
        return ways[0] if ways else NOTHING
    return ANYTHING if ANYTHING in ways else Alternatives(tuple(ways))


# --- look-around ---


def without_look_around(part: Part) -> tuple[Part, ...]:
    """Return patterns that together match what a pattern matches, without its look-ahead at the
    beginning of a text and its look-behind at the end. Raise Unsupported for look-around of other
    forms."""
    begin, *rest = part.parts if isinstance(part, Sequence) and part.parts else (part,)
    if begin != _START:
        return (part,)
    parts: list[Part] = []
    while rest and isinstance(look := rest[0], Look) and not look.behind:
        del rest[0]
        if look.negative:
            parts += map(_other_beginning, options_of(look.part))
        else:
            parts.append(Sequence((_START, look.part)))
    if rest[-1:] == [_END] and isinstance(look := rest[-2:][0], Look) and look.behind:
        del rest[-2]
        if not isinstance(look.part, Characters):
            raise Unsupported("it has a look-behind")
        last = _other(look.part) if look.negative else look.part
        most = Repetition(Sequence((ANYTHING, last)), 0 if look.negative else 1, 1)
        parts.append(Sequence((_START, most, _END)))
    return (*parts, Sequence((_START, *rest))) if rest or not parts else tuple(parts)


def _other_beginning(part: Part) -> Part:
    """Return a pattern of the texts that do not begin with a match of `part`: with the characters
    of a word, or with a run of characters that has one of a class, or two in a row, or that ends
    the text. Raise Unsupported for others."""
    parts = part.parts if isinstance(part, Sequence) else (part,)
    match parts[parts[:1] == (_START,) :]:  # which holds at the beginning
        case (Repetition(Characters() as run, 0, None), Anchor(end=True)):
            return Sequence((_START, Repetition(run, 0, None), _other(run)))
        case (Repetition(Characters() as run, 0, None), Characters() as one, *more) if (
            not run.properties | one.properties
            and (not more or (more == [one] and union(run.ranges, one.ranges) == run.ranges))
        ):
            other = Characters(other_than(union(other_than(run.ranges), one.ranges)))
            after = Characters(other_than(union(run.ranges, one.ranges)))
            if not more:
                return Sequence((_START, Repetition(other, 0, None), Alternatives((_END, after))))
            once = Repetition(one, 0, 1)
            before = Repetition(Sequence((Repetition(other, 1, None), once)), 0, None)
            return Sequence((_START, once, before, Alternatives((_END, after))))
        case (*word, Anchor(end=True)):
            rest: list[Part] = [ANYTHING.part]
        case (*word,):
            rest = []
    for item in reversed(word):
        if not isinstance(item, Characters):
            break
        rest = [Alternatives((_END, _other(item), *(Sequence((item, one)) for one in rest)))]
    else:
        if rest:
            return Sequence((_START, *rest))
    raise Unsupported("its negative look-ahead cannot be written without look-around")


def options_of(part: Part) -> tuple[Part, ...]:
    return part.options if isinstance(part, Alternatives) else (part,)


def _other(part: Characters) -> Characters:
    """Return every other character."""
    if part.properties:
        return replace(part, excluded=not part.excluded)
    return Characters(other_than(part.ranges))


# --- white space ---

DISPUTED = ranges_of([(0x1C, 0x1F), (0x85, 0x85), (0xFEFF, 0xFEFF)])
"""Validators disagree with ECMA-262 on whether U+001C to U+001F, U+0085 and U+FEFF are white space.
Masks allow none of them in the classes of white space and of all else, so that every validator
accepts what a model writes."""
_OGHAM, _AFTER_OGHAM, _SEPARATOR, _NEXT_LINE, _MARK = 0x1680, 0x1681, 0x1C, 0x85, 0xFEFF


def with_certain_white_space(part: Part) -> Part:
    r"""Return the pattern without disputed characters for `\s` and `\S`. In a negative look-around
    it stays as it is: there it would match more."""
    match part:
        case Characters() if _tells_white_space(part.ranges):
            change = _with if part.excluded else _without
            return replace(part, ranges=change(part.ranges))
        case Look(negative=True):
            return part
    return with_inside(part, with_certain_white_space)


def _tells_white_space(ranges: Ranges) -> bool:
    r"""Whether a class has `\s` or `\S` in it, by a rare space, a character that is none, and
    disputed ones. Of both together, it has all characters."""
    is_space, is_other = has(ranges, _OGHAM), has(ranges, _AFTER_OGHAM)
    are_disputed = [has(ranges, each) for each in (_SEPARATOR, _NEXT_LINE)]
    return (
        is_space != is_other and has(ranges, _MARK) == is_space and are_disputed == [is_other] * 2
    )


def _without(ranges: Ranges) -> Ranges:
    return other_than(_with(other_than(ranges)))


def _with(ranges: Ranges) -> Ranges:
    return union(ranges, DISPUTED)

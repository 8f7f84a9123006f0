"""Patterns of clients: what they match, which ones masks can enforce, and how engines get them."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import jsonschema_rs

from .regular.characters import Ranges, has, other_than, ranges_of, union
from .regular.parts import (
    ANYTHING,
    Alternatives,
    Anchor,
    Characters,
    Group,
    Look,
    Part,
    Repeated,
    Sequence,
    Unsupported,
    text_of,
)
from .regular.reading import parse
from .regular.whole import has_inner_anchor, is_nothing, whole

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
    """Whether a pattern of JSON Schema matches a text; true if it can't be parsed. The steps of the
    engine are limited."""
    try:
        return jsonschema_rs.is_valid({"pattern": pattern}, text)
    except (ValueError, jsonschema_rs.ValidationError):
        return True


def is_portable(pattern: str) -> bool:
    """Whether all readers read a pattern in the same way already, if it is one."""
    return _PLAIN.fullmatch(pattern) is not None


@lru_cache(maxsize=4_096)
def portable(pattern: str) -> str:
    """The pattern in the shared syntax. The same one if it is written so already, or if it can't be
    translated."""
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
    """Whether certainly no text matches a pattern, such as `/^a$/`, where `$` is in the middle."""
    whole_text = _whole(pattern)
    return not isinstance(whole_text, str) and is_nothing(whole_text)


def objection_to(pattern: str) -> str | None:
    """Why masks can't enforce a pattern as it is; None if they can."""
    whole_text = _whole(pattern)
    return whole_text if isinstance(whole_text, str) else None


@lru_cache(maxsize=4_096)
def _whole(pattern: str) -> Part | str:
    """The pattern of whole texts, or why there is none."""
    try:
        return whole(parse(pattern))
    except Unsupported as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"


@lru_cache(maxsize=4_096)
def for_engines(pattern: str) -> tuple[str, ...]:
    """Patterns that together match what a pattern matches, as far as possible without look-around,
    with anchors only where engines read them, and with characters that every validator accepts."""
    try:
        given = parse(pattern)
        parts = without_look_around(given)
        if parts == (given,):
            as_given = not has_inner_anchor(given) and with_certain_white_space(given) == given
            if as_given or not is_maskable(pattern):
                return (pattern,)
        return tuple(map(_for_engines, parts))
    except (Unsupported, RecursionError):
        return (pattern,)


def _for_engines(part: Part) -> str:
    part = with_certain_white_space(part)
    return f"^(?:{text_of(whole(part))})$" if has_inner_anchor(part) else text_of(part)


# --- look-around ---


def without_look_around(part: Part) -> tuple[Part, ...]:
    """Patterns that together match what a pattern matches, without its look-ahead at the beginning
    of a text and its look-behind at the end. Raises Unsupported for look-around of other forms."""
    begin, *rest = part.parts if isinstance(part, Sequence) and part.parts else (part,)
    if begin != _START:
        return (part,)
    found: list[Part] = []
    while rest and isinstance(look := rest[0], Look) and not look.behind:
        del rest[0]
        if look.negative:
            found += map(_other_beginning, _options(look.part))
        else:
            found.append(Sequence((_START, look.part)))
    if rest[-1:] == [_END] and isinstance(look := rest[-2:][0], Look) and look.behind:
        del rest[-2]
        if not isinstance(look.part, Characters):
            raise Unsupported("it has a look-behind")
        last = _other(look.part) if look.negative else look.part
        most = Repeated(Sequence((ANYTHING, last)), 0 if look.negative else 1, 1)
        found.append(Sequence((_START, most, _END)))
    return (*found, Sequence((_START, *rest))) if rest or not found else tuple(found)


def _other_beginning(part: Part) -> Part:
    """A pattern of the texts that do not begin with a match of `part`: with the characters of a
    word, or with a run of characters that has one of a class, or two in a row, or that ends the
    text. Raises Unsupported for others."""
    match part.parts if isinstance(part, Sequence) else (part,):
        case (Repeated(Characters() as run, 0, None), Anchor(end=True)):
            return Sequence((_START, Repeated(run, 0, None), _other(run)))
        case (Repeated(Characters() as run, 0, None), Characters() as one, *more) if (
            not run.properties | one.properties
            and (not more or (more == [one] and union(run.ranges, one.ranges) == run.ranges))
        ):
            other = Characters(other_than(union(other_than(run.ranges), one.ranges)))
            after = Characters(other_than(union(run.ranges, one.ranges)))
            if not more:
                return Sequence((_START, Repeated(other, 0, None), Alternatives((_END, after))))
            once = Repeated(one, 0, 1)
            before = Repeated(Sequence((Repeated(other, 1, None), once)), 0, None)
            return Sequence((_START, once, before, Alternatives((_END, after))))
        case (*word, Anchor(end=True)):
            rest: list[Part] = [ANYTHING.part]
        case (*word,):
            rest = []
    for each in reversed(word):
        if not isinstance(each, Characters):
            break
        rest = [Alternatives((_END, _other(each), *(Sequence((each, one)) for one in rest)))]
    else:
        if rest:
            return Sequence((_START, *rest))
    raise Unsupported("its negative look-ahead can't be written without look-around")


def _options(part: Part) -> tuple[Part, ...]:
    return part.options if isinstance(part, Alternatives) else (part,)


def _other(part: Characters) -> Characters:
    """Every other character."""
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
    r"""The pattern without disputed characters for `\s` and `\S`. In a negative look-around it
    stays as it is: there it would match more."""
    match part:
        case Characters() if _tells_white_space(part.ranges):
            change = _with if part.excluded else _without
            return replace(part, ranges=change(part.ranges))
        case Sequence(parts):
            return Sequence(tuple(map(with_certain_white_space, parts)))
        case Alternatives(options):
            return Alternatives(tuple(map(with_certain_white_space, options)))
        case Repeated(one) | Group(one) | Look(one, negative=False):
            return replace(part, part=with_certain_white_space(one))
    return part


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

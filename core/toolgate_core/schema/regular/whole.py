"""Patterns of whole texts instead of patterns that are searched for.

An anchor asserts something about the rest of a text. Here each part matches the rest as a whole, so
that anchors are not needed.
"""

from __future__ import annotations

from .parts import (
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
    Repeated,
    Sequence,
    Unsupported,
    every_part,
    is_always_empty,
)

MAX_STEPS = 2_000
"""What follows alternatives with anchors is written once for each of them."""
_SOMETHING = Repeated(ANYTHING.part, 1, None)


def whole(part: Part) -> Part:
    """What matches as a whole the texts in which a pattern is found. Raises Unsupported."""
    if any(isinstance(each, BackReference) for each in every_part(part)):
        raise Unsupported("it has a back-reference")
    rewriter = _Rewriter()
    later = rewriter.rest((part,), at_start=False)
    if not _has_start(part):
        return _sequence(ANYTHING, later)
    return _either([rewriter.rest((part,), at_start=True), _sequence(_SOMETHING, later)])


def has_inner_anchor(part: Part) -> bool:
    """Whether an anchor is elsewhere than at the beginning or the end of a pattern, or of one of
    its alternatives."""
    options = part.options if isinstance(part, Alternatives) else (part,)
    for option in options:
        parts = option.parts if isinstance(option, Sequence) else (option,)
        begins = parts[:1] == (Anchor(end=False),)
        ends = len(parts) > begins and parts[-1] == Anchor(end=True)
        if any(map(has_assertion, parts[begins : len(parts) - ends])):
            return True
    return False


def has_assertion(part: Part) -> bool:
    return any(isinstance(each, Anchor | Boundary | Look) for each in every_part(part))


def _has_start(part: Part) -> bool:
    return Anchor(end=False) in every_part(part)


class _Rewriter:
    def __init__(self) -> None:
        self._steps = 0

    def rest(self, parts: tuple[Part, ...], *, at_start: bool) -> Part:
        """The rests of a text that begin with a match of these parts."""
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
                return EMPTY if _may_be_empty(rest) else NOTHING
            case Look() | Boundary():
                raise Unsupported("it has a word boundary or look-around")
            case Sequence(inside) if has_assertion(part):
                return self.rest((*inside, *following), at_start=at_start)
            case Alternatives(options) if has_assertion(part):
                return _either(
                    [self.rest((each, *following), at_start=at_start) for each in options]
                )
            case Repeated(one, least, most) if has_assertion(part):
                if most != 1 and not is_always_empty(one):
                    raise Unsupported("it repeats an anchor")
                once = self.rest((one, *following), at_start=at_start)
                return once if least else _either([once, self.rest(following, at_start=at_start)])
        if at_start and _may_be_empty(part) and any(map(_has_start, following)):
            raise Unsupported("it has an anchor after what may be empty")
        return _sequence(part, self.rest(following, at_start=False))


def is_nothing(part: Part) -> bool:
    """Whether no text matches a part without anchors."""
    match part:
        case Sequence(parts):
            return any(map(is_nothing, parts))
        case Alternatives(options):
            return all(map(is_nothing, options))
        case Repeated(one, least):
            return least > 0 and is_nothing(one)
    return part == NOTHING


def _may_be_empty(part: Part) -> bool:
    match part:
        case Sequence(parts):
            return all(map(_may_be_empty, parts))
        case Alternatives(options):
            return any(map(_may_be_empty, options))
        case Repeated(one, least):
            return not least or _may_be_empty(one)
    return not isinstance(part, Characters)


def _sequence(first: Part, rest: Part) -> Part:
    if NOTHING in (first, rest):
        return NOTHING
    if rest == EMPTY or (first == rest == ANYTHING):
        return first
    if first == EMPTY:
        return rest
    return Sequence((first, *(rest.parts if isinstance(rest, Sequence) else (rest,))))


def _either(options: list[Part]) -> Part:
    found = [each for each in dict.fromkeys(options) if each != NOTHING]
    if len(found) < 2:
        return found[0] if found else NOTHING
    return ANYTHING if ANYTHING in found else Alternatives(tuple(found))

"""Sample strings of regular expressions, for tests of how patterns are read."""

from __future__ import annotations

from toolgate_core.schema.patterns import matches
from toolgate_core.schema.regular.parts import (
    Alternatives,
    Characters,
    Group,
    Part,
    Repeated,
    Sequence,
    Unsupported,
    text_of,
)
from toolgate_core.schema.regular.reading import parse

ALPHABET = "abcdefghA0123456789_-. /"
PRINTED = "".join(map(chr, range(33, 127)))
MAX_SAMPLE = 10_000
"""Maximum length of what a repeated part matches. Repetitions inside each other multiply it."""
MAX_REPEATED = 64


def sample_of(pattern: str, choice: int = 0) -> str | None:
    """A short string that a pattern matches; None if none is found. `choice` is the number of the
    alternative and of the character that it takes, where there are several."""
    try:
        text = _sample(parse(pattern), choice)
    except (Unsupported, RecursionError):
        return None
    return text if text is not None and matches(pattern, text) else None


def _sample(part: Part, choice: int) -> str | None:
    """What a part matches first. None if there is nothing, or it is too long."""
    match part:
        case Characters():
            return _character(part, choice)
        case Sequence(parts):
            found = [_sample(each, choice) for each in parts]
            return None if None in found else "".join(each for each in found if each)
        case Alternatives(options):
            return _sample(options[choice % len(options)], choice)
        case Repeated(one, least):
            text = _sample(one, choice) if least else ""
            if text is None or least > MAX_REPEATED or len(text) * least > MAX_SAMPLE:
                return None
            return text * least
        case Group(one):
            return _sample(one, choice)
    return ""


def _character(part: Characters, choice: int) -> str | None:
    written = f"^{text_of(part)}$"
    found = [each for each in dict.fromkeys(ALPHABET + PRINTED) if matches(written, each)]
    if not found:
        return chr(part.ranges[0][0]) if part.ranges else None
    return found[choice % len(found)]

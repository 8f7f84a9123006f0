"""The forms in which families write arguments, each with one dialect that stands for all of it.

What masks can enforce of a schema depends on the form alone.
"""

from __future__ import annotations

from .codecs import Codec, GemmaValues, Json, NestedTags, Pythonic, Tagged
from .registry import DIALECTS


def form_of(codec: Codec) -> str:
    """The name of a codec's form."""
    match codec:
        case Json():
            return "JSON"
        case Tagged(types=types, cdata=cdata):
            return f"tags{' with types' * bool(types)}{' with CDATA' * cdata}"
        case NestedTags():
            return "nested tags"
        case GemmaValues():
            return "bare keys"
        case Pythonic(json_objects=json_objects):
            return f"Python calls{' with JSON objects' * json_objects}"


def _representatives() -> dict[str, str]:
    found: dict[str, str] = {}
    for name, dialect in DIALECTS.items():
        if dialect.calls is not None:
            found.setdefault(form_of(dialect.calls.codec), name)
    return found


REPRESENTATIVES = _representatives()
"""By form: the name of a dialect."""

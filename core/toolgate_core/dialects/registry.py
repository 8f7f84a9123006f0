"""All dialects by name."""

from __future__ import annotations

from .dialect import Codec, Dialect, GemmaValues, Json, NestedTags, Pythonic, Tagged
from .families import json_arrays, json_objects, messages, names_and_json, own_values, tags

SHAPES = {
    "object": "a JSON object with the name and the arguments, between marks",
    "array": "a JSON array of such objects",
    "name_json": "the name, then the arguments as JSON",
    "tagged": "each argument in tags; strings raw",
    "nested": "as tagged; objects and arrays are tags too",
    "gemma": "bare keys, strings between marks",
    "pythonic": "a Python call",
    "bare": "a JSON object that is the whole turn",
}

PLAIN = Dialect(name="plain", calls=None)
"""For models of no known family: all output is text."""

FAMILIES = (json_objects, json_arrays, names_and_json, tags, messages, own_values)

DIALECTS: dict[str, Dialect] = {
    each.name: each
    for family in FAMILIES
    for each in vars(family).values()
    if isinstance(each, Dialect)
} | {PLAIN.name: PLAIN}


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

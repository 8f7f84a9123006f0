"""All dialects by name."""

from __future__ import annotations

from .dialect import Dialect
from .families import (
    dsml,
    gemma4,
    glm,
    hermes,
    invoke,
    json_arrays,
    json_objects,
    messages,
    minimax_m3,
    named_sections,
    names_and_json,
    plamo,
    pythonic,
    qwen3_coder,
)

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

FAMILIES = (
    hermes,
    json_objects,
    json_arrays,
    named_sections,
    names_and_json,
    plamo,
    qwen3_coder,
    glm,
    invoke,
    dsml,
    messages,
    minimax_m3,
    gemma4,
    pythonic,
)

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for family in FAMILIES for dialect in family.DIALECTS
} | {PLAIN.name: PLAIN}

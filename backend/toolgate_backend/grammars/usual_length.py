"""How much longer a usual call is than the shortest one, estimated from the schema.

The shortest call has empty strings. After long reasoning, a budget with room for no more would make
the model write them.
"""

from __future__ import annotations

from typing import Any

from toolgate_core.schema.walk import at_pointer, pointer_of_ref

STRING_TOKENS = 64
"""Of a string without an upper bound."""
CHARACTERS_PER_TOKEN = 3
OPEN_OBJECT_TOKENS = 64
"""Of an object without declared properties."""
MAX_TOKENS = 512


def extra_tokens(parameters: dict[str, Any]) -> int:
    """Tokens of required values beyond their shortest form, at most `MAX_TOKENS`."""
    return min(MAX_TOKENS, _Estimate(parameters).of(parameters))


class _Estimate:
    """Each subschema is estimated once, however often it is referenced."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._known: dict[int, int] = {}

    def of(self, schema: Any) -> int:
        if not isinstance(schema, dict):
            return 0
        if id(schema) not in self._known:
            self._known[id(schema)] = 0  # for references back to this schema
            self._known[id(schema)] = min(MAX_TOKENS, self._of(schema))
        return self._known[id(schema)]

    def _of(self, schema: dict[str, Any]) -> int:
        if "enum" in schema or "const" in schema:
            return 0
        if (target := pointer_of_ref(schema.get("$ref"))) is not None:
            return self.of(at_pointer(self._root, target))
        # Alternatives that are no longer than others, such as null, are not what a call needs.
        branches = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
        longest = max(map(self.of, branches), default=0)
        together = sum(map(self.of, schema.get("allOf", ())))
        return longest + together + self._of_type(schema)

    def _of_type(self, schema: dict[str, Any]) -> int:
        kinds = schema.get("type", ())
        kinds = {kinds} if isinstance(kinds, str) else set(kinds)
        tokens = 0
        if "string" in kinds and not schema.keys() & {"format", "pattern"}:
            bound = schema.get("maxLength")
            tokens = STRING_TOKENS
            if isinstance(bound, int | float):
                tokens = min(tokens, int(bound) // CHARACTERS_PER_TOKEN)
        if "array" in kinds:
            items = schema.get("items")
            tokens = max(tokens, self.of(items) * max(1, _count(schema.get("minItems"))))
        if "object" in kinds or "properties" in schema:
            tokens = max(tokens, self._of_object(schema))
        return tokens

    def _of_object(self, schema: dict[str, Any]) -> int:
        properties = schema.get("properties")
        if not properties:
            return 0 if schema.get("additionalProperties") is False else OPEN_OBJECT_TOKENS
        return sum(self.of(properties.get(name)) for name in schema.get("required", ()))


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0

"""Tools that tests share: one for each engine, and the ones of the six cases."""

from typing import Any


def tool(
    name: str, properties: dict[str, Any], required: list[str] | None = None
) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


WEATHER = tool(
    "get_weather",
    {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
    ["city"],
)
RETURN_JSON = tool("return_json", {"answer": {"type": "string"}, "confidence": {"type": "number"}})
TAGS = tool(
    "set_tags",
    {
        "tags": {
            "type": "array",
            "minItems": 3,
            "maxItems": 3,
            "items": {"type": "string", "maxLength": 6},
        }
    },
)
RANGE = tool(
    "set_range",
    {
        "low": {"type": "integer", "minimum": -5, "maximum": 12},
        "steps": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 4},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
)
FREE_FORM = tool(
    "set_headers",
    {"headers": {"type": "object"}, "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"}},
)
ALL = [WEATHER, RETURN_JSON, TAGS, RANGE, FREE_FORM]

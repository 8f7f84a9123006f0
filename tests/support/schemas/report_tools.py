"""Tools whose schemas the report describes differently."""

from toolgate_core.wire import ResidualKeyword


def entry(name, **properties):
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TAGS = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
UNIQUE = ResidualKeyword(pointer="/properties/tags/uniqueItems", keyword="uniqueItems")
ENTRIES = [
    entry("plain", a={"type": "string"}),
    entry("set_tags", tags=TAGS),
    entry("refused_one", a={"type": "null"}),
    entry("away", a={"$ref": "https://example.com/schema"}),
    entry("no spaces"),
]

"""Tools for prewarming, and the status and error code that each of them gets."""


def entry(name, **parameters):
    return {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object"} | parameters},
    }


DEEP = {}
for _ in range(40):
    DEEP = {"properties": {"a": DEEP}}


ENTRIES = [
    entry("warm1"),
    entry("warm2", properties={"a": {"type": "string"}}),
    entry("warm1"),
    entry("refused_one"),
    entry("no spaces"),
    entry("too_deep", **DEEP),
    "no tool",
]
EXPECTED = {
    "warm1": ("masked", None),
    "warm2": ("masked", None),
    "refused_one": ("refused", "schema_not_enforceable"),
    "no spaces": ("invalid", "invalid_tools"),
    "too_deep": ("refused", "schema_too_complex"),
    "tools[6]": ("invalid", "invalid_tools"),
}

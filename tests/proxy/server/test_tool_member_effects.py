"""Each member of an entry of `tools` has an effect, is refused, or is documented as one without."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.apis.outcomes import CALLING, SCHEMA, Outcome, outcome
from tests.support.litellm.own_route import Gateway
from toolgate_proxy.api.messages import tools as messages_tools
from toolgate_proxy.api.messages.client_tools.table import COMMON_FIELDS, TABLE
from toolgate_proxy.api.responses import tools as responses_tools
from toolgate_proxy.api.responses.builtin_tools.table import BY_TYPE

OTHER = {"type": "object", "properties": {"b": {"type": "string"}}}
LOOK: dict[str, Any] = {"name": "look", "parameters": SCHEMA}
FUNCTION = {"type": "function", **LOOK}
SCREEN = {"display_width_px": 800, "display_height_px": 600}
ENTRIES: dict[tuple[str, str], dict[str, Any]] = {
    ("chat", "function"): LOOK,
    ("responses", "function"): FUNCTION,
    ("responses", "custom"): {"type": "custom", "name": "look"},
    ("responses", "namespace"): {"type": "namespace", "name": "crm", "tools": [FUNCTION]},
    **{("responses", kind): {"type": kind} for kind in BY_TYPE},
    ("messages", "custom"): {"name": "look", "input_schema": SCHEMA},
    **{
        ("messages", kind): {"type": kind, "name": tool.name, **SCREEN}
        if kind.startswith("computer")
        else {"type": kind, "name": tool.name}
        for kind, tool in TABLE.items()
    },
}
"""By API and type: an entry without its optional members. That of chat completions is inside
`function`."""
VALUES: dict[str, Any] = {
    "type": "text_editor_20250728",
    "name": "seek",
    "description": "Looks it up.",
    "parameters": OTHER,
    "input_schema": OTHER,
    "strict": True,
    "format": {"type": "grammar", "syntax": "regex", "definition": "[a-z]+"},
    "tools": [FUNCTION | {"name": "seek"}],
    "defer_loading": True,
    "output_schema": OTHER,
    "allowed_callers": ["direct"],
    "cache_control": {"type": "ephemeral"},
    "eager_input_streaming": True,
    "input_examples": [{"a": 1}],
    "environment": {"type": "local"},
    "max_characters": 10_000,
    "display_width_px": 640,
    "display_height_px": 480,
    "display_number": 1,
    "enable_zoom": True,
}
MEMBERS = [
    *(("chat", "function", name) for name in ("name", "description", "parameters", "strict")),
    *(
        ("responses", kind, name)
        for kind, names in responses_tools.FIELDS.items()
        for name in (*names, *responses_tools.IGNORED_FIELDS)
    ),
    *(
        ("messages", "custom", name)
        for name in (*messages_tools.FIELDS, *messages_tools.IGNORED_VALUES)
    ),
    *(
        ("messages", kind, name)
        for kind, tool in TABLE.items()
        for name in (*(COMMON_FIELDS if kind == "bash_20250124" else ()), *tool.fields)
    ),
]
WITHOUT_EFFECT = {
    "responses": responses_tools.IGNORED_FIELDS,
    "messages": ("cache_control", "input_examples", "allowed_callers"),
}
DOCS = Path(__file__).parents[3] / "docs"


def sections_on_tools() -> list[str]:
    texts = [page.read_text() for page in DOCS.rglob("*.md")]
    found = [text.partition("\n## Tools\n")[2].partition("\n## ")[0] for text in texts]
    return [section for section in found if section]


async def sent(gateway: Gateway, api: str, entry: dict[str, Any], name: str) -> Outcome:
    tool = {"type": "function", "function": entry} if api == "chat" else entry
    more: dict[str, Any] = {}
    if name == "eager_input_streaming":
        more = {"messages": CALLING, "stream": True}
    return await outcome(gateway, api, {"tools": [tool], **more})


@pytest.mark.parametrize(("api", "kind", "name"), MEMBERS)
async def test_a_member_of_a_tool(gateway: Gateway, api: str, kind: str, name: str) -> None:
    entry = ENTRIES[api, kind]
    without, given = [
        await sent(gateway, api, each, name) for each in (entry, entry | {name: VALUES[name]})
    ]
    assert without.status == 200
    if name not in WITHOUT_EFFECT.get(api, ()):
        assert given != without
        return
    assert (given.status, given.sent) == (200, without.sent)
    documented = rf"`{name}\b[^.]* no effect"
    assert any(re.search(documented, section) for section in sections_on_tools())

"""Each parameter, and each member of a tool and of an entry of the conversation, has an effect, is
refused, or is documented as one without."""

import json
import re
from pathlib import Path

import yaml

from tests.proxy.server.kit import CONVERSATION
from tests.support.apis.outcomes import CALLING, SCHEMA, outcome
from tests.support.apis.value_examples import examples_of
from tests.support.effort import rotating
from tests.support.litellm.own_route import PATHS, body_of
from tests.support.servers.script import Script
from toolgate_proxy.api.messages import content, messages
from toolgate_proxy.api.messages import tools as messages_tools
from toolgate_proxy.api.responses import items
from toolgate_proxy.api.responses import tools as responses_tools
from toolgate_proxy.api.responses.feature import IGNORED_FIELDS
from toolgate_proxy.api.shared.parameter import TABLES
from toolgate_proxy.features.all import RESPONSES
from toolgate_proxy.features.client_tools.messages import COMMON_FIELDS, TABLE
from toolgate_proxy.features.client_tools.responses import (
    BUILTIN_TOOLS,
    BY_TYPE,
    CALL_FIELDS,
    OUTPUT_FIELDS,
)
from toolgate_proxy.features.custom_tools import ENTRY
from toolgate_proxy.server.request_scope import own_headers

DATA = yaml.safe_load(Path(__file__).with_name("effects.yaml").read_text())
VALUES, BESIDE = DATA["parameters"], DATA["beside"]
KNOWN = {}
"""Outcomes of requests that several tests compare with."""


async def once(gateway, api, body):
    name = json.dumps([api, body])
    if name not in KNOWN:
        KNOWN[name] = await outcome(gateway, api, body)
    return KNOWN[name]


def examples(api, row):
    given = VALUES["shared"] | VALUES[api]
    return [*examples_of(row, {name: tuple(values) for name, values in given.items()})]


def beside(api, path):
    """Other parameters without which this one has no effect."""
    offering = {"tools": VALUES[api]["tools"][0]}
    known = BESIDE["shared"] | {"tool_choice": offering, "parallel_tool_calls": offering}
    known |= BESIDE[api]
    found = known.get(path, known.get(path.partition(".")[0], {}))
    return found | offering if found.get("messages") == CALLING else found


def is_ignored(row, path):
    inner = path.partition(".")[2]
    return row.support == "ignored" or inner in row.without_effect or inner == "others"


CASES = [
    (api, row, path)
    for api, table in TABLES.items()
    for row in table.values()
    for path in dict.fromkeys(example.path for example in examples(api, row))
]
IGNORED = [case for case in CASES if is_ignored(case[1], case[2])]
SUPPORTED = [case for case in CASES if case[1].support == "supported" and case not in IGNORED]
OTHERS = [case for case in CASES if case not in IGNORED and case not in SUPPORTED]


def cases(chosen):
    ids = [f"{api} {path}" for api, _, path in chosen]
    return rotating("api, row, path", chosen, one_in=6, ids=ids)


async def outcomes(gateway, api, row, path):
    """Of each example, without and with it."""
    made = []
    for _, value, without in [each for each in examples(api, row) if each.path == path]:
        rest = beside(api, path)
        first = await once(gateway, api, rest | ({} if without is None else {row.name: without}))
        made.append((first, await outcome(gateway, api, rest | {row.name: value})))
    assert made
    return made


@cases(SUPPORTED)
async def test_a_supported_parameter_has_an_effect(gateway, api, row, path):
    made = await outcomes(gateway, api, row, path)
    if path in DATA["elsewhere"]:
        assert all(first.sent == second.sent for first, second in made)
    elif path in DATA["refused"]:
        assert any(second.status != 200 for _, second in made)
    else:
        assert any(first != second and second.status < 300 for first, second in made)


@cases(IGNORED)
async def test_an_ignored_parameter_is_accepted_and_changes_nothing_that_is_sent_to_the_model(
    gateway, api, row, path
):
    made = await outcomes(gateway, api, row, path)
    # A member that is required, such as the name of a schema, can't be left out.
    accepted = [pair for pair in made if pair[1].status == 200]
    assert accepted
    assert all(first.sent == second.sent for first, second in accepted if first.status == 200)


@cases(OTHERS)
async def test_an_unsupported_parameter_is_refused_unless_it_is_its_default(
    gateway, api, row, path
):
    made = await outcomes(gateway, api, row, path)
    for example, (first, second) in zip(examples(api, row), made, strict=True):
        if example.value in row.defaults:
            assert first == second
        else:
            assert second.status == 400


ITEM_FIELDS = items.FIELDS | {
    kind: names for feature in RESPONSES for kind, names in feature.FIELDS.items()
}
MEMBERS = [
    *(("responses", kind, name) for kind, names in ITEM_FIELDS.items() for name in names),
    *(("responses", kind, name) for kind in ITEM_FIELDS for name in items.COMMON),
    *(
        ("responses", tool.call, name)
        for tool in BUILTIN_TOOLS
        for name in (*CALL_FIELDS, tool.member)
    ),
    *(("responses", tool.output, name) for tool in BUILTIN_TOOLS for name in OUTPUT_FIELDS),
    *(("messages", "text", name) for name in content.TEXT_FIELDS),
    *(("messages", "tool_use", name) for name in messages.TOOL_USE_FIELDS),
    *(("messages", "tool_result", name) for name in messages.TOOL_RESULT_FIELDS),
]


async def seen(gateway, api, kind, entry):
    """The status, what the model sees, and what the header says about it."""
    before, _, after = DATA["history"][api][kind]
    if api == "messages":
        role = "user" if kind == "tool_result" else "assistant"
        entry = {"role": role, "content": [entry]}
    body = body_of(api) | {CONVERSATION[api]: [*before, entry, *after]}
    gateway.backend.requests.clear()
    gateway.backend.turns[:] = [Script(("Hello",))]
    response = await gateway.ask(body, path=PATHS[api])
    shown = gateway.backend.messages() if gateway.backend.requests else None
    return response.status, shown, own_headers(response.context).get("x-toolgate-history")


@rotating("api, kind, name", MEMBERS, one_in=6)
async def test_a_member_of_the_history(gateway, api, kind, name):
    entry = DATA["history"][api][kind][1]
    value = (DATA["values"] | DATA["values_of"].get(kind, {}))[name]
    if f"{api} {kind}" not in KNOWN:
        KNOWN[f"{api} {kind}"] = await seen(gateway, api, kind, entry)
    without = KNOWN[f"{api} {kind}"]
    given = await seen(gateway, api, kind, entry | {name: value})
    assert without[0] == 200
    ignored = name in DATA["without_effect"][api]
    ignored |= name in DATA["without_effect_of"].get(kind, ())
    ignored &= name not in DATA["with_effect_of"].get(kind, ())
    assert (given == without) == ignored


FUNCTION = {"type": "function", "name": "look", "parameters": SCHEMA}
SCREEN = {"display_width_px": 800, "display_height_px": 600}
TOOLS = {
    ("chat", "function"): {"name": "look", "parameters": SCHEMA},
    ("responses", "function"): FUNCTION,
    ("responses", "custom"): {"type": "custom", "name": "look"},
    ("responses", "namespace"): {"type": "namespace", "name": "crm", "tools": [FUNCTION]},
    **{("responses", kind): {"type": kind} for kind in BY_TYPE},
    ("messages", "custom"): {"name": "look", "input_schema": SCHEMA},
    **{
        ("messages", kind): {"type": kind, "name": tool.name}
        | (SCREEN if kind.startswith("computer") else {})
        for kind, tool in TABLE.items()
    },
}
"""By API and type: an entry without its optional members. That of chat completions is inside
`function`."""
TOOL_MEMBERS = [
    *(("chat", "function", name) for name in ("name", "description", "parameters", "strict")),
    *(
        ("responses", kind, name)
        for kind, names in (responses_tools.FIELDS | {"custom": ENTRY}).items()
        for name in (*names, *IGNORED_FIELDS)
    ),
    *(("messages", "custom", name) for name in (*messages_tools.FIELDS, "allowed_callers")),
    *(
        ("messages", kind, name)
        for kind, tool in TABLE.items()
        for name in (*(COMMON_FIELDS if kind == "bash_20250124" else ()), *tool.fields)
    ),
]
WITHOUT_EFFECT = {
    "responses": IGNORED_FIELDS,
    "messages": ("cache_control", "input_examples", "allowed_callers"),
}
DOCS = Path(__file__).parents[3] / "docs"


def sections_on_tools():
    texts = [page.read_text() for page in DOCS.rglob("*.md")]
    found = [text.partition("\n## Tools\n")[2].partition("\n## ")[0] for text in texts]
    return [section for section in found if section]


@rotating("api, kind, name", TOOL_MEMBERS, one_in=6)
async def test_a_member_of_a_tool(gateway, api, kind, name):
    more = {"messages": CALLING, "stream": True} if name == "eager_input_streaming" else {}

    def offered(entry):
        tool = {"type": "function", "function": entry} if api == "chat" else entry
        return {"tools": [tool], **more}

    without = await once(gateway, api, offered(TOOLS[api, kind]))
    changed = offered(TOOLS[api, kind] | {name: DATA["tools"][name]})
    given = await outcome(gateway, api, changed)
    assert without.status == 200
    if name not in WITHOUT_EFFECT.get(api, ()):
        assert given != without
        return
    assert (given.status, given.sent) == (200, without.sent)
    documented = rf"`{name}\b[^.]* no effect"
    assert any(re.search(documented, section) for section in sections_on_tools())

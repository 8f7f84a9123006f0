"""Guardrails see each text of a prompt, and what none changes reaches the model as it was sent."""

import json
from itertools import product
from pathlib import Path

import pytest
import yaml
from litellm.proxy.guardrails import guardrail_registry as registry

from tests.proxy.server.kit import APIS
from tests.proxy.server.test_effects import CASES, beside, examples
from tests.proxy.server.test_effects import DATA as EFFECTS
from tests.support.apis.outcomes import outcome
from tests.support.effort import NIGHTLY, SAMPLE
from tests.support.litellm import callbacks
from tests.support.litellm.guardrail_services import GUARDRAILS, NOT_RUN, Service
from tests.support.litellm.guards import KEPT, MARK, Exchanging, Unified, use_callback
from tests.support.litellm.own_route import PATHS, body_of
from tests.support.servers.loopback import served
from tests.support.servers.script import Script
from toolgate_core.schema.keywords import ASSERTIONS


@pytest.fixture(autouse=True)
def _no_comments(gateway):
    gateway.configure(keepalive_seconds=0)


def part(values, one_in, offset=0):
    """Return all values by night, and by day one of so many: which one depends on the commit."""
    return values if NIGHTLY else values[(SAMPLE + offset) % one_in :: one_in]


# --- guardrails see each text of the prompt -------------------------------------------------------

DATA = yaml.safe_load((Path(__file__).parent / "texts.yaml").read_text())
DATA["responses"] += [
    {"input": [*before, entry, *after]}
    for before, entry, after in EFFECTS["history"]["responses"].values()
]


def marked(value):
    """Yield the value with the mark in each of its strings."""
    if isinstance(value, str):
        yield value.replace('"x"', f'"{MARK}"') if value.startswith("{") else f"{value} {MARK}"
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from ({**value, name: made} for made in marked(each))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from ([*value[:at], made, *value[at + 1 :]] for made in marked(each))


async def prompt(gateway, api, body):
    gateway.backend.requests.clear()
    gateway.backend.turns[:] = [Script(("Hello",))]
    response = await gateway.ask(body_of(api, **body), path=PATHS[api])
    sent = [each.prompt.model_dump_json() for each in gateway.backend.requests]
    return response.status, "".join(sent)


@APIS
async def test_guardrail_sees_each_text_of_the_prompt(gateway, monkeypatch, api):
    """It changes them, through the texts or the messages that it is shown, or refuses them."""
    marks = [made for body in DATA[api] for made in marked(body)]
    reached, unseen = 0, []
    for body in part(marks, 12):
        use_callback(monkeypatch)
        status, sent = await prompt(gateway, api, body)
        if status != 200 or MARK not in sent:
            continue
        reached += 1
        for changes in KEPT:
            use_callback(monkeypatch, Unified(changes))
            status, sent = await prompt(gateway, api, body)
            if changes == "during_call":
                is_seen = status == 400
            else:
                is_seen = status == 200 and MARK not in sent
            unseen += [] if is_seen else [(changes, body)]
    assert unseen == []
    assert reached >= (15 if NIGHTLY else 1)


# --- texts that guardrails leave unchanged --------------------------------------------------------

BOTH = [{"required": ["a"]}, {"required": ["b"]}]
DEFINED = {"x": {"type": "string"}}
CONDITION = {"if": BOTH[0], "then": BOTH[1], "else": {"required": ["c"]}}
MEMBERS = {"a": {"type": "string"}, "b": {"type": "string"}}
SCHEMAS = [
    {"type": "object", "properties": MEMBERS, **CONDITION},
    *({"type": "object", "properties": MEMBERS, "$defs": DEFINED, name: value}
      for name, value in DATA["on_root"].items()),
    *({"type": "object", "properties": {"a": {name: value}}}
      for name, value in DATA["on_value"].items()),
    *({"type": "object", "properties": MEMBERS} for _ in range(2)),
]  # fmt: skip
BESIDE = [{} for _ in SCHEMAS[2:]] + [{"strict": True}, {"defer_loading": True}]
"""Members of each tool beside its schema."""


def tools_of(api):
    named = [
        {"name": f"t{at}", "description": "x", "schema": schema, **more}
        for at, (schema, more) in enumerate(zip(SCHEMAS, BESIDE, strict=True))
    ]
    if api == "messages":
        search = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
        return [search, *({"input_schema": tool.pop("schema"), **tool} for tool in named)]
    flat = [{"parameters": tool.pop("schema"), **tool} for tool in named]
    if api == "responses":
        return [{"type": "tool_search"}, *({"type": "function", **tool} for tool in flat)]
    return [{"type": "function", "function": tool} for tool in flat]


@pytest.fixture
async def service():
    made = Service()
    async with served(made) as made.url:
        yield made


@APIS
async def test_messages_for_guardrails_have_the_form_of_openai(gateway, monkeypatch, service, api):
    """This guardrail refuses others."""
    use_callback(monkeypatch)
    passed = [body for body in DATA[api] if (await prompt(gateway, api, body))[0] == 200]
    service.use(monkeypatch, "generic_guardrail_api", "pre_call")
    assert [body for body in passed if (await prompt(gateway, api, body))[0] != 200] == []
    assert "call_id" in json.dumps(passed) or "tool_use_id" in json.dumps(passed)


NAMES = part([*GUARDRAILS], 16)
MODES = ["pre_call", "during_call", "post_call"][: 3 if NIGHTLY else 1]
GUARDS = [each for each in product(NAMES, MODES) if [*each] not in DATA["broken"]]
CALLBACKS = {
    name: kind for name, kind in callbacks.hooking().items() if name not in callbacks.NOT_RUN
}
HOOKS = [*GUARDS, *((name, "callback") for name in part(sorted(CALLBACKS), 8))]


def bodies(api, at):
    """Yield requests with some of all parameters, others for each guardrail, and more by night."""
    yield {"tools": tools_of(api)}
    one_in = 8 if NIGHTLY else len(HOOKS) * 12
    for _, row, path in [c for c in CASES if c[0] == api][(SAMPLE + at) % one_in :: one_in]:
        for example in examples(api, row):
            if example.path == path and path != "background":
                yield beside(api, path) | {row.name: example.value}


@APIS
async def test_callbacks_that_pass_change_nothing(gateway, monkeypatch, service, api):
    known, changed = {}, []
    for at, (name, mode) in enumerate(HOOKS):
        left_out = "stream" if name in DATA["not_streamed"] else None
        tried = [body for body in bodies(api, at) if left_out not in body]
        given = {json.dumps(body): body for body in tried}
        use_callback(monkeypatch)
        for key in given.keys() - known.keys():
            known[key] = await outcome(gateway, api, given[key])
        if mode == "callback":
            use_callback(monkeypatch, callbacks.make(CALLBACKS[name]))
        else:
            try:
                service.use(monkeypatch, name, mode)
            except ValueError:
                assert mode != MODES[0], f"{name} has this mode"
                continue
        for key, body in given.items():
            assert known[key].status == 200 or len(body.get("tools") or ()) < len(SCHEMAS)
            if known[key].status == 200:
                left = await outcome(gateway, api, body)
                pairs = zip(known[key][:2], left, strict=False)
                changed += [(name, mode, body, *pair) for pair in pairs if len({*pair}) > 1]
    assert changed == []


@APIS
async def test_guardrail_exchanges_tools_by_name(gateway, monkeypatch, api):
    use_callback(monkeypatch, Exchanging())
    schema = "input_schema" if api == "messages" else "parameters"
    named = [{"name": name, "description": "x", schema: SCHEMAS[0]} for name in "ab"]
    tools = {
        "chat": [{"type": "function", "function": each} for each in named],
        "responses": [{"type": "function", **each} for each in named],
        "messages": named,
    }[api]
    assert (await outcome(gateway, api, {"tools": tools})).status == 200
    sent = gateway.backend.requests[-1].prompt.tools
    assert [tool["function"]["name"] for tool in sent] == ["b", "seek"]
    assert sent[0]["function"]["parameters"]["if"] == CONDITION["if"]


def test_all_keywords_are_sent():
    assert ASSERTIONS - {"$dynamicRef", "not"} <= {*json.dumps(SCHEMAS).split('"')}


def test_each_guardrail_of_litellm_is_run_or_named():
    found = {
        **registry.guardrail_initializer_registry,
        **registry.get_guardrail_initializer_from_hooks(),
    }
    assert {*found} - {*GUARDRAILS, *NOT_RUN} == set()

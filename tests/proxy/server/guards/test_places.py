"""Each text of a request reaches the prompt, is refused, or is named as left out. Guardrails see
each text that reaches the prompt, also those of files, tools, kept reasoning and summaries."""

import base64
import json
import re
from pathlib import Path

import pytest
import yaml
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.integrations.custom_logger import CustomLogger

from tests.proxy.features.test_compaction import OLD, compacting
from tests.proxy.features.test_web import searching
from tests.proxy.server import kit
from tests.proxy.server.guards.test_texts import DATA as TEXTS
from tests.proxy.server.guards.test_texts import part
from tests.proxy.server.kit import APIS, HI, function
from tests.proxy.server.test_histories import keep, without_reasoning
from tests.support.documents import pdfs as worker
from tests.support.litellm.guards import refusal, use_callback
from tests.support.litellm.own_route import PATHS, body_of
from tests.support.servers.script import Script, call
from toolgate_proxy.features.files import parts
from toolgate_proxy.litellm_host.callbacks.guardrail_inputs import PROMPT

DATA = yaml.safe_load(Path(__file__).with_name("places.yaml").read_text())
BODIES = {api: [*DATA[api], *TEXTS[api]] for api in PATHS}
MARK = "Zqmarkxq"
OPEN = re.compile(r"(chat_template_kwargs|properties|env|input)$")
"""Objects whose members have names that the client chooses."""


@pytest.fixture(autouse=True)
def _processes(gateway, monkeypatch):
    gateway.configure(keepalive_seconds=0)
    monkeypatch.setattr(parts, "DOCUMENTS", parts.Documents(module=worker.__name__))


def marked(value, path=""):
    """Yield the value with the mark in one of its strings or names, and its path."""
    if isinstance(value, str) and value.startswith("{"):
        yield from (
            (path, value.replace(f'"{each}"', f'"{MARK}"')) for each in "xa" if each in value
        )
    elif isinstance(value, str):
        yield path, value.removesuffix(">") + MARK + ">" * value.endswith(">")
    elif isinstance(value, dict):
        for name, each in value.items():
            where = f"{path}.{name}".lstrip(".")
            yield from ((at, {**value, name: made}) for at, made in marked(each, where))
            if OPEN.search(path):
                rest = {other: value[other] for other in value if other != name}
                yield f"{path}.{name}", {**rest, name + MARK: each}
    elif isinstance(value, list):
        for at, each in enumerate(value):
            for where, made in marked(each, f"{path}[{at}]"):
                yield where, [*value[:at], made, *value[at + 1 :]]


def encoded(body):
    def base64_of(found):
        return base64.b64encode(found[1].encode()).decode()

    return json.loads(re.sub("<b64 (.*?)>", base64_of, json.dumps(body)))


async def prompt(gateway, api, body):
    gateway.backend.requests.clear()
    gateway.backend.turns[:] = [Script(("Hello",))]
    response = await gateway.ask(body_of(api, **encoded(body)), path=PATHS[api])
    sent = [each.prompt.model_dump_json() for each in gateway.backend.requests]
    return response, "".join(sent)


def matches(kind, path):
    return any(re.search(each, path) for each in DATA[kind])


def is_named(path, notes):
    """Whether the headers of a response name a place, or what it is part of, as left out, or as an
    entry of which the model sees the text."""
    changes = [each.path for each in notes.history_changes if each.kind in ("left_out", "as_text")]
    within = any(re.match(rf"{re.escape(each)}(\W|$)", path) for each in changes)
    return within or bool(notes.omitted_tools and path.startswith("tools["))


@APIS
async def test_no_text_is_lost_without_a_word(gateway, api):
    lost = []
    for body in DATA[api]:
        assert (await prompt(gateway, api, body))[0].status == 200, body
    for body in BODIES[api]:
        for path, made in marked(body):
            response, sent = await prompt(gateway, api, made)
            assert response.status in (200, 400), path
            if response.status == 400 or MARK in sent or matches("no_text", path):
                continue
            if not is_named(path, response.context.notes):
                lost.append((path, response.context.notes.history_changes))
    assert lost == []


class Reading(CustomGuardrail):
    """Reads requests in its own hook. It replaces the mark, or refuses it."""

    def __init__(self, *, refuses=False, mode="pre_call"):
        super().__init__(guardrail_name="reading", event_hook=mode, default_on=True)
        self.refuses = refuses

    def read(self, value):
        text = json.dumps(value)
        if self.refuses and MARK in text:
            raise refusal()
        return json.loads(text.replace(MARK, "hidden"))

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        shown = {name: data[name] for name in (*PROMPT, "tools") if name in data}
        return {**data, **self.read(shown)}


class Applying(Reading):
    """Reads them by `apply_guardrail`."""

    async def apply_guardrail(self, inputs, *args, **more):
        return self.read(inputs)


class Hook(CustomLogger):
    """Reads them as a callback that is no guardrail."""

    async_pre_call_hook = Reading.async_pre_call_hook
    read, refuses, event_hook = Reading.read, False, None


DURING = "during_call"
GUARDS = [Applying(), Applying(refuses=True), Applying(refuses=True, mode=DURING),
          Reading(), Reading(refuses=True), Hook()]  # fmt: skip


@APIS
async def test_guardrails_see_each_text_that_reaches_the_prompt(gateway, monkeypatch, api):
    """They change it, or refuse the request."""
    passed, reached = [], 0
    for path, made in part([each for body in BODIES[api] for each in marked(body)], 12):
        use_callback(monkeypatch)
        response, sent = await prompt(gateway, api, made)
        if response.status != 200 or MARK not in sent or matches("unseen", path):
            continue
        reached += 1
        for guard in GUARDS:
            use_callback(monkeypatch, guard)
            response, sent = await prompt(gateway, api, made)
            is_sent = MARK in sent and not (
                matches("unchanged", path) or guard.event_hook == DURING
            )
            if is_sent or (response.status == 200) == guard.refuses:
                passed.append((path, type(guard).__name__, guard.refuses, response.status))
    assert passed == []
    assert reached


# --- texts that are in no body --------------------------------------------------------------------


async def stored(gateway, ask):
    """A response that is stored, and continued by its id."""
    given = {"previous_response_id": (await ask("responses", MARK)).body["id"]}
    return lambda: ask("responses", "Yes.", said="And?", **given)


async def kept(gateway, ask):
    """The reasoning of a turn that comes back without it."""
    keep(gateway, "*")
    turn = without_reasoning(await ask("chat", f"<think>{MARK}</think>{call('dim', {})}"))
    return lambda: ask("chat", "Yes.", history=[HI, *turn])


async def searched(gateway, ask):
    """What a tool that the gateway runs has found."""
    seek = call("web_search", {"query": "news"})
    return lambda: ask("messages", seek, "Yes.", stream=True, **searching("messages"))


async def summarized(gateway, ask):
    """The summary of the conversation so far."""
    gateway.backend.scripts["next"] = Script(("And on",), prompt_tokens=2000)
    made = Script((MARK,), prompt_tokens=1990)
    return lambda: ask("responses", made, "Yes.", history=OLD, **compacting("responses"))


@pytest.mark.parametrize("made", [stored, kept, searched, summarized])
async def test_guardrails_see_texts_that_are_in_no_body(gateway, monkeypatch, engine, made):
    engine.pages = [{"title": "x", "url": "https://example.com", "content": MARK}]

    async def ask(api, *turns, **given):
        gateway.backend.requests.clear()
        tools = [] if "tools" in given else [function(api, "dim")]
        return await kit.ask(gateway, api, *turns, **({"tools": tools} if tools else {}), **given)

    use_callback(monkeypatch)
    again = await made(gateway, ask)
    assert (await again()).status == 200
    assert MARK in gateway.backend.requests[-1].prompt.model_dump_json()
    for guard in GUARDS:
        use_callback(monkeypatch, guard)
        reply = await again()
        sent = (
            gateway.backend.requests[-1].prompt.model_dump_json()
            if gateway.backend.requests
            else ""
        )
        assert MARK not in sent
        assert (reply.response.context.outcome.code is not None) == guard.refuses
        assert guard.refuses or "hidden" in sent

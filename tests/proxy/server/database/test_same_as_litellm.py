"""The same requests for a model of ours and for one of LiteLLM's, in one gateway: statuses,
headers, hooks, log events, rows and refusals are the same, but for the differences listed here."""

import asyncio
import json
import re
from datetime import UTC, datetime

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy import proxy_server

from tests.proxy.kit import beside
from tests.proxy.server.database.conftest import PRICES
from tests.support.effort import sampled
from tests.support.litellm.guards import refusal
from tests.support.litellm.own_route import PATHS, body_of, ours
from tests.support.litellm.router import row, use
from tests.support.servers import fake_provider
from tests.support.servers.fake_provider import FakeProvider
from tests.support.servers.script import Script
from toolgate_proxy.app import Gateway as App
from toolgate_proxy.server.request_scope import own_headers, response_headers

ROWS = beside(__file__)
MINE, THEIRS = "tiny", "hosted"
GUARDED = "blocked by a guardrail"
NOWHERE = "http://127.0.0.1:9"
USAGE = {"prompt_tokens": 11, "completion_tokens": 6, "total_tokens": 17}
"""What both backends report."""
ATTRIBUTION = [
    (b"x-litellm-customer-id", b"acme"),
    (b"x-litellm-session-id", b"session-0001"),
    (b"x-litellm-tags", b"tag-1, tag-2"),
    (b"x-litellm-spend-logs-metadata", b'{"project": "project-1"}'),
]
REFUSED = {
    "blocked key": {"blocked": True},
    "budget": {"spend": 2.0, "max_budget": 1.0},
    "rate limit": {"rpm_limit": 0},
    "expired key": {"expires": datetime(2020, 1, 1, tzinfo=UTC)},
    "other model": {"models": ["another"]},
    "guardrail": {},
}
"""Columns of a key whose request is refused."""

OF_ONE_REQUEST = (
    r"(\b|_)(id|key|hash|user|created|created_at|updated_at|ms|time|startTime|endTime"
    r"|completionStartTime|completed_at)$|error_budget_entity_id|user_api_key(_\w+)?$"
)
OF_A_MODEL = (
    r"\b(model|model_group|model_map_key|original_model_group|api_base|custom_llm_provider"
    r"|llm_provider|litellm_provider|litellm_model_name|system_fingerprint)$"
)
SAME_FOR_NO_TWO = re.compile(f"{OF_ONE_REQUEST}|{OF_A_MODEL}")
DIFFERENT = ROWS["fields"]
"""Fields of rows and events, and why they differ."""
DESCRIBING = re.compile(r"x-litellm-|x-ratelimit-|rate_limit_type$|reset_at$|retry-after$")
HEADERS_OF_ONE = re.compile(r"-(call-id|id|name|group|ms)$|^reset_at$")
DIFFERENT_HEADERS = ROWS["headers"]
"""Headers of responses, and why they differ."""
OF_REFUSALS = r"-(call-id|version|rpm-limit)$|^(rate_limit_type|reset_at|retry-after)$"
"""LiteLLM's refusals have them on some APIs, and none if its authentication refuses."""
NOT_CHOSEN = r"x-litellm-model-(id|name)$"
"""From 1.110 on, LiteLLM's refusals name the only deployment of a model, before it is chosen."""
OTHER_TYPES = ROWS["types"]
"""LiteLLM's types of errors, and OpenAI's for them."""
OF_STREAMS = r"-response-duration-ms$"
"""LiteLLM's handler has waited for the first event."""
OF_A_FALLBACK = r"-(response-cost|key-spend)$"
"""LiteLLM does not note the cost of a message that a fallback made."""


class Recorder(CustomLogger):
    def __init__(self):
        super().__init__()
        self.events = []

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        self.events.append(("pre_call", call_type))
        if GUARDED in str(data.get("messages") or data.get("input")):
            raise refusal()

    async def async_post_call_failure_hook(self, request_data, original_exception, *_, **__):
        self.events.append(("failure_hook", type(original_exception).__name__))

    async def async_log_success_event(self, kwargs, *_, **__):
        self.events.append(("success", kwargs["standard_logging_object"]))

    async def async_log_failure_event(self, kwargs, *_, **__):
        self.events.append(("failure", kwargs["standard_logging_object"]))


@pytest.fixture(scope="module")
def provider():
    with fake_provider.running(FakeProvider()) as made:
        yield made


@pytest.fixture
def recorder(gateway, database, provider, monkeypatch):
    """One gateway serves both models, and for each one that is down and falls back to it."""
    monkeypatch.setattr(fake_provider, "USAGE", USAGE)
    for name, known in list(litellm.model_cost.items()):
        if "id" in known or name == "toolgate/tiny":  # prices and limits of other tests' rows
            monkeypatch.delitem(litellm.model_cost, name)
    gateway.backend.scripts["hi"] = Script(("word word word ",), cached_tokens=0)
    params = {"model": "hosted_vllm/tiny", "api_key": "k", "use_chat_completions_api": True}
    params |= PRICES
    use(
        monkeypatch,
        ours(gateway.backend, **PRICES),
        _row(THEIRS, params | {"api_base": provider.url}),
        row("down", group=f"{MINE}-down", api_base=NOWHERE, **PRICES),
        _row(f"{THEIRS}-down", params | {"api_base": NOWHERE}),
        fallbacks=[{f"{name}-down": [name]} for name in (MINE, THEIRS)],
    )
    made = Recorder()
    litellm.logging_callback_manager.add_litellm_callback(made)
    gateway.configure(keepalive_seconds=0)
    gateway._app = App(proxy_server.app)
    return made


def _row(name, params):
    return {"model_name": name, "litellm_params": params, "model_info": {"id": f"of {name}"}}


class Seen:
    """What is left of a request."""

    def __init__(self, response, events, rows):
        self.response = response
        sent = response_headers(response.messages[0]["headers"], own_headers(response.context))
        self.headers = {
            name.decode(): value.decode() for name, value in sent if DESCRIBING.match(name.decode())
        }
        self.names = [name for name, _ in events]
        self.told = [told for _, told in events if isinstance(told, str)]
        self.fields = {
            path: value
            for at, payload in enumerate(told for _, told in events if isinstance(told, dict))
            for path, value in leaves(payload, f"{at}.event").items()
        }
        for at, each in enumerate(rows):
            self.fields |= leaves(each.model_dump(mode="json"), f"{at}.row")


async def seen(gateway, database, recorder, body, api, headers=ATTRIBUTION, **columns):
    team = await database.team(team_alias="web")
    key = await database.key(team_id=team, user_id=await database.user(), **columns)
    before = {each.request_id for each in await database.rows()}
    recorder.events.clear()
    response = await gateway.ask(body, path=PATHS[api], key=key, headers=headers)
    await database.settled(1)
    await asyncio.sleep(0.2)  # further events and rows would come
    await database.write()
    rows = [each for each in await database.rows() if each.request_id not in before]
    return Seen(response, [*recorder.events], rows)


def leaves(value, path):
    """Return all values inside of one, by path. Absent and empty ones are the same."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            value = json.loads(value)
        except ValueError:
            return {path: value}
    if isinstance(value, dict):
        inner = {f"{path}.{name}": each for name, each in value.items()}
    elif isinstance(value, list):
        inner = {f"{path}[{at}]": each for at, each in enumerate(value)}
    else:
        return {} if value in (None, "") else {path: value}
    return {name: leaf for at, each in inner.items() for name, leaf in leaves(each, at).items()}


def different(mine, theirs):
    """Return the fields of events and rows that differ, and should not."""
    found = []
    for path in {*mine.fields, *theirs.fields}:
        a, b = mine.fields.get(path), theirs.fields.get(path)
        expected = SAME_FOR_NO_TWO.search(path) and (a is None) is (b is None)
        listed = any(re.search(pattern, path) for pattern in DIFFERENT)
        same = a == (pytest.approx(b) if isinstance(b, float) else b)
        if not (same or expected or listed):
            found.append(f"{path}: {a!r}, not {b!r}")
    return sorted(found)


def different_headers(mine, theirs, *listed):
    """Return the headers that differ, and should not. `listed`: differences besides the usual."""
    found = []
    for name in sorted({*mine.headers, *theirs.headers}):
        a, b = mine.headers.get(name), theirs.headers.get(name)
        expected = HEADERS_OF_ONE.search(name) and (a is None) is (b is None)
        known = any(re.search(pattern, name) for pattern in (*DIFFERENT_HEADERS, *listed))
        if not (a == b or expected or known):
            found.append(f"{name}: {a!r}, not {b!r}")
    return found


SESSIONS = re.compile(r"\d\.(event|row)\.(session_id|trace_id)$")
ENDS = [(stream, suffix) for stream in (False, True) for suffix in ("", "-down")]


@sampled("api, end", PATHS, ENDS, one_in=3)
async def test_events_and_rows_of_an_answer_are_the_same(gateway, database, recorder, api, end):
    stream, suffix = end
    limits = {"max_budget": 100.0, "rpm_limit": 100, "tpm_limit": 100_000}
    columns = {**limits, "metadata": {"tags": ["tag-of-key"]}}
    bodies = [body_of(api, stream=stream, model=model + suffix) for model in (MINE, THEIRS)]
    mine, theirs = [await seen(gateway, database, recorder, b, api, **columns) for b in bodies]
    assert mine.response.status == theirs.response.status == 200
    assert mine.names == theirs.names
    assert different(mine, theirs) == []
    assert any(path.endswith("row.spend") for path in mine.fields)
    for kind in ("event", "row"):
        noted = {value for path, value in mine.fields.items() if f".{kind}." in path}
        assert {"acme", "session-0001", "project-1", "tag-1", "tag-2", "tag-of-key"} <= noted
    of_a_fallback = [OF_A_FALLBACK] if suffix and api == "messages" else []
    of_streams = [OF_STREAMS] if stream else []
    assert different_headers(mine, theirs, *of_a_fallback, *of_streams) == []
    assert ("x-litellm-key-spend" in mine.headers) is not stream
    assert "success" in mine.names


@sampled("api, stream", PATHS, [False, True], one_in=2)
async def test_sessions_of_the_body_reach_events_and_rows(gateway, database, recorder, api, stream):
    """Cline and LiteLLM's documentation send them so."""
    ids = {"litellm_session_id": "session-of-body", "litellm_trace_id": "trace-of-body"}
    ids |= {"drop_params": True, "stream_timeout": 60, "request_timeout": 60}
    found = []
    for model in (MINE, THEIRS):
        body = body_of(api, stream=stream, model=model) | ids
        sent = await seen(gateway, database, recorder, body, api, headers=())
        assert sent.response.status == 200
        named = {path: value for path, value in sent.fields.items() if "-of-body" in str(value)}
        found.append({path: value for path, value in named.items() if SESSIONS.search(path)})
    assert found[0] == found[1]
    assert {*found[0].values()} >= {"session-of-body"}


@sampled("api, case", PATHS, REFUSED, one_in=3)
async def test_refusals_are_the_same(gateway, database, recorder, api, case):
    """LiteLLM's `code` is the status as text; ours is a name. Messages has Anthropic's types.
    LiteLLM's `param` may be the text "None"."""
    content = GUARDED if case == "guardrail" else "hi"
    mine, theirs = [
        await seen(
            gateway, database, recorder, body_of(api, content, model=model), api, **REFUSED[case]
        )
        for model in (MINE, THEIRS)
    ]
    assert mine.response.status == theirs.response.status >= 400
    assert (mine.names, mine.told) == (theirs.names, theirs.told)
    assert different(mine, theirs) == []
    said, expected = (each.response.json["error"]["message"] for each in (mine, theirs))
    assert said.replace(MINE, THEIRS)[:30] == expected[:30]
    assert different_headers(mine, theirs, OF_REFUSALS, NOT_CHOSEN) == []
    assert {each for each in theirs.headers if not re.match(NOT_CHOSEN, each)} <= {*mine.headers}
    our_error, their_error = (each.response.json["error"] for each in (mine, theirs))
    if api != "messages" or "param" in their_error:  # on Messages, until 1.109
        assert _param(our_error) == _param(their_error)
    if api != "messages":
        assert our_error["type"] == OTHER_TYPES.get(their_error["type"], their_error["type"])
    assert gateway.backend.requests == []


def _param(error):
    """It may be the end of the key."""
    return str(error.get("param")).split("...", 1)[0]

"""Callbacks of LiteLLM: which send requests its way, and which get hooks and events on ours; the
hook by which limits of keys apply on LiteLLM's way."""

import asyncio
import importlib.util
import logging
from datetime import datetime
from types import SimpleNamespace

import litellm
import pytest
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.integrations.custom_logger import CustomLogger
from litellm.integrations.opentelemetry import OpenTelemetry, OpenTelemetryConfig
from litellm.integrations.websearch_interception.handler import WebSearchInterceptionLogger
from litellm.litellm_core_utils.litellm_logging import Logging
from litellm.llms.base_llm.search.transformation import SearchResponse
from litellm.proxy.utils import ProxyLogging
from litellm.router import Router
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.litellm.router import row, use
from tests.support.servers.virtual_keys import key_of
from toolgate_core.errors import RateLimited
from toolgate_proxy.api.shared.parameter import CHAT_TABLE
from toolgate_proxy.context import Caller, RequestContext
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.keys.limit_kinds import NO_TOKENS, Tokens
from toolgate_proxy.limits.limiter import Limiter
from toolgate_proxy.litellm_host import hooks as callbacks
from toolgate_proxy.litellm_host.app import EVENTS, repair_spans
from toolgate_proxy.litellm_host.callbacks.response_forms import logged_response
from toolgate_proxy.litellm_host.context import carried, carry, current
from toolgate_proxy.litellm_host.hooks import MODERATION, POST_CALL, RESPONSE_HOOKS, UNSUPPORTED
from toolgate_proxy.litellm_host.litellm_route import limit_hook
from toolgate_proxy.litellm_host.litellm_route.limit_hook import hook as of_limits
from toolgate_proxy.litellm_host.routing import model_route as module
from toolgate_proxy.litellm_host.routing.model_route import ModelRoutes, litellm_reasons
from toolgate_proxy.litellm_host.routing.router import rows_of
from toolgate_proxy.litellm_host.routing.selection import Selection, SelectionHook, selection
from toolgate_proxy.server.request_scope import own_headers
from toolgate_proxy.settings import Settings
from toolgate_proxy.state import GatewayState


@pytest.fixture(autouse=True)
def _router(monkeypatch):
    use(monkeypatch, row("a"), row("b"))


async def hook(self, *arguments, **more): ...


def having(*hooks, module="team.callbacks"):
    """A callback of that module with these hooks."""
    names = dict.fromkeys(hooks, hook) | {"__module__": module}
    return type("Mine", (CustomLogger,), names)()


def logging_object():
    about = {"model": "tiny", "messages": [], "stream": False, "call_type": "acompletion"}
    ids = {"litellm_call_id": "id", "function_id": "id"}
    return Logging(**about, **ids, start_time=datetime.now())


def reason():
    return next(litellm_reasons("tiny", rows_of("tiny")), None)


def route():
    return ModelRoutes(Settings(route="auto")).find("tiny")


def shown():
    """What the route does for callbacks: without a reason it is our own."""
    found = route()
    assert found.reason is None
    return " ".join(name for name in ("hooks", "events", "reads") if getattr(found, name))


LOGGER, PACKAGE = "litellm.integrations.some_logger", "litellm.proxy.hooks"
OPTIONAL = ("azure_content_safety", "dynamic_rate_limiter", "dynamic_rate_limiter_v3",
            "prompt_injection_detection")  # fmt: skip
"""LiteLLM registers these hooks only if they are configured, and its package has others as well."""
STREAMED = "async_post_call_streaming_iterator_hook"
WHOLE = "async_post_call_success_hook"
PROMPT = ("get_chat_completion_prompt", "async_get_chat_completion_prompt")


@pytest.mark.parametrize(
    ("hooks", "module", "expected"),
    [
        *((name, "team.callbacks", "events reads") for name in RESPONSE_HOOKS),
        ("async_pre_call_hook", "team.callbacks", "hooks events"),
        ("async_pre_call_deployment_hook", "team.callbacks", "events"),
        ("async_log_success_event", "team.callbacks", "events"),
        (STREAMED, LOGGER, "events reads"),
        *(
            (f"{MODERATION} async_pre_call_hook", f"{PACKAGE}.{name}", "hooks events reads")
            for name in OPTIONAL
        ),
    ],
)
def test_a_callback_gets_what_its_hooks_need(hooks, module, expected):
    assert shown() == ""
    litellm.callbacks.append(having(*hooks.split(), module=module))
    assert shown() == expected
    before = callbacks.having(callbacks.BEFORE_DEPLOYMENT)
    assert (before == litellm.callbacks) is (hooks == callbacks.BEFORE_DEPLOYMENT)
    assert not callbacks.has(*POST_CALL)
    if module.startswith(PACKAGE):
        assert importlib.util.find_spec(module) is not None


def test_guardrail_reads_requests_and_responses():
    litellm.callbacks.append(CustomGuardrail(guardrail_name="no-names"))
    assert shown() == "hooks events reads"


def test_post_call_hook_reads_responses_unless_it_is_litellms_own():
    """LiteLLM's bundled loggers do not change the response; other classes may."""
    litellm.callbacks.append(having(WHOLE, module=LOGGER))
    assert (reason(), callbacks.reads_responses(), callbacks.has(*POST_CALL)) == (None, False, 1)
    litellm.callbacks.append(having(WHOLE))
    assert (reason(), callbacks.reads_responses()) == (None, True)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_callback_with_an_unsupported_hook_sends_requests_to_litellm(name):
    litellm.callbacks.append(having(name))
    assert reason() == f"the callback 'Mine' has `{name}`"


@pytest.mark.parametrize("name", PROMPT)
def test_prompt_management_needs_parameters_that_our_own_route_refuses(name):
    """So does Langfuse's logger, which has these hooks."""
    litellm.callbacks.append(having(name))
    assert (reason(), route().reads) == (None, False)
    log = logging_object()
    assert not log.should_run_prompt_management_hooks(non_default_params={"temperature": 0.5})
    for given in ("prompt_id", "cache_control_injection_points", "vector_store_ids"):
        assert given not in CHAT_TABLE
        assert given not in module.DEPLOYMENT_FIELDS


def test_interception_for_other_providers_changes_no_route():
    for providers, sends_away in ((None, False), (["bedrock"], False), (["toolgate"], True)):
        litellm.callbacks[:] = [WebSearchInterceptionLogger(enabled_providers=providers)]
        expected = "the callback 'WebSearchInterceptionLogger' has"
        assert str(reason()).startswith(expected if sends_away else "None")


def test_base_classes_do_not_count_as_hooks():
    """Hooks that the installed LiteLLM lacks are never called."""
    litellm.callbacks.append(CustomLogger())
    assert (reason(), route().reads) == (None, False)
    for each in (CustomLogger(), CustomGuardrail(guardrail_name="no-names")):
        for name in (*RESPONSE_HOOKS, *UNSUPPORTED):
            assert not callbacks._overrides(each, name)


@pytest.mark.parametrize(
    "name", ["async_filter_deployments", "async_pre_call_check", "pre_call_check"]
)
def test_litellms_router_chooses_if_a_callback_filters_deployments(name):
    litellm.callbacks.append(having(name))
    assert route().strategy is None or route().reason is not None


@pytest.mark.parametrize(
    "name", ["success_callback", "failure_callback", "_async_success_callback",
             "_async_failure_callback", "input_callback"]
)  # fmt: skip
def test_every_callback_list_enables_events(name):
    getattr(litellm, name).append(lambda *arguments: None)
    assert shown() == "events"


def test_callback_given_as_a_string_enables_hooks_and_events(monkeypatch):
    """As in `litellm_settings.callbacks`, before LiteLLM has made the object."""
    litellm.callbacks.append("otel")
    monkeypatch.setattr(
        "litellm.litellm_core_utils.litellm_logging.get_custom_logger_compatible_class",
        lambda name: having("async_pre_call_hook") if name == "otel" else None,
    )
    assert shown() == "hooks events"


def test_built_in_callbacks_and_those_of_the_router_are_ignored():
    """LiteLLM registers them in every process."""
    ProxyLogging(user_api_key_cache=litellm.DualCache())._add_proxy_hooks(None)
    litellm.callbacks.append(of_limits)
    litellm.callbacks.append(SelectionHook(selection()))
    assert len(litellm.callbacks) > 4
    assert isinstance(selection(), Selection)
    assert shown() == ""
    # LiteLLM registers them until 1.109; from 1.110 on, its router counts by itself
    router = Router(model_list=[row("a")], disable_cooldowns=True)
    for held in (litellm.success_callback, litellm._async_success_callback):
        held.append(router.deployment_callback_on_success)
    assert not route().events


@pytest.mark.parametrize("counted", [False, True])
def test_log_events_skip_ignored_callbacks(counted):
    """Where LiteLLM counts the use of the key, only those of the router."""
    observer = having("async_log_success_event")
    router = Router(model_list=[row("a")])
    log = logging_object()
    held = [router.deployment_callback_on_success, of_limits, observer]
    assert log.get_combined_callback_list(None, held) == held
    callbacks.without_inert(log, is_ours=not counted)
    left = [of_limits, observer] if counted else [observer]
    assert log.get_combined_callback_list(None, held) == left


# --- events ---------------------------------------------------------------------------------------


def test_a_log_event_has_tools_of_its_own():
    """Requests share those that were sent."""
    properties = {"room": {"type": "string"}}
    parameters = {"type": "object", "properties": properties}
    tool = {"type": "function", "name": "look_up", "description": None, "strict": None}
    whole = {
        "id": "resp_1", "created_at": 1, "output": [], "parallel_tool_calls": True,
        "tool_choice": "auto", "tools": [tool | {"parameters": parameters}], "temperature": 1.0,
        "top_p": 1.0,
    }  # fmt: skip
    logged = logged_response("aresponses", whole, stream=False)
    logged.tools[0].parameters["properties"]["room"].clear()
    assert properties == {"room": {"type": "string"}}


@pytest.mark.parametrize("result", [["a tool"], SearchResponse(results=[], object="search")])
async def test_a_result_that_is_no_response_is_a_span_without_an_error(monkeypatch, caplog, result):
    for name in EVENTS:
        monkeypatch.setattr(OpenTelemetry, name, getattr(OpenTelemetry, name))
    repair_spans()
    monkeypatch.setattr(logging.getLogger("LiteLLM"), "handlers", [caplog.handler])
    spans = InMemorySpanExporter()
    log = OpenTelemetry(OpenTelemetryConfig(exporter=spans, skip_set_global=True))
    now = datetime.now()
    values = {"id": "c1", "call_type": "asearch", "metadata": {}, "hidden_params": {}}
    event = {"standard_logging_object": values, "litellm_params": {}, "optional_params": {}}
    await log.async_log_success_event(
        kwargs={**event, "model": "searx"}, response_obj=result, start_time=now, end_time=now
    )
    assert [record.getMessage() for record in caplog.records] == []
    span = spans.get_finished_spans()[0]
    assert span.attributes["gen_ai.operation.name"] == "asearch"


# --- limits of keys -------------------------------------------------------------------------------

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 100}


@pytest.fixture
def _service(monkeypatch):
    """One without Redis, which counts limits by itself."""
    made = GatewayState(Settings(redis_url=None, limits_without_redis="open"))
    monkeypatch.setattr(limit_hook, "gateway", lambda: made)


async def in_request(context, work, *arguments):
    async def request():
        if context is not None:
            carry(context)
        await work(*arguments)

    await asyncio.create_task(request())


async def before(context, data, call="acompletion"):
    await in_request(context, of_limits.async_pre_call_hook, None, None, data, call)


async def after(context, **usage):
    response = SimpleNamespace(usage=SimpleNamespace(**usage))
    await in_request(context, of_limits.async_log_success_event, {}, response, None, None)


async def test_a_context_is_visible_only_within_its_request_of_our_gateway():
    data = {"model": "m"}
    await before(None, data)
    assert data == {"model": "m"}
    await after(None, prompt_tokens=1)
    assert carried() is None
    context = RequestContext("mine")

    async def request():
        carry(context)
        return await asyncio.create_task(asyncio.sleep(0, current()))

    assert await asyncio.create_task(request()) is context
    assert carried() is None
    assert current() is not current()


def of_key(**limits):
    return RequestContext(caller=Caller(key_of(new_key(), **limits)))


@pytest.mark.usefixtures("_service")
async def test_tokens_are_reserved_under_litellms_call_id():
    context = of_key(tpm=1000)
    await before(context, {**CHAT, "litellm_call_id": "call-1"})
    assert (context.model, context.call_id) == ("tiny", "call-1")
    assert context.meter.lease.reserved.total > 100
    assert own_headers(context)["x-ratelimit-limit-tokens"] == "1000"
    embedding = of_key(tpm=5000)
    await before(embedding, {"model": "emb", "input": "hi"}, "aembedding")
    assert 0 < embedding.meter.lease.reserved.total < 100
    assert embedding.call_id


@pytest.mark.usefixtures("_service")
async def test_request_is_admitted_once_and_another_raises_litellms_rate_limit_error():
    """LiteLLM may call the hook again, for a fallback."""
    key = key_of(new_key(), rpm=1)
    context = RequestContext(caller=Caller(key))
    for _ in range(2):
        await before(context, CHAT)
    assert context.meter.lease
    context = RequestContext(caller=Caller(key))
    with pytest.raises(litellm.RateLimitError) as refusal:
        await before(context, CHAT)
    assert (refusal.value.status_code, context.meter.lease) == (429, None)
    assert isinstance(getattr(refusal.value, "toolgate_error", None), RateLimited)
    assert own_headers(context)["x-ratelimit-limit-requests"] == "1"


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 10, "total_tokens": 15},
        {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    ],
)
@pytest.mark.parametrize("ended", [True, False])
async def test_tokens_of_other_providers_are_counted_and_settled(usage, ended):
    settled = []
    context = RequestContext()

    async def settle():
        settled.append((context.meter.prompt_tokens, context.meter.completion_tokens))

    context.meter.lease = SimpleNamespace(settle=settle)
    if ended:
        await context.meter.settle()
    await after(context, **usage)
    assert settled == ([(0, 0), (10, 5)] if ended else [])
    assert context.meter.used_tokens().total == 15
    await context.meter.settle()
    assert settled[-1] == (10, 5)


@pytest.mark.usefixtures("_service")
async def test_at_another_provider_the_reservation_counts_until_its_tokens_are_known():
    context = of_key(tpm=5000)
    await before(context, {**CHAT, "model": "gpt", "stream": True})
    assert context.meter.used_tokens() == context.meter.lease.reserved != NO_TOKENS
    await after(context, prompt_tokens=3, total_tokens=7)
    assert context.meter.used_tokens() == Tokens(3, 4)


async def test_tokens_are_counted_once_and_the_master_key_has_no_limits():
    context = RequestContext()
    context.meter.note_tokens(3, 4)
    await after(context, prompt_tokens=1, total_tokens=9)
    assert (context.meter.prompt_tokens, context.meter.completion_tokens) == (3, 4)
    limiter = Limiter(Settings(redis_url=None, limits_without_redis="open"))
    context = RequestContext()
    await context.reserve(limiter, CHAT)
    assert context.meter.lease is None

"""Which callbacks of LiteLLM send requests its way, and which get hooks and events on ours."""

from __future__ import annotations

import importlib.util
from datetime import datetime
from typing import Any

import litellm
import pytest
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.integrations.custom_logger import CustomLogger
from litellm.integrations.websearch_interception.handler import WebSearchInterceptionLogger
from litellm.litellm_core_utils.litellm_logging import Logging
from litellm.proxy.utils import ProxyLogging
from litellm.router import Router

from tests.support.litellm.router import row, use
from toolgate_proxy.api.chat_completions.parameters import BY_NAME
from toolgate_proxy.litellm_host.callbacks import configured as callbacks
from toolgate_proxy.litellm_host.callbacks.configured import (
    MODERATION,
    RESPONSE_HOOKS,
    UNSUPPORTED,
)
from toolgate_proxy.litellm_host.callbacks.limit_hook import hook as limit_hook
from toolgate_proxy.litellm_host.deployments import model_route as module
from toolgate_proxy.litellm_host.deployments.model_route import (
    ModelRoute,
    ModelRoutes,
    litellm_reason,
)
from toolgate_proxy.litellm_host.deployments.router import rows_of
from toolgate_proxy.litellm_host.deployments.selection import Selection, SelectionHook, selection
from toolgate_proxy.settings import Settings
from toolgate_proxy.state import gateway


@pytest.fixture(autouse=True)
def _router(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, row("a"), row("b"))


async def hook(self: CustomLogger, *arguments: Any, **more: Any) -> None: ...


def having(*hooks: str, module: str = "team.callbacks") -> CustomLogger:
    """A callback of that module with these hooks."""
    kind = type("Mine", (CustomLogger,), dict.fromkeys(hooks, hook) | {"__module__": module})
    made: CustomLogger = kind()
    return made


def logging_object() -> Logging:
    return Logging(
        model="tiny",
        messages=[],
        stream=False,
        call_type="acompletion",
        start_time=datetime.now(),
        litellm_call_id="id",
        function_id="id",
    )


def reason() -> str | None:
    return litellm_reason("tiny", rows_of("tiny"))


def model_route() -> ModelRoute:
    found = ModelRoutes(Settings(route="auto")).find("tiny")
    assert found is not None
    return found


def shown() -> str:
    """What the route does for callbacks: without a reason it is our own."""
    route = model_route()
    assert route.reason is None
    return " ".join(name for name in ("hooks", "events", "reads") if getattr(route, name))


LOGGER, PACKAGE = "litellm.integrations.some_logger", "litellm.proxy.hooks"
OPTIONAL = ("azure_content_safety", "dynamic_rate_limiter", "dynamic_rate_limiter_v3",
            "prompt_injection_detection")  # fmt: skip
"""LiteLLM registers these hooks only if they are configured, and its package has others as well."""
STREAMED = "async_post_call_streaming_iterator_hook"


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
def test_a_callback_gets_what_its_hooks_need(hooks: str, module: str, expected: str) -> None:
    assert shown() == ""
    litellm.callbacks.append(having(*hooks.split(), module=module))
    assert shown() == expected
    before = callbacks.having(callbacks.BEFORE_DEPLOYMENT)
    assert (before == litellm.callbacks) is (hooks == callbacks.BEFORE_DEPLOYMENT)
    assert not callbacks.wants_post_call()
    if module.startswith(PACKAGE):
        assert importlib.util.find_spec(module) is not None


def test_guardrail_reads_requests_and_responses() -> None:
    litellm.callbacks.append(CustomGuardrail(guardrail_name="no-names"))
    assert shown() == "hooks events reads"


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_callback_with_an_unsupported_hook_sends_requests_to_litellm(name: str) -> None:
    litellm.callbacks.append(having(name))
    assert reason() == f"the callback 'Mine' has `{name}`"


@pytest.mark.parametrize("name", ["get_chat_completion_prompt", "async_get_chat_completion_prompt"])
def test_prompt_management_needs_parameters_that_our_own_route_refuses(name: str) -> None:
    """So does Langfuse's logger, which has these hooks."""
    litellm.callbacks.append(having(name))
    assert (reason(), model_route().reads) == (None, False)
    log = logging_object()
    assert not log.should_run_prompt_management_hooks(non_default_params={"temperature": 0.5})
    for given in ("prompt_id", "cache_control_injection_points", "vector_store_ids"):
        assert given not in BY_NAME
        assert given not in module.DEPLOYMENT_FIELDS


def test_interception_for_other_providers_changes_no_route() -> None:
    for providers, expected in (
        (None, None),
        (["bedrock"], None),
        (["toolgate"], "the callback 'WebSearchInterceptionLogger' has"),
    ):
        litellm.callbacks[:] = [WebSearchInterceptionLogger(enabled_providers=providers)]
        found = reason()
        assert found is None if expected is None else str(found).startswith(expected)


@pytest.mark.parametrize("name", [*RESPONSE_HOOKS, *UNSUPPORTED])
def test_base_classes_do_not_count_as_hooks(name: str) -> None:
    """Hooks that the installed LiteLLM lacks are never called."""
    litellm.callbacks.append(CustomLogger())
    assert (reason(), model_route().reads) == (None, False)
    for each in (CustomLogger(), CustomGuardrail(guardrail_name="no-names")):
        assert not callbacks._overrides(each, name)


def test_post_call_hook_reads_responses_unless_it_is_litellms_own() -> None:
    """LiteLLM's bundled loggers do not change the response; other classes may."""
    after = "async_post_call_success_hook"
    observer = having(after, module="litellm.integrations.some_logger")
    litellm.callbacks.append(observer)
    assert (reason(), callbacks.reads_responses(), callbacks.wants_post_call()) == (
        None,
        False,
        True,
    )
    litellm.callbacks.append(having(after))
    assert (reason(), callbacks.reads_responses()) == (None, True)


@pytest.mark.parametrize(
    "name", ["async_filter_deployments", "async_pre_call_check", "pre_call_check"]
)
def test_litellms_router_chooses_if_a_callback_filters_deployments(name: str) -> None:
    litellm.callbacks.append(having(name))
    assert model_route().strategy is None or model_route().reason is not None


@pytest.mark.parametrize(
    "name", ["success_callback", "failure_callback", "_async_success_callback",
             "_async_failure_callback", "input_callback"]
)  # fmt: skip
def test_every_callback_list_enables_events(name: str) -> None:
    def log(*arguments: object) -> None: ...

    getattr(litellm, name).append(log)
    assert shown() == "events"


def test_callback_given_as_a_string_enables_hooks_and_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in `litellm_settings.callbacks`, before LiteLLM has made the object."""
    litellm.callbacks.append("otel")
    monkeypatch.setattr(
        "litellm.litellm_core_utils.litellm_logging.get_custom_logger_compatible_class",
        lambda name: having("async_pre_call_hook") if name == "otel" else None,
    )
    assert model_route().hooks
    assert model_route().events


def test_built_in_callbacks_of_litellm_and_the_gateway_are_ignored() -> None:
    """LiteLLM registers them in every process."""
    logging = ProxyLogging(user_api_key_cache=litellm.DualCache())
    logging._add_proxy_hooks(None)
    litellm.callbacks.append(limit_hook)
    litellm.callbacks.append(SelectionHook(selection(), gateway().deployments))
    assert len(litellm.callbacks) > 4
    assert isinstance(selection(), Selection)
    assert shown() == ""


def test_callbacks_of_the_router_itself_are_ignored() -> None:
    """LiteLLM registers them until 1.109; from 1.110 on, its router counts by itself."""
    router = Router(model_list=[row("a")], disable_cooldowns=True)
    for held in (litellm.success_callback, litellm._async_success_callback):
        held.append(router.deployment_callback_on_success)
    assert not model_route().events


@pytest.mark.parametrize("counted", [False, True])
def test_log_events_skip_ignored_callbacks(counted: bool) -> None:
    """Where LiteLLM counts the use of the key, only those of the router."""
    observer = having("async_log_success_event")
    router = Router(model_list=[row("a")])
    log = logging_object()
    held = [router.deployment_callback_on_success, limit_hook, observer]
    assert log.get_combined_callback_list(None, held) == held
    callbacks.without_inert(log, counted=counted)
    left = [limit_hook, observer] if counted else [observer]
    assert log.get_combined_callback_list(None, held) == left

"""Which callbacks of LiteLLM send requests its way, and which get hooks and events on ours."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import litellm
import pytest
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.integrations.custom_logger import CustomLogger
from litellm.litellm_core_utils.litellm_logging import Logging
from litellm.proxy.utils import ProxyLogging
from litellm.router import Router

from tests.support.litellm_router import reset_litellm, row, use
from toolgate_proxy.litellm_host.callbacks import configured as callbacks
from toolgate_proxy.litellm_host.callbacks.configured import RESPONSE_HOOKS
from toolgate_proxy.litellm_host.callbacks.limit_hook import hook as limit_hook
from toolgate_proxy.litellm_host.deployments.model_route import (
    ModelRoute,
    ModelRoutes,
    litellm_reason,
)
from toolgate_proxy.litellm_host.deployments.router import rows_of
from toolgate_proxy.litellm_host.deployments.selection import Selection, SelectionHook
from toolgate_proxy.litellm_host.state import selection
from toolgate_proxy.settings import Settings
from toolgate_proxy.state import gateway


@pytest.fixture(autouse=True)
def _fresh_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    reset_litellm(monkeypatch)
    use(monkeypatch, row("a"), row("b"))


async def hook(self: CustomLogger, *arguments: Any, **more: Any) -> None: ...


def having(*hooks: str, module: str = "team.callbacks") -> CustomLogger:
    """A callback of that module with these hooks."""
    kind = type("Mine", (CustomLogger,), dict.fromkeys(hooks, hook) | {"__module__": module})
    made: CustomLogger = kind()
    return made


def reason() -> str | None:
    return litellm_reason("tiny", rows_of("tiny"))


def model_route() -> ModelRoute:
    found = ModelRoutes(Settings(route="auto")).find("tiny")
    assert found is not None
    return found


def test_without_callbacks_there_are_neither_hooks_nor_events() -> None:
    assert (model_route().reason, model_route().hooks, model_route().events) == (None, False, False)


def test_a_guardrail_is_a_reason() -> None:
    litellm.callbacks.append(CustomGuardrail(guardrail_name="no-names"))
    assert reason() == "the guardrail 'no-names'"


@pytest.mark.parametrize("name", RESPONSE_HOOKS)
def test_a_callback_that_reads_or_changes_responses_is_a_reason(name: str) -> None:
    litellm.callbacks.append(having(name))
    assert reason() == f"the callback 'Mine' has `{name}`"


@pytest.mark.parametrize("name", RESPONSE_HOOKS)
def test_the_base_class_has_the_hook_or_none_has(name: str) -> None:
    """A hook that the installed LiteLLM does not know is one that nothing calls."""
    litellm.callbacks.append(CustomLogger())
    assert reason() is None
    assert not callbacks._overrides(CustomLogger(), name)


def test_a_hook_after_the_call_is_a_reason_for_a_teams_class_and_none_for_an_observer() -> None:
    """LiteLLM's own loggers return nothing from it; a team's class may change the response."""
    after = "async_post_call_success_hook"
    observer = having(after, module="litellm.integrations.some_logger")
    litellm.callbacks.append(observer)
    assert reason() is None
    assert callbacks.wants_post_call()
    litellm.callbacks.append(having(after))
    assert reason() == f"the callback 'Mine' has `{after}`"


def test_an_observer_that_reads_streams_is_a_reason() -> None:
    name = "async_post_call_streaming_iterator_hook"
    litellm.callbacks.append(having(name, module="litellm.integrations.some_logger"))
    assert reason() == f"the callback 'Mine' has `{name}`"


@pytest.mark.parametrize(
    "name", ["async_filter_deployments", "async_pre_call_check", "pre_call_check"]
)
def test_litellms_router_chooses_for_a_callback_that_has_a_say_in_it(name: str) -> None:
    litellm.callbacks.append(having(name))
    assert model_route().strategy is None or model_route().reason is not None


def test_a_hook_before_the_call_is_run_on_our_own_route() -> None:
    litellm.callbacks.append(having("async_pre_call_hook"))
    assert (model_route().reason, model_route().hooks, model_route().events) == (None, True, True)


def test_a_logger_gets_events_on_our_own_route() -> None:
    litellm.callbacks.append(having("async_log_success_event"))
    assert (model_route().reason, model_route().hooks, model_route().events) == (None, False, True)
    assert not callbacks.wants_post_call()


@pytest.mark.parametrize(
    "name", ["success_callback", "failure_callback", "_async_success_callback",
             "_async_failure_callback", "input_callback"]
)  # fmt: skip
def test_any_list_of_callbacks_asks_for_events(name: str) -> None:
    def log(*arguments: object) -> None: ...

    getattr(litellm, name).append(log)
    assert (model_route().reason, model_route().events) == (None, True)


def test_a_callback_named_by_a_string_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `litellm_settings.callbacks`, before LiteLLM has made the object."""
    litellm.callbacks.append("otel")
    monkeypatch.setattr(
        "litellm.litellm_core_utils.litellm_logging.get_custom_logger_compatible_class",
        lambda name: having("async_pre_call_hook") if name == "otel" else None,
    )
    assert model_route().hooks
    assert model_route().events


def test_callbacks_of_litellms_own_and_of_ours_have_no_effect() -> None:
    """LiteLLM registers them in every process."""
    logging = ProxyLogging(user_api_key_cache=litellm.DualCache())
    logging._add_proxy_hooks(None)
    litellm.callbacks.append(limit_hook)
    litellm.callbacks.append(SelectionHook(selection(), gateway().deployments))
    assert len(litellm.callbacks) > 4
    assert isinstance(selection(), Selection)
    assert (model_route().reason, model_route().hooks, model_route().events) == (None, False, False)


def test_a_routers_own_callbacks_have_no_effect() -> None:
    Router(model_list=[row("a")], disable_cooldowns=True)
    assert litellm.success_callback
    assert litellm._async_success_callback
    assert not model_route().events


def test_log_events_skip_callbacks_without_effect() -> None:
    observer = having("async_log_success_event")
    router = Router(model_list=[row("a")])
    log = Logging(
        model="tiny",
        messages=[],
        stream=False,
        call_type="acompletion",
        start_time=datetime.now(),
        litellm_call_id="id",
        function_id="id",
    )
    held = [router.deployment_callback_on_success, limit_hook, observer]
    assert log.get_combined_callback_list(None, held) == held
    callbacks.without_inert(log)
    assert log.get_combined_callback_list(None, held) == [observer]

"""The patches of LiteLLM on its own way, by what they change. What they add up to on the wire is
shown by test_gateway.py."""

from __future__ import annotations

import inspect
import sys
from types import SimpleNamespace
from typing import Any

import litellm
import litellm.main
import litellm.utils
import pytest
from litellm.llms.custom_llm import CustomLLM
from litellm.proxy import proxy_server
from litellm.proxy._types import ProxyException
from litellm.proxy.db.exception_handler import PrismaDBExceptionHandler

from toolgate_core.errors import RateLimited
from toolgate_proxy.litellm_host.errors import host_error
from toolgate_proxy.litellm_host.provider import patches
from toolgate_proxy.provider import toolgate


def test_registering_twice_patches_once() -> None:
    names = (
        "_complete_custom_providers",
        "get_optional_params",
        "validate_chat_completion_tool_choice",
    )
    patched = {name: getattr(litellm.main, name) for name in names}
    methods = ProxyException.__init__, ProxyException.to_dict
    assert patches.register(toolgate) is toolgate
    for name, function in patched.items():
        assert getattr(litellm.main, name) is function
        assert inspect.unwrap(function) is not function
        assert inspect.unwrap(function) is inspect.unwrap(inspect.unwrap(function))
    assert (ProxyException.__init__, ProxyException.to_dict) == methods


def test_provider_is_registered_with_litellm() -> None:
    assert patches.provider() is toolgate


def test_all_openai_parameters_reach_the_provider() -> None:
    params = litellm.main.get_optional_params(
        model="gpt-5",
        custom_llm_provider="toolgate",
        reasoning_effort="low",
        verbosity="high",
        functions=[{"name": "x"}],
        top_k=3,
        stop=["a"] * 5,
        temperature=3,
    )
    assert params["reasoning_effort"] == "low"
    assert params["verbosity"] == "high"
    assert params["functions"] == [{"name": "x"}]
    assert params["top_k"] == 3
    assert params["temperature"] == 3
    with pytest.raises(litellm.BadRequestError):
        litellm.main.get_optional_params(
            model="m", custom_llm_provider="custom", reasoning_effort="low"
        )


def test_stop_sequences_are_not_truncated_to_four() -> None:
    assert litellm.utils.validate_openai_optional_params(stop=["a"] * 5) == ["a"] * 5


def test_only_our_providers_streams_are_opened_before_the_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other providers, synchronous calls and whole responses stay LiteLLM's."""

    def original(context: Any) -> str:
        return "stock"

    complete = patches._opening(original)
    ours: dict[str, Any] = {"custom_llm_provider": "toolgate", "acompletion": True, "stream": True}
    for changes in ({"custom_llm_provider": "other"}, {"acompletion": False}, {"stream": False}):
        assert complete(SimpleNamespace(**(ours | changes))) == "stock"
    monkeypatch.setattr(patches, "_open", lambda context: "opened")
    assert complete(SimpleNamespace(**ours)) == "opened"


def test_litellms_completion_uses_the_patched_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function imported under another name would bypass the patch."""
    seen: list[Any] = []

    def complete(context: Any) -> str:
        seen.append(context)
        return "made"

    monkeypatch.setattr(litellm.main, "_complete_custom_providers", complete)
    messages = [{"role": "user", "content": "hi"}]
    litellm.completion(model="toolgate/tiny", messages=messages, api_base="http://a", stream=True)
    [context] = seen
    assert (context.custom_llm_provider, context.model) == ("toolgate", "tiny")
    assert (context.stream, context.acompletion) == (True, False)
    assert (context.api_base, context.messages) == ("http://a", messages)
    for name in ("api_key", "optional_params", "litellm_params", "logging"):
        assert hasattr(context, name)


def test_proxy_exception_raised_from_our_error_has_our_body() -> None:
    error = RateLimited("Wait.", limited="tokens", retry_after=2)
    try:
        raise host_error(error, "m")
    except Exception:  # noqa: BLE001  # as LiteLLM handles it
        shown = ProxyException("litellm.RateLimitError: Wait.", "None", "None", 429)
    assert shown.to_dict() == error.body()["error"]
    assert sys.exception() is None
    later = ProxyException("Other.", "t", None, 400)
    assert later.to_dict()["message"] == "Other."


def test_litellms_app_has_a_proxy_exception_handler() -> None:
    assert ProxyException in proxy_server.app.exception_handlers


@pytest.mark.parametrize(
    "name", [name for name in vars(PrismaDBExceptionHandler) if name.startswith("is_")]
)
def test_no_exception_is_a_database_error_without_a_database(name: str) -> None:
    """LiteLLM's own checks would import prisma, which is not installed, and raise."""
    assert getattr(PrismaDBExceptionHandler, name)(ValueError()) is False


def test_our_provider_has_the_methods_that_litellm_calls() -> None:
    assert isinstance(toolgate, CustomLLM)
    for name in ("acompletion", "astreaming"):
        assert getattr(type(toolgate), name) is not getattr(CustomLLM, name)

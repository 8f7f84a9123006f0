"""The arguments of LiteLLM's custom provider, read back into the request that the client sent."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.litellm.router import reset_litellm, row, use
from toolgate_proxy.litellm_host.provider.custom_provider import ProviderCall, read_call
from toolgate_proxy.litellm_host.state import selection
from toolgate_proxy.routing.deployments import Placement
from toolgate_proxy.state import gateway


@pytest.fixture(autouse=True)
def _fresh_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    reset_litellm(monkeypatch)


def call(
    sent: dict[str, Any] | None = None,
    params: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    **changes: Any,
) -> ProviderCall:
    about: dict[str, Any] = {"metadata": metadata}
    if sent is not None:
        about["proxy_server_request"] = {"body": sent}
    arguments: dict[str, Any] = {
        "model": "m",
        "messages": [],
        "optional_params": params or {},
        "litellm_params": about,
        "api_base": "http://a",
        "api_key": "k",
        "logging_obj": None,
    }
    return read_call(arguments | changes, stream=False)


def test_fields_that_litellm_drops_are_read_from_the_request_body() -> None:
    params = {"tools": [], "extra_body": {"top_k": 1}}
    made = call({"tools": ["x"], "priority": 3}, params)
    assert made.body == {
        "tools": ["x"], "top_k": 1, "priority": 3, "model": "m", "messages": [], "stream": False,
    }  # fmt: skip


def test_placement_is_the_deployment_that_litellm_chose() -> None:
    assert call().placement == Placement("m", "http://a", "k")
    assert call(api_base=None, api_key=None).placement == Placement("m", None, None)


@pytest.mark.parametrize("tools", [[{"type": "function"}], None, []])
def test_tools_changed_by_litellm_replace_those_of_the_body(tools: Any) -> None:
    """A hook may have changed them."""
    changed = [{"type": "function", "function": {"name": "changed"}}]
    assert call({"tools": tools}, {"tools": changed}).body["tools"] == changed


def test_sdk_call_uses_only_its_parameters() -> None:
    """`litellm.acompletion` in a program, without the proxy."""
    made = call(None, {"temperature": 0.5})
    assert made.body["temperature"] == 0.5
    assert "priority" not in made.body


def test_provider_call_does_not_change_its_arguments() -> None:
    params = {"extra_body": {"top_k": 1}}
    call({}, params)
    assert params == {"extra_body": {"top_k": 1}}


def test_alternatives_are_other_deployments_of_the_requested_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(monkeypatch, row("a"), row("b"), row("c", group="other"))
    tried = gateway().deployments.at(Placement("tiny", "http://a", "k"))
    made = call(metadata={"model_group": "tiny"})
    assert made.group == "tiny"
    assert [place.api_base for place in made.alternatives(tried)] == ["http://b"]
    assert call(metadata={}).alternatives(tried) == []
    assert selection().alternatives([], tried) == []

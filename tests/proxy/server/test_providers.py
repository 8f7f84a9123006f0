"""LiteLLM's routes that need a provider: nothing is sent to one that the configuration does not
name."""

from __future__ import annotations

from typing import Any

import pytest
from litellm.proxy import proxy_server
from litellm.proxy.pass_through_endpoints import llm_passthrough_endpoints

from tests.support.litellm.own_route import Gateway, ours
from tests.support.litellm.router import foreign, use
from toolgate_proxy.server.absent_routes import OF_PROVIDER, PASSED_THROUGH

REACHING = [
    ("GET", "/v1/files", "openai", "`files_settings`"),
    ("GET", "/files/file-1/content", "openai", "`files_settings`"),
    ("POST", "/v1/batches", "openai", "`files_settings`"),
    ("POST", "/v1/fine_tuning/jobs", "openai", "`finetune_settings`"),
    ("POST", "/v1/moderations", "openai", "`model_list`"),
    ("GET", "/v1/skills", "anthropic", "`model_list`"),
    ("POST", "/v1/vector_stores", "openai", "`vector_store_registry`"),
    ("GET", "/v1/assistants", "openai", "`assistant_settings`"),
    ("POST", "/v1/threads/x/messages", "openai", "`assistant_settings`"),
    ("GET", "/azure/v1/files", "azure", "`files_settings`"),
    ("POST", "/anthropic/v1/messages", "anthropic", "`model_list`"),
    ("POST", "/vertex-ai/v1/x", "vertex_ai", "`model_list`"),
    ("POST", "/openai/chat/x", "openai", "`model_list`"),
]


@pytest.mark.parametrize(("method", "path", "provider", "setting"), REACHING)
async def test_a_provider_that_is_not_named_gets_nothing(
    gateway: Gateway, method: str, path: str, provider: str, setting: str
) -> None:
    response = await gateway.ask({}, path=path, method=method)
    error = response.json["error"]
    assert (response.status, error["code"]) == (404, "route_not_found")
    assert repr(provider) in error["message"]
    assert setting in error["message"]
    assert not gateway.host.passed


def configure(monkeypatch: pytest.MonkeyPatch, **config: Any) -> None:
    monkeypatch.setattr(proxy_server.proxy_config, "get_config_state", lambda: config)


async def test_a_provider_of_a_model_is_named(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, ours(gateway.backend), foreign("hosted"))
    await gateway.ask({}, path="/v1/files", method="GET")
    await gateway.ask({}, path="/openai/v1/files", method="GET")
    assert [each.path for each in gateway.host.passed] == ["/v1/files", "/openai/v1/files"]
    refused = [
        await gateway.ask({}, path="/anthropic/v1/messages"),
        await gateway.ask({}, path="/v1/files", method="GET", query="custom_llm_provider=azure"),
        await gateway.ask({}, path="/v1/files", method="GET", query="provider=azure"),
        await gateway.ask({}, path="/v1/files", headers=[(b"custom-llm-provider", b"azure")]),
        await gateway.ask({"custom_llm_provider": "azure"}, path="/v1/batches"),
        await gateway.ask(
            b'--x\r\nContent-Disposition: form-data; name="custom_llm_provider"\r\n\r\nazure',
            path="/v1/files",
        ),
    ]
    assert [each.status for each in refused] == [404] * len(refused)
    assert len(gateway.host.passed) == 2


async def test_a_provider_of_another_section_is_named(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, files_settings=[{"custom_llm_provider": "azure", "api_key": "k"}])
    assert (await gateway.ask({}, path="/v1/files", method="GET")).status == 404
    asked = await gateway.ask({}, path="/v1/files", method="GET", query="provider=azure")
    assert asked.status == 299


async def test_a_configured_target_is_reached(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoints = {"pass_through_endpoints": [{"path": "/cohere/v1/x", "target": "http://x"}]}
    monkeypatch.setattr(proxy_server, "general_settings", endpoints)
    assert (await gateway.ask({}, path="/cohere/v1/x")).status == 299
    assert (await gateway.ask({}, path="/cohere/v1/y")).status == 404


def test_all_routes_that_pass_requests_through_are_known() -> None:
    """LiteLLM adds them to its app when the first of them is requested."""
    suffix = "/{endpoint:path}"
    paths = {route.path for route in llm_passthrough_endpoints.router.routes}  # type: ignore[attr-defined]
    through = {path.replace(suffix, "/x") for path in paths if path.endswith(suffix)}
    assert {"/openai/x", "/anthropic/x"} <= through
    assert not [path for path in through if not PASSED_THROUGH.fullmatch(path)]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/v1/models",
        "/openai/deployments/tiny/chat/completions",
        "/openai/v1/responses",
        "/cursor/models",
        "/v1/embeddings",
        "/ui/files/x",
        "/vector_store/list",
    ],
)
def test_other_routes_are_not_among_them(path: str) -> None:
    assert not OF_PROVIDER.fullmatch(path)
    assert not PASSED_THROUGH.fullmatch(path)

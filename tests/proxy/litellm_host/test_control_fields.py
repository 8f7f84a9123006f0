"""Fields of a body that LiteLLM reads as settings of its own."""

from __future__ import annotations

import pytest

from toolgate_proxy.litellm_host.control_fields import FURTHER, OPENAI_FIELDS, is_banned, is_control
from toolgate_proxy.server.body_guard import NESTED


@pytest.mark.parametrize(
    "field",
    ["api_base", "base_url", "api_key", "model_list", "mock_response", "mock_anything", "fallbacks",
     "custom_llm_provider", "num_retries", "user_config", "litellm_params", "no-log",
     "deployment_id", "router_settings_override", "additional_drop_params", "_target_order"],
)  # fmt: skip
def test_litellm_settings_are_control_fields(field: str) -> None:
    assert is_control(field) or field in NESTED


@pytest.mark.parametrize(
    "field",
    ["model", "messages", "tools", "metadata", "user", "stream", "timeout", "input",
     "previous_response_id",
     "instructions", "max_output_tokens", "reasoning", "store", "priority", "chat_template_kwargs",
     "cache_salt", "system", "thinking", "service_tier", "prompt", "encoding_format"],
)  # fmt: skip
def test_api_parameters_are_not_control_fields(field: str) -> None:
    assert not is_control(field)


@pytest.mark.parametrize("field", sorted(FURTHER))
def test_fields_missing_from_litellms_lists_are_control_fields(field: str) -> None:
    assert is_control(field)
    assert field not in OPENAI_FIELDS


def test_fields_that_litellm_always_rejects_are_banned() -> None:
    for field in ("api_base", "user_config"):
        assert is_banned(field)
        assert is_control(field)
    for field in ("fallbacks", "metadata", "model"):
        assert not is_banned(field)

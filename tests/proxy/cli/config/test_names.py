"""Misspelt fields and incomplete addresses in LiteLLM's configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolgate_proxy.cli.config.check import BadConfig, check
from toolgate_proxy.cli.config.values import BUDGETS
from toolgate_proxy.litellm_host.config_fields import config_fields

from .test_check import ADDRESS, GOOD, SET, line_of, written

UNDECLARED = (
    "database_connection_pool_timeout", "disable_spend_logs", "disable_spend_updates",
    "enforce_user_param", "enforced_params", "health_check_concurrency", "litellm_jwtauth",
    "proxy_batch_write_at", "public_routes", "use_redis_transaction_buffer", "user_header_mappings",
)  # fmt: skip
"""Some of the fields that LiteLLM reads and does not declare."""


def test_an_address_in_a_variable_needs_a_scheme(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    with pytest.raises(BadConfig) as refused:
        check(path, SET | {"TOOLGATE_BACKEND_URL": "gpu:8000"})
    assert str(refused.value) == (
        f"{path}, line {line_of(GOOD, ADDRESS)}: `api_base` (TOOLGATE_BACKEND_URL) is 'gpu:8000', "
        "which has no scheme. Write http://gpu:8000 or https://…."
    )
    assert check(path, SET | {"TOOLGATE_BACKEND_URL": "http://gpu:8000"}) == []


def test_other_fields_of_litellm_are_accepted(tmp_path: Path) -> None:
    more = "".join(f"  {name}: true\n" for name in UNDECLARED)
    text = GOOD.replace("general_settings:\n", f"general_settings:\n{more}")
    assert check(written(tmp_path, text), SET) == []


def test_fields_that_litellm_does_not_declare_are_accepted(tmp_path: Path) -> None:
    names = ("extra_body", "weight", "order", "max_parallel_requests", "num_retries")
    more = "".join(f"\n      {name}: 1" for name in names) + "\n      guardrails: []"
    assert check(written(tmp_path, GOOD.replace(ADDRESS, ADDRESS + more)), SET) == []


def test_models_of_other_providers_may_have_any_parameters(tmp_path: Path) -> None:
    params = "{model: openai/x, anything: 1, api_base: x}"
    other = f"  - model_name: other\n    litellm_params: {params}\n"
    text = GOOD.replace("model_list:\n", f"model_list:\n{other}")
    assert check(written(tmp_path, text), SET) == []


def test_fields_that_litellm_ignores_produce_a_warning(tmp_path: Path) -> None:
    text = GOOD.replace("router_settings:\n", "router_settings:\n  retry_count: 1\n")
    text = text.replace("litellm_settings:\n", "litellm_settings:\n  timeout_seconds: 3\n")
    path = written(tmp_path, text)
    found = check(path, SET)
    for name, section in (("retry_count", "router_settings"), ("timeout_sec", "litellm_settings")):
        line = line_of(text, name)
        assert any(f"line {line}: `{section}.{name}" in each for each in found), found
    assert all("it has no effect" in each for each in found)
    assert len(found) == 2


def test_the_settings_of_litellm_are_known() -> None:
    """Those of its guide, however it reads them: by name, as a variable, as an optional one."""
    names = (
        "cache", "cache_params", "callbacks", "custom_provider_map", "drop_params", "fallbacks",
        "num_retries", "request_timeout", "default_team_settings", "success_callback",
        "turn_off_message_logging", "redact_user_api_key_info", "json_logs", "mcp_aliases",
        "enable_post_custom_auth_checks", "public_model_groups", "set_verbose", "max_budget",
        "budget_duration", "store_audit_logs", "force_ipv4", "ssl_verify", "timezone",
    )  # fmt: skip
    known = config_fields().litellm
    assert {*names, *BUDGETS} <= known
    assert not {"drop_parms", "os", "completion", "retry_count"} & known

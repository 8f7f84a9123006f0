"""Environment variables, names, and budgets in LiteLLM's configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest
from litellm.integrations.opentelemetry import OpenTelemetry
from litellm.litellm_core_utils.custom_logger_registry import CustomLoggerRegistry

from toolgate_proxy.cli.config.check import BadConfig, check

from .test_check import GOOD, SET, line_of, written

CALLBACKS = CustomLoggerRegistry.CALLBACK_CLASS_STR_TO_CLASS_TYPE
TELEMETRY = [name for name, kind in CALLBACKS.items() if issubclass(kind, OpenTelemetry)]
HOSTED = """model_list:
  - model_name: hosted
    litellm_params: {model: openai/gpt-4o, api_key: os.environ/OPENAI_API_KEY}
"""
ADDRESS, KEY = "os.environ/TOOLGATE_BACKEND_URL", "os.environ/TOOLGATE_BACKEND_KEY"

OF_ANOTHER_PROVIDER = f"{{model: openai/x, api_base: {ADDRESS}}}"


def test_an_api_key_that_is_not_set_is_a_warning(tmp_path: Path) -> None:
    text = GOOD.replace("model_list:\n", HOSTED)
    path = written(tmp_path, text)
    [warning] = check(path, SET)
    assert "OPENAI_API_KEY, which is not set" in warning
    assert f"line {line_of(text, 'OPENAI_API_KEY')}:" in warning
    assert check(path, SET | {"OPENAI_API_KEY": "sk-x"}) == []
    [warning] = check(written(tmp_path, GOOD.replace(KEY, "os.environ/GPU_KEY", 1)), SET)
    assert "GPU_KEY, which is not set" in warning


def test_a_variable_of_another_provider_s_model_is_a_warning(tmp_path: Path) -> None:
    other = f"model_list:\n  - model_name: b\n    litellm_params: {OF_ANOTHER_PROVIDER}\n"
    text = GOOD.replace("model_list:\n", other, 1)
    [warning] = check(written(tmp_path, text), SET)
    assert "TOOLGATE_BACKEND_URL, which is not set" in warning
    assert f"line {line_of(text, 'openai/x')}:" in warning


def test_variables_of_a_secret_manager_are_not_reported(tmp_path: Path) -> None:
    text = GOOD.replace(ADDRESS, "os.environ/IN_THE_VAULT", 1)
    assert "general_settings:\n" in text
    text = text.replace(
        "general_settings:\n", "general_settings:\n  key_management_system: hashicorp_vault\n"
    )
    assert check(written(tmp_path, text), SET) == []


@pytest.mark.parametrize("section", ["callback_settings", "files_settings", "credential_list"])
def test_other_sections_of_litellm_are_accepted(tmp_path: Path, section: str) -> None:
    assert check(written(tmp_path, f"{GOOD}\n{section}: []\n"), SET) == []


def test_variables_that_the_file_sets_are_set(tmp_path: Path) -> None:
    text = GOOD.replace("model_list:\n", HOSTED)
    text += "environment_variables:\n  OPENAI_API_KEY: x\n"
    assert check(written(tmp_path, text), SET) == []


FALLBACKS = [
    "fallbacks: [{toolgate: [gpt-4]}]",
    "fallbacks: [{gpt-4: [toolgate]}]",
    "fallbacks: [{'*': [gpt-4]}]",
    "context_window_fallbacks: [{toolgate: [toolgate, gpt-4]}]",
    "content_policy_fallbacks: [{toolgate: [gpt-4]}]",
    "default_fallbacks: [toolgate, gpt-4]",
    "model_group_alias: {short: gpt-4}",
    "model_group_alias: {short: {model: gpt-4, hidden: true}}",
]


@pytest.mark.parametrize("section", ["router_settings", "litellm_settings"])
@pytest.mark.parametrize("setting", FALLBACKS)
def test_an_unknown_model_is_an_error(tmp_path: Path, section: str, setting: str) -> None:
    text = GOOD.replace(f"{section}:\n", f"{section}:\n  {setting}\n", 1)
    field = setting.partition(":")[0]
    with pytest.raises(BadConfig) as refused:
        check(written(tmp_path, text), SET)
    said = str(refused.value)
    assert f"`{section}.{field}` names the model 'gpt-4', which" in said
    assert f"line {line_of(text, setting)}:" in said


def test_the_nearest_model_is_suggested(tmp_path: Path) -> None:
    setting = "router_settings:\n  fallbacks: [{toolgate: [toolgat]}]\n"
    with pytest.raises(BadConfig, match="Did you mean 'toolgate'"):
        check(written(tmp_path, GOOD.replace("router_settings:\n", setting)), SET)


@pytest.mark.parametrize(
    ("models", "name"),
    [
        ("  - {model_name: openai/*, litellm_params: {model: openai/*}}\n", "openai/gpt-4"),
        (
            "  - {model_name: b, litellm_params: {model: openai/x}, model_info: {id: gpu-1}}\n",
            "gpu-1",
        ),
        ("", "short"),
    ],
)
def test_wildcards_ids_and_aliases_are_known(tmp_path: Path, models: str, name: str) -> None:
    setting = (
        f"router_settings:\n  fallbacks: [{{toolgate: [{name}]}}]\n"
        "  model_group_alias: {short: toolgate}\n"
    )
    text = GOOD.replace("router_settings:\n", setting)
    assert (
        check(written(tmp_path, text.replace("model_list:\n", f"model_list:\n{models}")), SET) == []
    )


def test_models_of_a_database_or_another_file_may_be_named(tmp_path: Path) -> None:
    text = GOOD.replace("router_settings:\n", f"router_settings:\n  {FALLBACKS[0]}\n")
    more = "general_settings:\n  store_model_in_db: true\n"
    assert check(written(tmp_path, text.replace("general_settings:\n", more)), SET) == []


@pytest.mark.parametrize("name", ["max_budget", "max_internal_user_budget"])
def test_a_budget_without_a_database_is_a_warning(tmp_path: Path, name: str) -> None:
    text = GOOD.replace("litellm_settings:\n", f"litellm_settings:\n  {name}: 10\n")
    path = written(tmp_path, text)
    [warning] = check(path, SET)
    assert f"line {line_of(text, name)}: `litellm_settings.{name}` has no effect" in warning
    assert check(path, SET | {"DATABASE_URL": "postgresql://x"}) == []


@pytest.mark.parametrize("given", ["[no-names]", "no-names"])
def test_a_guardrail_that_is_not_configured_is_a_warning(tmp_path: Path, given: str) -> None:
    text = GOOD.replace(f"api_key: {KEY}\n", f"api_key: {KEY}\n      guardrails: {given}\n", 1)
    assert text != GOOD
    [warning] = check(written(tmp_path, text), SET)
    assert f"line {line_of(text, 'no-names')}: the guardrail 'no-names' is not in" in warning
    section = "guardrails: [{guardrail_name: no-names, litellm_params: {mode: pre_call}}]\n"
    assert check(written(tmp_path, text + section), SET) == []
    near = section.replace("no-names", "no-name")
    [warning] = check(written(tmp_path, text + near), SET)
    assert "Did you mean 'no-name'?" in warning


@pytest.mark.parametrize(
    ("setting", "installed", "said"),
    [
        ("success_callback: [langfuse]", None, "langfuse>=4.7,<5.0: not installed"),
        ("failure_callback: [langfuse]", "5.0.1", "langfuse 5.0.1 is not in"),
        ("callbacks: [x.handler, langfuse]", "4.9.0", None),
        ("callbacks: [otel]", "1.45.2", None),  # LiteLLM's image has another
        ("default_team_settings: [{success_callback: [lunary]}]", None, "pip install lunary"),
        *((f"callbacks: [{name}]", None, "opentelemetry-sdk: not installed") for name in TELEMETRY),
    ],
)
def test_a_callback_without_a_usable_package_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, installed: str, said: str | None
) -> None:
    monkeypatch.setattr("toolgate_proxy.cli.doctor.installation._version", lambda _: installed)
    text = GOOD.replace("litellm_settings:\n", f"litellm_settings:\n  {setting}\n")
    path = written(tmp_path, text)
    if said is None:
        check(path, SET)
        return
    with pytest.raises(BadConfig, match=f"line {line_of(text, setting)}: .*{said}"):
        check(path, SET)

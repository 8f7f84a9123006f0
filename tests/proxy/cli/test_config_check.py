"""Errors about LiteLLM's configuration file, before the gateway starts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from toolgate_proxy.cli.config_check import BadConfig, check
from toolgate_proxy.cli.main import app
from toolgate_proxy.server.launcher import Route, make_config

SHIPPED = Path(__file__).parents[3] / "litellm_config.yaml"
GOOD = SHIPPED.read_text()
SET = {"TOOLGATE_MASTER_KEY": "sk-x"}
ADDRESS = "api_base: os.environ/TOOLGATE_BACKEND_URL"
URL = "os.environ/TOOLGATE_BACKEND_URL"
MASTER = "os.environ/TOOLGATE_MASTER_KEY"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return path


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def test_the_shipped_and_the_generated_configuration_are_valid(tmp_path: Path) -> None:
    check(SHIPPED, SET)
    check(written(tmp_path, yaml.safe_dump(make_config([Route("m", "m")]))), SET)


@pytest.mark.parametrize(
    ("before", "after", "at", "said"),
    [
        ("provider: toolgate\n", "provider: toolgate: x\n", "toolgate: x", "not allowed"),
        ("  - model_name: toolgate\n", "  - name: toolgate\n", "name: toolgate", "model_name"),
        (
            "toolgate_proxy.provider.toolgate",
            "toolgate_proxy.provider.tool",
            "model: toolgate/toolgate",
            "custom_provider_map",
        ),
        (MASTER, "os.environ/NOT_SET", "os.environ/NOT_SET", "missing (NOT_SET is not set)"),
        (f"  master_key: {MASTER}\n", "", "cancel_on", "accept all requests"),
        (MASTER, "''", "master_key: ''", "accept all requests"),
        (MASTER, "null", "master_key: null", "accept all requests"),
        (
            "custom_auth_run_common_checks: true",
            "custom_auth_run_common_checks: false",
            "custom_auth: ",
            "custom_auth_run_common_checks",
        ),
        (
            "  enable_post_custom_auth_checks: true",
            "  # enable_post_custom_auth_checks: true",
            "custom_auth: ",
            "enable_post_custom_auth_checks",
        ),
        (ADDRESS, f"weight: heavy\n      {ADDRESS}", "weight: heavy", "must be a number"),
        (ADDRESS, "api_base: gpu:8000", "api_base", "Write http://gpu:8000 or"),
        (URL, "os.environ/GPU_URL", "GPU_URL", "`api_base` (GPU_URL) is not set"),
        (URL, "os.environ.GPU_URL", "GPU_URL", "has no scheme"),
    ],
)
def test_configuration_errors_include_the_line(
    tmp_path: Path, before: str, after: str, at: str, said: str
) -> None:
    assert before in GOOD
    text = GOOD.replace(before, after)
    with pytest.raises(BadConfig) as refused:
        check(written(tmp_path, text), SET)
    assert said in str(refused.value)
    assert f"line {line_of(text, at)}:" in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "just text", "model_list: []", "model_lists: [x]"])
def test_a_configuration_without_models_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadConfig, match="line 1"):
        check(written(tmp_path, text), SET)


def test_an_address_in_a_variable_needs_a_scheme(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    with pytest.raises(BadConfig, match=r"\(TOOLGATE_BACKEND_URL\) is 'gpu:8000', which has no"):
        check(path, SET | {"TOOLGATE_BACKEND_URL": "gpu:8000"})
    check(path, SET | {"TOOLGATE_BACKEND_URL": "http://gpu:8000"})


@pytest.mark.parametrize(
    "more",
    [
        "environment_variables: {GPU_URL: 'http://gpu:8000', TOOLGATE_MASTER_KEY: sk-x}",
        "secrets: {}",
    ],
)
def test_variables_of_the_file_and_of_a_secret_manager_are_set(tmp_path: Path, more: str) -> None:
    manager = "general_settings:\n  key_management_system: hashicorp_vault\n"
    text = GOOD if more.startswith("env") else GOOD.replace("general_settings:\n", manager)
    check(written(tmp_path, f"{text.replace(URL, 'os.environ/GPU_URL')}\n{more}\n"), {})


def test_fields_and_models_of_litellm_are_left_to_it(tmp_path: Path) -> None:
    params = "{model: openai/x, anything: 1, api_base: x, weight: heavy, api_key: os.environ/NONE}"
    other = f"model_list:\n  - model_name: other\n    litellm_params: {params}\n"
    text = GOOD.replace("model_list:\n", other).replace("disable_cooldowns: true", "colour: red")
    check(written(tmp_path, text), SET)


def test_the_gateway_does_not_start_with_an_invalid_configuration(tmp_path: Path) -> None:
    path = written(tmp_path, "model_lists: []")
    result = CliRunner().invoke(app, ["proxy", "--config", str(path), "--port", "0"])
    assert result.exit_code == 2
    assert result.output.startswith(f"{path}, line 1:")

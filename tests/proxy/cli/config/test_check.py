"""Errors and warnings about LiteLLM's configuration file, before the gateway starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from litellm.types.router import RoutingStrategy
from typer.testing import CliRunner

from toolgate_proxy.cli.config.check import HEALTH_UNAWARE, STRATEGIES, BadConfig, check
from toolgate_proxy.cli.main import app
from toolgate_proxy.server.launcher import Route, make_config

SHIPPED = Path(__file__).parents[4] / "litellm_config.yaml"
GOOD = SHIPPED.read_text()
SET = {"TOOLGATE_MASTER_KEY": "sk-x"}
ADDRESS = "api_base: os.environ/TOOLGATE_BACKEND_URL"
URL = "os.environ/TOOLGATE_BACKEND_URL"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return path


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def test_the_shipped_configuration_is_valid() -> None:
    assert check(SHIPPED, SET) == []


def test_the_generated_configuration_is_valid(tmp_path: Path) -> None:
    text = yaml.safe_dump(make_config([Route("m", "m")]))
    assert check(written(tmp_path, text), SET) == []


@pytest.mark.parametrize(
    ("before", "after", "at", "said"),
    [
        ("model_list:", "model_lists:", "model_lists", "Did you mean 'model_list'?"),
        ("general_settings:", "generel_settings:", "generel", "Did you mean 'general_settings'?"),
        (
            "    - provider: toolgate\n",
            "    - provider: toolgate: x\n",
            "toolgate: x",
            "not allowed",
        ),
        ("  - model_name: toolgate\n", "  - name: toolgate\n", "name: toolgate", "model_name"),
        (
            "toolgate_proxy.provider.toolgate",
            "toolgate_proxy.provider.tool",
            "model: toolgate/toolgate",
            "custom_provider_map",
        ),
        (
            "master_key: os.environ/TOOLGATE_MASTER_KEY",
            "master_key: sk-very-secret",
            "master_key: sk",
            "in clear text",
        ),
        (
            "os.environ/TOOLGATE_MASTER_KEY",
            "os.environ/NOT_SET_ANYWHERE",
            "os.environ/NOT_SET",
            "NOT_SET_ANYWHERE, which is not set",
        ),
        ("  master_key: os.environ/TOOLGATE_MASTER_KEY\n", "", "cancel_on", "accept all requests"),
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
        (
            "router_settings:\n",
            "router_settings:\n  routing_strategy: least-bussy\n",
            "least-bussy",
            "must be one of simple-shuffle, least-busy",
        ),
        (
            "router_settings:\n",
            "router_settings:\n  routing_groups: [{models: [toolgate], routing_strategy: x}]\n",
            "routing_groups",
            "must be one of",
        ),
        (
            "model: toolgate/toolgate",
            "weight: heavy\n      model: toolgate/toolgate",
            "weight: heavy",
            "must be a number",
        ),
        ("cancel_on_disconnect:", "cancel_on_disconect:", "cancel_on", "'cancel_on_disconnect'?"),
        ("disable_cooldowns:", "disable_cooldown:", "disable_c", "'disable_cooldowns'?"),
        (ADDRESS, "api_baase: x", "api_baase", "Did you mean 'api_base'?"),
        (ADDRESS, "temperture: 1", "temperture", "Did you mean 'temperature'?"),
        (
            "enable_post_custom_auth_checks: true",
            "enable_post_custom_auth_checks: true\n  drop_parms: true",
            "drop_parms",
            "'drop_params'?",
        ),
        (
            "router_settings:\n",
            "router_settings:\n  num_retires: 1\n",
            "num_retires",
            "'num_retries'?",
        ),
        (ADDRESS, "api_base: gpu:8000", "api_base", "Write http://gpu:8000 or"),
        (URL, "os.environ/GPU_URL", "GPU_URL", "variable GPU_URL, which is not set"),
        (URL, "os.environ.GPU_URL", "GPU_URL", "is written os.environ/NAME"),
    ],
)
def test_configuration_errors_include_the_line_and_no_secret(
    tmp_path: Path, before: str, after: str, at: str, said: str
) -> None:
    assert before in GOOD
    text = GOOD.replace(before, after)
    with pytest.raises(BadConfig) as refused:
        check(written(tmp_path, text), SET)
    assert said in str(refused.value)
    assert f"line {line_of(text, at)}:" in str(refused.value)
    assert "sk-very-secret" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "just text", "model_list: []", "model_list: 3"])
def test_a_configuration_without_models_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadConfig, match="line 1"):
        check(written(tmp_path, text), SET)


@pytest.mark.parametrize("setting", ["disable_cooldowns", "cancel_on_disconnect"])
def test_risky_settings_produce_a_warning(tmp_path: Path, setting: str) -> None:
    path = written(tmp_path, GOOD.replace(f"{setting}: true", f"{setting}: false"))
    (doubt,) = check(path, SET)
    assert setting in doubt


@pytest.mark.parametrize("strategy", HEALTH_UNAWARE)
def test_a_routing_strategy_that_ignores_health_produces_a_warning(
    tmp_path: Path, strategy: str
) -> None:
    setting = f"router_settings:\n  routing_strategy: {strategy}\n"
    (doubt,) = check(written(tmp_path, GOOD.replace("router_settings:\n", setting)), SET)
    assert strategy in doubt


def test_all_routing_strategies_of_litellm_are_classified() -> None:
    assert {each.value for each in RoutingStrategy} <= {*STRATEGIES, *HEALTH_UNAWARE}


def test_the_gateway_does_not_start_with_an_invalid_configuration(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD.replace("model_list:", "model_lists:"))
    result = CliRunner().invoke(app, ["proxy", "--config", str(path)])
    assert result.exit_code == 2
    assert "line" in result.output


@pytest.mark.exhaustive  # imports LiteLLM
def test_the_error_is_the_only_line_and_nothing_is_fetched(tmp_path: Path) -> None:
    """Importing LiteLLM fetches a table of prices, with warnings if that fails."""
    path = written(tmp_path, GOOD.replace("cancel_on_disconnect:", "cancel_on_disconect:"))
    unset = {name: value for name, value in os.environ.items() if not name.startswith("LITELLM_")}
    done = subprocess.run(
        [sys.executable, "-m", "toolgate_proxy", "proxy", "--config", str(path)],
        env={**unset, **SET, "HTTPS_PROXY": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"{path}, line {line_of(GOOD, 'cancel_on')}: `general_settings` has no field "
        "'cancel_on_disconect'. Did you mean 'cancel_on_disconnect'?"
    ]

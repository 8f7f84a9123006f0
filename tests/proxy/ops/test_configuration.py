"""Errors of the configuration file and the settings, as `toolgate proxy` reports them."""

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.proxy.kit import beside
from toolgate_backend.settings import Settings as BackendSettings
from toolgate_proxy.ops import CommandFailed
from toolgate_proxy.ops.cli import app
from toolgate_proxy.ops.configuration import check, unknown_settings
from toolgate_proxy.server.launcher import Route, make_config
from toolgate_proxy.settings import Settings

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "litellm_config.yaml"
GOOD = SHIPPED.read_text()
SET = {"TOOLGATE_MASTER_KEY": "sk-x"}
URL = "os.environ/TOOLGATE_BACKEND_URL"


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return path

    return write


def test_the_shipped_and_the_generated_configuration_are_valid(written):
    check(SHIPPED, SET)
    check(written(yaml.safe_dump(make_config([Route("m", "m")]))), SET)


def test_configuration_errors_include_the_place(written):
    for before, after, place, said in beside(__file__)["changes"]:
        assert before in GOOD
        text = GOOD.replace(before, after)
        with pytest.raises(CommandFailed) as refused:
            check(written(text), SET)
        assert said in str(refused.value), after
        assert f"{place}: " in str(refused.value), after
    for text in ("", "[]", "just text", "model_list: []", "model_lists: [x]"):
        with pytest.raises(CommandFailed, match="model_list"):
            check(written(text), SET)


def test_an_address_in_a_variable_needs_a_scheme(written):
    path = written(GOOD)
    with pytest.raises(
        CommandFailed, match="the variable TOOLGATE_BACKEND_URL is 'gpu:8000', which has no"
    ):
        check(path, SET | {"TOOLGATE_BACKEND_URL": "gpu:8000"})
    for scheme in ("http", "https", "dns+http", "dns+https"):
        check(path, SET | {"TOOLGATE_BACKEND_URL": f"{scheme}://gpu:8000"})


def test_variables_of_the_file_and_of_a_secret_manager_are_set(written):
    named = GOOD.replace(URL, "os.environ/GPU_URL")
    variables = "{GPU_URL: 'http://gpu:8000', TOOLGATE_MASTER_KEY: sk-x}"
    check(written(f"{named}\nenvironment_variables: {variables}\n"), {})
    manager = "general_settings:\n  key_management_system: hashicorp_vault\n"
    check(written(named.replace("general_settings:\n", manager) + "\nsecrets: {}\n"), {})


def test_fields_and_models_of_litellm_are_left_to_it(written):
    params = "{model: openai/x, anything: 1, api_base: x, weight: heavy, api_key: os.environ/NONE}"
    other = f"model_list:\n  - model_name: other\n    litellm_params: {params}\n"
    text = GOOD.replace("model_list:\n", other).replace("disable_cooldowns: true", "colour: red")
    check(written(text), SET)


def test_the_gateway_does_not_start_with_an_invalid_configuration(written):
    path = written("model_lists: []")
    result = CliRunner().invoke(app, ["proxy", "--config", str(path), "--port", "0"])
    assert result.exit_code == 2
    assert result.output.splitlines()[-1].startswith(f"{path}, model_list:")


MEANT = {
    "REDIS_URI": "REDIS_URL",
    "KEYS_SECRET": "KEY_SECRET",
    "MASTERKEY": "MASTER_KEY",
    "BACKEND_URLS": "BACKEND_URL",
    "BODY_TIMOUT": "BODY_TIMEOUT",
}


def test_a_variable_without_effect_is_reported_with_what_was_meant():
    meant = {given: f"Did you mean TOOLGATE_{name}?" for given, name in MEANT.items()}
    for name, words in meant.items():
        [warning] = unknown_settings({f"TOOLGATE_{name}": "secret", "PATH": "x"})
        assert warning == f"TOOLGATE_{name} is not a setting: it has no effect. {words}"
        assert name.lower() not in Settings.model_fields
    [unlike] = unknown_settings({"TOOLGATE_COLOUR": "red"})
    assert "docs/reference/settings.md" in unlike


def test_variables_of_the_backend_the_documentation_and_kubernetes_are_known():
    names = {f"TOOLGATE_{name.upper()}" for name in BackendSettings.model_fields}
    for page in (ROOT / "docs").rglob("*.md"):
        names |= {*re.findall(r"\bTOOLGATE_[A-Z0-9_]*[A-Z0-9]\b", page.read_text())}
    service = "SERVICE_HOST SERVICE_PORT_HTTP PORT PORT_4000_TCP PORT_4000_TCP_ADDR"
    names |= {f"TOOLGATE_GATEWAY_{name}" for name in service.split()}
    assert unknown_settings(dict.fromkeys(names, "1")) == []


def test_the_gateway_names_a_variable_without_effect_at_its_start(monkeypatch):
    monkeypatch.setenv("TOOLGATE_REDIS_URI", "redis://secret")
    monkeypatch.delenv("TOOLGATE_MASTER_KEY", raising=False)
    result = CliRunner().invoke(app, ["proxy", "--model", "x", "--port", "0"])
    assert result.exit_code == 2
    assert "Warning: TOOLGATE_REDIS_URI is not a setting" in result.output
    assert "secret" not in result.output

"""Errors of the configuration file, the settings and the installation, as `toolgate proxy` and
`toolgate doctor` report them."""

import asyncio
import os
import re
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.proxy.kit import beside
from tests.support.servers.fake_backend import KEY
from tests.support.servers.virtual_keys import key_of, put
from toolgate_backend.settings import Settings as BackendSettings
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.ops import CommandFailed
from toolgate_proxy.ops import doctor as doctor_module
from toolgate_proxy.ops.cli import app
from toolgate_proxy.ops.configuration import check, unknown_settings
from toolgate_proxy.ops.demo import model
from toolgate_proxy.ops.doctor import Finding
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_proxy.server.launcher import Route, make_config
from toolgate_proxy.settings import Settings, settings

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


@pytest.fixture
def doctor(monkeypatch, tmp_path):
    """Run `toolgate doctor` where nothing is set."""
    for name in [name for name in os.environ if name.startswith("TOOLGATE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def run(*arguments, **environment):
        settings.cache_clear()
        command = ["doctor", "--url", f"http://127.0.0.1:{free_port()}", *arguments]
        result = CliRunner().invoke(app, command, env=environment)
        return result.exit_code, f"\n{result.output}"

    return run


def test_an_installation_without_servers_has_no_problem(doctor):
    status, said = doctor("--model", str(model.directory()))
    assert status == 0, said
    assert said.startswith(f"\n✓ toolgate: {version('toolgate-gateway')}, Python 3.")
    assert re.search(r"\n✓ gateway \(extra \[proxy\]\): .*litellm ", said)
    assert "\n- Redis: TOOLGATE_REDIS_URL is not set" in said
    assert "\n✓ dialect: qwen3: " in said
    assert said.endswith("\nAll well.\n")


def test_a_backend_is_described_or_the_reason_given(doctor, backend):
    status, said = doctor(TOOLGATE_BACKEND_URL=backend.url, TOOLGATE_BACKEND_KEY=KEY)
    assert status == 0, said
    assert re.search(rf"\n✓ backend {re.escape(backend.url)}: .*dialect qwen3", said)
    status, said = doctor(TOOLGATE_BACKEND_URL=backend.url, TOOLGATE_BACKEND_KEY="wrong")
    assert (status, "refuses the key: set TOOLGATE_BACKEND_KEY" in said) == (1, True)
    nowhere = f"http://127.0.0.1:{free_port()}"
    status, said = doctor(TOOLGATE_BACKEND_URL=nowhere)
    assert (status, f"\n✗ backend {nowhere}: no answer\n" in said) == (1, True)


async def test_redis_is_asked_for_its_version_and_for_keys_without_their_secret(
    doctor, redis_at_hand
):
    async def asked():
        return await asyncio.to_thread(doctor, TOOLGATE_REDIS_URL=redis_at_hand.url)

    status, said = await asked()
    assert status == 0, said
    assert "\n✓ Redis: Valkey " in said
    await put(redis_at_hand.url, key_of(new_key()))
    status, said = await asked()
    assert status == 1
    assert re.search(r"\n✗ Redis: .*TOOLGATE_KEY_SECRET", said)
    redis_at_hand.kill()
    status, said = await asked()
    assert status == 1
    assert "\n✗ Redis: no answer at TOOLGATE_REDIS_URL" in said
    assert redis_at_hand.url not in said


def test_invalid_settings_and_those_without_effect_are_problems_without_their_values(doctor):
    secret = "redis://:a-secret@[host"
    status, said = doctor(TOOLGATE_REDIS_URL=secret, TOOLGATE_RESAMPLES="many")
    assert status == 1
    for name in ("TOOLGATE_RESAMPLES", "TOOLGATE_REDIS_URL"):
        assert f"\n✗ settings: {name}: " in said
    assert "a-secret" not in said
    status, said = doctor(TOOLGATE_KEYS_SECRET="x")
    assert (status, "Did you mean TOOLGATE_KEY_SECRET?" in said) == (1, True)


def test_a_key_that_others_may_read_is_a_problem(doctor, tmp_path):
    path = tmp_path / "config" / "toolgate" / "master_key"
    path.parent.mkdir(parents=True)
    path.write_text("sk-secret\n")
    path.chmod(0o644)
    status, said = doctor()
    assert status == 1
    assert "\n✗ master key: " in said
    assert "sk-secret" not in said


def test_versions_outside_the_tested_range_and_missing_tokenizers_are_problems(tmp_path):
    requirements = ["pytest<2; extra == 'proxy'", "no-such-package; extra == 'proxy'"]
    findings = [*doctor_module.packages_of("gateway", "proxy", requirements)]
    assert findings[0].level == "problem"
    assert f"pytest {version('pytest')} is not in the tested range <2" in findings[0].text
    assert Finding("gateway", "not installed", "note") in findings
    [finding] = doctor_module.dialect(tmp_path)
    assert finding.level == "problem"


def test_a_gpu_is_described(monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA H100 80GB HBM3, 81559 MiB, 570.1'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    [found] = doctor_module.gpus()
    assert found == Finding("GPU", "NVIDIA H100 80GB HBM3, 81559 MiB, driver 570.1")
    program.write_text("#!/bin/sh\necho 'No devices were found'; exit 6\n")
    [found] = doctor_module.gpus()
    assert found == Finding("GPU", "nvidia-smi failed: No devices were found", "problem")

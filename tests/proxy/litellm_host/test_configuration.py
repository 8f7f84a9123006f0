"""Faults of LiteLLM's configuration with which LiteLLM starts all the same."""

import copy
import logging
from pathlib import Path

import litellm
import pytest
import yaml
from litellm.proxy import proxy_server
from litellm.proxy.guardrails import guardrail_registry
from litellm.proxy.guardrails.init_guardrails import init_guardrails_v2

from tests.proxy.kit import beside
from tests.support.litellm.router import foreign, row, use
from toolgate_proxy.litellm_host import configuration
from toolgate_proxy.litellm_host.configuration import ConfigurationRefused, check_configuration

ROWS = beside(__file__)
SHIPPED = Path(__file__).parents[3] / "litellm_config.yaml"


@pytest.fixture
def checked(monkeypatch, caplog):
    """Check a configuration whose guardrails LiteLLM has started. Return the warnings."""
    use(monkeypatch, row("a"), foreign("openai/*"), model_group_alias={"nick": "tiny"})
    handler = guardrail_registry.InMemoryGuardrailHandler()
    monkeypatch.setattr(guardrail_registry, "IN_MEMORY_GUARDRAIL_HANDLER", handler)
    monkeypatch.setattr(configuration, "IN_MEMORY_GUARDRAIL_HANDLER", handler)

    def check(config):
        config = copy.deepcopy(config)
        init_guardrails_v2(config.get("guardrails") or [], str(SHIPPED))
        monkeypatch.setattr(proxy_server.proxy_config, "get_config_state", lambda: config)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "toolgate"):
            check_configuration()
        return [each.getMessage() for each in caplog.records if each.name == "toolgate"]

    return check


@pytest.mark.parametrize(("config", "place", "said", "refused"), ROWS["faults"])
def test_a_fault_is_named_by_its_place_and_refused_if_a_rule_would_not_hold(
    checked, config, place, said, refused
):
    if refused:
        with pytest.raises(ConfigurationRefused) as raised:
            checked(config)
        message = str(raised.value)
    else:
        [message] = checked(config)
    assert f"{place}: " in message
    assert said in message


@pytest.mark.parametrize("config", ROWS["valid"])
def test_a_valid_configuration_has_no_fault(checked, config):
    assert checked(config) == []


def test_names_in_configurations_of_litellm_and_ours_are_no_faults(checked):
    found = [SHIPPED, *Path(litellm.__file__).parent.glob("proxy/*.yaml")]
    assert len(found) > 2
    for path in found:
        config = yaml.safe_load(path.read_text())
        assert [*configuration._names(config, [])] == [], path


def test_a_guardrail_of_the_database_may_be_named(checked, monkeypatch):
    [[config, *_]] = [each for each in ROWS["faults"] if "unheard-of'" in each[2] and each[3]]
    monkeypatch.setattr(proxy_server, "prisma_client", object())
    [warning] = checked(config)
    assert "unheard-of" in warning

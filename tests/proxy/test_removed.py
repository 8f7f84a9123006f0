"""Each removed parameter, setting and command has one answer that names it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tests.support.apis.admitted_requests import admitted
from toolgate_core.errors import UnsupportedParameter
from toolgate_proxy import removed
from toolgate_proxy.cli.main import COMMANDS, app
from toolgate_proxy.cli.settings_check import unknown_settings
from toolgate_proxy.settings import Settings


@pytest.mark.parametrize("place", removed.PARAMETERS)
def test_a_removed_parameter_is_refused_with_its_replacement(place: str) -> None:
    name, _, member = place.partition(".")
    with pytest.raises(UnsupportedParameter) as refused:
        admitted(**{name: {member: True} if member else True})
    assert refused.value.param == place
    assert removed.PARAMETERS[place] in str(refused.value)


@pytest.mark.parametrize("name", removed.SETTINGS)
def test_a_removed_setting_is_reported(name: str) -> None:
    assert name.lower() not in Settings.model_fields
    [warning] = unknown_settings({f"TOOLGATE_{name}": "secret"})
    assert warning == (
        f"TOOLGATE_{name} is not a setting: it has no effect. {removed.SETTINGS[name]}"
    )


@pytest.mark.parametrize("name", removed.COMMANDS)
def test_a_removed_command_names_its_replacement(name: str) -> None:
    assert name not in COMMANDS
    result = CliRunner().invoke(app, [name])
    assert result.exit_code == 2
    shown = " ".join(result.output.replace("│", " ").split())
    assert removed.COMMANDS[name] in shown

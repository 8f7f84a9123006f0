from __future__ import annotations

import gc
from pathlib import Path

import litellm
import pytest
import yaml
from fastapi import FastAPI

from tests.support.litellm_router import foreign, reset_litellm, row, use
from toolgate_proxy.admin import routes
from toolgate_proxy.litellm_host.deployments.selection import SelectionHook
from toolgate_proxy.server import lifespan
from toolgate_proxy.server.app import Route, make_config, write_config
from toolgate_proxy.settings import Settings
from toolgate_proxy.state import GatewayState

CONFIG = Path(__file__).parents[3] / "litellm_config.yaml"


@pytest.mark.parametrize(
    ("text", "route"),
    [
        ("m", Route("m", "m")),
        ("m=org/M-8B", Route("m", "org/M-8B")),
        ("m@http://h:1", Route("m", "m", "http://h:1")),
        ("m=org/M@https://h/x", Route("m", "org/M", "https://h/x")),
    ],
)
def test_routes(text: str, route: Route) -> None:
    assert Route.parse(text) == route


def test_a_route_needs_a_name() -> None:
    with pytest.raises(ValueError, match="NAME"):
        Route.parse("=m@http://h")


def test_the_written_configuration_agrees_with_the_one_that_is_shipped() -> None:
    shipped = yaml.safe_load(CONFIG.read_text())
    made = make_config([Route("toolgate", "toolgate")])
    assert made == shipped


def test_no_key_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", "sk-secret")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    path = write_config([Route("m", "m")])
    text = path.read_text()
    path.unlink()
    assert "sk-secret" not in text
    assert "os.environ/TOOLGATE_MASTER_KEY" in text


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> GatewayState:
    """A service without Redis for the gateway's start in this process."""
    reset_litellm(monkeypatch)
    made = GatewayState(Settings(redis_url=None))
    for module in (routes, lifespan):
        monkeypatch.setattr(module, "service", lambda: made)
    return made


async def test_objects_of_the_start_are_not_collected_again(here: GatewayState) -> None:
    """A full collection over LiteLLM's half a million objects would hold up every stream."""
    app = FastAPI()
    lifespan.extend_lifespan(app)
    try:
        async with app.router.lifespan_context(app):
            assert gc.get_freeze_count() > len(gc.get_objects())
    finally:
        gc.unfreeze()


async def test_the_start_registers_the_hook_of_selection_and_prints_the_way_of_each_model(
    here: GatewayState, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(
        monkeypatch,
        row("a"),
        row("b", group="mocked", mock_response="x"),
        row("c", group="mixed"),
        foreign("mixed"),
        foreign("hosted"),
    )
    app = FastAPI()
    lifespan.extend_lifespan(app)
    try:
        async with app.router.lifespan_context(app):
            assert any(isinstance(each, SelectionHook) for each in litellm.callbacks)
    finally:
        gc.unfreeze()
    assert capsys.readouterr().out.splitlines() == [
        "Model mocked: LiteLLM's route, because of `mock_response` in litellm_params.",
        "Model tiny: own route.",
    ]

from __future__ import annotations

import gc
import signal
import subprocess
import sys
from pathlib import Path

import litellm
import pytest
import yaml
from fastapi import FastAPI

from tests.support.litellm.router import foreign, reset_litellm, row, use
from toolgate_proxy.admin import routes
from toolgate_proxy.litellm_host.deployments.selection import SelectionHook
from toolgate_proxy.server import lifespan
from toolgate_proxy.server.launcher import CONFIG, Route, make_config, write_config
from toolgate_proxy.settings import Settings
from toolgate_proxy.state import GatewayState

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("text", "route"),
    [
        ("m", Route("m", "m")),
        ("m=org/M-8B", Route("m", "org/M-8B")),
        ("m@http://h:1", Route("m", "m", "http://h:1")),
        ("m=org/M@https://h/x", Route("m", "org/M", "https://h/x")),
    ],
)
def test_route_argument_is_parsed(text: str, route: Route) -> None:
    assert Route.parse(text) == route


def test_route_without_a_name_is_rejected() -> None:
    with pytest.raises(ValueError, match="NAME"):
        Route.parse("=m@http://h")


@pytest.mark.parametrize("text", ["m@gpu:8000", "m=a@10.0.0.1:8000/x"])
def test_a_route_whose_address_has_no_scheme_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"has no scheme\. Write @http://"):
        Route.parse(text)
    assert Route.parse("m=org/M@v1") == Route("m", "org/M@v1")


def test_default_configuration_equals_the_shipped_file() -> None:
    assert make_config([Route("toolgate", "toolgate")]) == yaml.safe_load(CONFIG.read_text())


def test_configuration_copies_are_up_to_date() -> None:
    """The copies are `litellm_config.yaml` and the block in `docs/guide/gateway.md`."""
    assert (
        subprocess.run(
            [sys.executable, "scripts/config_doc.py", "--check"], cwd=ROOT, check=False
        ).returncode
        == 0
    ), "Run `make docs`."


def test_written_configuration_contains_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", "sk-secret")
    text = write_config([Route("m", "m")], tmp_path).read_text()
    assert "sk-secret" not in text
    assert "os.environ/TOOLGATE_MASTER_KEY" in text


@pytest.mark.parametrize("starting", [False, True])
def test_workers_exit_when_their_supervisor_is_killed(starting: bool) -> None:
    """While it starts, uvicorn obeys SIGTERM only after the imports."""
    state = "signal.signal(signal.SIGTERM, signal.SIG_IGN)" if starting else "worker._created.set()"
    program = (
        "import multiprocessing, os, signal, time\n"
        "from toolgate_proxy import worker\n"
        "def work():\n"
        f"    {state}\n"
        "    worker.end_with_parent()\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(60)\n"
        "multiprocessing.get_context('fork').Process(target=work).start()\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline().strip().isdecimal()
        supervisor.kill()
        assert supervisor.stdout.read() == ""  # returns when the worker closes the pipe as well
        assert supervisor.wait() == -signal.SIGKILL


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> GatewayState:
    """A service without Redis for the gateway's start in this process."""
    reset_litellm(monkeypatch)
    made = GatewayState(Settings(redis_url=None))
    for module in (routes, lifespan):
        monkeypatch.setattr(module, "gateway", lambda: made)
    return made


async def test_startup_objects_are_excluded_from_garbage_collection(here: GatewayState) -> None:
    """A full collection over LiteLLM's half a million objects would hold up every stream."""
    app = FastAPI()
    lifespan.extend_lifespan(app)
    try:
        async with app.router.lifespan_context(app):
            assert gc.get_freeze_count() > len(gc.get_objects())
    finally:
        gc.unfreeze()


async def test_startup_registers_the_selection_hook_and_prints_each_models_route(
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
    *routes, responses = capsys.readouterr().out.splitlines()
    assert routes == [
        "Model mocked: LiteLLM's route, because of `mock_response` in litellm_params.",
        "Model tiny: own route.",
    ]
    assert responses.startswith("Responses are stored in this process")

"""The start of gateways, from the command line to their workers."""

import gc
import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import litellm
import pytest
import yaml
from fastapi import FastAPI

from tests.support.effort import rotating
from tests.support.litellm.router import foreign, reset_litellm, row, use
from toolgate_proxy.litellm_host.routing.selection import SelectionHook
from toolgate_proxy.ops.admin import routes
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_proxy.server import lifespan
from toolgate_proxy.server.launcher import CONFIG, WORKER_SECONDS, Route, make_config, write_config
from toolgate_proxy.settings import Settings
from toolgate_proxy.state import GatewayState

ROOT = Path(__file__).parents[3]


def test_route_arguments():
    for text, route in (
        ("m", Route("m", "m")),
        ("m=org/M-8B", Route("m", "org/M-8B")),
        ("m=org/M@v1", Route("m", "org/M@v1")),
        ("m@http://h:1", Route("m", "m", "http://h:1")),
        ("m=org/M@https://h/x", Route("m", "org/M", "https://h/x")),
        ("m=M@dns+http://h:1", Route("m", "M", "dns+http://h:1")),
    ):
        assert Route.parse(text) == route
    with pytest.raises(ValueError, match="NAME"):
        Route.parse("=m@http://h")
    for text in ("m@gpu:8000", "m=a@10.0.0.1:8000/x"):
        with pytest.raises(ValueError, match=r"has no scheme\. Write @http://"):
            Route.parse(text)


def test_configurations_are_those_shipped_and_contain_no_key(tmp_path, monkeypatch):
    assert make_config([Route("toolgate", "toolgate")]) == yaml.safe_load(CONFIG.read_text())
    # The copies are `litellm_config.yaml` and the block in `docs/guide/gateway.md`
    monkeypatch.syspath_prepend(ROOT / "scripts")
    documents = runpy.run_path(str(ROOT / "scripts" / "config_doc.py"))["documents"]
    for path, text in documents().items():
        assert path.read_text() == text, "Run `make docs`."
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", "sk-secret")
    text = write_config([Route("m", "m")], tmp_path).read_text()
    assert "sk-secret" not in text
    assert "os.environ/TOOLGATE_MASTER_KEY" in text


@rotating("starting", [False, True], one_in=2)
def test_workers_exit_when_their_supervisor_is_killed(starting):
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


SLOW_APP = """
import ctypes
def create():
    ctypes.PyDLL(None).sleep(7)  # holds the interpreter's lock, as imports do on busy cores
    async def app(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})
    return app
"""
SERVE = """
import sys, uvicorn
options = {"factory": True, "workers": 2, "timeout_worker_healthcheck": int(sys.argv[2])}
uvicorn.run("slow:create", port=int(sys.argv[1]), **options)
"""


@pytest.mark.slow
def test_worker_that_starts_slowly_is_not_killed(tmp_path):
    """Uvicorn's supervisor kills workers that do not respond."""
    (tmp_path / "slow.py").write_text(SLOW_APP)
    port, log = free_port(), tmp_path / "log"
    with log.open("wb") as output:
        supervisor = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(port), str(WORKER_SECONDS)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
            stdout=output,
            stderr=output,
        )
        try:
            ends = time.monotonic() + 90
            while not responds(port):
                assert time.monotonic() < ends, log.read_text()
                time.sleep(0.2)
        finally:
            supervisor.terminate()
            supervisor.wait(30)
    assert "died" not in log.read_text()


def responds(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}", trust_env=False).status_code == 204
    except httpx.TransportError:
        return False


@pytest.fixture
def here(monkeypatch):
    """A service without Redis for the gateway's start in this process."""
    reset_litellm(monkeypatch)
    made = GatewayState(Settings(redis_url=None))
    for module in (routes, lifespan):
        monkeypatch.setattr(module, "gateway", lambda: made)
    return made


@pytest.mark.usefixtures("here")
async def test_startup_registers_the_selection_hook_and_prints_each_models_route(
    monkeypatch, capsys
):
    """Its objects are excluded from garbage collection: a full one over LiteLLM's half a million
    objects would hold up every stream."""
    mixed = row("c", group="mixed"), foreign("mixed")
    mocked = row("b", group="mocked", mock_response="x")
    use(monkeypatch, row("a"), mocked, *mixed, foreign("hosted"))
    app = FastAPI()
    lifespan.extend_lifespan(app)
    gc.unfreeze()  # what was frozen after the tests were collected
    thresholds = gc.get_threshold()
    try:
        async with app.router.lifespan_context(app):
            assert any(isinstance(each, SelectionHook) for each in litellm.callbacks)
            assert gc.get_freeze_count() > len(gc.get_objects())
            assert gc.get_threshold()[0] == lifespan.NEW_OBJECTS
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
    *shown, responses = capsys.readouterr().out.splitlines()
    assert shown == [
        "Model mocked: LiteLLM's route, because of `mock_response` in litellm_params.",
        "Model tiny: own route.",
    ]
    assert responses.startswith("Responses are stored in this process")


def test_the_process_that_starts_workers_does_not_import_litellm():
    """Importing it takes 200 MB, and fetches a table of prices before a setting forbids it."""
    code = "import sys, toolgate_proxy.server.launcher; sys.exit('litellm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

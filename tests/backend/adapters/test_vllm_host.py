"""vLLM's private names: that they exist, and what the adapters expect of them."""

import asyncio
import queue
from collections import deque
from types import SimpleNamespace

import pytest
from packaging.specifiers import SpecifierSet
from vllm.v1.engine import EngineCoreRequestType
from vllm.v1.engine.core import EngineCore, EngineCoreProc, EngineShutdownState
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.executor.multiproc_executor import MultiprocExecutor, WorkerProc
from vllm.v1.serial_utils import run_method
from vllm.v1.structured_output import StructuredOutputManager
from vllm.v1.worker.worker_base import WorkerBase

from tests.models import tiny_model
from tests.support.loop_errors import no_loop_errors
from toolgate_backend import launch, plugin
from toolgate_backend.adapters import private_names, probe, vllm_host
from toolgate_backend.adapters.engine_watch import EngineWatch
from toolgate_backend.adapters.lifetimes import before_shutdown, while_engines_live
from toolgate_backend.errors import IncompatibleServer
from toolgate_core.errors import BackendUnavailable
from toolgate_core.host_probe import PrivateName, find_problems

# --- vllm host ---
vllm_host.register()


def config(*, processors=None, drafts=None, v2=False, diffusion=False):
    return SimpleNamespace(
        model_config=SimpleNamespace(logits_processors=processors, is_diffusion=diffusion),
        speculative_config=drafts,
        use_v2_model_runner=v2,
    )


OURS = ["toolgate_backend.adapters.logits_processor:EnforcementLogitsProcessor"]
NGRAM = SimpleNamespace(method="ngram")


def test_the_adapter_is_detected_from_the_server_config():
    assert vllm_host.detect_adapter(config(processors=OURS), "auto") == "logits_processor"
    assert vllm_host.detect_adapter(config(), "auto") == "structured_output"
    assert vllm_host.detect_adapter(config(processors=["a:B"]), "auto") == "structured_output"
    assert vllm_host.detect_adapter(config(drafts=NGRAM, v2=True), "auto") == "structured_output"
    on_v2 = config(processors=OURS, drafts=NGRAM, v2=True)
    assert vllm_host.detect_adapter(on_v2, "auto") == "logits_processor"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (config(processors=OURS, drafts={}), "auto"),
        (config(processors=OURS, v2=True, diffusion=True), "auto"),
        (config(), "logits_processor"),
        (config(processors=OURS), "structured_output"),
    ],
)
def test_a_server_that_cannot_apply_masks_is_rejected(given, wanted):
    with pytest.raises(IncompatibleServer, match="TOOLGATE_ADAPTER"):
        vllm_host.detect_adapter(given, wanted)


@pytest.mark.parametrize("name", ["_create_grammar", "validate_tokens"])
def test_a_server_with_missing_hooks_is_rejected(monkeypatch, name):
    monkeypatch.setattr(StructuredOutputManager, name, lambda self, request, other, one: None)
    with pytest.raises(IncompatibleServer, match=rf"{name} .* TOOLGATE_ADAPTER=logits_processor"):
        vllm_host.detect_adapter(config(), "auto")
    assert vllm_host.detect_adapter(config(processors=OURS), "auto") == "logits_processor"


def test_vllm_without_the_hooks_is_not_patched(monkeypatch):
    monkeypatch.delattr(EngineCore, "toolgate_report")
    monkeypatch.delattr(StructuredOutputManager, "_create_grammar")
    vllm_host.register()
    assert not hasattr(EngineCore, "toolgate_report")
    assert not hasattr(StructuredOutputManager, "_create_grammar")


def engine(name):
    """vLLM's engine and executor, with two ranks or stages that return how they were called. Ray's
    executor, which needs Ray, inherits this."""
    core, executor = EngineCore.__new__(EngineCore), MultiprocExecutor.__new__(MultiprocExecutor)
    sent = []
    executor.is_failed, executor.futures_queue = False, deque()
    executor.rpc_broadcast_mq = SimpleNamespace(enqueue=sent.append)
    executor.response_mqs = [
        SimpleNamespace(dequeue=lambda timeout, rank=rank: (SUCCESS, (name, rank, *sent[-1][:2])))
        for rank in range(2)
    ]
    core.model_executor, core.toolgate_release = executor, lambda *args: (name, args)
    return core


def rpc(adapter):
    async def call(method, *args, engine):
        return getattr(engine, method)(*args)

    core = SimpleNamespace(core_engines=[engine("a"), engine("b")], _call_utility_async=call)
    return vllm_host.make_rpc(SimpleNamespace(engine_core=core), adapter)


SUCCESS, RELEASE = WorkerProc.ResponseStatus.SUCCESS, "toolgate_release"
ARGS = ("holder", ["key"])


async def test_an_rpc_returns_a_result_from_every_engine():
    assert await rpc("structured_output")(RELEASE, args=ARGS) == [("a", ARGS), ("b", ARGS)]


async def test_an_rpc_returns_a_result_from_every_rank_of_every_engine():
    assert await rpc("logits_processor")(RELEASE, args=ARGS) == [
        (name, rank, RELEASE, ARGS) for name in "ab" for rank in range(2)
    ]


@pytest.mark.parametrize(("model_type", "kind"), [("qwen3", "random"), ("kimi_k2", "kimi_k2")])
def test_call_id_kind_follows_the_model_type(model_type, kind):
    held = SimpleNamespace(model_type=model_type)
    model_config = SimpleNamespace(hf_overrides=None, hf_config=held, hf_text_config=held)
    assert vllm_host.call_ids(model_config) == kind


@pytest.fixture(scope="module")
def manager():
    """vLLM's manager as far as the hook needs it, and the same for the engine's methods."""
    from vllm.config import ModelConfig

    manager = StructuredOutputManager.__new__(StructuredOutputManager)
    model_config = ModelConfig(model=str(tiny_model()), dtype="float32")
    manager.vllm_config = SimpleNamespace(model_config=model_config)
    return manager


def test_the_engine_runs_toolgate_methods_by_name(manager):
    """The engine handles the call as a utility request from its client."""
    engine = EngineCoreProc.__new__(EngineCoreProc)
    engine.vllm_config = manager.vllm_config
    engine.shutdown_state = EngineShutdownState.RUNNING
    engine.output_queue = queue.Queue()
    call = (0, 7, "toolgate_report", ())
    engine._handle_client_request(EngineCoreRequestType.UTILITY, call)
    client, outputs = engine.output_queue.get_nowait()
    answer = outputs.utility_output
    assert (client, answer.call_id, answer.failure_message) == (0, 7, None)
    report = answer.result.result
    assert report == {"grammars": 0, "sequences": 0, "process": report["process"]}


def test_workers_run_toolgate_methods_by_name(monkeypatch):
    monkeypatch.setenv("VLLM_PLUGINS", "toolgate")
    plugin.register()
    monkeypatch.setattr("toolgate_backend.grammars.store._installed", {})
    monkeypatch.setattr("toolgate_backend.grammars.store._sequences", 3)
    worker = WorkerBase.__new__(WorkerBase)
    found = run_method(worker, "toolgate_report", (), {})
    assert found == {"grammars": 0, "sequences": 3, "process": found["process"]}
    assert run_method(worker, "toolgate_report", (), {}) == found


# --- probe ---
GROUPS = ("SERVER", "STRUCTURED_OUTPUT", "EXECUTORS", "ROWS", "FORCED_DRAFTS")
EVERY = [each for group in GROUPS for each in getattr(private_names, group)]
EVERY.append(private_names.ROWS_V1)  # ROWS_V2 needs Triton (test_applied_rows.py)


def test_the_installed_vllm_has_every_private_name():
    assert [*find_problems(EVERY)] == []


def test_the_installed_vllm_is_among_the_tested_releases():
    assert probe._installed()[1] in SpecifierSet(probe.TESTED)


def test_the_error_names_the_version_every_problem_and_what_to_install():
    names = tuple(PrivateName(f"json:{name}", "x") for name in ("loads", "gone", "lost"))
    with pytest.raises(IncompatibleServer) as raised:
        probe.check(names)
    message = str(raised.value)
    distribution, installed = probe._installed()
    assert message.startswith(f"{distribution} {installed} is not compatible")
    assert "json.gone is missing (used for: x)" in message
    assert "json.lost is missing (used for: x)" in message
    assert "loads" not in message
    assert message.endswith(f"pip install '{distribution}{probe.TESTED}'.")
    with pytest.raises(IncompatibleServer, match=r"', or wait\.$"):
        probe.check(names, ", or wait")


@pytest.mark.parametrize(
    "name",
    [
        "vllm.v1.worker.worker_base.WorkerBase",
        "vllm.v1.engine.core.EngineCore",
        "vllm.renderers.base.BaseRenderer.render_chat_async",
        "vllm.entrypoints.serve.utils.api_utils.with_cancellation",
    ],
)
def test_a_missing_private_name_stops_the_server(monkeypatch, name):
    """The plug-in checks the names, however vLLM was started."""
    monkeypatch.setenv("VLLM_PLUGINS", "toolgate")
    plugin.register()
    monkeypatch.delattr(name)
    with pytest.raises(IncompatibleServer, match=f"{name} is missing"):
        plugin.register()


def test_the_launcher_reports_an_incompatible_server_without_a_traceback(monkeypatch):
    def misfit(arguments):
        raise IncompatibleServer("vLLM lacks a name.")

    monkeypatch.setattr(launch.vllm_cli, "main", misfit)
    monkeypatch.setattr(launch, "_text_config", lambda model: None)
    monkeypatch.setattr(launch.os, "environ", {})
    with pytest.raises(launch.LaunchError, match=r"^vLLM lacks a name\.$"):
        launch.main(["model"])


# --- engine watch ---
class Engine:
    errored = False
    dead_error = EngineDeadError()


async def never(*args, **kwargs):
    await asyncio.Event().wait()
    return ()


async def test_an_rpc_fails_when_the_engine_dies():
    engine = Engine()
    call = while_engines_live(EngineWatch(engine).require_all, never)
    waiting = asyncio.create_task(call("load"))
    await asyncio.sleep(0.05)
    engine.errored = True
    async with asyncio.timeout(10):
        with pytest.raises(BackendUnavailable, match="engine died"):
            await waiting
        with pytest.raises(BackendUnavailable, match="engine died"):
            await call("load")


def all_live():
    """No engine is lost."""


async def test_an_rpc_has_a_deadline():
    with pytest.raises(BackendUnavailable, match="did not respond within"):
        await while_engines_live(all_live, never, deadline=0.1)("load")


async def test_an_rpc_that_fails_after_its_deadline_is_not_reported():
    async def late(*args, **kwargs):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise EngineDeadError from None
        return ()

    async with no_loop_errors():
        with pytest.raises(BackendUnavailable):
            await while_engines_live(all_live, late, deadline=0.1)("load")


async def test_results_and_errors_are_passed_on():
    async def rpc(method, args=()):
        if method == "fail":
            raise ValueError(args)
        return [method, *args]

    call = while_engines_live(all_live, rpc)
    assert await call("load", args=(1, 2)) == ["load", 1, 2]
    with pytest.raises(ValueError, match="3"):
        await call("fail", args=(3,))


# --- shutdown ---
class Client:
    def __init__(self):
        self.calls = []

    def shutdown(self, timeout=None):
        self.calls.append(f"shutdown {timeout}")


@pytest.mark.parametrize(("limit", "waited"), [(30.0, "30.0"), (None, "0.0")])
async def test_new_requests_are_refused_and_active_ones_finish_first(limit, waited):
    client = Client()
    before_shutdown(
        client,
        lambda: client.calls.append("refuse"),
        lambda seconds: client.calls.append(f"wait {seconds}"),
    )
    await asyncio.to_thread(client.shutdown, limit)
    assert client.calls == ["refuse", f"wait {waited}", f"shutdown {limit}"]


async def test_the_event_loop_is_not_blocked():
    client = Client()
    before_shutdown(client, lambda: None, lambda _: client.calls.append("wait"))
    client.shutdown(timeout=30)
    assert client.calls == ["shutdown 30"]

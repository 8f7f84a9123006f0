"""The watch over engines: vLLM's own sockets and threads, and what follows for requests."""

import asyncio
import queue
import threading
from types import SimpleNamespace

import pytest
import zmq
import zmq.asyncio
from vllm.v1.engine import EngineCoreOutputs
from vllm.v1.engine.core import EngineCoreProc, EngineShutdownState
from vllm.v1.engine.core_client import AsyncMPClient, BackgroundResources
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder

from toolgate_backend.adapters import engine_watch
from toolgate_backend.adapters.engine_watch import EngineWatch
from toolgate_core.errors import BackendUnavailable

engine_watch.install()


# --- an engine in a long step ---


def client_of(addresses):
    """vLLM's client, as far as it sends messages to engines and receives theirs."""
    context = zmq.Context.instance()
    client = AsyncMPClient.__new__(AsyncMPClient)
    client.resources = BackgroundResources(ctx=context)
    client.input_socket = zmq.asyncio.Context(context).socket(zmq.ROUTER)
    client.input_socket.bind(addresses[0])
    client.resources.output_socket = zmq.asyncio.Context(context).socket(zmq.PULL)
    client.resources.output_socket.bind(addresses[1])
    client.encoder, client.decoder = MsgpackEncoder(), MsgpackDecoder(EngineCoreOutputs)
    client.core_engines = [number.to_bytes(2, "little") for number in range(2)]
    client.utility_results, client.client_index = {}, 0
    client.outputs_queue = asyncio.Queue()
    return client


def start_engine(addresses, monkeypatch):
    """The threads of an engine's sockets. Its main thread handles no message."""
    engine = EngineCoreProc.__new__(EngineCoreProc)
    engine.input_queue, engine.output_queue = queue.Queue(), queue.Queue()
    engine.tensor_ipc_receiver = None
    engine.shutdown_state = EngineShutdownState.RUNNING
    monkeypatch.setattr(engine, "_make_ready_response", lambda: None)
    identity = (0).to_bytes(2, "little")
    for target, given in (
        (engine.process_input_sockets, ([addresses[0]], None, identity, threading.Event())),
        (engine.process_output_sockets, ([addresses[1]], None, 0)),
    ):
        threading.Thread(target=target, args=given, daemon=True).start()
    return engine


async def test_an_engine_in_a_long_step_responds_and_gets_all_other_messages(tmp_path, monkeypatch):
    addresses = [f"ipc://{tmp_path}/{name}" for name in ("in", "out")]
    client = client_of(addresses)
    engine = start_engine(addresses, monkeypatch)
    async with asyncio.timeout(60):
        await client.input_socket.recv_multipart()
        first = client.core_engines[0]
        other = asyncio.create_task(client._call_utility_async("report", 7, engine=first))
        assert await client._call_utility_async(engine_watch.PING, engine=first) is None
        assert not other.done()
        kind, (_, _, *message) = await asyncio.to_thread(engine.input_queue.get)
        assert (kind.name, message) == ("UTILITY", ["report", [7]])
        assert engine.input_queue.empty()
        assert await EngineWatch(SimpleNamespace(engine_core=client))._responds(first)
        engine.output_queue.put(EngineCoreProc.ENGINE_CORE_DEAD)
        other.cancel()
        client.resources.output_queue_task.cancel()
    client.input_socket.close(linger=0)
    client.resources.output_socket.close(linger=0)


# --- requests to a lost engine ---


class Client:
    """vLLM's engine client with two engines, of which the second one may not respond."""

    errored = False
    dead_error = EngineDeadError()

    def __init__(self, engine_of=("reqs_in_flight",)):
        self.core_engines = [number.to_bytes(2, "little") for number in range(2)]
        self.responds = asyncio.Event()
        self.engine_core = self
        names = ("first", "second")
        for name in engine_of:
            setattr(self, name, dict(zip(names, self.core_engines, strict=True)))
        states = {name: SimpleNamespace(queue=queue.SimpleQueue()) for name in names}
        self.output_processor = SimpleNamespace(request_states=states)

    async def _call_utility_async(self, method, *, engine):
        if engine == self.core_engines[1]:
            await self.responds.wait()

    def ended(self):
        states = self.output_processor.request_states.items()
        return {name for name, state in states if not state.queue.empty()}


async def until_lost(watch):
    async with asyncio.timeout(30):
        while True:
            try:
                watch.require_all()
            except BackendUnavailable as error:
                return error
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("engine_of", "ended"),
    [(("reqs_in_flight",), {"second"}), ((), {"first", "second"})],
    ids=["several engines", "vLLM does not know the engine of a request"],
)
async def test_a_lost_engine_makes_the_backend_unready_and_its_requests_end(engine_of, ended):
    client = Client(engine_of)
    watch = EngineWatch(client, interval=0.02, limit=1)
    watch.start()
    watch.require_all()
    error = await until_lost(watch)
    assert (error.status, error.retry_after) == (503, 1)
    assert error.message.startswith("Engine 1 of this model's backend does not respond.")
    with pytest.raises(BackendUnavailable, match="Engine 1"):
        await client.check_health()
    assert client.ended() == ended
    client.responds.set()
    async with asyncio.timeout(30):
        while watch._lost:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await client.check_health()


async def test_the_watch_ends_when_vllm_finds_the_engine_dead():
    client = Client()
    watch = EngineWatch(client, interval=0.02, limit=1)
    watch.start()
    client.errored = True
    with pytest.raises(BackendUnavailable, match="engine died"):
        await client.check_health()
    client.responds.set()
    async with asyncio.timeout(30):
        await asyncio.gather(*watch._tasks)

"""The way of requests to the engine's loop, and of its outputs."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.util import Finalize
from typing import Any, Protocol

import zmq
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder

from .receiver import receive


class Channel(Protocol):
    def send(self, request: Any) -> None:
        """Give a request to the engine's process."""

    def admit(self, *, wait: bool = False) -> None:
        """Add the requests that have arrived to the scheduler, or all that were sent. Called by
        the engine's loop, like `deliver`."""

    def deliver(self, outputs: dict[int, Any]) -> None:
        """Pass on the outputs of a step."""


class DirectChannel:
    """Everything happens in the engine's thread."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def send(self, request: Any) -> None:
        self._engine.add_request(*self._engine.preprocess_add_request(request))

    def admit(self, *, wait: bool = False) -> None:
        pass

    def deliver(self, outputs: dict[int, Any]) -> None:
        pass


class ThreadedChannel:
    """With the threads of a vLLM server. One decodes requests and begins to compile their grammars,
    the other encodes outputs and sends them to another process."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._encoder, self._output_encoder = MsgpackEncoder(), MsgpackEncoder()
        self._decoder = MsgpackDecoder(EngineCoreRequest)
        self._input, self._output = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._sent: deque[Future[Any]] = deque()
        self._delivered: deque[Future[Any]] = deque()
        self._directory = tempfile.TemporaryDirectory()
        address = f"ipc://{self._directory.name}/outputs"
        self._socket = zmq.Context().socket(zmq.PUSH)
        self._socket.bind(address)
        context = multiprocessing.get_context("spawn")
        context.Process(target=receive, args=(address,), daemon=True).start()
        # Before the process that receives is ended: without it, sending would wait for ever.
        Finalize(None, self._output.shutdown, exitpriority=0)

    def send(self, request: Any) -> None:
        frames = self._encoder.encode(request)
        self._sent.append(self._input.submit(self._receive, frames))

    def admit(self, *, wait: bool = False) -> None:
        while self._sent and (wait or self._sent[0].done()):
            self._engine.add_request(*self._sent.popleft().result())

    def deliver(self, outputs: dict[int, Any]) -> None:
        for each in outputs.values():
            self._delivered.append(self._output.submit(self._send_outputs, each))
        while self._delivered and self._delivered[0].done():
            self._delivered.popleft().result()  # raises what went wrong in the thread

    def _receive(self, frames: Any) -> Any:
        return self._engine.preprocess_add_request(self._decoder.decode(frames))

    def _send_outputs(self, outputs: Any) -> None:
        self._socket.send_multipart(self._output_encoder.encode(outputs), copy=False)

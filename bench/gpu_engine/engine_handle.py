"""An engine's process, as the benchmark sees it."""

from __future__ import annotations

import multiprocessing
import shutil
import subprocess
import time
from pathlib import Path

from bench.engine_steps.blocks import Block

from .engine_process import READY, EngineOptions, Responses, run
from .engines import BlockOfRequests, EngineSetup

PROFILE_SECONDS = 2
PROFILE_RATE = 500
"""Samples per second."""
STOP_SECONDS = 10.0


class EngineFailed(RuntimeError):
    """An engine did not start or did not finish a block. The message is its traceback."""


class EngineHandle:
    def __init__(self, setup: EngineSetup, options: EngineOptions) -> None:
        self.name = setup.name
        context = multiprocessing.get_context("spawn")
        self._channel, other = context.Pipe()
        self._process = context.Process(target=run, args=(setup, options, other), name=self.name)
        self._process.start()
        other.close()

    def begin(self, responses: Responses, seconds: float) -> None:
        """Wait until the engine is ready, and give it the responses. Raises EngineFailed."""
        answer = self._receive(seconds)
        if answer != READY:
            raise EngineFailed(str(answer))
        self._channel.send(responses)

    def measure(self, block: BlockOfRequests, seconds: float, profiles: Path) -> Block:
        """Measure a block in at most `seconds`. Raises EngineFailed."""
        self._channel.send(block)
        if block.profiled:
            self._profile(profiles / f"{block.engine}-{block.kind}.txt")
        answer = self._receive(seconds)
        if not isinstance(answer, Block):
            raise EngineFailed(str(answer))
        return answer

    def stop(self) -> None:
        self._channel.close()
        self._process.join(STOP_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _receive(self, seconds: float) -> object:
        if not self._channel.poll(max(0.0, seconds)):
            raise EngineFailed(f"no answer in {seconds:.0f} s")
        try:
            answer: object = self._channel.recv()
        except EOFError:
            raise EngineFailed("the process has ended; see its output above") from None
        return answer

    def _profile(self, file: Path) -> None:
        """Write stacks with their numbers of samples. Without py-spy, or without the right to use
        it, there is no profile."""
        program = shutil.which("py-spy")
        if program is None:
            return
        time.sleep(1)  # until all streams run
        command = [program, "record", "--nonblocking", "--format", "raw", "--output", str(file)]
        command += ["--pid", str(self._process.pid), "--duration", str(PROFILE_SECONDS)]
        command += ["--rate", str(PROFILE_RATE)]
        subprocess.run(command, check=False, timeout=60, stdout=subprocess.DEVNULL)

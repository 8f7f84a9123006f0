"""Jobs for the tests of killable workers."""

import os
import signal
import time
from pathlib import Path

from pydantic import BaseModel

from toolgate_core.killable import MAX_RESULT_BYTES, Work


class Job(BaseModel):
    steps: tuple[str, ...]
    """What to do, one after another."""
    path: str = ""
    """A file with the number of attempts so far."""


class Result(BaseModel):
    text: str


def work(setup):
    return Work(Job, lambda job: _run(job, setup))


def _run(job, setup):
    for step in job.steps:
        if step == "spin":
            pow(3, 10**10)  # native code that does not return
        elif step == "sleep":
            time.sleep(1_000)
        elif step == "allocate":
            bytearray(2**31)
        elif step == "fail":
            raise ValueError
        elif step == "pid":
            yield Result(text=str(os.getpid()))
        elif step == "setup":
            yield Result(text=setup.decode() + os.environ["EXTRA"])
        elif step == "large":
            yield Result(text="a" * MAX_RESULT_BYTES)
        elif step == "busy":
            until = time.process_time() + 0.3
            while time.process_time() < until:
                pass
        elif step.startswith("once "):
            if not Path(job.path).exists():
                Path(job.path).touch()
                os.kill(os.getpid(), signal.Signals[step.removeprefix("once ")])
        elif step.startswith("SIG"):
            os.kill(os.getpid(), signal.Signals[step])
        else:
            yield Result(text=step)

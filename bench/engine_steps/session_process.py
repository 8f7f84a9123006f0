"""A session in a process of its own, which alone imports vLLM."""

from __future__ import annotations

from .options import Options, Text
from .results import Session

ENVIRONMENT = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_PLUGINS": "",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}


def run(options: Options, text: Text, streams: int) -> Session:
    from .session import run_session

    return run_session(options, text, streams)

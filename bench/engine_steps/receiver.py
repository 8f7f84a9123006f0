"""The process that receives an engine's outputs. It imports no vLLM."""

from __future__ import annotations

import zmq


def receive(address: str) -> None:
    """Receive an engine's outputs without end, as the API process does."""
    socket = zmq.Context().socket(zmq.PULL)
    socket.connect(address)
    while True:
        socket.recv_multipart()

"""A process that receives an engine's outputs, as the API process does. It imports no vLLM."""

from __future__ import annotations

import zmq


def receive(address: str) -> None:
    """Without end."""
    socket = zmq.Context().socket(zmq.PULL)
    socket.connect(address)
    while True:
        socket.recv_multipart()

"""Fixtures of the gateway's tests, for the programs that send requests to gateways."""

from tests.proxy.conftest import backend, backend_of_session
from tests.proxy.server.conftest import gateway

__all__ = ["backend", "backend_of_session", "gateway"]

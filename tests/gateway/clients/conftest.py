"""Programs of client libraries: each module names those that may run at once, and the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.clients.client_programs import Programs, programs


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[Programs]:
    with programs(request.module.AT_ONCE, request.module.ALONE) as running:
        yield running


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", [*metafunc.module.AT_ONCE, *metafunc.module.ALONE])

"""The list of paths: each line answers the path that it shows, and other requests have no line."""

from __future__ import annotations

import pytest
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from toolgate_proxy.app import paths
from toolgate_proxy.server.forwarding import Forwarding
from toolgate_proxy.server.paths import Path


async def litellm(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("No request is sent here.")


LINES = paths(Forwarding(litellm))
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT")


def line_of(method: str, path: str) -> Path | None:
    scope = {"type": "http", "method": method, "path": path, "root_path": ""}
    return next((each for each in LINES if each.matches(scope)[0] is Match.FULL), None)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.path)
def test_each_line_answers_the_path_that_it_shows(line: Path) -> None:
    for method in METHODS:
        answers = line.methods is None or method in line.methods
        assert (line_of(method, line.path) is line) == answers


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/chat/completions"),
        ("OPTIONS", "/v1/messages"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/models"),
        ("GET", "/toolgate/status"),
        ("GET", "/toolgate/ready2"),
        ("GET", "/unheard/of"),
    ],
)
def test_other_requests_are_litellms(method: str, path: str) -> None:
    assert line_of(method, path) is None

"""The page on the gateway's own route, and the setting that turns it off."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.litellm.own_route import Gateway
from toolgate_proxy.page.files import OPENAPI
from toolgate_proxy.server import launcher
from toolgate_proxy.settings import Settings

PATHS = ("/", "/docs", OPENAPI, "/toolgate/page/app.js")


@pytest.mark.parametrize("path", PATHS)
async def test_without_the_page_its_paths_are_litellms(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(gateway.here, "settings", gateway.here.settings.model_copy(update=OFF))
    refused = await gateway.ask(b"", path=path, method="GET", key=None)
    assert refused.status == 401
    await gateway.ask(b"", path=path, method="GET")
    assert [each.path for each in gateway.host.passed] == [path]


OFF = {"page": False}


@pytest.mark.parametrize(("given", "moved"), [({}, launcher.LITELLM_DOCS), (OFF, None)])
def test_litellms_documentation_moves_only_for_the_page(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, bool], moved: str | None
) -> None:
    monkeypatch.delenv("DOCS_URL", raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(launcher, "settings", lambda: Settings(**given))
    launcher.prepare(Path("config.yaml"))
    assert os.environ.get("DOCS_URL") == moved

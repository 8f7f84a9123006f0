"""Schema reports of a running gateway: its route, and the command that calls it."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from tests.support.litellm.routes import OWN_ROUTE_ONLY
from tests.support.schemas.report_tools import ENTRIES, UNIQUE
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.http_client import http_client
from toolgate_core import wire
from toolgate_core.schema.preparation.advice import ADVICE
from toolgate_proxy.cli.main import app

pytestmark = OWN_ROUTE_ONLY


async def test_schema_route_reports_every_tool(
    http: httpx.AsyncClient, backend: FakeBackend
) -> None:
    backend.residual["set_tags"] = (UNIQUE,)
    answer = await http.post("/toolgate/schema", json={"model": "tiny", "tools": ENTRIES})
    assert answer.status_code == 200, answer.text
    (report,) = answer.json()["backends"]
    assert report["backend"] == backend.url
    told = {each["name"]: each for each in report["tools"]}
    assert {name: each["status"] for name, each in told.items()} == {
        "plain": "masked",
        "set_tags": "checked",
        "refused_one": "refused",
        "away": "refused",
        "no spaces": "invalid",
    }
    assert told["plain"]["engine"] == "fake"
    assert told["away"]["pointer"] == "/properties/a/$ref"
    (left,) = told["set_tags"]["residual"]
    why, rewrite = ADVICE["uniqueItems"]
    assert left == UNIQUE.model_dump() | {"why": why, "rewrite": rewrite}


async def test_unreachable_backend_is_reported_as_failed(http: httpx.AsyncClient) -> None:
    answer = await http.post("/toolgate/schema", json={"tools": ENTRIES[:1]})
    statuses = [report["tools"][0]["status"] for report in answer.json()["backends"]]
    assert sorted(statuses) == ["failed", "masked"]


async def test_schema_route_requires_master_key_and_valid_body(
    http: httpx.AsyncClient, gateway: str
) -> None:
    wrong = await http.post("/toolgate/schema", json={"tools": "x"})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "tools")
    async with http_client(gateway) as stranger:
        assert (await stranger.post("/toolgate/schema", json={"tools": []})).status_code == 401


def test_schema_command_prints_the_report(
    gateway: str, backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.residual["set_tags"] = (UNIQUE,)
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(ENTRIES[:2]))
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", MASTER_KEY)
    said = CliRunner().invoke(app, ["schema", str(path), "--url", gateway, "--model", "tiny"])
    assert said.exit_code == 1, said.output
    assert "plain: masked (fake, 1.0 ms)" in said.output
    assert "set_tags: checked (fake, 1.0 ms)" in said.output
    assert UNIQUE.pointer in said.output
    assert "sk-" not in said.output


INSTANCES = [
    {"tool": "plain", "arguments": {"a": "x"}},
    {"tool": "set_tags", "arguments": {"tags": ["x", "x"]}},
    {"tool": "set_tags", "arguments": {"tags": ["y"]}},
]


def _forbids_y(instance: object) -> wire.InstanceWalk:
    if instance != {"tags": ["y"]}:
        return wire.InstanceWalk(accepted=True)
    return wire.InstanceWalk(accepted=False, pointer="/tags/0", rule="pattern")


async def test_instances_are_walked_and_validated(
    http: httpx.AsyncClient, backend: FakeBackend
) -> None:
    backend.walk = _forbids_y
    body = {"model": "tiny", "tools": ENTRIES, "instances": INSTANCES}
    answer = await http.post("/toolgate/schema", json=body)
    assert answer.status_code == 200, answer.text
    (report,) = answer.json()["backends"]
    assert report["instances"] == [
        {"tool": "plain", "accepted": True, "valid": True},
        {
            "tool": "set_tags",
            "accepted": True,
            "valid": False,
            "pointer": "/tags",
            "rule": "uniqueItems",
        },
        {
            "tool": "set_tags",
            "accepted": False,
            "valid": True,
            "pointer": "/tags/0",
            "rule": "pattern",
        },
    ]


@pytest.mark.parametrize(
    ("instances", "param"),
    [
        ([{"arguments": {}}], "instances[0].tool"),
        ([{"arguments": {}, "tool": "refused"}], "instances[0].tool"),
        ([{"arguments": "x" * 200_000, "tool": "plain"}], "instances[0]"),
        ([{"arguments": {}}] * 65, "instances"),
        ([{"args": {}}], "instances[0].arguments"),
    ],
)
async def test_instances_out_of_bounds_are_refused_by_name(
    http: httpx.AsyncClient, instances: list[object], param: str
) -> None:
    body = {"tools": ENTRIES[:2], "instances": instances}
    answer = await http.post("/toolgate/schema", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_schema_command_tells_of_instances(
    gateway: str, backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.walk = _forbids_y
    tools, instances = tmp_path / "tools.json", tmp_path / "args.json"
    tools.write_text(json.dumps(ENTRIES[:2]))
    instances.write_text(json.dumps([each["arguments"] for each in INSTANCES[1:]]))
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", MASTER_KEY)
    command = ["schema", str(tools), "--url", gateway, "--model", "tiny"]
    command += ["--instance", str(instances), "--tool", "set_tags"]
    said = CliRunner().invoke(app, [*command, "--json"])
    assert said.exit_code == 1, said.output
    assert list(map(json.loads, said.output.splitlines())) == [
        {"accepted": True, "valid": False, "pointer": "/tags", "rule": "uniqueItems"},
        {"accepted": False, "valid": True, "pointer": "/tags/0", "rule": "pattern"},
    ]
    said = CliRunner().invoke(app, command)
    assert "set_tags: masks forbid it, valid: pattern at /tags/0" in said.output
    instances.write_text(json.dumps({"tags": ["x"]}))
    assert CliRunner().invoke(app, command).exit_code == 0
    assert CliRunner().invoke(app, command[:2] + command[6:]).exit_code == 2

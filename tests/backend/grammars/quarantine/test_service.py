"""The quarantine as a real process: what is over a limit dies there, and nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests import tools
from tests.support.schemas import hostile_schemas
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.grammars.quarantine import service
from toolgate_backend.grammars.quarantine.fork_server import ForkServer
from toolgate_backend.grammars.quarantine.protocol import CompileLimits
from toolgate_backend.grammars.quarantine.service import Quarantine
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.schema.canonical import canonical_json, canonical_parameters
from toolgate_core.tools import parse_tools
from toolgate_core.wire import GrammarSource, GrammarVerdict

pytestmark = pytest.mark.asyncio(loop_scope="module")

AMPLE = CompileLimits(cpu_seconds=60, wall_seconds=120, memory_bytes=2**30)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def quarantine(vocabulary: Vocabulary) -> AsyncIterator[Quarantine]:
    async with running(vocabulary, AMPLE) as quarantine:
        yield quarantine


class running:
    """A quarantine for the length of a `with`, and its process."""

    def __init__(self, vocabulary: Vocabulary, limits: CompileLimits, workers: int = 2) -> None:
        self._quarantine = Quarantine(lambda: ForkServer.start(vocabulary), limits, workers=workers)

    async def __aenter__(self) -> Quarantine:
        self._quarantine.start()
        return self._quarantine

    async def __aexit__(self, *_: object) -> None:
        await self._quarantine.close()


def limited(quarantine: Quarantine, **limits: float) -> Quarantine:
    """The same process under other limits."""
    return Quarantine(quarantine._fork_server, AMPLE.model_copy(update=limits), workers=1)


def source(schema: dict[str, Any], name: str = "f") -> GrammarSource:
    parameters = canonical_parameters(schema)
    return GrammarSource(key=f"key of {name}", name=name, parameters=parameters)


def owned(owner: str, schema: dict[str, Any], name: str) -> GrammarSource:
    return source(schema, name).model_copy(update={"owner": owner})


def workers_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in children.split()]


def wait_for_end(pid: int) -> None:
    """Of a process that is not our child."""
    status = Path(f"/proc/{pid}/stat")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while status.read_text().rpartition(") ")[2][0] not in "ZX":
            time.sleep(0.01)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("schema", "limits", "named"),
    [
        (hostile_schemas.PROCESSOR, {"cpu_seconds": 0.3}, "0.3 s of processor time"),
        (hostile_schemas.PROCESSOR, {"wall_seconds": 0.3}, "longer than 0.3 s"),
        (hostile_schemas.MEMORY, {"memory_bytes": 64 * 2**20}, "64 MB of memory"),
    ],
)
async def test_a_schema_over_a_limit_is_refused_with_the_limit_in_the_reason(
    quarantine: Quarantine, schema: dict[str, Any], limits: dict[str, float], named: str
) -> None:
    strict = limited(quarantine, **limits)
    verdict = await strict.examine(source(schema))
    assert (verdict.status, verdict.code) == ("refused", "schema_too_complex")
    assert named in (verdict.reason or "")
    # The next one is served by the same quarantine, and by the same process behind it.
    assert (await strict.examine(source({}, "next"))).status == "ready"
    await strict.end_workers()


@pytest.mark.parametrize("room", [2**29, 2**33])
async def test_tools_are_compiled_under_a_limit_on_address_space(
    vocabulary: Vocabulary, room: int
) -> None:
    """`ulimit -v`, below and above the memory that one schema may use."""
    async with running(vocabulary, AMPLE, workers=1) as quarantine:
        pid = (await quarantine._fork_server()).pid
        await quarantine.end_workers()  # those that were forked before the limit
        size = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
        resource.prlimit(pid, resource.RLIMIT_AS, (size + room, size + room))
        assert (await quarantine.examine(source({}))).status == "ready"


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.exhaustive
async def test_other_schemas_are_examined_during_a_slow_compile(
    quarantine: Quarantine,
) -> None:
    slow = asyncio.create_task(quarantine.examine(source(hostile_schemas.PROCESSOR, "slow")))
    for i in range(20):
        assert (await quarantine.examine(source({}, f"quick{i}"))).status == "ready"
        assert not slow.done()
    await slow


async def test_verdicts_of_both_engines_include_measurements(quarantine: Quarantine) -> None:
    for tool, engine in ((tools.WEATHER, "xgrammar"), (tools.TAGS, "llguidance")):
        [parsed] = parse_tools([tool])
        verdict = await quarantine.examine(source(parsed.parameters, parsed.name))
        assert (verdict.status, verdict.engine) == ("ready", engine)
        assert verdict.compile_ms is not None
        assert (verdict.least_tokens or 0) > 0
        assert (verdict.extra_tokens or 0) > 0


async def test_instances_walk_through_the_masks(quarantine: Quarantine) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "maximum": 9}, "s": {"type": "string"}},
    }
    values = [{"n": 3, "s": "é"}, {"n": 10}, {"n": 3, "t": 1}, {"n": "x"}, []]
    examined = await quarantine.walk(source(schema), values)
    assert examined.verdict.status == "ready"
    assert [(w.accepted, w.pointer, w.rule) for w in examined.walks] == [
        (True, None, None),
        (False, "/n", "maximum"),
        (False, "/t", "closed_object"),
        (False, "/n", "maximum"),
        (False, "", "properties"),
    ]


async def test_instances_over_a_limit_refuse_their_schema(quarantine: Quarantine) -> None:
    strict = limited(quarantine, cpu_seconds=0.3)
    items = {"type": "array", "items": {"type": "string"}}
    values = [{"a": ["x y z " * 3] * 4_000}] * 20
    examined = await strict.walk(source({"properties": {"a": items}}), values)
    assert (examined.verdict.status, examined.walks) == ("refused", ())
    assert (await strict.walk(source({}, "next"), [{}])).walks[0].accepted
    await strict.end_workers()


async def test_replaced_workers_do_not_pile_up(quarantine: Quarantine) -> None:
    """A worker that has walked instances is replaced, and three are enough for two owners' jobs."""
    pid = (await quarantine._fork_server()).pid
    jobs = (owned(f"owner {at}", {}, f"f{at}") for at in range(8))
    await asyncio.gather(*(quarantine.walk(job, [{}]) for job in jobs))
    for _ in range(1_000):
        if len(workers_of(pid)) == 3:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"there are {len(workers_of(pid))} workers")


@pytest.mark.exhaustive
async def test_a_killed_fork_server_is_restarted(vocabulary: Vocabulary) -> None:
    async with running(vocabulary, AMPLE, workers=1) as quarantine:
        assert (await quarantine.examine(source({}, "a"))).status == "ready"
        fork_server = await quarantine._fork_server()
        workers = workers_of(fork_server.pid)
        os.kill(fork_server.pid, signal.SIGKILL)
        for worker in workers:  # workers die with what forked them
            await asyncio.to_thread(wait_for_end, worker)
        assert (await quarantine.examine(source({}, "b"))).status == "ready"
        assert (await quarantine._fork_server()).pid != fork_server.pid


@pytest.mark.exhaustive
async def test_an_owner_with_expensive_schemas_does_not_delay_others(
    vocabulary: Vocabulary,
) -> None:
    async with running(vocabulary, AMPLE, workers=1) as quarantine:
        expensive = [
            asyncio.create_task(quarantine.examine(owned("a", hostile_schemas.MEMORY, f"f{at}")))
            for at in range(4)
        ]
        await asyncio.sleep(0)
        assert (await quarantine.examine(owned("b", {}, "cheap"))).status == "ready"
        assert not expensive[-1].done()
        await asyncio.gather(*(_cancel(task) for task in expensive))


@pytest.mark.exhaustive
async def test_the_fork_server_exits_when_its_control_socket_closes(vocabulary: Vocabulary) -> None:
    fork_server = await ForkServer.start(vocabulary)
    worker = await fork_server.fork()
    asyncio.get_running_loop().remove_reader(fork_server._control.fileno())
    fork_server._control.close()
    assert await asyncio.to_thread(fork_server._process.wait, 30) == 0
    worker.close()


async def test_the_quarantine_has_lower_priority_than_the_engine(quarantine: Quarantine) -> None:
    pid = (await quarantine._fork_server()).pid
    assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)
    # Linux weighs sessions against each other, whatever the niceness in them; a Ctrl-C in ours,
    # though, is not meant for it.
    assert os.getsid(pid) == os.getsid(0)
    assert os.getpgid(pid) != os.getpgid(0)


async def test_the_quarantine_never_imports_vllm(quarantine: Quarantine) -> None:
    maps = Path(f"/proc/{(await quarantine._fork_server()).pid}/maps").read_text()
    assert "xgrammar" in maps
    assert "/vllm/" not in maps


@pytest.mark.exhaustive
@pytest.mark.parametrize("what", hostile_schemas.WORKS)
async def test_hostile_schemas_that_compile_are_ready(quarantine: Quarantine, what: str) -> None:
    verdict = await quarantine.examine(source(hostile_schemas.WORKS[what], what))
    assert verdict.status == "ready", verdict


@pytest.mark.parametrize("what", hostile_schemas.REFUSED)
async def test_hostile_schemas_are_refused_with_the_pointer(
    quarantine: Quarantine, what: str
) -> None:
    schema, pointer = hostile_schemas.REFUSED[what]
    verdict = await quarantine.examine(source(schema, "hostile"))
    assert (verdict.status, verdict.pointer) == ("refused", pointer), verdict
    assert verdict.reason
    GrammarVerdict.model_validate_json(verdict.model_dump_json())


async def test_expensive_grammars_are_returned_with_a_blob(
    quarantine: Quarantine, vocabulary: Vocabulary
) -> None:
    """The blob loads in another compiler and gives the same grammar as a compile."""
    values = [f"{'x' * 40}-{i}" for i in range(500)]
    expensive = source(hostile_schemas.of(**{"a": {"type": "string", "enum": values}}))
    verdict = await quarantine.examine(expensive)
    assert verdict.blob is not None
    assert verdict.load_ms is not None
    assert verdict.compile_ms is not None
    assert verdict.load_ms * 5 <= verdict.compile_ms
    compiler = Compiler.from_vocabulary(vocabulary, cache_bytes=2**26)
    loaded = compiler.load(expensive.key, verdict.blob, canonical_json(expensive.parameters))
    assert loaded.grammar is not None


async def test_cheap_grammars_are_returned_without_a_blob(quarantine: Quarantine) -> None:
    await quarantine.examine(source({}, "first"))
    assert (await quarantine.examine(source({}, "second"))).blob is None


@pytest.mark.parametrize(("cores", "workers"), [(1, 2), (8, 2), (16, 4), (192, 8)])
def test_the_number_of_workers_grows_with_the_cores(
    monkeypatch: pytest.MonkeyPatch, cores: int, workers: int
) -> None:
    monkeypatch.setattr(service, "usable_cores", lambda: cores)
    assert service.default_workers() == workers

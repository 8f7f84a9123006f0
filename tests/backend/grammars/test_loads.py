"""Where grammars are compiled: the quarantine's processes and the engine's threads."""

import ctypes
import hashlib
import os
import resource
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
import pytest_asyncio

from tests import tools
from tests.support.dialects.model import DialectModel
from tests.support.effort import rotating
from tests.support.schemas import hostile_schemas
from toolgate_backend.grammars import loader_threads
from toolgate_backend.grammars import quarantine as quarantine_module
from toolgate_backend.grammars.compiler import NICENESS, Compiler
from toolgate_backend.grammars.loader_threads import LoaderThreads
from toolgate_backend.grammars.quarantine import Quarantine, default_workers
from toolgate_core import killable
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.killable import JobLimits
from toolgate_core.schema.canonical import canonical_json, canonical_parameters
from toolgate_core.tools import parse_tools
from toolgate_core.wire import GrammarSource, GrammarVerdict, ResidualKeyword

# --- loader threads ---
Result = TypeVar("Result")
FAR = JobLimits(cpu_seconds=1_000, wall_seconds=1_000)
SHORT = JobLimits(cpu_seconds=0.2, wall_seconds=1_000)


def result_of(threads, job):
    future = Future()
    threads.submit(lambda: future.set_result(job()), "result")
    return future


def test_loading_threads_have_more_stack_than_the_quarantine():
    """Native recursion that succeeds in the quarantine must not overflow the engine's stack."""
    before = threading.stack_size()
    threads = LoaderThreads(2, FAR)
    sizes = {result_of(threads, _stack_of_this_thread).result() for _ in range(8)}
    assert min(sizes) >= loader_threads.STACK_BYTES > killable.STACK_BYTES
    assert threading.stack_size() == before


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no niceness of their own")
@pytest.mark.parametrize("raised", [0, 3, 12])
def test_loading_threads_have_lower_priority_than_the_engine(raised):
    with ThreadPoolExecutor(1, initializer=_raise_niceness, initargs=(raised,)) as engine:
        own, loading = engine.submit(_niceness_here_and_in_a_loader).result()
    assert loading == min(19, own + NICENESS)


@pytest.mark.parametrize("native", [False, True], ids=["in Python", "in native code"])
def test_a_job_that_does_not_end_is_abandoned_and_its_thread_replaced(native):
    threads = LoaderThreads(2, SHORT)
    ended = [threading.Event(), threading.Event()]
    for at, event in enumerate(ended):
        threads.submit(lambda event=event: _run_on(event, native), f"stuck {at}")
    waiting = result_of(threads, lambda: "loaded")
    abandoned = []
    while len(abandoned) < 2:
        abandoned += threads.abandon_overdue()
        time.sleep(0.01)
    assert sorted(abandoned) == ["stuck 0", "stuck 1"]
    assert waiting.result(timeout=60) == "loaded"
    if not native:
        assert all(event.wait(60) for event in ended)  # the jobs were interrupted
    assert threads.abandon_overdue() == []


def test_a_job_that_waits_for_long_is_abandoned():
    threads = LoaderThreads(1, JobLimits(cpu_seconds=1_000, wall_seconds=0.1))
    threads.submit(lambda: time.sleep(0.5), "waits")
    waiting = result_of(threads, lambda: "loaded")
    while not (abandoned := threads.abandon_overdue()):
        time.sleep(0.01)
    assert abandoned == ["waits"]
    assert waiting.result(timeout=60) == "loaded"


def test_jobs_within_the_limits_and_those_without_a_key_are_left_alone():
    threads = LoaderThreads(1, SHORT)
    done = threading.Event()
    threads.submit(lambda: _spin(0.4, done))
    while not done.is_set():
        assert threads.abandon_overdue() == []
        time.sleep(0.01)
    assert result_of(threads, lambda: 1).result(timeout=60) == 1


def _run_on(ended, native):
    """A walk without end, or one step of native code that takes long."""
    try:
        if native:
            hashlib.pbkdf2_hmac("sha256", b"", b"", 1_500_000)
        while not native:
            pass
    finally:
        ended.set()


def _spin(seconds, ended):
    started = time.thread_time()
    while time.thread_time() - started < seconds:
        pass
    ended.set()


def _raise_niceness(by):
    """Raise the niceness of this thread; threads it starts inherit it."""
    own = min(19, os.getpriority(os.PRIO_PROCESS, 0) + by)
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), own)


def _niceness_here_and_in_a_loader():
    def niceness():
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    return niceness(), result_of(LoaderThreads(1, FAR), niceness).result()


def _stack_of_this_thread():
    libc, attributes, size = ctypes.CDLL(None), ctypes.create_string_buffer(256), ctypes.c_size_t()
    this = ctypes.c_ulong(threading.get_ident())
    assert libc.pthread_getattr_np(this, attributes) == 0
    assert libc.pthread_attr_getstacksize(attributes, ctypes.byref(size)) == 0
    return size.value


# --- quarantine ---
pytestmark = [pytest.mark.exhaustive, pytest.mark.asyncio(loop_scope="module")]

AMPLE = JobLimits(cpu_seconds=60, wall_seconds=1_000, memory_bytes=2**30)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def quarantine(vocabulary):
    async with running(vocabulary) as quarantine:
        yield quarantine


@asynccontextmanager
async def running(vocabulary, workers=2):
    quarantine = Quarantine(vocabulary, AMPLE, workers=workers)
    await quarantine.warm_up()
    yield quarantine
    quarantine.pool.close()


def template_of(quarantine):
    template = quarantine.pool._template
    assert template is not None
    return template.pid


@pytest.fixture
def limited(quarantine):
    """The same processes under other limits."""

    def with_limits(**limits):
        quarantine.pool.limits = AMPLE._replace(**limits)
        return quarantine

    yield with_limits
    quarantine.pool.limits = AMPLE


def source(schema, name="f"):
    parameters = canonical_parameters(schema)
    return GrammarSource(key=f"key of {name}", name=name, parameters=parameters)


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
    limited, schema, limits, named
):
    strict = limited(**limits)
    verdict = await strict.examine(source(schema))
    assert (verdict.status, verdict.code) == ("refused", "schema_too_complex")
    assert named in (verdict.reason or "")
    assert (await strict.examine(source({}, "next"))).status == "ready"


@rotating("room", [2**29, 2**33], one_in=2)
async def test_tools_are_compiled_under_a_limit_on_address_space(vocabulary, room):
    """`ulimit -v`, below and above the memory that one schema may use."""
    async with running(vocabulary, workers=1) as quarantine:
        pid = template_of(quarantine)
        size = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
        resource.prlimit(pid, resource.RLIMIT_AS, (size + room, size + room))
        while quarantine.pool._idle:  # they were forked before the limit
            quarantine.pool._idle.pop().kill()
        assert (await quarantine.examine(source({}))).status == "ready"


async def test_verdicts_of_both_engines_include_measurements(quarantine):
    for tool, engine in ((tools.WEATHER, "xgrammar"), (tools.TAGS, "llguidance")):
        [parsed] = parse_tools([tool])
        verdict = await quarantine.examine(source(parsed.parameters, parsed.name))
        assert (verdict.status, verdict.engine) == ("ready", engine)
        assert verdict.compile_ms is not None
        assert (verdict.least_tokens or 0) > 0
        assert (verdict.extra_tokens or 0) > 0


async def test_the_quarantine_has_lower_priority_than_the_engine(quarantine):
    pid = template_of(quarantine)
    assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)
    # Linux weighs sessions against each other, whatever the niceness in them; a Ctrl-C in ours,
    # though, is not meant for it.
    assert os.getsid(pid) == os.getsid(0)
    assert os.getpgid(pid) != os.getpgid(0)


async def test_the_quarantine_never_imports_vllm(quarantine):
    maps = Path(f"/proc/{template_of(quarantine)}/maps").read_text()
    assert "xgrammar" in maps
    assert "/vllm/" not in maps


@pytest.mark.exhaustive
@pytest.mark.parametrize("what", hostile_schemas.WORKS)
async def test_hostile_schemas_that_compile_are_ready(quarantine, what):
    verdict = await quarantine.examine(source(hostile_schemas.WORKS[what], what))
    assert verdict.status == "ready", verdict


@pytest.mark.parametrize("what", hostile_schemas.REFUSED)
async def test_hostile_schemas_are_refused_with_the_pointer(quarantine, what):
    schema, pointer = hostile_schemas.REFUSED[what]
    verdict = await quarantine.examine(source(schema, "hostile"))
    assert (verdict.status, verdict.pointer) == ("refused", pointer), verdict
    assert verdict.reason
    GrammarVerdict.model_validate_json(verdict.model_dump_json())


async def test_expensive_grammars_are_returned_with_a_blob(quarantine, vocabulary):
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


async def test_cheap_grammars_are_returned_without_a_blob(quarantine):
    await quarantine.examine(source({}, "first"))
    assert (await quarantine.examine(source({}, "second"))).blob is None


@pytest.mark.parametrize(("cores", "workers"), [(1, 2), (8, 2), (16, 4), (192, 8)])
def test_the_number_of_workers_grows_with_the_cores(monkeypatch, cores, workers):
    monkeypatch.setattr(quarantine_module, "usable_cores", lambda: cores)
    assert default_workers() == workers


@pytest.mark.exhaustive
async def test_the_quarantine_compiles_arguments_in_tags():
    """The grammars of dialects whose arguments are not JSON."""
    either = {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 3}]}
    schema = {"properties": {"a": {"type": "string"}, "b": either}, "required": ["a"]}
    vocabulary = DialectModel(DIALECTS["qwen3_coder"]).vocabulary
    async with running(vocabulary, workers=1) as quarantine:
        verdict = await quarantine.examine(source(schema))
        content = await quarantine.examine(source(schema, ""))
    assert (verdict.status, verdict.engine) == ("ready", "llguidance")
    assert verdict.least_tokens
    pointer = "/properties/b/anyOf/1/minimum"
    assert verdict.residual == (ResidualKeyword(pointer=pointer, keyword="minimum"),)
    assert (content.status, content.engine) == ("ready", "xgrammar")

"""The quarantine as a real process: what is over a limit dies there, and nobody else notices."""

from __future__ import annotations

import os
import resource
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests import tools
from tests.support.dialects.model import DialectModel
from tests.support.schemas import hostile_schemas
from toolgate_backend.grammars import quarantine as quarantine_module
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.grammars.quarantine import Quarantine, default_workers
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.killable import Limits
from toolgate_core.schema.canonical import canonical_json, canonical_parameters
from toolgate_core.tools import parse_tools
from toolgate_core.wire import GrammarSource, GrammarVerdict, ResidualKeyword

pytestmark = pytest.mark.asyncio(loop_scope="module")

AMPLE = Limits(cpu_seconds=60, wall_seconds=120, memory_bytes=2**30)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def quarantine(vocabulary: Vocabulary) -> AsyncIterator[Quarantine]:
    async with running(vocabulary) as quarantine:
        yield quarantine


@asynccontextmanager
async def running(vocabulary: Vocabulary, workers: int = 2) -> AsyncIterator[Quarantine]:
    quarantine = Quarantine(vocabulary, AMPLE, workers=workers)
    await quarantine.warm_up()
    yield quarantine
    quarantine.pool.close()


def template_of(quarantine: Quarantine) -> int:
    template = quarantine.pool._template
    assert template is not None
    return template.pid


@pytest.fixture
def limited(quarantine: Quarantine) -> Iterator[Callable[..., Quarantine]]:
    """The same processes under other limits."""

    def with_limits(**limits: Any) -> Quarantine:
        quarantine.pool.limits = AMPLE._replace(**limits)
        return quarantine

    yield with_limits
    quarantine.pool.limits = AMPLE


def source(schema: dict[str, Any], name: str = "f") -> GrammarSource:
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
    limited: Callable[..., Quarantine],
    schema: dict[str, Any],
    limits: dict[str, float],
    named: str,
) -> None:
    strict = limited(**limits)
    verdict = await strict.examine(source(schema))
    assert (verdict.status, verdict.code) == ("refused", "schema_too_complex")
    assert named in (verdict.reason or "")
    assert (await strict.examine(source({}, "next"))).status == "ready"


@pytest.mark.parametrize("room", [2**29, 2**33])
async def test_tools_are_compiled_under_a_limit_on_address_space(
    vocabulary: Vocabulary, room: int
) -> None:
    """`ulimit -v`, below and above the memory that one schema may use."""
    async with running(vocabulary, workers=1) as quarantine:
        pid = template_of(quarantine)
        size = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
        resource.prlimit(pid, resource.RLIMIT_AS, (size + room, size + room))
        while quarantine.pool._idle:  # they were forked before the limit
            quarantine.pool._idle.pop().kill()
        assert (await quarantine.examine(source({}))).status == "ready"


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


async def test_instances_over_a_limit_refuse_their_schema(
    limited: Callable[..., Quarantine],
) -> None:
    strict = limited(cpu_seconds=0.3)
    items = {"type": "array", "items": {"type": "string"}}
    values = [{"a": ["x y z " * 3] * 4_000}] * 20
    examined = await strict.walk(source({"properties": {"a": items}}), values)
    assert (examined.verdict.status, examined.walks) == ("refused", ())
    assert (await strict.walk(source({}, "next"), [{}])).walks[0].accepted


async def test_the_quarantine_has_lower_priority_than_the_engine(quarantine: Quarantine) -> None:
    pid = template_of(quarantine)
    assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)
    # Linux weighs sessions against each other, whatever the niceness in them; a Ctrl-C in ours,
    # though, is not meant for it.
    assert os.getsid(pid) == os.getsid(0)
    assert os.getpgid(pid) != os.getpgid(0)


async def test_the_quarantine_never_imports_vllm(quarantine: Quarantine) -> None:
    maps = Path(f"/proc/{template_of(quarantine)}/maps").read_text()
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
    monkeypatch.setattr(quarantine_module, "usable_cores", lambda: cores)
    assert default_workers() == workers


@pytest.mark.exhaustive
async def test_the_quarantine_compiles_arguments_in_tags() -> None:
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

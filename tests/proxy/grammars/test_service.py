"""Loading of grammars for requests: single flight, batches of other requests, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.servers.fake_backend import INFO
from tests.support.servers.fleet import places
from toolgate_core import wire
from toolgate_core.errors import BackendFailed, InvalidRequest, InvalidTools, SchemaTooComplex
from toolgate_core.tools import Tool, parse_tools
from toolgate_proxy.backend_client.client import Backend
from toolgate_proxy.grammars.memory_cache import verdict_ttl
from toolgate_proxy.grammars.service import GrammarService
from toolgate_proxy.settings import Settings


class Loader(Backend):
    """Backend whose verdicts depend on the tools' names. Each load takes 20 ms."""

    def __init__(self) -> None:
        super().__init__("http://x", None, Settings())
        self.loads: list[list[str]] = []
        self.fail = False
        self.stuck = ""
        """Name of a tool whose load takes until `released` is set."""
        self.released = asyncio.Event()
        self.failing = ""
        """Name of a tool whose load fails."""
        self.residual: tuple[wire.ResidualKeyword, ...] = ()
        """Keywords of all tools that masks can't enforce."""

    async def load_grammars(
        self, sources: Iterable[wire.GrammarSource], *, want_blobs: bool = False
    ) -> tuple[wire.GrammarVerdict, ...]:
        taken = list(sources)
        self.loads.append([source.name for source in taken])
        await asyncio.sleep(0.02)
        if self.stuck in [source.name for source in taken]:
            await self.released.wait()
        if self.fail or self.failing in [source.name for source in taken]:
            raise BackendFailed("by script")
        return tuple(
            wire.GrammarVerdict(key=source.key, status="refused", reason="why", pointer="/not")
            if source.name.startswith("bad")
            else wire.GrammarVerdict(key=source.key, status="ready", residual=self.residual)
            for source in taken
        )


def tools(*names: str) -> tuple[Tool, ...]:
    entries: list[dict[str, Any]] = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in names
    ]
    return parse_tools(entries)


async def test_only_unknown_grammars_are_loaded():
    loader = Loader()
    grammars = GrammarService(loader)
    first = await grammars.ensure(tools("a", "b"), places(tools("a", "b")), INFO)
    second = await grammars.ensure(tools("b", "c"), places(tools("b", "c")), INFO)
    assert loader.loads == [["a", "b"], ["c"]]
    (key_of_b,) = set(first.keys.values()) & set(second.keys.values())
    assert key_of_b.endswith(":qwen3:tok:1")


async def test_concurrent_requests_load_a_grammar_once():
    loader = Loader()
    grammars = GrammarService(loader)
    both = tools("a", "b")
    await asyncio.gather(*(grammars.ensure(both, places(both), INFO) for _ in range(10)))
    assert loader.loads == [["a", "b"]]


async def test_slow_compile_in_another_request_does_not_delay_shared_grammars():
    loader = Loader()
    loader.stuck = "hostile"
    grammars = GrammarService(loader)
    beside, alone = tools("a", "b", "hostile"), tools("a")
    first = asyncio.create_task(grammars.ensure(beside, places(beside), INFO))
    await asyncio.sleep(0)
    requests = (
        grammars.ensure(each, places(each), INFO) for each in (alone, alone, tools("a", "c"))
    )
    await asyncio.gather(*requests)
    assert not first.done()
    assert loader.loads == [["a", "b", "hostile"], ["c"], ["a"]]
    loader.released.set()
    await first
    await grammars.ensure(beside, places(beside), INFO)
    assert len(loader.loads) == 3


async def test_failed_compile_in_another_request_does_not_fail_shared_grammars():
    loader = Loader()
    loader.failing = "hostile"
    grammars = GrammarService(loader)
    beside, alone = tools("a", "hostile"), tools("a")
    first = asyncio.create_task(grammars.ensure(beside, places(beside), INFO))
    await asyncio.sleep(0)
    await grammars.ensure(alone, places(alone), INFO)
    with pytest.raises(BackendFailed):
        await first


async def test_load_continues_when_its_first_request_is_cancelled():
    loader = Loader()
    grammars = GrammarService(loader)
    one = tools("a")
    first = asyncio.create_task(grammars.ensure(one, places(one), INFO))
    await asyncio.sleep(0)
    second = asyncio.create_task(grammars.ensure(one, places(one), INFO))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert loader.loads == [["a"]]


async def test_more_tools_than_the_backend_can_hold_are_an_error():
    many = tools(*(f"t{at}" for at in range(INFO.limits.max_grammars + 1)))
    with pytest.raises(InvalidTools):
        await GrammarService(Loader()).ensure(many, places(many), INFO)


async def test_refused_tools_can_be_left_out():
    loader = Loader()
    grammars = GrammarService(loader)
    found = tools("good", "bad_one", "bad_two", "fine")
    lone = replace(tools("lone")[0], parameters={"enum": ["a\ud83d"]}, hash="of lone")
    offered = (*found, lone)
    errors: dict[str, InvalidRequest] = {}
    for loads in (1, 1):  # refusals are remembered
        loaded = await grammars.ensure(
            offered, places(offered), INFO, on_invalid=errors.__setitem__
        )
        assert list(loaded.keys) == [found[0].hash, found[3].hash]
        assert {name: error.code for name, error in errors.items()} == {
            "lone": "invalid_tools",
            "bad_one": "schema_not_enforceable",
            "bad_two": "schema_not_enforceable",
        }
        assert "'bad_one' can't be enforced (at /not): why" in errors["bad_one"].message
        assert len(loader.loads) == loads


async def test_a_strict_tool_with_a_residual_keyword_can_be_left_out():
    loader = Loader()
    loader.residual = (wire.ResidualKeyword(pointer="/not", keyword="not"),)
    grammars = GrammarService(loader)
    strict, other = replace(tools("strict")[0], strict=True), tools("other")[0]
    errors: dict[str, InvalidRequest] = {}
    offered = (strict, other)
    loaded = await grammars.ensure(offered, places(offered), INFO, on_invalid=errors.__setitem__)
    assert list(errors) == ["strict"]
    assert "'strict' contain 'not' (at /not)" in errors["strict"].message
    assert list(loaded.residual) == [other.hash]


def test_a_refusal_for_cost_is_believed_for_less():
    ready = wire.GrammarVerdict(key="k", status="ready")
    refused = ready.model_copy(update={"status": "refused"})
    too_dear = refused.model_copy(update={"code": SchemaTooComplex.code})
    assert verdict_ttl(ready) > verdict_ttl(refused) > verdict_ttl(too_dear) > 0

"""What requests say about their grammars, what is learnt from backends, and refusals."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import REGISTRY

from tests.support.servers.fake_backend import INFO
from toolgate_core import wire
from toolgate_core.errors import (
    BackendFailed,
    InvalidRequest,
    InvalidTools,
    SchemaNotEnforceable,
    SchemaTooComplex,
)
from toolgate_core.tools import Tool, parse_tools
from toolgate_proxy.backend_client.client import Backend
from toolgate_proxy.backend_client.replicas import Replicas
from toolgate_proxy.grammars.service import GrammarService, NeededGrammars, grammar_key
from toolgate_proxy.grammars.verdicts import MemoryCache, verdict_ttl
from toolgate_proxy.settings import Settings

NOT = (wire.ResidualKeyword(pointer="/not", keyword="not"),)


class Compiling(Backend):
    """Refuses tools by their names."""

    def __init__(self) -> None:
        super().__init__("http://x", None, Settings())
        self.loads: list[list[str]] = []
        self.silent = False

    async def info(self) -> wire.Info:
        return INFO

    async def load_grammars(
        self, sources: Iterable[wire.GrammarSource], info: wire.Info
    ) -> tuple[wire.GrammarVerdict, ...]:
        taken = list(sources)
        self.loads.append([source.name for source in taken])
        return () if self.silent else tuple(verdict(each.key, each.name) for each in taken)


def verdict(key: str, name: str, **more: Any) -> wire.GrammarVerdict:
    if name.startswith("bad"):
        return wire.GrammarVerdict(key=key, status="refused", reason="why", pointer="/not")
    return wire.GrammarVerdict(key=key, status="ready", **more)


def tools(*names: str) -> tuple[Tool, ...]:
    entries: list[dict[str, Any]] = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in names
    ]
    return parse_tools(entries)


def keys(*offered: Tool) -> set[str]:
    return {grammar_key(tool, INFO) for tool in offered}


class Known(GrammarService):
    def __init__(self) -> None:
        self.backend = Compiling()
        super().__init__(self.backend)

    async def of(self, *offered: Tool, **options: Any) -> NeededGrammars:
        return await self.needed(offered, INFO, **options)

    def told(self, *offered: Tool, **more: Any) -> None:
        """Learn what a backend says of these tools."""
        found = [verdict(grammar_key(tool, INFO), tool.name, **more) for tool in offered]
        self.learn(found, offered, INFO)


async def test_what_is_not_known_is_asked_for_once():
    grammars, (a, b, c) = Known(), tools("a", "b", "c")
    first = await grammars.of(a, b)
    assert first.unknown == keys(a, b)
    assert {*first.keys.values()} == keys(a, b)
    assert all(key.endswith(":qwen3:tok:1") for key in first.unknown)
    grammars.told(a, b)
    second = await grammars.of(b, c)
    assert second.unknown == keys(c)
    assert not (await grammars.of(a, b)).unknown
    assert not grammars.backend.loads


async def test_only_verdicts_on_the_tools_of_the_request_are_learnt():
    grammars, (a, b) = Known(), tools("a", "b")
    grammars.learn([verdict(*keys(b), "b")], [a], INFO)
    assert (await grammars.of(a, b)).unknown == keys(a, b)


async def test_no_tools_need_nothing():
    assert await Known().of() == NeededGrammars({}, {})


async def test_more_tools_than_the_backend_can_hold_are_an_error():
    with pytest.raises(InvalidTools):
        await Known().of(*tools(*(f"t{at}" for at in range(INFO.limits.max_grammars + 1))))


async def test_the_owner_is_not_shown():
    found = await Known().of(*tools("a"), owner="sk-secret")
    assert found.owner
    assert "secret" not in found.owner
    assert found.owner != (await Known().of(*tools("a"), owner="another")).owner


async def test_refused_tools_can_be_left_out():
    grammars, found = Known(), tools("good", "bad_one", "bad_two", "fine")
    grammars.told(*found[:3])
    lone = replace(tools("lone")[0], parameters={"enum": ["a\ud83d"]}, hash="of lone")
    errors: dict[str, InvalidRequest] = {}
    needed = await grammars.of(*found, lone, on_invalid=errors.__setitem__)
    assert list(needed.keys) == [found[0].hash, found[3].hash]
    assert needed.unknown == keys(found[3])
    assert {name: error.code for name, error in errors.items()} == {
        "lone": "invalid_tools",
        "bad_one": "schema_not_enforceable",
        "bad_two": "schema_not_enforceable",
    }
    assert "'bad_one' cannot be enforced (at /not): why" in errors["bad_one"].message


async def test_a_refused_tool_is_an_error_that_names_its_schema():
    grammars, (good, bad) = Known(), tools("good", "bad")
    grammars.told(bad)
    with pytest.raises(SchemaNotEnforceable) as refused:
        await grammars.of(good, bad)
    assert (refused.value.param, refused.value.pointer) == ("tools[1].function.parameters", "/not")


async def test_a_strict_tool_with_a_residual_keyword_can_be_left_out():
    grammars = Known()
    strict, other = replace(tools("strict")[0], strict=True), tools("other")[0]
    grammars.told(strict, other, residual=NOT)
    errors: dict[str, InvalidRequest] = {}
    needed = await grammars.of(strict, other, on_invalid=errors.__setitem__)
    assert list(errors) == ["strict"]
    assert "'strict' contain 'not' (at /not)" in errors["strict"].message
    assert needed.residual == {other.hash: NOT}


async def test_accepted_grammars_are_counted_by_their_verdicts():
    def counted() -> list[float]:
        return [
            REGISTRY.get_sample_value("toolgate_grammars_total", {"verdict": verdict}) or 0.0
            for verdict in ("known", "new")
        ]

    grammars, (a, b, c) = Known(), tools("a", "b", "c")
    grammars.told(a)
    needed, before = await grammars.of(a, b, c), counted()
    grammars.count(needed)
    assert [now - then for now, then in zip(counted(), before, strict=True)] == [1, 2]


def test_a_record_is_sent_once_for_each_replica_after_one_has_joined():
    cache, replicas = MemoryCache(), Replicas("http://a")
    for key in "ab":
        cache.remember(wire.GrammarVerdict(key=key, status="ready"))
    sent = [cache.lacked("ab", replicas)]
    for names, needed in (("xy", "abc"), ("x", "a"), ("", "ab"), ("z", "a"), *[("", "a")] * 3):
        for name in names:
            replicas.note(INFO.model_copy(update={"replica": name}))
        sent.append(cache.lacked(needed, replicas))
    assert [*map("".join, sent)] == ["", "ab", "a", "b", "a", "a", "a", ""]


async def test_prepared_tools_are_known():
    grammars, (good, bad) = Known(), tools("good", "bad")
    found = await grammars.prepare([good, bad])
    assert {name: each.status for name, each in found.items()} == {
        good.hash: "ready",
        bad.hash: "refused",
    }
    assert grammars.backend.loads == [["good", "bad"]]
    assert not (await grammars.of(good)).unknown
    with pytest.raises(SchemaNotEnforceable):
        await grammars.of(bad)


async def test_a_load_without_verdicts_is_a_failure_of_the_backend():
    grammars = Known()
    grammars.backend.silent = True
    with pytest.raises(BackendFailed, match="no verdict for 2 of 2"):
        await grammars.prepare(tools("a", "b"))


@pytest.mark.parametrize("given", [[7], [{}], [{"key": "a", "status": "perhaps"}]])
def test_invalid_verdicts_are_a_failure_of_the_backend(given):
    with pytest.raises(BackendFailed, match="invalid verdict"):
        Known().learn_refused(given, tools("a"), INFO)


def test_a_refusal_for_cost_is_believed_for_less():
    ready = wire.GrammarVerdict(key="k", status="ready")
    refused = ready.model_copy(update={"status": "refused"})
    too_dear = refused.model_copy(update={"code": SchemaTooComplex.code})
    assert verdict_ttl(ready) > verdict_ttl(refused) > verdict_ttl(too_dear) > 0

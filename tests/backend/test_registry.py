"""The registry over a real store, reached as vLLM would: one answer a rank."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from toolgate_backend.grammars.registry import GrammarRegistry
from toolgate_backend.grammars.store import GrammarStore, grammar_format
from toolgate_backend.vocabulary import Vocabulary
from toolgate_core import keys
from toolgate_core.errors import GrammarUnknown, InvalidRequest, SchemaNotEnforceable
from toolgate_core.wire import GrammarSource


class Ranks:
    """Two ranks' stores behind the shape of `collective_rpc`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.stores = [GrammarStore(vocabulary), GrammarStore(vocabulary)]
        self.calls: list[str] = []

    async def __call__(self, method: str, args: Sequence[Any] = ()) -> list[Any]:
        from toolgate_backend.grammars import store

        self.calls.append(method)
        answers = []
        for rank in self.stores:
            store.install(rank)
            answers.append(store.WORKER_METHODS[method](None, *args))
        return answers


@pytest.fixture
def ranks(vocabulary: Vocabulary) -> Ranks:
    return Ranks(vocabulary)


PARTS = {"dialect": "qwen3", "tokenizer": "t", "grammar_format": grammar_format()}


@pytest.fixture
def registry(ranks: Ranks) -> GrammarRegistry:
    return GrammarRegistry(ranks, **PARTS, capacity=2)


def source(name: str, **schema: Any) -> GrammarSource:
    parameters = keys.canonical_parameters({"properties": {"x": schema or {"type": "null"}}})
    key = keys.grammar_key(keys.tool_hash(name, parameters), **PARTS)
    return GrammarSource(key=key, name=name, parameters=parameters)


async def test_loaded_on_every_rank_and_pinned_while_used(
    registry: GrammarRegistry, ranks: Ranks
) -> None:
    tool = source("a")
    [verdict] = await registry.load([tool])
    assert (verdict.status, verdict.engine) == ("ready", "xgrammar")
    assert all(store.get(tool.key) for store in ranks.stores)
    with registry.pin([tool.key]):
        assert registry.pinned == 1
    assert registry.pinned == 0


async def test_an_unknown_key_is_named(registry: GrammarRegistry) -> None:
    with pytest.raises(GrammarUnknown) as unknown, registry.pin(["nope"]):
        pass
    assert unknown.value.keys == ("nope",)


async def test_many_who_ask_at_once_wait_on_one_compile(
    registry: GrammarRegistry, ranks: Ranks
) -> None:
    await asyncio.gather(*(registry.load([source("a")]) for _ in range(8)))
    assert ranks.calls.count("toolgate_load") == 1


async def test_who_asked_first_may_go_away(registry: GrammarRegistry) -> None:
    first = asyncio.create_task(registry.load([source("a")]))
    await asyncio.sleep(0)
    second = asyncio.create_task(registry.load([source("a")]))
    await asyncio.sleep(0)
    first.cancel()
    [verdict] = await second
    assert verdict.status == "ready"


async def test_the_least_used_leaves_the_ranks_and_a_pinned_one_stays(
    registry: GrammarRegistry, ranks: Ranks
) -> None:
    a, b, c, d = (source(name) for name in "abcd")
    await registry.load([a])
    await registry.load([b])
    with registry.pin([a.key]):
        await registry.load([c])
        await registry.load([d])
        assert ranks.stores[0].get(a.key)
        with pytest.raises(GrammarUnknown), registry.pin([b.key]):
            pass
    assert len(ranks.stores[0]) == 2


async def test_a_refusal_is_remembered(registry: GrammarRegistry, ranks: Ranks) -> None:
    bad = source("a", type="array", uniqueItems=True)
    for _ in range(2):
        [verdict] = await registry.load([bad])
        assert (verdict.status, verdict.pointer) == ("refused", "/properties/x/uniqueItems")
    assert ranks.calls.count("toolgate_load") == 1
    with pytest.raises(SchemaNotEnforceable), registry.pin([bad.key]):
        registry.require_ready([bad.key])


async def test_a_key_that_is_not_its_contents_is_refused(registry: GrammarRegistry) -> None:
    good = source("a")
    forged = GrammarSource(key=good.key, name="a", parameters={"type": "object"})
    with pytest.raises(InvalidRequest):
        await registry.load([forged])

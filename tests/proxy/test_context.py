"""Response headers and token counts kept in the context of a request."""

from __future__ import annotations

import re
from typing import Any

import pytest

from toolgate_core.chat_request import HistoryChange
from toolgate_core.wire import ResidualKeyword
from toolgate_proxy.context import SCOPE, RequestContext, context_of
from toolgate_proxy.grammar_loads import slowest
from toolgate_proxy.keys.limit_kinds import Tokens
from toolgate_proxy.limit_lease import Lease
from toolgate_proxy.server.response_headers import own_headers


def test_the_slowest_tier_counts() -> None:
    assert slowest() == "memory"
    assert slowest("redis", "memory") == "redis"
    assert slowest("memory", "compiled", "redis") == "compiled"


def test_grammar_times_add_up_over_the_sends_of_a_request() -> None:
    context = RequestContext(enforced="full")
    context.grammars.note(3, "compiled", 10.0)
    context.grammars.note(3, "memory", 0.26)
    assert own_headers(context) == {
        "x-toolgate-enforced": "full",
        "x-toolgate-grammar": "compiled; n=3; ms=10.3",
    }


@pytest.mark.parametrize(
    ("constrained", "residual", "enforced"),
    [
        ((), {}, "none"),
        (("a tool",), {}, "full"),
        (("a tool",), {"hash": (ResidualKeyword(pointer="/not", keyword="not"),)}, "residual"),
    ],
)
def test_enforcement_is_none_full_or_residual(
    constrained: object, residual: dict[str, tuple[ResidualKeyword, ...]], enforced: str
) -> None:
    context = RequestContext()
    context.note_enforcement(constrained, residual)
    assert own_headers(context)["x-toolgate-enforced"] == enforced
    assert ("x-toolgate-residual" in own_headers(context)) == (enforced == "residual")


def test_residual_keywords_are_listed_once_and_only_safe_ones() -> None:
    def keywords(*names: str) -> tuple[ResidualKeyword, ...]:
        return tuple(ResidualKeyword(pointer="", keyword=name) for name in names)

    context = RequestContext(resamples=2)
    context.note_enforcement(
        True,
        {"a": keywords("uniqueItems", "not"), "b": keywords("not", "x\r\ny", "$ref", "k" * 65)},
    )
    headers = own_headers(context)
    assert headers["x-toolgate-residual"] == "2; keywords=$ref,not,uniqueItems"
    assert headers["x-toolgate-resamples"] == "2"


def test_a_request_that_reached_no_model_has_no_headers_but_its_id() -> None:
    assert own_headers(RequestContext()) == {}
    context = RequestContext.with_request_id("mine")
    context.resamples = 1
    context.grammars.note(2, "memory", 0.1)
    context.extra_headers["x-ratelimit-limit-requests"] = "3"
    assert own_headers(context) == {"x-request-id": "mine", "x-ratelimit-limit-requests": "3"}


@pytest.mark.parametrize("sent", ["my-request.7", "a" * 128, "A_b:c/d=e+f"])
def test_a_safe_request_id_is_kept(sent: str) -> None:
    assert RequestContext.with_request_id(sent).request_id == sent


@pytest.mark.parametrize("sent", [None, "", "no\tgood", "x" * 129, "line\nend", "é"])
def test_another_request_id_is_replaced(sent: str | None) -> None:
    made = RequestContext.with_request_id(sent).request_id
    assert made is not None
    assert re.fullmatch(r"req_[0-9a-f]{32}", made)
    assert made != RequestContext.with_request_id(sent).request_id


def test_uncounted_tokens_count_until_tokens_are_counted_or_the_request_failed() -> None:
    assert RequestContext(reserved_tokens=Tokens(20, 40)).used_tokens().total == 0
    context = RequestContext(uncounted=Tokens(20, 40))
    context.begin_response(200)
    assert context.used_tokens().total == 60
    context.note_tokens(10, 5)
    assert (context.used_tokens().total, context.complete) == (15, False)
    context.note_tokens(10, 7, complete=True)
    context.note_tokens(10, 8)
    assert (context.used_tokens().total, context.complete) == (18, True)
    failed = RequestContext(uncounted=Tokens(20, 40))
    failed.begin_response(503)
    assert (failed.failed, failed.used_tokens().total) == (True, 0)


async def test_a_request_is_settled_once_for_the_same_tokens() -> None:
    settled: list[int] = []

    async def settle() -> None:
        settled.append(1)

    context = RequestContext(lease=Lease(settle))
    await context.settle()
    await context.settle()
    assert settled == [1]
    context.note_tokens(1, 2)
    await context.settle()
    assert settled == [1, 1], "corrected by what was counted since"


def test_the_context_of_a_scope_is_made_once() -> None:
    scope: dict[str, Any] = {"type": "http"}
    made = context_of(scope)
    assert context_of(scope) is made is scope[SCOPE]
    mine = RequestContext("mine")
    assert context_of({SCOPE: mine}) is mine


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_backend_counted_before_a_fallback_does_not_count(stream: bool) -> None:
    context = RequestContext(reserved_tokens=Tokens(90, 900))
    context.note_tokens(95, 2)
    context.await_counts(stream=stream)
    assert context.used_tokens() == (Tokens(90, 0) if stream else Tokens(90, 900))
    context.note_tokens(95, 5000)
    assert context.used_tokens() == Tokens(95, 5000)


def test_changes_to_the_history_are_in_a_header_by_kind() -> None:
    context = RequestContext()
    assert "x-toolgate-history" not in own_headers(context)
    arguments, image = HistoryChange("arguments", "input[0]"), HistoryChange("image", "input[1]")
    context.note_changes([arguments, image])
    context.note_changes([HistoryChange("arguments", "input[2]"), image])
    assert (
        own_headers(context)["x-toolgate-history"] == "arguments=input[0],input[2]; image=input[1]"
    )

"""What a request keeps: its response headers and token counts; counts of the last minutes."""

import re
from types import SimpleNamespace

import pytest

from tests.support.waiting import Clock
from toolgate_core.wire import ResidualKeyword
from toolgate_proxy.context import SCOPE, Meter, Notes, Outcome, RequestContext, context_of
from toolgate_proxy.keys.limit_kinds import Tokens
from toolgate_proxy.request.chat_request import HistoryChange
from toolgate_proxy.server.request_scope import own_headers
from toolgate_proxy.server.traffic import MAX_TIMES, MINUTES, RecentRequests


@pytest.mark.parametrize(
    ("sends", "header"),
    [
        ([], None),
        ([(0, False)], None),
        ([(3, False)], "known; n=3"),
        ([(3, True), (2, False)], "new; n=2"),
    ],
)
def test_a_grammar_that_was_new_to_a_send_of_a_request_is_new(sends, header):
    context = RequestContext(notes=Notes(enforced="full"))
    for number, new in sends:
        context.notes.note_grammars(number, new=new)
    assert own_headers(context).get("x-toolgate-grammar") == header


def keywords(*names):
    return tuple(ResidualKeyword(pointer="", keyword=name) for name in names)


@pytest.mark.parametrize(
    ("constrained", "residual", "enforced", "listed"),
    [
        ((), {}, "none", None),
        (("a tool",), {}, "full", None),
        (("a tool",), {"hash": keywords("not")}, "residual", "1; keywords=not"),
        (
            ("a tool",),  # once, and only safe ones
            {"a": keywords("uniqueItems", "not"), "b": keywords("not", "x\r\ny", "$ref", "k" * 65)},
            "residual",
            "2; keywords=$ref,not,uniqueItems",
        ),
    ],
)
def test_enforcement_is_none_full_or_residual_with_its_keywords(
    constrained, residual, enforced, listed
):
    context = RequestContext(notes=Notes(resamples=2))
    context.notes.note_enforcement(constrained, residual)
    headers = own_headers(context)
    assert headers["x-toolgate-enforced"] == enforced
    assert headers.get("x-toolgate-residual") == listed
    assert headers["x-toolgate-resamples"] == "2"


def test_a_request_that_reached_no_model_has_no_headers_but_its_id():
    assert own_headers(RequestContext()) == {}
    context = RequestContext.with_request_id("mine")
    context.notes.resamples = 1
    context.notes.note_grammars(2, new=False)
    context.notes.headers["x-ratelimit-limit-requests"] = "3"
    assert own_headers(context) == {"x-request-id": "mine", "x-ratelimit-limit-requests": "3"}


def test_only_a_safe_request_id_is_kept():
    for sent in ("my-request.7", "a" * 128, "A_b:c/d=e+f"):
        assert RequestContext.with_request_id(sent).request_id == sent
    others = (None, "", "no\tgood", "x" * 129, "line\nend", "é")
    made = {RequestContext.with_request_id(sent).request_id for sent in others}
    assert len(made) == len(others)
    assert all(re.fullmatch(r"req_[0-9a-f]{32}", each) for each in made)


def test_uncounted_tokens_count_until_tokens_are_counted_or_the_request_failed():
    assert Meter(Outcome()).used_tokens().total == 0
    context = RequestContext()
    context.meter.uncounted = Tokens(20, 40)
    context.outcome.begin(200)
    assert context.meter.used_tokens().total == 60
    context.meter.note_tokens(10, 5)
    assert (context.meter.used_tokens().total, context.meter.complete) == (15, False)
    context.meter.note_tokens(10, 7, complete=True)
    context.meter.note_tokens(10, 8)
    assert (context.meter.used_tokens().total, context.meter.complete) == (18, True)
    failed = Meter(Outcome(), uncounted=Tokens(20, 40))
    failed.outcome.begin(503)
    assert (failed.outcome.failed, failed.used_tokens().total) == (True, 0)


def test_what_a_backend_counted_before_a_fallback_does_not_count():
    context = RequestContext()
    context.meter.lease = SimpleNamespace(reserved=Tokens(90, 900))
    context.meter.note_tokens(95, 2)
    context.meter.await_counts()
    assert context.meter.used_tokens() == Tokens(90, 900)
    context.meter.note_tokens(95, 5000)
    assert context.meter.used_tokens() == Tokens(95, 5000)


async def test_a_request_is_settled_once_for_the_same_tokens():
    settled = []

    async def settle():
        settled.append(1)

    context = RequestContext()
    context.meter.lease = SimpleNamespace(settle=settle)
    await context.meter.settle()
    await context.meter.settle()
    assert settled == [1]
    context.meter.note_tokens(1, 2)
    await context.meter.settle()
    assert settled == [1, 1], "corrected by what was counted since"


def test_the_context_of_a_scope_is_made_once():
    scope = {"type": "http"}
    made = context_of(scope)
    assert context_of(scope) is made is scope[SCOPE]
    mine = RequestContext("mine")
    assert context_of({SCOPE: mine}) is mine


def test_changes_to_the_history_are_in_a_header_by_kind():
    context = RequestContext()
    assert "x-toolgate-history" not in own_headers(context)
    arguments, image = HistoryChange("arguments", "input[0]"), HistoryChange("image", "input[1]")
    context.notes.note_changes([arguments, image])
    context.notes.note_changes([HistoryChange("arguments", "input[2]"), image])
    changes = own_headers(context)["x-toolgate-history"]
    assert changes == "arguments=input[0],input[2]; image=input[1]"


def test_requests_are_counted_in_their_minute_until_it_is_dropped():
    clock = Clock()
    recent = RecentRequests(clock)
    recent.note("200", 0.25, omitted=True)
    recent.note("429", None)
    clock.seconds += 60
    recent.note("502", None)
    recent.note("stream_error", 0.5)
    recent.note("disconnected", None)
    *earlier, before, now = recent.minutes()
    assert [minute.requests for minute in earlier] == [0] * (MINUTES - 2)
    assert (before.requests, before.refused, before.failed) == (2, 1, 0)
    assert (before.omitted, now.omitted) == (1, 0)
    assert before.first_token_seconds == [0.25]
    assert (now.requests, now.refused, now.failed) == (3, 0, 2)
    assert now.start - before.start == 1
    clock.seconds += 60 * MINUTES
    assert [minute.requests for minute in recent.minutes()] == [0] * MINUTES
    for _ in range(MAX_TIMES + 10):
        recent.note("200", 0.1)
    minute = recent.minutes()[-1]
    assert (minute.requests, len(minute.first_token_seconds)) == (MAX_TIMES + 10, MAX_TIMES)

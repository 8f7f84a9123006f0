"""Each turn with calls is followed by their results, whatever the client sent."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolgate_core.chat_request import HistoryChange
from toolgate_proxy.api.shared.history import NO_RESULT, UNKNOWN, History, with_results

Message = dict[str, Any]
USER: Message = {"role": "user", "content": "and?"}


def called(*calls: tuple[str | None, str]) -> Message:
    made = [
        {"type": "function", "function": {"name": name, "arguments": "{}"}}
        | ({} if call_id is None else {"id": call_id})
        for call_id, name in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(call_id: str | None, text: str, name: str | None = None) -> Message:
    fields = {"role": "tool", "content": text, "tool_call_id": call_id, "name": name}
    return {field: value for field, value in fields.items() if value is not None}


def paired(*messages: Message) -> tuple[list[Message], list[str], tuple[HistoryChange, ...]]:
    """The messages, their paths, and what was changed."""
    history = History()
    pairs = with_results([(each, f"m{at}") for at, each in enumerate(messages)], history)
    return [message for message, _ in pairs], [path for _, path in pairs], history.changes


def contents(messages: list[Message]) -> list[Any]:
    return [message["content"] for message in messages]


def test_results_are_in_the_order_of_the_calls() -> None:
    asked = called(("a", "f"), ("b", "g"))
    got, paths, changes = paired(asked, result("b", "of g"), result("a", "of f"), USER)
    assert contents(got) == [None, "of f", "of g", "and?"]
    assert paths == ["m0", "m2", "m1", "m3"]
    assert changes == ()


def test_a_late_result_follows_its_call() -> None:
    got, _, changes = paired(called(("a", "f")), USER, result("a", "of f"), USER)
    assert contents(got) == [None, "of f", "and?", "and?"]
    assert changes == ()


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    got, paths, changes = paired(called(("a", "f"), ("b", "g")), result("a", "of f"), USER)
    assert contents(got) == [None, "of f", NO_RESULT, "and?"]
    assert (got[2]["tool_call_id"], paths[2]) == ("b", "m0")
    assert changes == (HistoryChange("no_result", "m0"),)
    got, _, _ = paired(called(("a", "f"), ("b", "g")), result("b", "of g"))
    assert contents(got) == [None, NO_RESULT, "of g"]


def test_a_last_turn_may_wait_for_its_results() -> None:
    got, _, changes = paired(USER, called(("a", "f")))
    assert contents(got) == ["and?", None]
    assert changes == ()


def test_a_result_without_a_call_gets_one() -> None:
    got, paths, changes = paired(result("gone", "x", "f"), USER)
    (call,) = got[0]["tool_calls"]
    assert (call["id"], call["function"]) == ("gone", {"name": "f", "arguments": "{}"})
    assert [message["role"] for message in got] == ["assistant", "tool", "user"]
    assert paths == ["m0", "m0", "m1"]
    assert changes == (HistoryChange("lost_call", "m0"),)
    got, _, _ = paired(USER, result(None, "x"), result(None, "y"))
    names = [message["tool_calls"][0]["function"]["name"] for message in got[1::2]]
    assert names == [UNKNOWN, UNKNOWN]
    assert [message["content"] for message in got[2::2]] == ["x", "y"]
    assert all(got[at]["tool_calls"][0]["id"] == got[at + 1]["tool_call_id"] for at in (1, 3))


def test_results_of_unknown_calls_are_after_those_of_known_ones() -> None:
    got, _, changes = paired(called(("a", "f")), result("x", "of x"), result("a", "of a"))
    assert contents(got) == [None, "of a", None, "of x"]
    assert [change.kind for change in changes] == ["lost_call"]


def test_results_without_a_known_id_are_assigned_by_name_and_order() -> None:
    asked = called((None, "f"), (None, "g"), (None, "f"))
    given = [result(None, "of g", "g"), result(None, "first f"), result("unknown", "second f")]
    got, _, changes = paired(asked, *given)
    assert contents(got) == [None, "first f", "of g", "second f"]
    ids = [call["id"] for call in got[0]["tool_calls"]]
    assert len({*ids}) == 3
    assert [message["tool_call_id"] for message in got[1:]] == ids
    assert changes == ()


def test_an_id_that_is_used_again_is_that_of_the_last_turn() -> None:
    got, _, _ = paired(called(("1", "f")), result("1", "a"), called(("1", "f")), result("1", "b"))
    assert contents(got) == [None, "a", None, "b"]


def test_calls_of_one_turn_with_the_same_id_get_a_result_each() -> None:
    asked = called(("1", "f"), ("1", "g"))
    got, _, changes = paired(asked, result("1", "a"), result("1", "b"), result("1", "c"))
    assert contents(got) == [None, "a", "b", "c"]
    first, second = (call["id"] for call in got[0]["tool_calls"])
    assert first != second
    assert [message["tool_call_id"] for message in got[1:]] == [first, second, second]
    assert changes == ()


IDS = st.sampled_from(["a", "b", "c", "", None])
NAMES = st.sampled_from(["f", "g"])
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(dict, role=st.sampled_from(["user", "system"]), content=st.just("hi")),
    st.lists(st.tuples(IDS, NAMES), max_size=3).map(lambda calls: called(*calls)),
    st.builds(result, IDS, st.just("x"), NAMES | st.none()),
)


def turns(messages: list[Message]) -> list[tuple[Message, list[str]]]:
    """Each message that is no result, with the ids of the results after it."""
    found: list[tuple[Message, list[str]]] = []
    for message in messages:
        if message["role"] == "tool":
            found[-1][1].append(message["tool_call_id"])
        else:
            found.append((message, []))
    return found


@given(st.lists(MESSAGES, max_size=8))
def test_every_history_becomes_one_that_templates_can_render(messages: list[Message]) -> None:
    got, paths, _ = paired(*messages)
    assert len(got) == len(paths)
    assert {id(message) for message in messages} <= {id(message) for message in got}
    found = turns(got)
    for message, results in found:
        ids = [call["id"] for call in message.get("tool_calls", ())]
        assert len({*ids}) == len(ids)
        assert [*dict.fromkeys(results)] == ids or (not results and message is found[-1][0])
        assert results == sorted(results, key=ids.index)

"""Histories of other services, damaged ones, and what only this gateway knows of its own: each
becomes one that templates can render. Single examples are rows of requests.yaml."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseInputItemParam

from tests.support.apis.messages_api import SEAL
from tests.support.apis.value_examples import tool_types
from toolgate_proxy.api.messages.opaque import original_id, shown_id, signer
from toolgate_proxy.api.responses.items import FIELDS
from toolgate_proxy.api.shared.history import (
    MAX_PLACES,
    NO_RESULT,
    UNKNOWN,
    History,
    Turns,
    text_of,
)
from toolgate_proxy.features.all import RESPONSES
from toolgate_proxy.request.chat_request import HistoryChange
from toolgate_proxy.request.toolset import Toolset
from toolgate_proxy.request_fields import Fields
from toolgate_proxy.sealing import OwnerSeal, Sealer

from .kit import HI, changes, parsed, refused, rows

USER = {"role": "user", "content": "and?"}


def called(*calls):
    made = [
        {"type": "function", "function": {"name": name, "arguments": "{}"}}
        | ({} if call_id is None else {"id": call_id})
        for call_id, name in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(call_id, text, name=None):
    fields = {"role": "tool", "content": text, "tool_call_id": call_id, "name": name}
    return {field: value for field, value in fields.items() if value is not None}


def paired(*messages):
    """The messages, their paths, and what was changed, at which."""
    turns = Turns(History(), Toolset())
    for at, each in enumerate(messages):
        turns.begin(each, f"m{at}")
    made = turns.finished()
    notes = [f"{change.kind} {change.path}" for change in turns.history.changes]
    return [*made.messages], [*made.paths], notes


ONE, TWO = called(("a", "f")), called(("a", "f"), ("b", "g"))
OF_A, OF_B = result("a", "A"), result("b", "B")
UNNAMED = called((None, "f"), (None, "g"), (None, "f"))
SAME = called(("1", "f"), ("1", "g"))
BY_NAME = [result(None, "G", "g"), result(None, "F", "f"), result("unknown", "H")]


@pytest.mark.parametrize(
    ("messages", "contents", "paths", "notes"),
    [
        ([TWO, OF_B, OF_A, USER], [None, "A", "B", "and?"], "m0 m2 m1 m3", []),
        ([ONE, USER, OF_A, USER], [None, "A", "and?", "and?"], "m0 m2 m1 m3", []),
        ([TWO, OF_A, USER], [None, "A", NO_RESULT, "and?"], "m0 m1 m0 m2", ["no_result m0"]),
        ([TWO, OF_B], [None, NO_RESULT, "B"], "m0 m0 m1", ["no_result m0"]),
        ([USER, ONE], ["and?", None], "m0 m1", []),
        ([result("gone", "X", "f"), USER], [None, "X", "and?"], "m0 m0 m1", ["lost_call m0"]),
        ([ONE, result("x", "X"), OF_A], [None, "A", None, "X"], "m0 m2 m1 m1", ["lost_call m1"]),
        ([UNNAMED, *BY_NAME], [None, "F", "G", "H"], "m0 m2 m1 m3", []),
        ([ONE, OF_A, ONE, result("a", "B")], [None, "A", None, "B"], "m0 m1 m2 m3", []),
        ([SAME, *(result("1", each) for each in "ABC")], [None, "A", "B", "C"], "m0 m1 m2 m3", []),
    ],
    ids=[
        "in the order of the calls", "late", "missing", "the first missing", "awaited",
        "without a call", "of an unknown call", "by name and order", "of an id used again",
        "of calls with one id",
    ],
)  # fmt: skip
def test_results_follow_their_calls(messages, contents, paths, notes):
    got, places, noted = paired(*messages)
    assert [message["content"] for message in got] == contents
    assert (" ".join(places), noted) == (paths, notes)
    check_pairs(got)


def check_pairs(got):
    """Each turn with calls is followed by results of these, in their order."""
    turns = []
    for message in got:
        if message["role"] == "tool":
            turns[-1][1].append(message["tool_call_id"])
        else:
            turns.append((message, []))
    for message, results in turns:
        ids = [call["id"] for call in message.get("tool_calls", ())]
        assert len({*ids}) == len(ids)
        assert [*dict.fromkeys(results)] == ids or (not results and message is turns[-1][0])
        assert results == sorted(results, key=ids.index)


def test_results_without_a_call_get_one_each():
    got, _, _ = paired(result("gone", "x", "f"), USER, result(None, "y"), result(None, "z"))
    calls = [message["tool_calls"][0] for message in got if message["role"] == "assistant"]
    assert [call["function"]["name"] for call in calls] == ["f", UNKNOWN, UNKNOWN]
    assert calls[0] == {
        "id": "gone", "type": "function", "function": {"name": "f", "arguments": "{}"},
    }  # fmt: skip
    assert [message["content"] for message in got if message["role"] == "tool"] == ["x", "y", "z"]
    check_pairs(got)


IDS = st.sampled_from(["a", "b", "c", "", None])
NAMES = st.sampled_from(["f", "g"])
MESSAGES = st.one_of(
    st.builds(dict, role=st.sampled_from(["user", "system"]), content=st.just("hi")),
    st.lists(st.tuples(IDS, NAMES), max_size=3).map(lambda calls: called(*calls)),
    st.builds(result, IDS, st.just("x"), NAMES | st.none()),
)


@given(st.lists(MESSAGES, max_size=8))
def test_every_history_becomes_one_that_templates_can_render(messages):
    got, paths, _ = paired(*messages)
    assert len(got) == len(paths)
    assert {id(message) for message in messages} <= {id(message) for message in got}
    check_pairs(got)


OTHERS = ("{", "[]", "null", "1", '"a"', '"{}"', " ", "{]", [], 1, True, "[" * 10**5)


@pytest.mark.parametrize("sent", [{"a": "é"}, '{"a": "é"}', *OTHERS])
def test_arguments_are_the_text_of_an_object_or_an_empty_one(sent):
    history = History()
    valid = sent not in OTHERS
    assert history.arguments(Fields({"arguments": sent}, "p")) == ('{"a": "é"}' if valid else "{}")
    assert history.changes == (() if valid else (HistoryChange("arguments", "p.arguments"),))


def test_fields_that_clients_add_are_left_out_and_places_are_bounded():
    history = History()
    sent = {"role": "user", "metadata_passthrough": {"a": 1}, "phase": None, "a.b": 1}
    history.note_unknown(Fields(sent, "input[0]"), ("role",))
    paths = [change.path for change in history.changes]
    assert paths == ["input[0].metadata_passthrough", 'input[0]["a.b"]']
    history = History()
    for at in range(1000):
        history.note("left_out", f"input[{at}]")
    history.note("arguments", "input[1000].arguments")
    assert len(history.changes) == MAX_PLACES + 1
    assert history.changes[-1].kind == "arguments"


@pytest.mark.parametrize(
    ("entry", "text"),
    rows("tables")["entries"],
    ids=lambda value: value["type"] if isinstance(value, dict) else None,
)
def test_an_entry_of_another_service_is_its_text_or_is_left_out(entry, text):
    history = History()
    assert history.text(entry, "p") == text
    assert history.changes == (HistoryChange("as_text" if text else "left_out", "p"),)


@pytest.mark.parametrize("value", [None, 3, {}, [], "", {"text": None}, {"text": 3}, [[]]])
def test_values_without_text(value):
    assert text_of(value) == ""


OF_FEATURES = {kind for feature in RESPONSES for kind in feature.ITEMS}
SDK_ITEMS = {*tool_types(ResponseInputItemParam)} - {*FIELDS, *OF_FEATURES, "item_reference"}
UNKNOWN_ITEMS = {"context_compaction", "compaction_summary", "ghost_snapshot", "Ünknown.kind/2"}


@pytest.mark.parametrize("kind", sorted(UNKNOWN_ITEMS | SDK_ITEMS))
def test_an_unknown_item_is_left_out_or_shown_as_text(kind):
    asked = parsed("responses", {"input": [{"type": kind, "encrypted_content": "gAAA"}, *HI]})
    assert ([*asked.messages], changes(asked)) == (HI, [["left_out", "input[0]"]])
    asked = parsed("responses", {"input": [{"type": kind, "output": "seen"}, *HI]})
    call, shown, _ = asked.messages
    assert (shown["content"], changes(asked)) == ("seen", [["as_text", "input[0]"]])
    assert re.fullmatch("[A-Za-z0-9_-]+", call["tool_calls"][0]["function"]["name"])


def test_unknown_blocks_are_errors_in_the_latest_turn_only():
    odd = {"role": "user", "content": [{"type": "hologram", "text": "A cat."}]}
    said = {"role": "assistant", "content": "ok"}
    assert "A cat." in str(parsed("messages", {"messages": [odd, said, *HI]}).messages[0])
    error = refused("messages", {"messages": [*HI, said, odd]})
    assert (error.code, error.param) == ("unsupported_parameter", "messages[2].content[0].type")


def thinking(of, seal=SEAL):
    return {"type": "thinking", "thinking": of, "signature": signer(seal)(of)}


def test_thinking_is_restored_by_its_signature_and_nobody_elses():
    """What was changed can't be told from what belongs to another key."""
    own = thinking("hm")
    signature = own["signature"]
    at = len(signature) // 2
    changed = signature[:at] + ("B" if signature[at] == "A" else "A") + signature[at + 1 :]
    foreign = [
        {"type": "thinking", "thinking": "hm", "signature": "EqQBCkYIBxgCKkBZ"},
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "thinking", "thinking": "hm"},
        {"type": "redacted_thinking", "data": "EmwKAhgB"},
        thinking("hm", OwnerSeal(Sealer(b"another fleet"), "team a")),
        thinking("hm", OwnerSeal(Sealer(b"secret"), "team b")),
        own | {"signature": changed},
    ]

    def turn(*blocks):
        said = {"role": "assistant", "content": [*blocks, {"type": "text", "text": "b"}]}
        asked = parsed("messages", {"messages": [*HI, said, *HI]})
        return asked.messages[1], changes(asked)

    expected = {"role": "assistant", "content": "b"}
    left_out = [["left_out", f"messages[1].content[{at}]"] for at in range(len(foreign))]
    assert turn(*foreign) == (expected, left_out)
    for block in (own, {**own, "thinking": ""}):
        assert turn(block) == ({**expected, "reasoning_content": "hm"}, [])
    said = {"role": "assistant", "content": [{**own, "thinking": "no"}]}
    error = refused("messages", {"messages": [*HI, said, *HI]})
    assert error.param == "messages[1].content[0].thinking"


@pytest.mark.parametrize(
    "call_id", ["call_" + "aB3" * 8, "functions.look:0", "0", "aB3dE6gH9", "é/?=", "call_x"]
)
def test_ids_of_calls_return_unchanged(call_id):
    shown = shown_id(call_id, "msg_1", 0)
    assert re.fullmatch("toolu_[A-Za-z0-9_-]+", shown)
    assert original_id(shown) == call_id
    assert shown == shown_id(call_id, "msg_1", 0)


def test_ids_that_a_family_counts_are_unique_in_a_conversation():
    shown = {shown_id("0", response, at) for response in ("msg_1", "msg_2") for at in (0, 1)}
    assert len(shown) == 4


@pytest.mark.parametrize("call_id", ["toolu_01", "toolu_0123456789ab_%%", "abc", "toolu_01_é"])
def test_foreign_ids_stay(call_id):
    assert original_id(call_id) == call_id

"""`toolgate audit` finds every exchanged call, and true responses pass."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.apis.call_places import EXCHANGES, places_of
from tests.support.apis.signed_responses import (
    CUSTOM,
    FORMS,
    PUBLIC,
    SEARCH,
    Form,
    checked,
    signed_response,
    tools_for,
)
from tests.support.servers.script import call
from toolgate_proxy.api.surface import Surface
from toolgate_proxy.api.surfaces import SURFACES
from toolgate_proxy.cli.audit import AuditFailed, audit_line
from toolgate_proxy.cli.audit_log import NotALine, read_line

CHAT, RESPONSES, MESSAGES = SURFACES
LOOK, WALK = call("look", {"b": 1, "a": "é 🙂"}), call("walk", {})
CUT = call("look", {"a": "north of the bridge"})[:60]
NOTE = call(CUSTOM, {"input": "{}"})
every_form = pytest.mark.parametrize("form", FORMS)


@pytest.fixture(params=SURFACES, ids=lambda surface: surface.name)
def surface(request: pytest.FixtureRequest) -> Surface:
    return request.param  # type: ignore[no-any-return]


def test_the_apis_are_in_this_order() -> None:
    assert [each.name for each in SURFACES] == ["chat completions", "responses", "messages"]


@every_form
@pytest.mark.parametrize("text", ["Hello.", LOOK, f"{LOOK}\n{WALK}", f"{LOOK}\n{LOOK}"])
def test_a_true_response_passes(surface: Surface, form: Form, text: str) -> None:
    body = signed_response(surface, text, form=form)
    checked(body)
    checked(body, tools_for(surface))


def test_invalid_tools_of_the_request_are_not_offered(surface: Surface) -> None:
    """A gateway that leaves them out signs a receipt that does not name them."""
    body, tools = signed_response(surface, LOOK), tools_for(surface)
    text = json.dumps(tools)
    broken = json.loads(text.replace('"look"', '"two words"'))[:1]
    assert broken != tools[:1]
    checked(body, [*broken, *tools])
    with pytest.raises(AuditFailed, match="the request has no tool 'look'"):
        checked(body, [*broken, *tools[1:]])


@every_form
@pytest.mark.parametrize("text", [CUT, f"{LOOK}\n{CUT}"])
def test_a_true_response_with_a_cut_call_passes(surface: Surface, form: Form, text: str) -> None:
    body = signed_response(surface, text, cut=[0], form=form)
    checked(body, tools_for(surface))


@every_form
@pytest.mark.parametrize("cut", [[], [0], [1], [0, 1]])
def test_true_choices_pass(form: Form, cut: list[int]) -> None:
    texts = [CUT if at in cut else f"{LOOK}\n{WALK}" for at in (0, 1)]
    checked(signed_response(CHAT, *texts, cut=cut, form=form), tools_for(CHAT))


@every_form
@pytest.mark.parametrize("surface", [CHAT, RESPONSES], ids=lambda surface: surface.name)
@pytest.mark.parametrize("cut", [False, True])
def test_a_true_response_with_a_custom_tool_passes(surface: Surface, form: Form, cut: bool) -> None:
    last = NOTE[:-20] if cut else NOTE
    text = f"{LOOK}\n{last}"
    body = signed_response(surface, text, cut=[0] if cut else [], form=form, custom=True)
    checked(body, tools_for(surface, custom=True))


@every_form
def test_a_true_response_in_the_legacy_form_passes(form: Form) -> None:
    if form == "whole":
        checked(signed_response(CHAT, LOOK, legacy_functions=True, parallel=False))


@every_form
@pytest.mark.parametrize("number", ["1e400", "0.1000000000000000055", "1e5", "1.0", "9" * 5_000])
def test_true_numbers_pass(surface: Surface, form: Form, number: str) -> None:
    """As long as the log keeps them."""
    body = signed_response(surface, call("look", f'{{"a": {number}}}'), form=form)
    if surface is not MESSAGES:
        checked(body, tools_for(surface))
        return
    assert json.dumps(body["toolgate"]["receipt"])
    body["content"][0]["input"] = "INPUT"
    audit_line(read_line(json.dumps(body).replace('"INPUT"', f'{{"a":{number}}}')), PUBLIC)


@pytest.mark.parametrize("depth", [200, 600])
@pytest.mark.parametrize("surface", [CHAT, RESPONSES], ids=lambda surface: surface.name)
def test_deep_arguments_are_compared(surface: Surface, depth: int) -> None:
    deep = f'{{"a": {"[" * depth}{"]" * depth}}}'
    body = signed_response(surface, call("look", deep))
    checked(body, tools_for(surface))
    next(places_of(body)).set("arguments", deep.replace("[]", "[[]]"))
    with pytest.raises(AuditFailed, match="its arguments differ"):
        checked(body)


CALLS = st.one_of(
    st.builds(call, st.sampled_from(["look", "walk"]), st.sampled_from([{}, {"a": 1}, {"a": 1.0}])),
    st.builds(lambda text: call(CUSTOM, {"input": text}), st.sampled_from(["x", "{}", "{ }", "1"])),
)
CHOICES = st.lists(st.lists(CALLS, min_size=1, max_size=3).map("\n".join), min_size=1, max_size=3)


@given(st.data())
def test_any_exchange_of_two_calls_is_found(data: st.DataObject) -> None:
    surface = data.draw(st.sampled_from(SURFACES))
    texts = data.draw(CHOICES if surface is CHAT else CHOICES.map(lambda each: each[:1]))
    if surface is MESSAGES:  # it has no custom tools
        texts = [text.replace(f'"name": "{CUSTOM}"', '"name": "look"') for text in texts]
    cut = [0] if data.draw(st.booleans()) else []
    texts[0] = texts[0][: len(texts[0]) - 25 * len(cut)]
    body = signed_response(
        surface,
        *texts,
        cut=cut,
        form=data.draw(st.sampled_from(FORMS)),
        custom=surface is not MESSAGES,
    )
    checked(body)
    places = [*places_of(body)]
    if len(places) < 2:
        return
    first, second = data.draw(st.permutations(range(len(places))))[:2]
    exchange = EXCHANGES[data.draw(st.sampled_from([*EXCHANGES]))]
    before = json.dumps(body)
    exchange(places[first], places[second])
    unchanged = json.dumps(body) == before
    if unchanged or (surface is MESSAGES and body == json.loads(before)):
        return  # the calls are alike, as 1 and 1.0 are in the Messages API
    with pytest.raises(AuditFailed):
        checked(body)


def test_a_cut_call_matches_no_other_call(surface: Surface) -> None:
    body = signed_response(surface, f"{LOOK}\n{CUT}", cut=[0])
    if surface is MESSAGES:
        other = {"type": "tool_use", "id": "toolu_x", "name": "walk", "input": {}}
        body["content"].append(other)
        said = "the receipt has a call there that was cut"
    else:
        [*places_of(body)][-1].set("arguments", "{}")
        said = "call 1 of 'look' was changed: its arguments differ"
    with pytest.raises(AuditFailed, match=said):
        checked(body)


def test_calls_beside_those_that_are_compared_are_found() -> None:
    chat, response = signed_response(CHAT, LOOK), signed_response(RESPONSES, LOOK)
    message = chat["choices"][0]["message"]
    genuine = message["tool_calls"][0]["function"]
    for added in ({"function_call": genuine}, {"tool_calls": [{"type": "web_search", "id": "x"}]}):
        before = {**message}
        message |= added
        with pytest.raises((AuditFailed, NotALine)):
            checked(chat)
        message.clear()
        message |= before
    with pytest.raises((AuditFailed, NotALine)):
        checked(chat | {"content": [{"type": "tool_use", "id": "x", "name": "look", "input": {}}]})
    message["tool_calls"][0]["id"] = None
    with pytest.raises(AuditFailed, match="its id is"):
        checked(chat)
    shell = {"type": "shell_call", "call_id": "x", "action": {}}
    with pytest.raises(AuditFailed, match="the call 1 of 'shell' is not in the receipt"):
        checked(response | {"output": [*response["output"], shell]})
    response["output"].append({"type": "computer_call", "call_id": "x", "action": {}})
    with pytest.raises(NotALine, match="computer_call"):
        checked(response)


def test_a_cut_call_is_not_shown_as_complete() -> None:
    chat, response = (signed_response(each, CUT, cut=[0]) for each in (CHAT, RESPONSES))
    chat["choices"][0]["finish_reason"] = "tool_calls"
    response["output"][0]["status"] = "completed"
    for body in (chat, response):
        with pytest.raises(AuditFailed, match="states that it is complete, but it was cut"):
            checked(body)


READ = {"request", "response", "tools", "toolgate", "receipt", "calls", "id", "name"}
"""Members that an audit reads, in every API."""
READ_IN_ONE = {"choices", "tool_calls", "output", "arguments", "content", "input", "a"}
"""In some of them; `a` is inside the input of a call."""


@pytest.mark.parametrize("forged_first", [True, False])
def test_a_second_member_hides_nothing(surface: Surface, forged_first: bool) -> None:
    body = signed_response(surface, LOOK)
    line = json.dumps({"request": {"tools": tools_for(surface)}, "response": body})
    audit_line(read_line(line), PUBLIC)
    for name in READ | {each for each in READ_IN_ONE if f'"{each}": ' in line}:
        before, _, after = line.partition(f'"{name}": ')
        value, end = json.JSONDecoder().raw_decode(after)
        both = [f'"{name}": {text}' for text in (json.dumps(value), '"forged"')]
        if forged_first:
            both.reverse()
        with pytest.raises(NotALine, match=f"has the member '{name}' more than once"):
            read_line(f"{before}{', '.join(both)}{after[end:]}")


@every_form
def test_the_arguments_of_a_search_are_compared_as_a_value(form: Form) -> None:
    text = call("tool_search", {"query": "valves", "limit": 2})
    tools = [*tools_for(RESPONSES), SEARCH]
    body = signed_response(RESPONSES, text, search=True, form=form)
    checked(body, tools)
    checked(signed_response(RESPONSES, text[:50], cut=[0], search=True, form=form), tools)
    body["output"][0]["arguments"] = {"limit": 2, "query": "valve"}
    with pytest.raises(AuditFailed, match="its arguments differ"):
        checked(body, tools)


def test_tools_that_the_conversation_adds_are_tools_of_the_request() -> None:
    body, tools = signed_response(RESPONSES, f"{LOOK}\n{WALK}"), tools_for(RESPONSES)
    added = [{"type": "additional_tools", "tools": tools}, {"role": "user", "content": "hi"}]
    line = {"request": {"input": added}, "response": body}
    audit_line(read_line(json.dumps(line)), PUBLIC)


@pytest.mark.parametrize("surface", [CHAT, RESPONSES], ids=lambda surface: surface.name)
@pytest.mark.parametrize("other", ["{ }", '{"a":1}', "{}\n"])
def test_a_changed_input_of_a_custom_tool_is_found(surface: Surface, other: str) -> None:
    body = signed_response(surface, NOTE, custom=True)
    next(places_of(body)).set("arguments", other)
    with pytest.raises(AuditFailed, match="its arguments differ"):
        checked(body)


def test_a_custom_call_is_no_function_call() -> None:
    body = signed_response(CHAT, NOTE, custom=True)
    inner = {"name": CUSTOM, "arguments": "{}"}
    call_id = body["choices"][0]["message"]["tool_calls"][0]["id"]
    calls = [{"id": call_id, "type": "function", "function": inner}]
    body["choices"][0]["message"]["tool_calls"] = calls
    with pytest.raises(AuditFailed, match="its type is 'function', not 'custom'"):
        checked(body)


def test_calls_moved_between_choices_are_found() -> None:
    body = signed_response(CHAT, f"{LOOK}\n{WALK}", LOOK)
    first, second = (choice["message"]["tool_calls"] for choice in body["choices"])
    second.append(first.pop())
    with pytest.raises(AuditFailed, match="call 1 of 'walk' is missing"):
        checked(body)
    body = signed_response(CHAT, LOOK, WALK)
    for choice in body["choices"]:
        choice["index"] = 1 - choice["index"]
    with pytest.raises(AuditFailed, match="was changed"):
        checked(body)
    body["choices"][1]["index"] = body["choices"][0]["index"]
    with pytest.raises(AuditFailed, match="two choices have the same index"):
        checked(body)


@pytest.mark.parametrize(("first", "second"), [("1e400", "1e500"), ("0.1", "0.10000000000000001")])
def test_numbers_that_doubles_do_not_distinguish_are_found(
    surface: Surface, first: str, second: str
) -> None:
    body = signed_response(surface, call("look", f'{{"a": {first}}}'))
    place = next(places_of(body))
    place.set("arguments", "INPUT")
    written = f'{{"a": {second}}}'
    line = json.dumps(body).replace(
        '"INPUT"', written if surface is MESSAGES else json.dumps(written)
    )
    with pytest.raises(AuditFailed, match="its arguments differ"):
        audit_line(read_line(line), PUBLIC)


def test_another_schema_is_found(surface: Surface) -> None:
    tools = tools_for(surface)
    fields = tools[0].get("function", tools[0])
    name = "input_schema" if "input_schema" in fields else "parameters"
    fields[name] = {"type": "object", "properties": {"a": {"type": "integer"}}}
    with pytest.raises(AuditFailed, match="schema of 'look' is not the one"):
        checked(signed_response(surface, LOOK), tools)


def test_a_receipt_of_another_response_is_found(surface: Surface) -> None:
    body = signed_response(surface, LOOK)
    with pytest.raises(AuditFailed, match="is that of the response"):
        checked({**body, "id": "another"})
    del body["toolgate"]
    with pytest.raises(AuditFailed, match="no receipt"):
        checked(body)


def test_a_missing_call_and_an_added_one_are_found(surface: Surface) -> None:
    body = signed_response(surface, f"{LOOK}\n{WALK}")
    entries = next(places_of(body)).entries
    last = entries.pop()
    with pytest.raises(AuditFailed, match="call 1 of 'walk' is missing"):
        checked(body)
    entries += [last, last]
    with pytest.raises(AuditFailed, match="call 2 of 'walk' is not in the receipt"):
        checked(body)


def test_a_receipt_of_another_request_is_found(surface: Surface) -> None:
    body = signed_response(surface, LOOK)
    with pytest.raises(AuditFailed, match="has no tool 'walk'"):
        checked(body, tools_for(surface)[:1])


def test_tools_of_namespaces_are_compared() -> None:
    tools = tools_for(RESPONSES)
    flat = {"type": "namespace", "name": "n", "tools": tools}
    body = signed_response(RESPONSES, LOOK)
    with pytest.raises(AuditFailed, match="has no tool 'look'"):
        checked(body, [flat])

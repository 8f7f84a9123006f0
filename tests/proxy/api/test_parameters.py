"""The tables of parameters: each row parses its examples into the field that it names, refuses
other values by its name, and is one that the other APIs have or lack on purpose."""

from dataclasses import fields

import pytest

from tests.support.apis.value_examples import invalid, valid
from toolgate_core import wire
from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_proxy.api.chat_completions.output import ChatWriter
from toolgate_proxy.api.shared.parameter import (
    FOREIGN,
    MAX_LISTED,
    TABLES,
    read_parameters,
    without_unknown,
)
from toolgate_proxy.api.shared.rules import EFFORT_BUDGETS
from toolgate_proxy.api.shared.value_types import (
    INT64_MAX,
    INT64_MIN,
    Array,
    Choice,
    Flag,
    Integer,
    JsonObject,
    Number,
    Object,
    Text,
    Texts,
    TokenBiases,
    TokenIds,
)
from toolgate_proxy.request.chat_request import ChatRequest, Extras, ToolgateOptions

from .kit import APIS, each_api, parsed, refused, rows, writer_of

BESIDE = {
    "chat": {
        "stream_options": {"stream": True},
        "top_logprobs": {"logprobs": True},
        "logprob_token_ids": {"logprobs": True},
    },
}
"""Other parameters that a parameter requires."""
CHAT = TABLES["chat"].values()
ROWS = [row for table in TABLES.values() for row in table.values()]


def received(request, to, name):
    """What receives the value of a parameter or member."""
    kind, _, field = to.partition(".")
    held = {"request": request, "writer": writer_of(request)}
    return getattr(held[kind] if kind in held else getattr(request, kind), field or name)


def given(api, row, value):
    return parsed(api, BESIDE.get(api, {}).get(row.name, {}) | {row.name: value})


@pytest.mark.parametrize("row", [row for row in CHAT if row.type], ids=lambda row: row.name)
def test_valid_values_reach_the_field_of_the_row(row):
    assert row.type
    for value in valid(row.type):
        request, read = given("chat", row, value), row.type.parse(value, row.name)
        if row.name == "top_p" and not value:
            assert (request.sampling.top_p, request.sampling.top_k) == (None, 1)
        elif row.to and row.name not in ("logprob_token_ids", "repetition_detection"):
            assert received(request, row.to, row.name) == read
    for member in row.members:
        assert isinstance(row.type, Object)
        kind = row.type.members[member]
        for value in valid(kind):
            request = given("chat", row, {member: value})
            assert received(request, row.members[member], member) == kind.parse(value, "")


@each_api()
def test_invalid_values_are_errors_that_name_the_parameter(api):
    cases = [
        (row, value) for row in TABLES[api].values() if row.type for value in invalid(row.type)
    ]
    for row, value in cases:
        if row.name == "input" and isinstance(value, str):
            continue
        error = refused(api, BESIDE.get(api, {}).get(row.name, {}) | {row.name: value})
        param = error.param or ""
        assert (param.split(".")[0] if isinstance(row.type, Object) else param) == row.name
        assert row.name in error.message


@each_api()
def test_ignored_parameters_accept_any_value(api):
    ignored = [row for row in TABLES[api].values() if row.type is None and row.support == "ignored"]
    assert ignored
    for row in ignored:
        for value in ("anything", {"any": ["value"]}):
            given(api, row, value)


@each_api()
def test_refused_parameters_are_refused_with_their_reason(api):
    rows = [row for row in TABLES[api].values() if row.support in ("rejected", "default only")]
    assert rows
    for row in rows:
        for value in row.defaults:
            given(api, row, value)
        for other in ("x", {"any": "thing"}):
            error = refused(api, {row.name: other})
            assert (type(error), error.param) == (UnsupportedParameter, row.name)
            assert row.note in error.message


def test_tables_are_consistent():
    for row in ROWS:
        assert (row.type is not None) or row.support != "supported"
        assert (row.type is None) or row.support in ("supported", "ignored")
        assert bool(row.defaults) == (row.support == "default only")
        assert row.note
    places = [(row.to, row.name) for row in CHAT if row.to]
    places += [(to, member) for row in CHAT for member, to in row.members.items()]
    filled = {}
    for to, name in places:
        kind, _, field = to.partition(".")
        filled.setdefault(kind, {})[name] = field or name
    renamed = {name: field for name, field in filled["sampling"].items() if name != field}
    names = dict.fromkeys(("max_completion_tokens", "max_output_tokens"), "max_tokens")
    assert renamed == names | {"top_logprobs": "logprobs"}
    for kind, model in (("sampling", wire.Sampling), ("tokenizing", wire.Tokenizing)):
        assert {*filled.pop(kind).values()} == model.model_fields.keys()
    kinds = {"request": ChatRequest, "extras": Extras, "writer": ChatWriter}
    for kind, model in (kinds | {"options": ToolgateOptions}).items():
        assert {*filled.pop(kind).values()} <= {each.name for each in fields(model)}
    assert not filled
    assert TABLES["chat"]["reasoning_effort"].type == Choice(tuple(EFFORT_BUDGETS))
    # All of vLLM's, LiteLLM's and Toolgate's, and OpenAI's for sampling
    others = {
        "messages", "n", "max_tokens", "max_completion_tokens", "functions", "function_call",
        "response_format", "modalities", "audio", "prediction", "web_search_options", "verbosity",
        "logprobs", "reasoning_effort",
    }  # fmt: skip
    assert {*TABLES["chat"]} - {*TABLES["responses"]} == others


@pytest.mark.parametrize(
    ("sent", "advice"),
    [
        ("temprature", "Did you mean 'temperature'? Otherwise, remove it from the request."),
        ("toolChoice", "Did you mean 'tool_choice'? Otherwise, remove it from the request."),
        ("num_ctx", "Remove it from the request. The context length is that of the backend"),
        ("zzz", "Unknown parameter 'zzz'. Remove it from the request."),
        ("\ud800", "Unknown parameter '?'. Remove it from the request."),
    ],
)
def test_errors_about_unknown_parameters_say_what_to_send_instead(sent, advice):
    known = dict.fromkeys(("temperature", "max_tokens", "tool_choice"))
    with pytest.raises(UnsupportedParameter) as refusal:
        read_parameters({sent: 1}, known)
    assert advice in refusal.value.message


@each_api()
def test_foreign_parameters_are_unknown(api):
    notes = {name for name in FOREIGN if name in APIS[api].parameters}
    assert notes <= {"input", "thinking"}  # other APIs have them


def test_names_that_a_header_cannot_hold_are_not_shown():
    known = frozenset({"temperature"})
    body = {"temperature": 1, "a\r\nset-cookie": 1, "näme": 2, "left_out": None, "num_ctx": 3}
    assert without_unknown(body, known) == ({"temperature": 1}, ["?", "?", "num_ctx"])
    many = {f"p{number}": 1 for number in range(MAX_LISTED + 1)}
    kept, shown = without_unknown(many, known)
    assert (kept, len(shown), shown[-1]) == ({}, MAX_LISTED + 1, "...")


@pytest.mark.parametrize(("api", "defaults", "body", "expected"), rows("tables")["deployment"])
def test_defaults_of_a_deployment_have_the_names_of_the_api(api, defaults, body, expected):
    assert APIS[api].with_defaults(body, defaults) == expected


@pytest.mark.parametrize(
    ("api", "prefix"), [("chat", "chatcmpl-"), ("responses", "resp_"), ("messages", "msg_")]
)
def test_each_request_has_an_id_of_the_api(api, prefix):
    first, second = parsed(api), parsed(api)
    assert first.request_id.startswith(prefix)
    assert first.request_id != second.request_id
    assert first.model == "tiny"


SIDE = Choice(("left", "right"))
SIZE = Object({"size": Integer(1)}, required=("size",))
TYPES = (
    Integer(-1), Integer(1, 128), Integer(INT64_MIN, INT64_MAX), Number(0), Number(-2, 2),
    Number(0, 1, exclusive_minimum=True), Flag(), Text(), Text(minimum=1, maximum=8, in_path=True),
    SIDE, Texts(3), Texts(3, single=True), Texts(3, blank=False), TokenIds(), TokenIds(minimum=1),
    TokenIds(maximum=2), TokenBiases(100, 300), Array("tools"), JsonObject(), SIZE,
    Object({"size": Integer(1)}, extensible=True),
)  # fmt: skip


@pytest.mark.parametrize("value_type", TYPES, ids=repr)
def test_examples_are_what_they_claim_to_be(value_type):
    for value in valid(value_type):
        value_type.parse(value, "field")
    assert invalid(value_type)
    for value in invalid(value_type):
        with pytest.raises(InvalidRequest) as error:
            value_type.parse(value, "field")
        assert (error.value.param or "").startswith("field")
        assert "'field" in error.value.message


@pytest.mark.parametrize(
    ("value_type", "value", "message"),
    [
        (Integer(-1), -2, "' must be an integer of at least -1, but is -2."),
        (Integer(1, 128), 1.5, "' must be an integer from 1 to 128, but is 1.5."),
        (Integer(INT64_MIN, INT64_MAX), 10**30,
         "' must be an integer from -2^63 to 2^63-1, but is out of range."),
        (Number(0), "hot", "' must be a number of at least 0, but is a string."),
        (Number(0, 1, exclusive_minimum=True), 0,
         "' must be a number greater than 0 and at most 1, but is 0."),
        (Flag(), [], "' must be true or false, but is an array."),
        (Texts(3), [3],
         "' must be an array of up to 3 non-empty strings of up to 1000 characters."),
        (TokenIds(minimum=1), [], "' must be a non-empty array of token IDs, but is empty."),
        (SIDE, "up", '\' must be "left" or "right", but is "up".'),
        (SIDE, "rigth", '\' must be "left" or "right", but is "rigth". Did you mean "right"?'),
        (SIDE, "up" * 50, '\' must be "left" or "right", but is a string.'),
        (TokenBiases(100, 300), {"7": 101},
         "' must be an object of up to 300 numbers from -100 to 100 by token ID, but the bias of "
         "token 7 is not in this range."),
        (SIZE, {}, ".size' is required. It must be an integer of at least 1."),
        (Object({"a": Flag(), "b": Flag()}), {"c": True},
         ".c' is not supported. Remove it. The known members are a, b."),
    ],
)  # fmt: skip
def test_errors_state_the_field_the_rule_and_the_value(value_type, value, message):
    with pytest.raises(InvalidRequest) as error:
        value_type.parse(value, "field")
    assert error.value.message == f"'field{message}"


def test_values_are_read_as_what_they_mean():
    assert Integer(-1).parse(5.0, "field") == 5
    assert TokenIds().parse([5.0], "field") == (5,)
    none = {"size": None, "more": None, "other": False}
    assert Object({"size": Integer(1)}).parse(none, "field") == {}

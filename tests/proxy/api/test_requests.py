"""Requests and what they become (requests.yaml): the messages for the template, what of a history
the model sees in another form, the tools that can be called, and parameters. Others are refused by
their parameter or path, in words about it (refusals.yaml)."""

import base64
import copy
import json
from pathlib import Path

import pytest

from tests.support.apis.chat_events import answered, events
from tests.support.apis.messages_api import SEAL, accumulated, check_error
from tests.support.apis.read_responses import read_events
from tests.support.documents.pdfs import CALLED
from tests.support.servers.script import call
from toolgate_core.errors import SchemaNotEnforceable
from toolgate_proxy.api.messages.opaque import signer
from toolgate_proxy.api.surface import Client
from toolgate_proxy.features.files.pdf import PDF, Pdf

from .kit import (
    APIS,
    HI,
    TURNS,
    changes,
    each_api,
    field_of,
    flat,
    names,
    parsed,
    plain,
    refused,
    rows,
    with_plain_ids,
)

CASES = [pytest.param(api, row, id=f"{api}: {row['name']}") for api, row in flat(rows("requests"))]
READ = {
    "tools": names,
    "listed": lambda asked: [tool.name for tool in asked.prompt_tools],
    "changes": changes,
    "images": lambda asked: "image_url" in asked.part_types,
    "documents": lambda asked: PDF in asked.part_types,
    "definitions": lambda asked: [tool.definition for tool in asked.tools],
    "tool_params": lambda asked: [tool.param for tool in asked.tools],
}
"""Fields that are not those of a ChatRequest."""


def shown(asked, field, sent):
    if field == "messages":
        return with_plain_ids(asked.messages, sent)
    return plain(READ[field](asked) if field in READ else field_of(asked, field))


@pytest.mark.parametrize(("api", "row"), CASES)
def test_a_request_becomes(api, row):
    sent = copy.deepcopy(row["sent"])
    asked = parsed(api, sent)
    assert sent == row["sent"]
    expected = {"changes": [], "omitted_tools": [], "images": False} | row["becomes"]
    if "tools" in expected:
        expected.setdefault("listed", expected["tools"])
    for field, value in expected.items():
        assert shown(asked, field, sent) == value, field
    assert len(asked.messages) == len(asked.message_paths)


FOREIGN = {"chat": ("'input",), "responses": ("'messages", ".custom", "function.name")}
"""Words of other APIs, which no error has unless the body has them."""
REFUSED = [
    pytest.param(api, *row, *("invalid_request", "")[len(row) - 2 :], id=f"{api} {row[1]}")
    for api, row in flat(rows("refusals"))
]


@pytest.mark.parametrize(("api", "change", "param", "code", "words"), REFUSED)
def test_a_refusal_names_the_parameter_and_the_rule(api, change, param, code, words):
    error = refused(api, change, open_objects=False)
    assert (error.param, error.code, error.status) == (param, code, 400)
    assert words in error.message
    if not isinstance(error, SchemaNotEnforceable):
        above, _, last = param.rpartition(".")
        assert any(each in error.message for each in (repr(param), last, repr(above)))
    for foreign in FOREIGN.get(api, ()):
        assert foreign not in error.message or foreign.strip("'") in str(change)
    body = APIS[api].error(error, "req_1")
    shown = body["error"]
    assert (shown["message"], shown["param"], shown["code"]) == (error.message, param, code)
    if api == "messages":
        check_error(body)


# --- requests as versions of Claude Code and Codex send them, with shortened texts ----------------

BODIES = Path(__file__).parent / "claude_code"
DEFERRED = "2.1.331-tool_search"
SEARCHING = ("2.1.197-web_search", "2.1.331-web_search")
CLAUDE = sorted(path.stem for path in BODIES.glob("*.json"))
VERSIONS = sorted({name.partition("-")[0] for name in CLAUDE})


def recorded(name):
    """Recorded signatures are left out; the gateway that sends them again would know them."""
    request = json.loads((BODIES / f"{name}.json").read_text())
    for message in request["body"]["messages"]:
        for block in message["content"]:
            if isinstance(block, dict) and block["type"] == "thinking":
                block["signature"] = signer(SEAL)(block["thinking"])
    return request


BILLED = "x-anthropic-billing-header: cc_version=2.1; cch=1;"
LINES = {
    f"{BILLED}\nBe brief.": "Be brief.",
    f"{BILLED}\r\n\r\nBe brief.\r\n": "\r\nBe brief.\r\n",
    f"Be brief.\n{BILLED}\n{BILLED}\nBe kind.": "Be brief.\nBe kind.",
    f"Be brief.\n{BILLED}": "Be brief.\n",
    f"Say {BILLED}\n {BILLED}": None,
}
"""By system text: without the lines of the header. None: it only mentions them."""


def with_system(api, text):
    """Requests with a system text at each place, and the path of the place."""
    kind = "input_text" if api == "responses" else "text"
    path = "input[{}]" if api == "responses" else "messages[{}].content"
    of_part = path if api == "responses" else f"{path}[0]"
    for role in ("system", "developer"):
        for content, place in ((text, path), ([{"type": kind, "text": text}], of_part)):
            message = {"role": role, "content": content}
            yield {TURNS[api]: [message, *HI]}, place.format(0)
            yield {TURNS[api]: [*HI, message, *HI]}, place.format(1)
    if api == "responses":
        yield {"instructions": text}, "instructions"
    if api == "messages":
        yield {"system": text}, "system"
        yield {"system": [{"type": "text", "text": text}]}, "system[0]"


@each_api()
def test_only_the_line_with_the_billing_header_is_left_out_of_a_system_text(api):
    for text, left in LINES.items():
        for body, place in with_system(api, text):
            asked = parsed(api, body)
            [system] = [each["content"] for each in asked.messages if each["role"] == "system"]
            shown = system if isinstance(system, str) else "".join(part["text"] for part in system)
            assert shown == (text if left is None else left), body
            assert changes(asked) == ([] if left is None else [["left_out", place]])
    for body, place in with_system(api, BILLED):
        asked = parsed(api, body)
        assert {each["role"] for each in asked.messages} == {"user"}
        assert changes(asked) == [["left_out", place]]
    [said] = parsed(api, {TURNS[api]: [{"role": "user", "content": BILLED}]}).messages
    assert said["content"] == BILLED


def of_claude(name):
    request = recorded(name)
    client = Client(headers={"anthropic-beta": request["anthropic-beta"]}, seal=SEAL)
    return parsed("messages", request["body"], client=client)


@pytest.mark.parametrize("name", [each for each in CLAUDE if each not in (DEFERRED, *SEARCHING)])
def test_a_request_of_claude_code_gets_an_answer(name):
    request, body = of_claude(name), recorded(name)["body"]
    assert names(request) == [tool["name"] for tool in body["tools"]]
    assert request.parallel_tool_calls
    assert request.sampling.max_tokens == 32_000
    assert (request.reasoning == "on") == ("thinking" in body)
    assert request.messages[0]["role"] == "system"
    assert "billing" not in str(request.messages)

    text = "Yes.\n" + call("Read", {"file_path": "/project/a"})
    thought = "<think>\nSo.\n</think>\n\n" if request.reasoning == "on" else ""
    data, whole = answered(request, events(thought + text))
    kinds = [block["type"] for block in whole["content"]]
    assert kinds == [*(["thinking"] if thought else []), "text", "tool_use"]
    assert whole["stop_reason"] == "tool_use"
    assert accumulated(read_events(data))["content"][-1]["input"] == {"file_path": "/project/a"}


@pytest.mark.parametrize("version", VERSIONS)
def test_results_and_images_of_claude_code_follow_their_calls(version):
    _, *messages = of_claude(f"{version}-results").messages
    turn = next(message for message in messages if message["role"] == "assistant")
    assert turn["reasoning_content"] == "…"
    assert [each["function"]["name"] for each in turn["tool_calls"]] == ["Bash", "Read"]
    results = [each["tool_call_id"] for each in messages if each["role"] == "tool"]
    assert results == [each["id"] for each in turn["tool_calls"]]
    shown = of_claude(f"{version}-image")
    assert "image_url" in shown.part_types
    assert "image_url" in str(shown.messages[-1])


@pytest.mark.parametrize("name", SEARCHING)
def test_a_web_search_is_left_out(name):
    request = of_claude(name)
    assert (request.tools, field_of(request, "omitted_tools")) == ((), ("web_search_20250305",))


def test_deferred_tools_are_not_offered():
    request = of_claude(DEFERRED)
    sent = recorded(DEFERRED)["body"]["tools"]
    eager = [tool["name"] for tool in sent if not tool.get("defer_loading")]
    assert names(request) == [tool.name for tool in request.prompt_tools] == eager
    assert len(eager) == len(sent) - 1


def codex(name):
    return json.loads((BODIES.parent / "codex" / f"{name}.json").read_text())


def of_codex(name):
    return parsed("responses", codex(name))


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("functions_and_namespace", {"exec_command", "multi_agent_v1.spawn_agent"}),
        ("0.142-functions_and_namespace", {"exec_command", "multi_agent_v1.spawn_agent"}),
        ("custom_tool_and_tool_search", {"apply_patch", "tool_search"}),
        ("0.142-results", {"apply_patch"}),
        ("0.169-results", {"apply_patch"}),
    ],
)
def test_tools_of_codex_are_offered_and_hosted_ones_left_out(name, offered):
    asked = of_codex(name)
    assert offered <= {*names(asked)}
    assert field_of(asked, "omitted_tools") == ("web_search",)
    assert asked.parallel_tool_calls == codex(name)["parallel_tool_calls"]
    for tool in asked.tools:
        if tool.name == "tool_search":
            assert tool.parameters["required"] == ["query"]


@pytest.mark.parametrize("version", ["0.142", "0.169"])
def test_results_of_codex_follow_their_calls(version):
    *_, turn, result = of_codex(f"{version}-results").messages
    [made] = turn["tool_calls"]
    assert made["function"]["name"] == "view_image"
    assert (result["role"], result["tool_call_id"]) == ("tool", made["id"])


def test_members_of_openais_own_are_left_out():
    asked, sent = of_codex("0.169-openai_base_url"), codex("0.169-openai_base_url")
    assert asked.messages == of_codex("0.169-results").messages
    member = "internal_chat_message_metadata_passthrough"
    assert changes(asked) == [
        ["left_out", f"input[{at}].{member}"] for at in range(len(sent["input"]))
    ]


def test_tools_at_the_beginning_of_the_input_are_the_tools_of_the_prompt():
    given, asked = codex("additional_tools"), of_codex("additional_tools")
    assert [tool.name for tool in asked.prompt_tools] == [
        tool["name"] if space["name"] == "functions" else f"{space['name']}.{tool['name']}"
        for space in given["input"][0]["tools"]
        for tool in space["tools"]
    ]
    assert {tool.namespace for tool in asked.tools} == {"", "clock", "collaboration"}
    assert asked.prompt_tools == asked.tools
    assert "tool_definitions" not in str(asked.messages)


# --- files: texts, PDFs, and those that can't be read, of users and in results --------------------

PDF_DATA = base64.b64encode(b"%PDF-1.4 \xff").decode()
LAMPS = base64.b64encode("Lämp 4".encode()).decode()
HEAD = "data:application/pdf;base64,"
FIELDS = {"chat": "file.file_data", "responses": "file_data", "messages": "source.data"}
PATHS = {
    "chat": ("messages[0].content[0]", "messages[2].content[0]"),
    "responses": ("input[0].content[0]", "input[2].output[0]"),
    "messages": ("messages[0].content[0]", "messages[2].content[0].content[0]"),
}
"""Of a part of the user, and of a part in the result of a call."""


def part(api, data, title=None):
    named = {} if title is None else {"filename": title}
    if api == "chat":
        return {"type": "file", "file": {"file_data": data, **named}}
    if api == "responses":
        return {"type": "input_file", "file_data": data, **named}
    source = {"type": "base64", "media_type": "text/plain", "data": data}
    return {"type": "document", "source": source, "title": title}


def body(api, given, *, in_result=False):
    messages = [{"role": "user", "content": [given]}]
    if in_result:
        block = {"type": "tool_result", "tool_use_id": "c", "content": [given]}
        results = {
            "chat": {"role": "tool", "tool_call_id": "c", "content": [given]},
            "responses": {"type": "function_call_output", "call_id": "c", "output": [given]},
            "messages": {"role": "user", "content": [block]},
        }
        messages = [*CALLED[api], results[api]]
    return {TURNS[api]: messages}


def content(request):
    given = request.messages[-1]["content"]
    return given if isinstance(given, list) else [{"type": "text", "text": given}]


@pytest.mark.parametrize("in_result", [False, True])
@each_api()
def test_a_text_file_is_text_with_its_name(api, in_result):
    shown = '<document title="a.txt">\nLämp 4\n</document>'
    for data in (LAMPS, f"data:text/markdown;charset=utf-8;base64,{LAMPS}"):
        request = parsed(api, body(api, part(api, data, "a.txt"), in_result=in_result))
        assert content(request) == [{"type": "text", "text": shown}]
        assert PDF not in request.part_types
        assert changes(request) == []


@pytest.mark.parametrize("in_result", [False, True])
@each_api()
def test_a_pdf_is_kept_until_its_text_is_read(api, in_result):
    """Also what is only said to be one: the reader's error tells that it is none."""
    for data in (PDF_DATA, HEAD + PDF_DATA):
        request = parsed(api, body(api, part(api, data, "a.pdf"), in_result=in_result))
        place = PATHS[api][in_result]
        expected = {"type": PDF, PDF: Pdf(PDF_DATA, place, FIELDS[api], "a.pdf")}
        assert content(request) == [expected]
        assert PDF in request.part_types
    kept = parsed(api, body(api, part(api, HEAD + LAMPS), in_result=in_result))
    assert PDF in kept.part_types


UNREADABLE = {
    "no base64": "x",
    "an image": base64.b64encode(b"\x89PNG\r\n\x1a\n\0").decode(),
    "another encoding": base64.b64encode("Lämp".encode("latin-1")).decode(),
    "no data URL": "data:text/plain,abc",
    "half a surrogate pair": HEAD + "\ud800",
}
REFERENCES = rows("tables")["references"]  # fmt: skip
NOT_READ = [
    *((api, part(api, data), FIELDS[api]) for data in UNREADABLE.values() for api in APIS),
    *REFERENCES,
]


@pytest.mark.parametrize(("api", "given", "field"), NOT_READ)
def test_a_file_that_is_not_read_is_refused_or_left_out_of_a_result(api, given, field):
    user, result = PATHS[api]
    error = refused(api, body(api, given))
    assert (error.code, error.param) == ("unsupported_parameter", f"{user}.{field}")
    request = parsed(api, body(api, given, in_result=True))
    assert content(request) == [{"type": "text", "text": f"[{given['type']} left out]"}]
    assert changes(request) == [["left_out", result]]


@pytest.mark.parametrize("data", [None, "", 3])
@each_api()
def test_a_file_without_data_is_refused(api, data):
    error = refused(api, body(api, part(api, data)))
    assert error.param == f"{PATHS[api][0]}.{FIELDS[api]}"

"""Messages in the shape of chat completions: what routers read, and what comes back out of them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from toolgate_core import wire
from toolgate_core.chat_shape import MEMBER, PATH, SHAPED, ChatShape, body_of, message_in

USER = {"role": "user", "content": "hi"}
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {"type": "object", "default": None, "enum": [None, 1.0, 2**70, "é\u2028"]},
        "description": "Looks.",
    },
}
CHAT = wire.ChatPrompt(messages=(USER,), tools=(TOOL,), template_kwargs={"a": None, "b": 1})
SOURCE = wire.GrammarSource(key="k", name="look", parameters={"type": "object"}, owner="who")
NEEDED = (
    wire.NeededGrammar(key="a", tool=0, report=True),
    wire.NeededGrammar(key="k", source=SOURCE),
)
FULL = wire.GenerateRequest(
    request_id="r",
    model="tiny",
    prompt=CHAT,
    sampling=wire.Sampling(max_tokens=7, temperature=0.5, bad_words=("x",)),
    enforcement=wire.Enforcement(
        candidates=(wire.Candidate(name="look", key="a"),), content="k", id_seed="s"
    ),
    grammars=NEEDED,
    open_objects=True,
    trace=True,
    stream=False,
)
MESSAGES = {
    "generate": FULL,
    "tokens": FULL.model_copy(update={"prompt": wire.TokensPrompt(token_ids=(1, 2))}),
    "unconstrained": wire.GenerateRequest(
        request_id="r", model="tiny", prompt=wire.ChatPrompt(messages=())
    ),
    "count": wire.CountTokens(model="tiny", prompt=CHAT),
    "grammars": wire.LoadGrammars(grammars=(SOURCE,)),
}


def shaped(message, op="generate", model="other"):
    return json.loads(body_of(op, message, model))


@pytest.mark.parametrize(("name", "message"), MESSAGES.items(), ids=MESSAGES)
def test_a_message_is_the_same_behind_the_shape(name, message):
    op = name if name in ("count", "grammars") else "generate"
    body = shaped(message, op)
    assert type(message).model_validate(message_in(body)) == message


def rewritten(body):
    """The body behind a router that sorts members, and reads numbers as floats."""
    return json.loads(json.dumps(json.loads(body, parse_int=float), sort_keys=True))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
floats = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.sampled_from(["role", "content", MEMBER, "op"]), json_values)))
def test_any_messages_are_the_same_behind_the_shape(messages):
    prompt = wire.ChatPrompt(messages=tuple(messages), tools=tuple(messages))
    message = FULL.model_copy(update={"prompt": prompt})
    for sealed in (False, True):
        body = json.loads(body_of("generate", message, "", sealed=sealed))
        assert wire.GenerateRequest.model_validate(message_in(body)) == message


@pytest.mark.parametrize(("name", "message"), MESSAGES.items(), ids=MESSAGES)
def test_a_sealed_message_is_the_same_behind_a_router_that_writes_it_anew(name, message):
    op = name if name in ("count", "grammars") else "generate"
    body = rewritten(body_of(op, message, "other", sealed=True))
    found = type(message).model_validate(message_in(body))
    assert found.model_dump_json(exclude={"prompt": {"messages"}}) == message.model_dump_json(
        exclude={"prompt": {"messages"}}
    )


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_that_a_router_wrote_anew_says_so(name):
    op = name if name in ("count", "grammars") else "generate"
    body = body_of(op, MESSAGES[name], "other")
    assert message_in(rewritten(body))["rewritten"] is True
    assert "rewritten" not in message_in(json.loads(body))


def test_a_prefill_step_may_be_written_anew():
    """It has no grammars, and a router may not pass a refusal on."""
    body = rewritten(body_of("generate", FULL, "")) | {"kv_transfer_params": PREFILL}
    assert "rewritten" not in message_in(body)


@pytest.mark.parametrize("sealed", [1, None, "", "[]", "{", "[" * 100_000])
def test_a_text_that_is_no_sealed_message_stays_an_unknown_field(sealed):
    found = message_in({MEMBER: {"op": "count", "sealed": sealed}})
    assert found == {"sealed": sealed}


def test_routers_find_what_they_read():
    found = shaped(FULL)
    assert found.pop(MEMBER)["op"] == "generate"
    assert found == {
        "model": "tiny",
        "stream": False,
        "max_tokens": 7,
        "messages": [USER],
        "tools": [TOOL],
    }


def test_a_message_without_a_model_names_that_of_the_backend():
    assert shaped(None, "info", "tiny") == {
        "model": "tiny",
        "messages": [],
        MEMBER: {"op": "info"},
    }


def test_tools_and_messages_are_sent_once():
    body = body_of("generate", FULL, "")
    assert body.count(b'"enum"') == body.count(b'"hi"') == 1


PREFILL, DECODE = {"do_remote_decode": True}, {"do_remote_decode": False, "a": [1]}
ONE_TOKEN = FULL.model_copy(update={"sampling": wire.Sampling(max_tokens=1)})
UNLIMITED = FULL.model_copy(update={"sampling": wire.Sampling()})


@pytest.mark.parametrize(
    ("message", "changes", "expected"),
    [
        (FULL, {"stream": True}, {"stream": True}),
        (FULL, {"max_tokens": 3}, {}),
        (FULL, {"max_tokens": 1}, {"prefill_only": True}),
        (UNLIMITED, {"max_tokens": 1, "max_completion_tokens": 1}, {"prefill_only": True}),
        (UNLIMITED, {"max_tokens": 0}, {}),
        (ONE_TOKEN, {}, {}),
        *(
            (
                each,
                {"max_tokens": 1, "kv_transfer_params": PREFILL},
                {"kv_transfer_params": PREFILL, "prefill_only": True},
            )
            for each in (FULL, UNLIMITED, ONE_TOKEN)
        ),
        (FULL, {"kv_transfer_params": DECODE}, {"kv_transfer_params": DECODE}),
        (FULL, {"kv_transfer_params": None}, {}),
    ],
)
def test_routers_choose_the_step_but_change_no_sampling(message, changes, expected):
    """Routers between prefill and decode engines lower the first `max_tokens` to 1."""
    found = wire.GenerateRequest.model_validate(message_in(shaped(message) | changes))
    assert found == message.model_copy(update=expected)


@pytest.mark.parametrize("op", ["count", "grammars"])
def test_messages_without_a_prompt_to_compute_have_no_steps(op):
    body = shaped(MESSAGES[op], op) | {"max_tokens": 1, "kv_transfer_params": PREFILL}
    assert type(MESSAGES[op]).model_validate(message_in(body)) == MESSAGES[op]


# --- middleware ---
async def told(request):
    """What arrives."""
    scope = request.scope
    body = await request.body()
    return JSONResponse(
        {
            "to": f"{scope['method']} {scope['path']}",
            "body": body.decode(),
            "shaped": scope.get(SHAPED),
        }
    )


ROUTE = Route("/{path:path}", told, methods=["GET", "POST", "PUT"])
LIMIT = 1_000


@pytest.fixture(scope="module")
def http():
    app = Starlette(routes=[ROUTE])
    app.add_middleware(ChatShape, max_bytes=LIMIT)
    return TestClient(app)


@pytest.mark.parametrize("op", [*MESSAGES, "new"])
def test_each_message_has_its_route(http, op):
    found = http.post(PATH, content=body_of(op, None, "tiny")).json()
    assert found["to"] == f"POST /v1/toolgate/{op}"
    assert found["shaped"][MEMBER] == {"op": op}


OF_VLLM = [
    json.dumps({"model": "tiny", "messages": [USER]}),
    json.dumps({"messages": [{"role": "user", "content": f'"{MEMBER}"'}]}),
    json.dumps({"messages": [], MEMBER: "yes"}),
    json.dumps([{MEMBER: {}}]),
    f'{{"{MEMBER}": {{}}',
    "",
]


@pytest.mark.parametrize("body", OF_VLLM, ids=lambda body: body[:40])
def test_bodies_of_vllm_pass_unchanged(http, body):
    assert http.post(PATH, content=body).json() == {
        "to": f"POST {PATH}",
        "body": body,
        "shaped": None,
    }


@pytest.mark.parametrize("parts", [1, 9])
@pytest.mark.parametrize("message", [FULL, None])
def test_a_body_over_the_limit_goes_where_it_is_refused(http, message, parts):
    """As a whole, and not parsed."""
    long = [USER | {"content": "x" * 3 * LIMIT}]
    made = FULL.model_copy(update={"prompt": wire.ChatPrompt(messages=tuple(long))})
    body = body_of("generate", made, "") if message else json.dumps({"messages": long}).encode()
    step = len(body) // parts + 1
    pieces = [body[at : at + step] for at in range(0, len(body), step)]
    assert http.post(PATH, content=iter(pieces)).json() == {
        "to": "POST /v1/toolgate/generate",
        "body": body.decode(),
        "shaped": None,
    }


@pytest.mark.parametrize(("method", "path"), [("GET", PATH), ("POST", "/v1/completions")])
def test_other_requests_pass_unchanged(http, method, path):
    body = body_of("info", None, "").decode()
    found = http.request(method, path, content=body).json()
    assert found == {"to": f"{method} {path}", "body": body, "shaped": None}


def test_a_body_in_parts_is_read_as_a_whole(http):
    body = body_of("info", None, "tiny")
    found = http.post(PATH, content=iter([body[:5], body[5:9], body[9:]])).json()
    assert found["to"] == "POST /v1/toolgate/info"


def test_deep_messages_are_read():
    message = {"role": "user"}
    for _ in range(110):
        message = {"role": "user", "content": [message]}
    prompt = wire.ChatPrompt(messages=(message,))
    app = Starlette(routes=[ROUTE])
    app.add_middleware(ChatShape, max_bytes=1_000_000)
    body = body_of("generate", FULL.model_copy(update={"prompt": prompt}), "")
    found = TestClient(app).post(PATH, content=body).json()
    assert found["to"] == "POST /v1/toolgate/generate"


def test_an_app_below_a_path_has_the_same_routes():
    inner = Starlette(routes=[ROUTE])
    inner.add_middleware(ChatShape, max_bytes=LIMIT)
    client = TestClient(Starlette(routes=[Mount("/below", inner)]))
    found = client.post(f"/below{PATH}", content=body_of("info", None, "")).json()
    assert found["to"] == "POST /below/v1/toolgate/info"


async def test_a_client_that_leaves_within_its_body_is_not_answered():
    events = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive():
        return events.pop(0)

    scope = {"type": "http", "method": "POST", "path": PATH}
    await ChatShape(None, LIMIT)(scope, receive, None)  # type: ignore[arg-type]
    assert not events

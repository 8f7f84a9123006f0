"""Our provider behind `litellm.acompletion`: streams and log events with a scripted backend, the
patches of LiteLLM on its own way, by what they change, and the arguments that it gets."""

import gc
import inspect
import subprocess
import sys
from types import SimpleNamespace

import litellm
import litellm.main
import litellm.utils
import pytest
from litellm.caching.caching import Cache
from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper
from litellm.llms.custom_llm import CustomLLM
from litellm.proxy import proxy_server
from litellm.proxy._types import ProxyException, UserAPIKeyAuth
from litellm.proxy.db.exception_handler import PrismaDBExceptionHandler
from pydantic import SecretStr

from tests.support.documents import pdfs as worker
from tests.support.documents.pdfs import in_base64
from tests.support.effort import rotating
from tests.support.litellm.guards import Unified
from tests.support.litellm.log_events import log_events
from tests.support.litellm.router import made, row, use
from tests.support.servers.fake_backend import KEY
from tests.support.servers.script import Script
from toolgate_core.errors import RateLimited
from toolgate_proxy.features.files import parts
from toolgate_proxy.litellm_host import context
from toolgate_proxy.litellm_host.errors import host_error, own_error
from toolgate_proxy.litellm_host.litellm_route import patches
from toolgate_proxy.litellm_host.litellm_route import provider as module
from toolgate_proxy.litellm_host.litellm_route.limit_hook import hook
from toolgate_proxy.litellm_host.litellm_route.patches import PassThroughStream
from toolgate_proxy.litellm_host.litellm_route.provider import read_call
from toolgate_proxy.litellm_host.routing.selection import selection
from toolgate_proxy.provider import toolgate
from toolgate_proxy.routing.deployments import Placement
from toolgate_proxy.settings import Settings
from toolgate_proxy.state import GatewayState, gateway


@pytest.fixture
async def recorder(backend, monkeypatch):
    key = SecretStr(KEY)
    here = GatewayState(Settings(backend_url=backend.url, backend_key=key, redis_url=None))
    monkeypatch.setattr(module, "gateway", lambda: here)
    yield log_events(monkeypatch)
    await here.aclose()


async def ask(script, **params):
    messages = [{"role": "user", "content": script}]
    return await litellm.acompletion(model="toolgate/tiny", messages=messages, **params)


async def test_stream_is_logged_as_one_complete_response(recorder, backend):
    backend.scripts["hi"] = Script(("Hello", "Good day"))
    stream = await ask("hi", stream=True, n=2)
    assert isinstance(stream, PassThroughStream)
    chunks = [chunk async for chunk in stream]
    assert all(chunk.choices for chunk in chunks)
    _, logged = await recorder.success()
    assert [choice.message.content for choice in logged.choices] == ["Hello", "Good day"]
    assert stream.chunks == chunks  # it bills a client that leaves for those sent so far
    whole = await ask("hi", n=2)
    assert logged.usage.model_dump() == whole.usage.model_dump()


async def test_our_stream_is_recognised_by_litellms_router_and_proxy(recorder, backend):
    """They check the type, and close `completion_stream` when the client disconnects."""
    backend.scripts["hi"] = Script(("Hello there",))
    stream = await ask("hi", stream=True)
    assert isinstance(stream, CustomStreamWrapper)
    assert stream.completion_stream is not None
    assert stream.sent_first_chunk
    first = await anext(stream)
    assert first._hidden_params is stream._hidden_params
    await stream.aclose()


@pytest.mark.parametrize("stream", [True, False])
async def test_litellms_router_has_fallbacks_for_prompts_that_are_too_long(
    recorder, backend, stream
):
    error = {"message": "Long.", "code": "context_length_exceeded", "param": "messages"}
    long = Script(("x",), error_status=400, error=error)
    backend.turns[:] = [long, Script(("From the large one",))]
    at = {"api_base": backend.url, "api_key": KEY}
    router = made(
        row("a", **at),
        row("b", group="large", **at),
        context_window_fallbacks=[{"tiny": ["large"]}],
    )
    messages = [{"role": "user", "content": "a long prompt"}]
    answer = await router.acompletion(model="tiny", messages=messages, stream=stream)
    if stream:
        texts = [chunk.choices[0].delta.content or "" async for chunk in answer]
        assert "".join(texts) == "From the large one"
    else:
        assert answer.choices[0].message.content == "From the large one"


async def test_a_file_becomes_text(recorder, backend, monkeypatch):
    monkeypatch.setattr(parts, "DOCUMENTS", parts.Documents(module=worker.__name__))
    backend.turns[:] = [Script(("Hello",))] * 2
    file = {"file_data": in_base64(b"%PDF-Lamp 4"), "filename": "a.pdf"}
    messages = [{"role": "user", "content": [{"type": "file", "file": file}]}]
    await litellm.acompletion(model="toolgate/tiny", messages=messages)
    text = '<document title="a.pdf">\nLamp 4\n</document>'
    assert backend.messages()[-1]["content"][0]["text"] == text
    monkeypatch.setattr(litellm, "callbacks", [Unified(mark="Lamp")])
    metadata = {"user_api_key_auth": UserAPIKeyAuth()}
    await litellm.acompletion(model="toolgate/tiny", messages=messages, metadata=metadata)
    assert backend.messages()[-1]["content"][0]["text"] == text.replace("Lamp", "hidden")


async def test_custom_tools_are_refused_and_mocks_replace_the_backend(recorder, backend):
    with pytest.raises(litellm.BadRequestError) as refusal:
        await ask("hi", tools=[{"type": "custom", "custom": {"name": "shell"}}])
    ours = own_error(refusal.value)
    assert ours is not None
    assert (ours.code, ours.param) == ("unsupported_parameter", "tools")
    router = made(row("a", mock_response="Hello"))
    messages = [{"role": "user", "content": "hi"}]
    response = await router.acompletion(model="tiny", messages=messages)
    assert response.choices[0].message.content == "Hello"
    assert backend.requests == []


@pytest.mark.parametrize("name", ["pre_call_rules", "post_call_rules"])
async def test_litellms_rules_apply(recorder, monkeypatch, backend, name):
    backend.scripts["hi"] = Script(("secret",))
    monkeypatch.setattr(litellm, name, [lambda text: "secret" not in text])
    with pytest.raises(litellm.APIResponseValidationError):
        await ask("a secret" if name == "pre_call_rules" else "hi")
    assert len(backend.requests) == (0 if name == "pre_call_rules" else 1)


async def test_response_cache_has_no_answers_of_our_models(recorder, monkeypatch, backend):
    """A semantic one would have those to requests with other schemas."""
    backend.scripts["hi"] = Script(("Hello",))
    monkeypatch.setattr(litellm, "cache", Cache(type="local"))
    monkeypatch.setattr(litellm, "callbacks", [hook])
    for number, stream in enumerate((False, False, True, True), 1):
        answer = await ask("hi", stream=stream, caching=True)
        assert [chunk async for chunk in answer] if stream else answer.choices
        assert len(backend.requests) == number
    assert litellm.cache.cache.cache_dict == {}


# --- patches of LiteLLM ---------------------------------------------------------------------------


def test_the_provider_is_registered_and_patched_once():
    function = litellm.main._complete_custom_providers
    methods = ProxyException.__init__, ProxyException.to_dict
    assert patches.register(toolgate) is toolgate
    assert litellm.main._complete_custom_providers is function
    assert inspect.unwrap(function) is not function
    assert inspect.unwrap(function) is inspect.unwrap(inspect.unwrap(function))
    assert (ProxyException.__init__, ProxyException.to_dict) == methods
    assert isinstance(toolgate, CustomLLM)
    for name in ("acompletion", "astreaming"):
        assert getattr(type(toolgate), name) is not getattr(CustomLLM, name)
    assert ProxyException in proxy_server.app.exception_handlers


async def test_all_openai_parameters_reach_the_provider(recorder, monkeypatch):
    seen = []

    def read(arguments, **options):
        seen.append(read_call(arguments, **options))
        return seen[-1]

    monkeypatch.setattr(module, "read_call", read)
    patches.register(toolgate)
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}
    sent = {"reasoning_effort": "low", "verbosity": "high", "functions": [{"name": "x"}],
            "top_k": 3, "stop": ["a"] * 5, "temperature": 3, "tool_choice": choice,
            "extra_body": {"min_p": 1}}  # fmt: skip
    with pytest.raises(litellm.BadRequestError):
        await ask("hi", **sent)
    del sent["extra_body"]
    assert seen[0].body.items() >= {**sent, "min_p": 1}.items()


def test_only_our_providers_streams_are_opened_before_the_response(monkeypatch):
    """Other providers, synchronous calls and whole responses stay LiteLLM's."""

    def original(context):
        return "stock"

    complete = patches._opening(original, toolgate)
    ours = {"custom_llm_provider": "toolgate", "acompletion": True, "stream": True}
    for changes in ({"custom_llm_provider": "other"}, {"acompletion": False}, {"stream": False}):
        assert complete(SimpleNamespace(**(ours | changes))) == "stock"
    monkeypatch.setattr(patches, "_open", lambda *_: "opened")
    assert complete(SimpleNamespace(**ours)) == "opened"


def test_litellms_completion_uses_the_patched_function(monkeypatch):
    """A function imported under another name would bypass the patch."""
    seen = []

    def complete(context):
        seen.append(context)
        return "made"

    monkeypatch.setattr(litellm.main, "_complete_custom_providers", complete)
    messages = [{"role": "user", "content": "hi"}]
    litellm.completion(model="toolgate/tiny", messages=messages, api_base="http://a", stream=True)
    [context] = seen
    assert (context.custom_llm_provider, context.model) == ("toolgate", "tiny")
    assert (context.stream, context.acompletion) == (True, False)
    assert (context.api_base, context.messages) == ("http://a", messages)
    for name in ("api_key", "optional_params", "litellm_params", "logging"):
        assert hasattr(context, name)


def test_proxy_exception_raised_from_our_error_has_our_body():
    error = RateLimited("Wait.", limited="tokens", retry_after=2)
    try:
        raise host_error(error, "m")
    except Exception:  # noqa: BLE001  # as LiteLLM handles it
        shown = ProxyException("litellm.RateLimitError: Wait.", "None", "None", 429)
    assert shown.to_dict() == error.body()["error"]
    assert sys.exception() is None
    later = ProxyException("Other.", "t", None, 400)
    assert later.to_dict()["message"] == "Other."


@pytest.mark.parametrize(
    "name", [name for name in vars(PrismaDBExceptionHandler) if name.startswith("is_")]
)
def test_no_exception_is_a_database_error_without_a_database(name):
    """LiteLLM's own checks would import prisma, which is not installed, and raise."""
    assert getattr(PrismaDBExceptionHandler, name)(ValueError()) is False


# --- the request that a client sent, read back from the arguments ---------------------------------


def call(sent=None, params=None, metadata=None, **changes):
    about = {"metadata": metadata}
    if sent is not None:
        about["proxy_server_request"] = {"body": sent}
    arguments = {
        "model": "m",
        "messages": [],
        "optional_params": params or {},
        "litellm_params": about,
        "api_base": "http://a",
        "api_key": "k",
        "logging_obj": None,
    }
    return read_call(arguments | changes, stream=False)


def test_a_call_is_read_back_from_its_arguments():
    params = {"tools": [], "extra_body": {"top_k": 1}}
    made = call({"tools": ["x"], "priority": 3}, params)
    assert made.body == {
        "tools": ["x"], "top_k": 1, "priority": 3, "model": "m", "messages": [], "stream": False,
    }  # fmt: skip
    # Without the proxy, in a program that calls `litellm.acompletion`, these are all there is
    params = {"temperature": 0.5, "extra_body": {"top_k": 1}}
    made = call(None, params)
    assert (made.body["temperature"], "priority" in made.body) == (0.5, False)
    assert made.placement == Placement("m", "http://a", "k")
    assert call(api_base=None, api_key=None).placement == Placement("m", None, None)
    assert params == {"temperature": 0.5, "extra_body": {"top_k": 1}}


@pytest.mark.parametrize("tools", [[{"type": "function"}], None, []])
def test_tools_changed_by_litellm_replace_those_of_the_body(tools):
    """A hook may have changed them."""
    changed = [{"type": "function", "function": {"name": "changed"}}]
    assert call({"tools": tools}, {"tools": changed}).body["tools"] == changed


def test_alternatives_are_other_deployments_of_the_requested_model(monkeypatch):
    use(monkeypatch, row("a"), row("b"), row("c", group="other"))
    tried = gateway().deployments.at(Placement("tiny", "http://a", "k"))
    made = call(metadata={"model_group": "tiny"})
    assert made.group == "tiny"
    assert [place.api_base for place in made.alternatives(tried)] == ["http://b"]
    assert call(metadata={}).alternatives(tried) == []
    assert selection().alternatives([], tried) == []


# --- CPython's crash in ContextVar.set, each case in a process of its own -------------------------

CRASHING = """
import contextvars, gc, random, sys

variables = [contextvars.ContextVar(str(at)) for at in range(60)]

class Abandoned:
    def __init__(self):
        self.me = self

    def __del__(self):
        for variable in variables * 2:
            variable.set(object())

def set_while_collecting():
    for variable in variables:
        variable.set(object())
    for _ in range(5000):
        gc.disable()
        Abandoned()
        objects = [object() for _ in range(3)]
        gc.set_threshold(gc.get_count()[0] + random.randint(1, 4))
        gc.enable()
        random.choice(variables).set(1)

if "held" in sys.argv:
    from toolgate_proxy.litellm_host.context import hold
    hold()
random.seed(int(sys.argv[1]))
contextvars.copy_context().run(set_while_collecting)
print("lived")
"""


def _run(*arguments):
    command = [sys.executable, "-c", CRASHING, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


has_the_bug = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="CPython 3.12 has the bug no more."
)


@pytest.mark.exhaustive
@rotating("seed", range(3), one_in=3)
def test_finalizer_may_set_a_context_variable_while_another_is_set(seed):
    done = _run(str(seed), "held")
    assert done.stdout == "lived\n", done.stderr


@has_the_bug
def test_provider_installs_the_workaround_once():
    assert toolgate
    assert gc.callbacks.count(context._hold) == 1

"""The backend's part of a request over vLLM's own configuration and renderer, without an engine."""

from types import SimpleNamespace

import psutil
import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from vllm.config import ModelConfig, VllmConfig
from vllm.exceptions import VLLMValidationError
from vllm.renderers import renderer_from_config

from tests.models import tiny_model
from tests.support.grammars.registry_bench import (
    Bench,
    Clock,
    WorkerRpc,
    registry_over,
    source,
)
from toolgate_backend.adapters.engine_sequences import NO_GRAMMAR
from toolgate_backend.endpoint.service import Service, _replica
from toolgate_backend.settings import Settings
from toolgate_backend.tokens.vocabulary import from_model_config
from toolgate_core import tracing, wire
from toolgate_core.errors import (
    BackendUnavailable,
    ContextLengthExceeded,
    EnforcementFailed,
    FingerprintMismatch,
    GrammarsRefused,
    InvalidRequest,
)

# --- service ---
CONTEXT = 100
LONG = {"role": "user", "content": "one two three " * CONTEXT}


class Engine:
    """Keeps the prompts and parameters that it is asked with, and generates nothing."""

    def __init__(self):
        self.model_config = ModelConfig(
            model=str(tiny_model()), dtype="float32", max_model_len=CONTEXT
        )
        self.vllm_config = VllmConfig(model_config=self.model_config)
        self.renderer = renderer_from_config(self.vllm_config)
        self.engine_core = SimpleNamespace(core_engines=[b"0"])
        self.errored = False
        self.asked = []
        self.fault = None
        self.trace_headers = None

    async def generate(self, prompt, params, request_id, **others):
        self.asked.append((prompt["prompt_token_ids"], params.max_tokens))
        self.trace_headers = others["trace_headers"]
        if self.fault is not None:
            raise self.fault
        return
        yield


@pytest.fixture(scope="module")
def engine():
    engine = Engine()
    yield engine
    engine.renderer.shutdown()


@pytest.fixture
def service(engine):
    models = SimpleNamespace(base_model_paths=[SimpleNamespace(name="tiny")], lora_requests={})
    engine.asked.clear()
    engine.fault = None
    return Service(engine, models, from_model_config(engine.model_config), Settings())


async def test_a_backend_that_lacks_an_engine_refuses_requests(service):
    service._watch._lost.add(1)
    with pytest.raises(BackendUnavailable, match="Engine 1"):
        service.info()
    with pytest.raises(BackendUnavailable, match="Engine 1"):
        await anext(service.generate(cut()))
    with pytest.raises(BackendUnavailable, match="Engine 1"):
        await service.status()


def cut(*, side=None, max_tokens=None, accepted=()):
    """A prompt that is longer than the context, to be cut to what there is room for."""
    tokenizing = wire.Tokenizing(truncate_prompt_tokens=-1, truncation_side=side)
    return wire.GenerateRequest(
        request_id="r",
        model="tiny",
        prompt=wire.ChatPrompt(messages=(LONG,), tokenizing=tokenizing),
        sampling=wire.Sampling(max_tokens=max_tokens),
        accepted=accepted,
    )


async def prompt_and_budget(service, engine, request):
    async for _ in service.generate(request):
        pass
    [asked] = engine.asked
    engine.asked.clear()
    return asked


@pytest.mark.parametrize("side", [None, "left", "right"])
@pytest.mark.parametrize(("max_tokens", "kept"), [(None, 99), (1, 99), (20, 80), (99, 1)])
async def test_a_truncated_prompt_leaves_room_for_max_tokens(
    service, engine, side, max_tokens, kept
):
    request = cut(side=side, max_tokens=max_tokens)
    ids, budget = await prompt_and_budget(service, engine, request)
    assert (len(ids), budget) == (kept, CONTEXT - kept)


async def test_tokens_that_do_not_fit_are_counted_in_the_error(service, engine):
    sampling = wire.Sampling(max_tokens=CONTEXT)
    request = chat("t").model_copy(update={"sampling": sampling})
    with pytest.raises(ContextLengthExceeded) as refused:
        await prompt_and_budget(service, engine, request)
    counted = refused.value.details()
    assert 0 < counted.pop("prompt_tokens") < CONTEXT
    assert counted == {"context_length": CONTEXT, "max_tokens": CONTEXT}
    assert refused.value.param == "max_tokens"


@pytest.mark.parametrize(("words", "fits"), [(1, True), (70, True), (84, False)])
async def test_max_tokens_are_lowered_to_what_the_context_leaves(service, engine, words, fits):
    """But not to a few tokens: then the conversation is to be shortened."""
    sampling = wire.Sampling(max_tokens=CONTEXT * 10)
    request = chat("t " * words).model_copy(update={"sampling": sampling, "fit_max_tokens": True})
    if not fits:
        with pytest.raises(ContextLengthExceeded):
            await anext(service.generate(request))
        return
    [start] = [each async for each in service.generate(request)][:1]
    [(prompt, budget)] = engine.asked
    assert budget == CONTEXT - len(prompt) == start.max_tokens


STRICT = """{% for m in messages %}{% if m.role == "system" and not loop.first %}
{{ raise_exception("late") }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}"""


async def test_a_message_that_the_template_refuses_is_shown_in_another_form(
    service, engine, monkeypatch
):
    monkeypatch.setattr(engine.renderer.get_tokenizer(), "chat_template", STRICT)
    system = {"role": "system", "content": "b"}
    user = {"role": "user", "content": "a"}
    prompt = wire.ChatPrompt(messages=(user, system, user))
    request = chat("").model_copy(update={"prompt": prompt, "return_prompt_text": True})
    with pytest.raises(InvalidRequest, match="late"):
        await anext(service.generate(request))
    await service._renderer.learn_form()
    start = await anext(service.generate(request))
    assert isinstance(start, wire.StartEvent)
    assert start.adapted == (("system", 1),)
    text = (start.prompt_text or "").replace("\\n", "\n")
    assert (text.count("[user]"), text.count("[system]")) == (2, 0)
    assert "<system-reminder>\nb\n</system-reminder>\n\na" in text


@pytest.mark.parametrize("max_tokens", [CONTEXT, CONTEXT + 1])
async def test_max_tokens_without_room_for_the_prompt_are_rejected(service, engine, max_tokens):
    with pytest.raises(ContextLengthExceeded) as refused:
        await prompt_and_budget(service, engine, cut(max_tokens=max_tokens))
    assert refused.value.param == "max_tokens"


async def test_a_resumed_request_gets_the_same_truncated_prompt(service, engine):
    first, _ = await prompt_and_budget(service, engine, cut(side="left", max_tokens=20))
    again = cut(side="left", max_tokens=15, accepted=(5, 6, 7, 8, 9))
    ids, budget = await prompt_and_budget(service, engine, again)
    assert ids == [*first, 5, 6, 7, 8, 9]
    assert budget == 15


def chat(content, **more):
    messages = ({"role": "user", "content": content},)
    prompt = wire.ChatPrompt(messages=messages, **more)
    return wire.GenerateRequest(
        request_id="r", model="tiny", prompt=prompt, sampling=wire.Sampling(max_tokens=1)
    )


@pytest.mark.parametrize(
    "request_",
    [
        lambda room: chat("t" * (room + 1)),
        lambda room: chat("é" * (room // 2 + 1)),
        lambda room: chat([{"type": "text", "text": "t"}] * (room + 1)),
        lambda room: chat("t", tools=({"type": "function", "function": {"a": "d" * room}},)),
        lambda room: chat("t", template_kwargs={"name": "t" * room}),
    ],
    ids=["ascii", "utf-8", "parts", "tools", "template"],
)
async def test_text_beyond_the_context_is_refused_before_it_is_rendered(
    service, engine, monkeypatch, request_
):
    """Rendered and tokenized, 50 MB of text would take 5 GB of memory."""
    room = CONTEXT * (service.info().limits.max_token_bytes or 0)
    rendered = []

    async def render(conversations, *arguments):
        rendered.append(conversations)
        raise AssertionError

    monkeypatch.setattr(engine.renderer, "render_chat_async", render)
    with pytest.raises(ContextLengthExceeded) as refused:
        await anext(service.generate(request_(room)))
    assert (refused.value.status, refused.value.param) == (400, "messages")
    assert not rendered
    assert not engine.asked


async def test_tools_in_the_messages_have_the_form_of_the_template(service, engine, monkeypatch):
    tokenizer = engine.renderer.get_tokenizer()
    template = (
        "{% for tool in tools or [] %}<t>{{ tool.function.name }}</t>{% endfor %}"
        "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    )
    monkeypatch.setattr(tokenizer, "chat_template", template)
    find, look = ({"type": "function", "function": {"name": name}} for name in ("find", "look"))
    added = {"type": wire.TOOL_DEFINITIONS, "tools": [look]}
    messages = ({"role": "user", "content": "hi"}, {"role": "tool", "content": [added]})
    request = wire.GenerateRequest(
        request_id="r",
        model="tiny",
        prompt=wire.ChatPrompt(messages=messages, tools=(find,)),
        sampling=wire.Sampling(max_tokens=1),
    )
    ids, _ = await prompt_and_budget(service, engine, request)
    shown = "<t>find</t>user: hi\ntool: <tools>\n<t>look</t>\n</tools>\n"
    assert tokenizer.decode(ids) == shown


async def test_text_within_the_context_is_rendered(service, engine):
    """The tokenizer decides then."""
    longest = service.info().limits.max_token_bytes or 0
    assert longest >= 1
    with pytest.raises(ContextLengthExceeded, match="tokens"):
        await anext(service.generate(chat("t" * (CONTEXT * longest - 100))))
    async for _ in service.generate(chat("t")):
        pass
    assert engine.asked


async def test_refused_texts_take_no_memory(service):
    process = psutil.Process()
    text = "t" * 50_000_000
    before = process.memory_info().rss
    for _ in range(20):
        with pytest.raises(ContextLengthExceeded):
            await anext(service.generate(chat(text)))
    assert process.memory_info().rss < before + 60_000_000


def with_tools(*sources):
    """A request whose tools are these sources, and which asks for the verdict on the first."""
    candidates = tuple(wire.Candidate(name=each.name, key=each.key) for each in sources)
    needed = [wire.NeededGrammar(key=each.key, source=each) for each in sources]
    needed[0] = needed[0].model_copy(update={"report": True})
    more = {"enforcement": wire.Enforcement(candidates=candidates), "grammars": tuple(needed)}
    sampling = wire.Sampling(max_tokens=50)
    return chat("t").model_copy(update={**more, "sampling": sampling})


async def test_the_start_has_the_verdicts_that_the_request_asks_for(
    service, vocabulary, monkeypatch
):
    registry = registry_over(WorkerRpc(vocabulary), Bench(vocabulary), Clock())
    monkeypatch.setattr(service, "_registry", registry)
    a, b = source("a"), source("b")
    events = service.generate(with_tools(a, b))
    start = await anext(events)
    assert isinstance(start, wire.StartEvent)
    [verdict] = start.verdicts
    assert (verdict.key, verdict.status) == (a.key, "ready")
    assert registry.pinned == 2
    await events.aclose()
    assert registry.pinned == 0


async def test_a_request_with_refused_grammars_does_not_reach_the_engine(
    service, engine, vocabulary, monkeypatch
):
    registry = registry_over(WorkerRpc(vocabulary), Bench(vocabulary), Clock())
    monkeypatch.setattr(service, "_registry", registry)
    with pytest.raises(GrammarsRefused):
        await anext(service.generate(with_tools(source("a"), source("b", type="strange"))))
    assert not engine.asked
    assert registry.pinned == 0


async def test_a_request_that_is_based_on_another_description_is_refused(service, engine):
    """It gets no response, and needs no grammar first."""
    info = service.info()
    assert info.fingerprint == wire.fingerprint_of(info)
    for fingerprint, accepted in (("", True), (info.fingerprint, True), ("other", False)):
        engine.asked.clear()
        request = chat("t").model_copy(update={"fingerprint": fingerprint})
        if accepted:
            start, *_ = [each async for each in service.generate(request)]
            assert (start.fingerprint, start.replica) == (info.fingerprint, info.replica)
            assert engine.asked
        else:
            with pytest.raises(FingerprintMismatch):
                await anext(service.generate(request))
            assert not engine.asked
    assert service.info().in_flight == 0


@pytest.mark.parametrize(
    ("field", "value", "param"), [("fingerprint", "other", None), ("rewritten", True, "toolgate")]
)
async def test_every_message_is_refused_that_its_gateway_must_make_anew(
    service, engine, field, value, param
):
    known = source("a")
    for send, message in (
        (service.load_grammars, wire.LoadGrammars(grammars=(known,))),
        (service.count, wire.CountTokens(model="t", prompt=chat("t").prompt)),
        (service.prefill, chat("t")),
        (lambda message: anext(service.generate(message)), chat("t")),
    ):
        with pytest.raises(FingerprintMismatch) as refused:
            await send(message.model_copy(update={field: value}))
        assert refused.value.param == param
    assert not engine.asked
    assert service.info().in_flight == 0


def test_api_processes_of_one_engine_have_the_name_of_its_replica():
    one, two = {"grammars": 0, "process": 1}, {"grammars": 3, "process": 2}
    assert _replica([one, two]) == _replica([two, one | {"grammars": 9}])
    assert len({_replica([one]), _replica([two]), _replica([one, two])}) == 3


@pytest.mark.parametrize("truncated", [None, -1, 10])
async def test_a_count_is_the_length_of_the_prompt(service, engine, truncated):
    tokenizing = wire.Tokenizing(truncate_prompt_tokens=truncated)
    message = LONG if truncated else {"role": "user", "content": "one two three"}
    prompt = wire.ChatPrompt(messages=(message,), tokenizing=tokenizing)
    sampling = wire.Sampling(max_tokens=20)
    request = wire.GenerateRequest(request_id="r", model="tiny", prompt=prompt, sampling=sampling)
    ids, _ = await prompt_and_budget(service, engine, request)
    counted = await service.count(wire.CountTokens(model="tiny", prompt=prompt, max_tokens=20))
    assert counted.tokens == len(ids)
    assert not engine.asked


async def test_a_count_has_the_checks_of_a_response(service):
    prompt = wire.ChatPrompt(messages=(LONG,))
    with pytest.raises(InvalidRequest) as unknown:
        await service.count(wire.CountTokens(model="other", prompt=prompt))
    assert unknown.value.param == "model"
    with pytest.raises(ContextLengthExceeded):
        await service.count(wire.CountTokens(model="tiny", prompt=prompt))
    full = Service(service._engine, service._models, service._vocabulary, Settings(max_requests=1))
    with full._in_flight.track(), pytest.raises(BackendUnavailable):
        await full.count(wire.CountTokens(model="tiny", prompt=prompt))


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("min_p must be in [0, 1].", InvalidRequest),
        (f"Invalid structured outputs: {NO_GRAMMAR}: Grammar k is not loaded.", EnforcementFailed),
    ],
)
async def test_vllm_rejects_parameters_but_not_for_a_grammar_of_ours(
    service, engine, message, error
):
    """vLLM 0.33 reports a grammar that could not be created as an error of the client."""
    engine.fault = VLLMValidationError(message)
    with pytest.raises(error):
        await prompt_and_budget(service, engine, cut(max_tokens=1))


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CARRIED = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}


async def test_a_generation_is_a_span_between_the_gateways_and_the_engines(service, engine):
    exporter = InMemorySpanExporter()
    tracing.start_with(SimpleSpanProcessor(exporter), "toolgate-backend")
    secret = chat("swordfish")
    async for _ in service.generate(secret, CARRIED | {"authorization": "Bearer swordfish"}):
        pass
    carried = engine.trace_headers
    engine.fault = ContextLengthExceeded("Too long.")
    with pytest.raises(ContextLengthExceeded):
        [each async for each in service.generate(secret, {})]
    tracing.stop()
    span, failed = exporter.get_finished_spans()
    assert span.context is not None
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" in CARRIED["traceparent"]
    assert carried == {"traceparent": f"00-{TRACE}-{span.context.span_id:016x}-01"}
    assert dict(span.attributes or {})["gen_ai.request.model"] == "tiny"
    assert "swordfish" not in span.to_json()
    assert dict(failed.attributes or {})["error.type"] == ContextLengthExceeded("").code
    assert failed.status.status_code is StatusCode.ERROR


async def test_without_an_exporter_the_engine_gets_the_gateways_context(service, engine):
    for headers in (CARRIED, None):
        async for _ in service.generate(chat("t"), headers):
            pass
        assert engine.trace_headers == headers

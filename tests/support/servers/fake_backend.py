"""A backend that answers by script: the wire of `toolgate_core.wire`, with faults on demand.

A request is answered by the script whose name is its last message, or by the next one of `turns`
if there is none.
"""

import asyncio
import base64
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.servers.loopback import in_thread
from tests.support.servers.script import Script, events
from toolgate_backend.endpoint.admission import needed_sources
from toolgate_core import wire
from toolgate_core.chat_shape import MEMBER, SHAPED, ChatShape, message_in
from toolgate_core.errors import FingerprintMismatch, GrammarsRefused, ToolgateError
from toolgate_core.grammar_key import grammar_key, tool_hash

KEY = "backend-key"
ASKED = "asked without a script"
INFO = wire.Info(
    model="tiny",
    models=("tiny",),
    vllm_version="0.0",
    adapter="fake",
    dialect="qwen3",
    marks=wire.MarkIds(
        tokens={"<tool_call>": 1, "</tool_call>": 2, "<think>": 3, "</think>": 4},
        end_of_turn=(5,),
        failure=6,
    ),
    tokenizer="tok",
    grammar_format="1",
    limits=wire.Limits(max_model_len=4096, max_logprobs=20, max_grammars=64),
)


WITHOUT_MASKS = " (without masks)"
"""What the name of the script ends with that answers a request without enforcement."""


MAX_BYTES = 64_000_000
Verdicts = tuple[wire.GrammarVerdict, ...]
Body = TypeVar("Body", bound=wire.Request)


async def message_of(kind: type[Body], request: Request, fingerprint: str) -> Body:
    """The message of a request, in either form. `fingerprint`: of the replica that got it."""
    shaped = request.scope.get(SHAPED)
    if shaped is None:
        return kind.model_validate_json(await request.body())
    message = kind.model_validate(message_in(shaped))
    if message.rewritten:
        raise FingerprintMismatch("Sorted.", param=MEMBER)
    if message.fingerprint not in ("", fingerprint):
        raise FingerprintMismatch("Another replica.")
    return message


def refusal(_: Request, error: Exception) -> Response:
    """The response to a request that raises a ToolgateError."""
    assert isinstance(error, ToolgateError)
    return JSONResponse(error.body(), error.status)


def blob_of(name: str) -> str:
    """What stands for a compiled grammar."""
    return base64.b64encode(name.encode() * 10).decode()


class Model(Protocol):
    """What answers requests by their prompts."""

    def tokens(self, prompt: wire.ChatPrompt) -> int: ...

    def answer(self, message: wire.GenerateRequest) -> Script: ...


class FakeBackend:
    """Scripts in, requests out. It runs in a thread; what it saw can be read at leisure."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        self.turns: list[Script] = []
        """Answers, in turn, to clients whose messages a test doesn't know."""
        self.model: Model | None = None
        """Answers instead of scripts."""
        self.requests: list[wire.GenerateRequest] = []
        self.headers: list[dict[str, str]] = []
        """The headers of each of them."""
        self.counts: list[wire.CountTokens] = []
        self.loads: list[tuple[str, ...]] = []
        """The names of the tools that a request loaded, in advance or because it needs them."""
        self.loaded: dict[str, wire.GrammarVerdict] = {}
        """By key."""
        self.sources: list[wire.GrammarSource] = []
        self.compiles: Counter[str] = Counter()
        """By key: how often a grammar was needed that was neither loaded nor examined elsewhere."""
        self.load_pause = 0.0
        self.residual: dict[str, tuple[wire.ResidualKeyword, ...]] = {}
        """By tool name: what its verdict says that the masks leave open."""
        self.silent = False
        """Whether responses begin without the verdicts that are asked for."""
        self.info = INFO
        self.replica = secrets.token_hex(8)
        self.key = KEY
        self.running = 0
        self.left: list[float] = []
        """When clients hung up before the end of their answer, by time.monotonic."""
        self.url = ""

    @property
    def described(self) -> wire.Info:
        """The description as gateways get it."""
        about = {"fingerprint": wire.fingerprint_of(self.info), "replica": self.replica}
        return self.info.model_copy(update=about)

    def messages(self, at: int = -1) -> list[dict[str, Any]]:
        """The messages of a request's prompt."""
        prompt = self.requests[at].prompt
        assert isinstance(prompt, wire.ChatPrompt)
        return [dict(message) for message in prompt.messages]

    def listed_tools(self, at: int = -1) -> list[str]:
        """The names of the tools at the beginning of a request's prompt."""
        prompt = self.requests[at].prompt
        assert isinstance(prompt, wire.ChatPrompt)
        return [tool["function"]["name"] for tool in prompt.tools or ()]

    def callable_tools(self, at: int = -1) -> list[str]:
        """The names of the tools that the response to a request can call."""
        enforcement = self.requests[at].enforcement
        return [each.name for each in enforcement.candidates] if enforcement else []

    def clear(self) -> None:
        """Be as at first, without what earlier tests said and left. Loaded grammars stay."""
        for kept in (
            *(self.scripts, self.turns, self.requests, self.counts, self.loads, self.left),
            *(self.sources, self.compiles, self.residual, self.headers),
        ):
            kept.clear()
        self.load_pause, self.silent = 0.0, False
        self.model, self.info = None, INFO

    def forget(self) -> None:
        """As a restart would."""
        self.loaded.clear()

    async def idle_within(self, seconds: float) -> bool:
        """Whether no answer is under way any more, at the latest after so many seconds."""
        deadline = time.monotonic() + seconds
        while self.running and time.monotonic() < deadline:  # noqa: ASYNC110  another thread's
            await asyncio.sleep(0.005)
        return self.running == 0

    def app(self) -> Starlette:
        app = Starlette(
            exception_handlers={ToolgateError: refusal},
            routes=[
                Route("/health", lambda _: Response()),
                Route("/v1/toolgate/info", self._info, methods=["GET", "POST"]),
                Route("/v1/toolgate/grammars", self._grammars, methods=["POST"]),
                Route("/v1/toolgate/generate", self._generate, methods=["POST"]),
                Route("/v1/toolgate/count", self._count, methods=["POST"]),
            ],
        )
        app.add_middleware(ChatShape, max_bytes=MAX_BYTES)
        return app

    async def _info(self, request: Request) -> Response:
        if refusal := self._unauthorized(request):
            return refusal
        return JSONResponse(self.described.model_dump(mode="json"))

    async def _grammars(self, request: Request) -> Response:
        message = await self._message(wire.LoadGrammars, request)
        verdicts = await self._load(message.grammars)
        answer = wire.GrammarVerdicts(grammars=tuple(verdicts))
        return JSONResponse(answer.model_dump(mode="json"))

    async def _load(self, sources: Collection[wire.GrammarSource]) -> list[wire.GrammarVerdict]:
        self.loads.append(tuple(source.name for source in sources))
        self.sources += sources
        self.compiles.update(
            source.key
            for source in sources
            if source.key not in self.loaded and not source.examined
        )
        await asyncio.sleep(self.load_pause)
        verdicts = [*map(self._verdict, sources)]
        self.loaded |= {each.key: each for each in verdicts if each.status == "ready"}
        return verdicts

    def _verdict(self, source: wire.GrammarSource) -> wire.GrammarVerdict:
        parts = self.info.model_dump(include={"dialect", "tokenizer", "grammar_format"})
        assert source.key == grammar_key(tool_hash(source.name, source.parameters), **parts)
        if source.name.startswith("refused") or "not" in source.parameters:
            return wire.GrammarVerdict(
                key=source.key,
                status="refused",
                reason="no `not`.",
                pointer="/not",
                code="schema_not_enforceable",
            )
        heavy = source.name.startswith("heavy")
        return wire.GrammarVerdict(
            key=source.key,
            status="ready",
            engine="fake",
            compile_ms=1.0,
            residual=self.residual.get(source.name, ()),
            blob=blob_of(source.name) if heavy else None,
        )

    async def _load_needed(self, message: wire.GenerateRequest) -> Verdicts:
        """Load the grammars that a request needs. Return the verdicts that it asks for."""
        sources = needed_sources(message)
        if missing := [source() for key, source in sources.items() if key not in self.loaded]:
            verdicts = await self._load(missing)
            if refused := [each for each in verdicts if each.status == "refused"]:
                raise GrammarsRefused([each.model_dump(exclude_none=True) for each in refused])
        asked = [each.key for each in message.grammars if each.report and not self.silent]
        return tuple(self.loaded[key] for key in asked)

    async def _count(self, request: Request) -> Response:
        """The prompt's number of tokens is that of the script."""
        if refusal := self._unauthorized(request):
            return refusal
        message = await self._message(wire.CountTokens, request)
        self.counts.append(message)
        assert isinstance(message.prompt, wire.ChatPrompt)
        if self.model is not None:
            count = wire.TokenCount(tokens=self.model.tokens(message.prompt))
            return JSONResponse(count.model_dump(mode="json"))
        script = self.scripts[str(message.prompt.messages[-1]["content"])]
        if script.error_status is not None:
            return JSONResponse({"error": script.error}, script.error_status)
        return JSONResponse(wire.TokenCount(tokens=script.prompt_tokens).model_dump(mode="json"))

    async def _generate(self, request: Request) -> Response:
        if refusal := self._unauthorized(request):
            return refusal
        message = await self._message(wire.GenerateRequest, request)
        self.requests.append(message)
        self.headers.append(dict(request.headers))
        verdicts = await self._load_needed(message)
        script = self.script_of(message)
        if script.error_status is not None:
            await asyncio.sleep(script.queued)
            return JSONResponse({"error": script.error}, script.error_status)
        if message.stream:
            return StreamingResponse(
                self._sse(script, message, verdicts), media_type="text/event-stream"
            )
        return await self._whole(script, message, verdicts, request)

    def script_of(self, message: wire.GenerateRequest) -> Script:
        """Return the answer to a request."""
        if self.model is not None:
            return self.model.answer(message)
        assert isinstance(message.prompt, wire.ChatPrompt)
        asked = str(message.prompt.messages[-1]["content"])
        if message.enforcement is None:
            asked += WITHOUT_MASKS
        if asked in self.scripts:
            return self.scripts[asked]
        return Script(("Hello",)) if asked == ASKED else self.turns.pop(0)

    async def _sse(
        self, script: Script, message: wire.GenerateRequest, verdicts: Verdicts
    ) -> AsyncIterator[str]:
        with self._counted():
            yield ": keep-alive\n\n"
            await asyncio.sleep(script.queued)
            async for event in self._events(script, message, verdicts):
                yield ": hm\n\n" if event is None else f"data: {event.model_dump_json()}\n\n"

    async def _events(
        self, script: Script, message: wire.GenerateRequest, verdicts: Verdicts
    ) -> AsyncIterator[wire.StreamEvent | None]:
        info = self.described
        about = {"fingerprint": info.fingerprint, "replica": info.replica}
        async for event in events(script, message, verdicts):
            begins = isinstance(event, wire.StartEvent)
            yield event.model_copy(update=about) if event and begins else event

    async def _whole(
        self, script: Script, message: wire.GenerateRequest, verdicts: Verdicts, request: Request
    ) -> Response:
        sent = []
        with self._counted():
            async for event in self._events(script, message, verdicts):
                if event is not None:
                    sent.append(event.model_dump(mode="json"))
                if await request.is_disconnected():
                    raise asyncio.CancelledError
        return JSONResponse(sent)

    async def _message(self, kind: type[Body], request: Request) -> Body:
        return await message_of(kind, request, self.described.fingerprint)

    def _unauthorized(self, request: Request) -> Response | None:
        if request.headers.get("authorization") == f"Bearer {self.key}":
            return None
        return JSONResponse({"error": "Unauthorized"}, 401)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.running += 1
        try:
            yield
        except BaseException:
            self.left.append(time.monotonic())
            raise
        finally:
            self.running -= 1


@contextmanager
def running(backend: FakeBackend, port: int = 0, host: str = "127.0.0.1") -> Iterator[FakeBackend]:
    """Serves the backend at a port of the loopback interface; a free one, if none is named. At the
    end it is gone at once, as if it had been killed."""
    with in_thread(backend.app(), port, host) as url:
        backend.url = url
        yield backend

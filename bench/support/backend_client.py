"""Client of a backend's own endpoints, without a gateway, and the events of any stream."""

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import httpx

from toolgate_core import wire
from toolgate_core.grammar_key import grammar_key
from toolgate_core.tools import Tool, parse_tools

GENERATE_PATH = "/v1/toolgate/generate"


async def stream_events(
    http: httpx.AsyncClient, url: str, content: bytes, headers: Mapping[str, str] | None = None
) -> AsyncIterator[bytes]:
    """The JSON of each event of a stream, when it arrives. Raises RuntimeError with the response if
    it is an error.

    Only "\\n" ends a line. httpx's `aiter_lines` also splits at Unicode's other line separators,
    which JSON can contain unescaped.
    """
    rest = b""
    async with http.stream("POST", url, content=content, headers=headers) as response:
        if response.status_code != 200:
            raise RuntimeError((await response.aread()).decode(errors="replace")[:300])
        async for data in response.aiter_bytes():
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                if line.startswith(b"data: {"):
                    yield line.removeprefix(b"data: ")


class BackendClient:
    """`http` must have the backend as its base URL, and the backend's key in its headers."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._info: wire.Info | None = None
        self._sources: dict[str, wire.GrammarSource] = {}
        """Of the loaded grammars, by key."""

    async def info(self) -> wire.Info:
        if self._info is None:
            response = await self._http.get("/v1/toolgate/info")
            self._info = wire.Info.model_validate_json(response.raise_for_status().content)
        return self._info

    async def load(self, tools: Sequence[dict[str, Any]]) -> list[wire.Candidate]:
        """Load the grammars of `tools` (in OpenAI's format). Rejected tools are left out."""
        info = await self.info()
        parsed = {self._key(tool, info): tool for tool in parse_tools(list(tools))}
        sources = {
            key: wire.GrammarSource(key=key, name=tool.name, parameters=tool.parameters)
            for key, tool in parsed.items()
        }
        self._sources |= sources
        message = wire.LoadGrammars(grammars=tuple(sources.values())).model_dump_json()
        response = await self._http.post("/v1/toolgate/grammars", content=message)
        verdicts = wire.GrammarVerdicts.model_validate_json(response.raise_for_status().content)
        ready = {verdict.key for verdict in verdicts.grammars if verdict.status == "ready"}
        return [wire.Candidate(name=t.name, key=k) for k, t in parsed.items() if k in ready]

    async def request(
        self,
        text: str,
        tools: Sequence[dict[str, Any]],
        enforcement: wire.Enforcement | None,
        sampling: wire.Sampling,
        request_id: str | None = None,
    ) -> bytes:
        """The body of a request with one user message, `text`. Grammars of tools that `tools` lacks
        have their sources."""
        info = await self.info()
        parsed = enumerate(parse_tools(list(tools)))
        places = {self._key(tool, info): at for at, tool in parsed}
        candidates = enforcement.candidates if enforcement else ()
        request = wire.GenerateRequest(
            request_id=request_id or uuid.uuid4().hex,
            model=info.model,
            prompt=wire.ChatPrompt(
                messages=({"role": "user", "content": text},),
                tools=tuple(tools) or None,
                template_kwargs={"enable_thinking": False},
            ),
            sampling=sampling,
            enforcement=enforcement,
            grammars=tuple(self._needed(each.key, places.get(each.key)) for each in candidates),
        )
        return request.model_dump_json().encode()

    def _needed(self, key: str, place: int | None) -> wire.NeededGrammar:
        source = self._sources[key] if place is None else None
        return wire.NeededGrammar(key=key, tool=place, source=source)

    @staticmethod
    def _key(tool: Tool, info: wire.Info) -> str:
        return grammar_key(
            tool.hash,
            dialect=info.dialect,
            tokenizer=info.tokenizer,
            grammar_format=info.grammar_format,
        )

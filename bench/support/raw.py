"""A backend past its gateway: grammars loaded and answers asked for over its own wire."""

import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx

from toolgate_core import wire
from toolgate_core.grammar_key import grammar_key
from toolgate_core.tools import Tool, parse_tools

PATH = "/v1/toolgate/generate"


async def lines(answer: httpx.Response) -> AsyncIterator[bytes]:
    """As they end on the wire: httpx's own lines end at any of Unicode's line separators, which
    JSON may hold as they are."""
    left = b""
    async for data in answer.aiter_bytes():
        *whole, left = (left + data).split(b"\n")
        for line in whole:
            yield line


class RawBackend:
    """`http` has the backend as its base and its key in its headers."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._info: wire.Info | None = None

    async def info(self) -> wire.Info:
        if self._info is None:
            answer = await self._http.get("/v1/toolgate/info")
            self._info = wire.Info.model_validate_json(answer.raise_for_status().content)
        return self._info

    async def load(self, tools: Sequence[dict[str, Any]]) -> list[wire.Candidate]:
        """Candidates of tools in the OpenAI form; those that are refused are left out."""
        info = await self.info()
        parsed = {self._key(tool, info): tool for tool in parse_tools(list(tools))}
        sources = tuple(
            wire.GrammarSource(key=key, name=tool.name, parameters=tool.parameters)
            for key, tool in parsed.items()
        )
        message = wire.LoadGrammars(grammars=sources).model_dump_json()
        answer = await self._http.put("/v1/toolgate/grammars", content=message)
        verdicts = wire.GrammarVerdicts.model_validate_json(answer.raise_for_status().content)
        ready = {verdict.key for verdict in verdicts.grammars if verdict.status == "ready"}
        return [wire.Candidate(name=t.name, key=k) for k, t in parsed.items() if k in ready]

    async def request(
        self,
        text: str,
        tools: Sequence[dict[str, Any]],
        enforcement: wire.Enforcement | None,
        sampling: wire.Sampling,
    ) -> bytes:
        """The body that asks for an answer to `text`."""
        request = wire.GenerateRequest(
            request_id=uuid.uuid4().hex,
            model=(await self.info()).model,
            prompt=wire.ChatPrompt(
                messages=({"role": "user", "content": text},),
                tools=tuple(tools) or None,
                template_kwargs={"enable_thinking": False},
            ),
            sampling=sampling,
            enforcement=enforcement,
        )
        return request.model_dump_json().encode()

    @staticmethod
    def _key(tool: Tool, info: wire.Info) -> str:
        return grammar_key(
            tool.hash,
            dialect=info.dialect,
            tokenizer=info.tokenizer,
            grammar_format=info.grammar_format,
        )

"""Replaces the PDFs of requests by their text, which is read in killable processes.

Clients send a PDF again with each turn of its conversation, so texts are cached.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from dataclasses import replace

from toolgate_core.errors import InvalidRequest
from toolgate_core.killable import JobLimits, LimitExceeded, WorkerPool

from ...context import RequestContext
from ...request.chat_request import ChatRequest, HistoryChange
from .pdf import PDF, Pdf, PdfJob, PdfResult, Problem

MAX_BYTES = 20_000_000
"""Of one PDF. A body is limited to 32 MB by default, in base64."""
MAX_PAGES = 200
"""Of one PDF. A page is 500 to 1,000 tokens as a rule."""
MAX_CHARACTERS = 2_000_000
"""Of the text of all PDFs of a request. Few models have a context for half of it."""
WORKERS = 2
"""Maximum number of processes. One key uses all but one of them at most."""
CPU_SECONDS = 20.0
"""Limit on the processor time for one PDF. 200 pages of text take a few seconds."""
WALL_SECONDS = 30.0
"""The same in wall-clock time, and the time that a PDF waits for a process."""
REQUEST_SECONDS = 60.0
"""Time for all PDFs of a request. Further ones are not read."""
CACHED_CHARACTERS = 4_000_000
"""Characters of the cached texts of a gateway process. The least recently used ones are dropped."""
MEMORY_BYTES = 2**29
NICENESS = 10
"""Requests of others come before PDFs, where the gateway has few cores."""
RENEW_SECONDS = 5.0
"""A process is replaced after a PDF that took longer, which returns its memory."""
NOT_VALID = "The PDF specified was not valid"
PROBLEMS: dict[Problem, str] = {
    "base64": f"{NOT_VALID}: its data is not base64.",
    "invalid": f"{NOT_VALID}: it cannot be read. Save it again, or send its text.",
    "password": "The PDF specified is password protected. Send it without a password.",
    "size": f"{NOT_VALID}: it is larger than {MAX_BYTES:,} bytes. Send a part of it.",
    "pages": f"A maximum of {MAX_PAGES} PDF pages may be provided. Send a part of it.",
    "characters": f"{NOT_VALID}: the text of the request's PDFs is longer than "
    f"{MAX_CHARACTERS:,} characters. Send a part of it.",
    "no_text": f"{NOT_VALID}: its pages have no text. Send images of them, if the model takes "
    "images.",
    "limits": f"{NOT_VALID}: reading it takes more time or memory than this gateway allows. Send "
    "its text.",
}
"""Messages of errors. They begin like Anthropic's, by which Claude Code recognizes a PDF that it
must not send again."""


class Documents:
    def __init__(
        self,
        *,
        workers: int = WORKERS,
        cpu_seconds: float = CPU_SECONDS,
        wall_seconds: float = WALL_SECONDS,
        module: str = f"{__package__}.pdf_worker",
    ) -> None:
        """`module`: what the processes run."""
        self._pool = WorkerPool(
            f"{module}:work",
            PdfResult,
            JobLimits(cpu_seconds, wall_seconds, MEMORY_BYTES),
            task="read PDFs",
            workers=workers,
            wait_seconds=wall_seconds,
            niceness=NICENESS,
            renew_seconds=RENEW_SECONDS,
        )
        self._cache: OrderedDict[tuple[str, bytes], PdfResult] = OrderedDict()
        self._cached = 0
        """Characters in the cache."""

    async def read(self, request: ChatRequest, owner: str, context: RequestContext) -> ChatRequest:
        """Return the request with the text of its PDFs. `owner`: the team or key that sent it. A
        PDF without text in the result of a call is left out, which is noted in `context`: a tool
        cannot know what models read, and a refusal would end the conversation.

        Raise InvalidRequest, ChecksBusy and ChecksFailed, and RateLimited if the texts are more
        than the limits have room for."""
        deadline, left = time.monotonic() + REQUEST_SECONDS, MAX_CHARACTERS
        messages, texts = [*request.messages], list[str]()
        for at, message in enumerate(messages):
            content = message.get("content")
            parts = [*content] if isinstance(content, list) else []
            for number, part in enumerate(parts):
                if part["type"] != PDF:
                    continue
                pdf: Pdf = part[PDF]
                result = PdfResult(problem="limits")
                if time.monotonic() < deadline:
                    result = await self.result_of(pdf, owner)
                left -= len(result.text)
                text, problem = result.text, "characters" if left < 0 else result.problem
                if problem is not None:
                    if message["role"] != "tool":
                        raise InvalidRequest(f"{pdf.param!r}: {PROBLEMS[problem]}", param=pdf.param)
                    context.notes.note_changes([HistoryChange("left_out", pdf.place)])
                    text = f"[left out: {PROBLEMS[problem]}]"
                parts[number] = pdf.as_text(text)
                texts.append(parts[number]["text"])
            messages[at] = {**message, "content": parts} if parts else message
        await context.meter.admit_files(texts)
        return replace(request, messages=tuple(messages))

    async def result_of(self, pdf: Pdf, owner: str) -> PdfResult:
        """Return the text of a PDF, or its problem. Raise ChecksBusy and ChecksFailed."""
        if len(pdf.data) * 3 // 4 > MAX_BYTES:
            return PdfResult(problem="size")
        key = (owner, await asyncio.to_thread(_digest, pdf.data))
        if (cached := self._cache.get(key)) is not None:
            self._cache.move_to_end(key)
            return cached
        try:
            job = PdfJob(data=pdf.data, max_pages=MAX_PAGES, max_characters=MAX_CHARACTERS)
            result = await self._pool.run(job, owner)
        except LimitExceeded:
            return PdfResult(problem="limits")  # not cached: the machine may have been busy
        self._keep(key, result)
        return result

    def _keep(self, key: tuple[str, bytes], result: PdfResult) -> None:
        if (earlier := self._cache.pop(key, None)) is not None:  # of a request at the same time
            self._cached -= _size(earlier)
        self._cache[key] = result
        self._cached += _size(result)
        while self._cached > CACHED_CHARACTERS:
            _, dropped = self._cache.popitem(last=False)
            self._cached -= _size(dropped)


def _digest(data: str) -> bytes:
    return hashlib.sha256(data.encode()).digest()


def _size(result: PdfResult) -> int:
    return len(result.text) + 1_000  # for the entry itself

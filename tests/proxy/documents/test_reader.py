"""PDFs of requests become text, within limits that no file can exceed."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

import pytest

from tests.support.documents import worker
from tests.support.documents.pdfs import in_base64
from toolgate_core.chat_request import ChatRequest, HistoryChange
from toolgate_core.errors import ChecksBusy, ChecksFailed, InvalidRequest
from toolgate_proxy.context import RequestContext
from toolgate_proxy.documents import reader
from toolgate_proxy.documents.pdf import Pdf, Problem
from toolgate_proxy.documents.reader import PROBLEMS, Documents

TEXT = {"type": "text", "text": "Read this."}
PLACE = "messages[0].content[1]"


@pytest.fixture
def documents() -> Documents:
    return Documents(module=worker.__name__, cpu_seconds=1)


def part(text: str, at: int = 1, **more: Any) -> dict[str, Any]:
    data = in_base64(f"%PDF-{text}".encode())
    return Pdf(data, f"messages[0].content[{at}]", "source.data", **more).as_part()


def request(*parts: dict[str, Any], role: str = "user") -> ChatRequest:
    messages = ({"role": role, "content": [TEXT, *parts]}, {"role": "assistant", "content": "ok"})
    return ChatRequest(request_id="r", model="tiny", messages=messages, documents=True)


async def texts(documents: Documents, *names: str, owner: str = "a", **more: Any) -> list[str]:
    """The texts of the PDFs of one request."""
    parts = [part(name, at) for at, name in enumerate(names, 1)]
    read = await documents.read(request(*parts, **more), owner, RequestContext())
    return [each["text"] for each in read.messages[0]["content"][1:]]


def shown(text: str) -> str:
    return f"<document>\n{text}\n</document>"


async def test_a_pdf_becomes_its_text(documents: Documents) -> None:
    given = request(part("Lamp 4", title='a "new"\n<b>.pdf', context="From the shop."))
    read = await documents.read(given, "a", RequestContext())
    head = '<document title="a &quot;new&quot; &lt;b&gt;.pdf">\nFrom the shop.\n\n'
    assert read.messages == (
        {
            "role": "user",
            "content": [TEXT, {"type": "text", "text": f"{head}Lamp 4\n</document>"}],
        },
        given.messages[1],
    )
    assert not read.documents


async def test_a_request_without_pdfs_stays_the_same(documents: Documents) -> None:
    given = ChatRequest(request_id="r", model="tiny", messages=({"role": "user", "content": "a"},))
    assert await documents.read(given, "a", RequestContext()) is given


@pytest.mark.parametrize("problem", get_args(Problem))
async def test_a_pdf_without_text_is_refused_or_left_out_of_a_result(
    documents: Documents, problem: Problem
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await texts(documents, problem)
    assert (refused.value.status, refused.value.param) == (400, f"{PLACE}.source.data")
    assert refused.value.message == f"'{PLACE}.source.data': {PROBLEMS[problem]}"
    context = RequestContext()
    read = await documents.read(request(part(problem), role="tool"), "a", context)
    assert read.messages[0]["content"][1]["text"] == shown(f"[left out: {PROBLEMS[problem]}]")
    assert context.history_changes == (HistoryChange("left_out", PLACE),)


@pytest.mark.timed
@pytest.mark.parametrize("hostile", [worker.ENDLESS, worker.LARGE])
async def test_a_hostile_pdf_is_refused_and_affects_no_other_request(
    documents: Documents, hostile: str
) -> None:
    refused, other = await asyncio.gather(
        texts(documents, hostile), texts(documents, "Lamp 4", owner="b"), return_exceptions=True
    )
    assert isinstance(refused, InvalidRequest)
    assert refused.message.endswith(PROBLEMS["limits"])
    assert other == [shown("Lamp 4")]
    assert await texts(documents, "Lamp 5") == [shown("Lamp 5")]


async def test_texts_are_cached_by_owner(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    await texts(documents, "Lamp 4")
    await texts(documents, "password", role="tool")
    monkeypatch.setattr(documents, "_pool", Documents(module="no_such_module")._pool)
    assert await texts(documents, "Lamp 4") == [shown("Lamp 4")]
    with pytest.raises(InvalidRequest):
        await texts(documents, "password")
    with pytest.raises(ChecksFailed) as failed:
        await texts(documents, "Lamp 4", owner="b")
    assert (failed.value.status, failed.value.retry_after) == (503, 1)


async def test_the_cache_is_bounded(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "CACHED_CHARACTERS", 5000)
    for at in range(9):
        await texts(documents, f"{at}" * 100)
    assert documents._cached == sum(map(reader._size, documents._cache.values())) <= 5000
    assert len(documents._cache) == 4


async def test_a_pdf_that_waits_too_long_is_a_503() -> None:
    documents = Documents(module=worker.__name__, workers=1, wall_seconds=0.1)
    async with documents._pool._slots.slot("b"):
        with pytest.raises(ChecksBusy) as busy:
            await texts(documents, "Lamp 4")
    assert (busy.value.status, busy.value.retry_after) == (503, 1)


async def test_limits_on_all_pdfs_of_a_request(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_CHARACTERS", 10)
    assert await texts(documents, "Lamp 4", "hall") == [shown("Lamp 4"), shown("hall")]
    first, second = await texts(documents, "Lamp 4", "a room", role="tool")
    assert (first, "characters" in second) == (shown("Lamp 4"), True)
    with pytest.raises(InvalidRequest) as refused:
        await texts(documents, "Lamp 4", "a room")
    assert refused.value.param == "messages[0].content[2].source.data"
    monkeypatch.setattr(reader, "REQUEST_SECONDS", 0)
    with pytest.raises(InvalidRequest, match="more time or memory"):
        await texts(documents, "Lamp 4")


async def test_a_limit_on_the_size_of_a_file(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_BYTES", 30)
    assert await texts(documents, "x" * 25) == [shown("x" * 25)]
    with pytest.raises(InvalidRequest, match="larger than"):
        await texts(documents, "x" * 26)

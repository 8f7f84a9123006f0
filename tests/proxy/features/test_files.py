"""PDFs of requests become text, as pypdf reads it, within limits that no file can exceed."""

import asyncio
from io import BytesIO
from typing import get_args

import pytest

from tests.support.documents import pdfs as worker
from tests.support.documents.pdfs import in_base64, of_streams, pdf
from toolgate_core.errors import ChecksBusy, ChecksFailed, InvalidRequest
from toolgate_proxy.context import RequestContext
from toolgate_proxy.features.files import pdfs
from toolgate_proxy.features.files.pdf import Pdf, PdfJob, PdfResult, Problem
from toolgate_proxy.features.files.pdfs import PROBLEMS, Documents
from toolgate_proxy.request.chat_request import ChatRequest, HistoryChange

TEXT = {"type": "text", "text": "Read this."}
PLACE = "messages[0].content[1]"


def read(content, **limits):
    from toolgate_proxy.features.files.pdf_worker import run

    pytest.importorskip("pypdf", reason="pypdf is not installed")
    data = content if isinstance(content, str) else in_base64(content)
    return run(PdfJob(**{"data": data, "max_pages": 10, "max_characters": 1000} | limits))


def encrypted(content, password):
    import pypdf

    writer = pypdf.PdfWriter(clone_from=BytesIO(content))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="AES-256")
    writer.write(out := BytesIO())
    return out.getvalue()


def test_the_text_of_each_page_has_its_number():
    text = "[page 1]\nLamp 4 is in the hall.\n\n[page 2: no text]\n\n[page 3]\nIt is dim."
    assert read(pdf("Lamp 4 is in the hall.", "", "It is dim.")) == PdfResult(text=text, pages=3)
    assert read(b"\n\n" + pdf("Lamp 4")).text == "[page 1]\nLamp 4", "bytes before the file"


def test_an_empty_password_only_restricts_what_viewers_may_do():
    assert read(encrypted(pdf("Lamp 4"), "secret")).problem == "password"
    assert read(encrypted(pdf("Lamp 4"), "")).text == "[page 1]\nLamp 4"


@pytest.mark.parametrize(
    ("content", "limits", "problem"),
    [
        ("JVBE!", {}, "base64"),
        (pdf("", ""), {}, "no_text"),
        (pdf(*"abc"), {"max_pages": 2}, "pages"),
        (pdf("abc", "def"), {"max_characters": 5}, "characters"),
        (pdf("abc", "def"), {"max_characters": 6}, None),
        (lambda: of_streams([b" " * 200_000_000], deflated=True), {}, "limits"),
    ],
    ids=["base64", "no text", "pages", "too long", "just short", "bomb"],
)
def test_a_file_without_usable_text_has_a_problem(content, limits, problem):
    assert read(content() if callable(content) else content, **limits).problem == problem


def test_a_damaged_file_is_invalid():
    cut = pdf("Lamp 4")[:200]
    for content in (b"", b"%PDF-", b"%PDF-1.4\n%%EOF", b"<html></html>", cut, b"%PDF-" * 1000):
        assert read(content).problem == "invalid", content


@pytest.fixture
def documents():
    return Documents(module=worker.__name__, cpu_seconds=1)


def part(text, at=1, **more):
    data = in_base64(f"%PDF-{text}".encode())
    return Pdf(data, f"messages[0].content[{at}]", "source.data", **more).as_part()


def request(*parts, role="user"):
    messages = ({"role": role, "content": [TEXT, *parts]}, {"role": "assistant", "content": "ok"})
    return ChatRequest(request_id="r", model="tiny", messages=messages)


async def texts(documents, *names, owner="a", role="user"):
    """The texts of the PDFs of one request."""
    parts = [part(name, at) for at, name in enumerate(names, 1)]
    found = await documents.read(request(*parts, role=role), owner, RequestContext())
    return [each["text"] for each in found.messages[0]["content"][1:]]


def shown(text):
    return f"<document>\n{text}\n</document>"


@pytest.mark.timed
async def test_a_file_that_takes_too_long_is_refused_and_its_process_killed():
    pytest.importorskip("pypdf", reason="pypdf is not installed")
    documents = Documents(workers=1, cpu_seconds=1)

    def of(content):
        return request(Pdf(in_base64(content), PLACE, "file.file_data").as_part())

    slow = of_streams([b"BT (a) Tj ET " * 5_000_000], deflated=True)
    with pytest.raises(InvalidRequest, match="more time or memory"):
        await documents.read(of(slow), "a", RequestContext())
    found = await documents.read(of(pdf("ok")), "a", RequestContext())
    assert found.messages[0]["content"][1]["text"] == shown("[page 1]\nok")


async def test_a_pdf_becomes_its_text(documents):
    given = request(part("Lamp 4", title='a "new"\n<b>.pdf', context="From the shop."))
    found = await documents.read(given, "a", RequestContext())
    head = '<document title="a &quot;new&quot; &lt;b&gt;.pdf">\nFrom the shop.\n\n'
    text = {"type": "text", "text": f"{head}Lamp 4\n</document>"}
    assert found.messages == ({"role": "user", "content": [TEXT, text]}, given.messages[1])


@pytest.mark.parametrize("problem", get_args(Problem))
async def test_a_pdf_without_text_is_refused_or_left_out_of_a_result(documents, problem):
    with pytest.raises(InvalidRequest) as refused:
        await texts(documents, problem)
    assert (refused.value.status, refused.value.param) == (400, f"{PLACE}.source.data")
    assert refused.value.message == f"'{PLACE}.source.data': {PROBLEMS[problem]}"
    context = RequestContext()
    found = await documents.read(request(part(problem), role="tool"), "a", context)
    assert found.messages[0]["content"][1]["text"] == shown(f"[left out: {PROBLEMS[problem]}]")
    assert context.notes.history_changes == (HistoryChange("left_out", PLACE),)


@pytest.mark.timed
@pytest.mark.parametrize("hostile", [worker.ENDLESS, worker.LARGE])
async def test_a_hostile_pdf_is_refused_and_affects_no_other_request(documents, hostile):
    refused, other = await asyncio.gather(
        texts(documents, hostile), texts(documents, "Lamp 4", owner="b"), return_exceptions=True
    )
    assert isinstance(refused, InvalidRequest)
    assert refused.message.endswith(PROBLEMS["limits"])
    assert other == [shown("Lamp 4")]
    assert await texts(documents, "Lamp 5") == [shown("Lamp 5")]


async def test_texts_are_cached_by_owner(documents, monkeypatch):
    await texts(documents, "Lamp 4")
    await texts(documents, "password", role="tool")
    monkeypatch.setattr(documents, "_pool", Documents(module="no_such_module")._pool)
    assert await texts(documents, "Lamp 4") == [shown("Lamp 4")]
    with pytest.raises(InvalidRequest):
        await texts(documents, "password")
    with pytest.raises(ChecksFailed) as failed:
        await texts(documents, "Lamp 4", owner="b")
    assert (failed.value.status, failed.value.retry_after) == (503, 1)


async def test_the_cache_is_bounded(documents, monkeypatch):
    monkeypatch.setattr(pdfs, "CACHED_CHARACTERS", 5000)
    for at in range(9):
        await texts(documents, f"{at}" * 100)
    assert documents._cached == sum(map(pdfs._size, documents._cache.values())) <= 5000
    assert len(documents._cache) == 4


async def test_a_pdf_that_waits_too_long_is_a_503():
    documents = Documents(module=worker.__name__, workers=1, wall_seconds=0.1)
    async with documents._pool._slots.slot("b"):
        with pytest.raises(ChecksBusy) as busy:
            await texts(documents, "Lamp 4")
    assert (busy.value.status, busy.value.retry_after) == (503, 1)


async def test_limits_on_the_size_of_a_file_and_on_all_pdfs_of_a_request(documents, monkeypatch):
    monkeypatch.setattr(pdfs, "MAX_BYTES", 30)
    assert await texts(documents, "x" * 25) == [shown("x" * 25)]
    with pytest.raises(InvalidRequest, match="larger than"):
        await texts(documents, "x" * 26)
    monkeypatch.setattr(pdfs, "MAX_CHARACTERS", 10)
    assert await texts(documents, "Lamp 4", "hall") == [shown("Lamp 4"), shown("hall")]
    first, second = await texts(documents, "Lamp 4", "a room", role="tool")
    assert (first, "characters" in second) == (shown("Lamp 4"), True)
    with pytest.raises(InvalidRequest) as refused:
        await texts(documents, "Lamp 4", "a room")
    assert refused.value.param == "messages[0].content[2].source.data"
    monkeypatch.setattr(pdfs, "REQUEST_SECONDS", 0)
    with pytest.raises(InvalidRequest, match="more time or memory"):
        await texts(documents, "Lamp 4")

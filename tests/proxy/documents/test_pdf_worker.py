"""PDFs as pypdf reads them: their text, and files that are damaged, encrypted or hostile."""

from __future__ import annotations

from io import BytesIO

import pytest

from tests.support.documents.pdfs import in_base64, of_streams, pdf
from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import InvalidRequest
from toolgate_proxy.context import RequestContext
from toolgate_proxy.documents.pdf import Pdf, PdfJob, PdfResult
from toolgate_proxy.documents.reader import Documents

pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed")


def read(content: bytes, **limits: int) -> PdfResult:
    from toolgate_proxy.documents.pdf_worker import run

    bounds = {"max_pages": 10, "max_characters": 1000} | limits
    return run(PdfJob.model_validate({"data": in_base64(content)} | bounds))


def encrypted(content: bytes, password: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=BytesIO(content))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="AES-256")
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def test_the_text_of_each_page_has_its_number() -> None:
    found = read(pdf("Lamp 4 is in the hall.", "", "It is dim."))
    assert found == PdfResult(
        text="[page 1]\nLamp 4 is in the hall.\n\n[page 2: no text]\n\n[page 3]\nIt is dim.",
        pages=3,
    )


def test_bytes_before_the_file_are_accepted() -> None:
    assert read(b"\n\n" + pdf("Lamp 4")).text == "[page 1]\nLamp 4"


@pytest.mark.parametrize(
    "content",
    [b"", b"%PDF-", b"%PDF-1.4\n%%EOF", b"<html></html>", pdf("Lamp 4")[:200], b"%PDF-" * 1000],
)
def test_damaged_files(content: bytes) -> None:
    assert read(content).problem == "invalid"


def test_data_that_is_not_base64() -> None:
    from toolgate_proxy.documents.pdf_worker import run

    job = PdfJob(data="JVBE!", max_pages=1, max_characters=1)
    assert run(job).problem == "base64"


def test_encrypted_files() -> None:
    """An empty password only restricts what viewers may do."""
    assert read(encrypted(pdf("Lamp 4"), "secret")).problem == "password"
    assert read(encrypted(pdf("Lamp 4"), "")).text == "[page 1]\nLamp 4"


def test_files_without_text() -> None:
    assert read(pdf("", "")).problem == "no_text"


def test_limits_on_pages_and_characters() -> None:
    assert read(pdf(*"abc"), max_pages=2) == PdfResult(pages=3, problem="pages")
    assert read(pdf("abc", "def"), max_characters=5).problem == "characters"
    assert read(pdf("abc", "def"), max_characters=6).problem is None


def test_a_stream_that_grows_without_bounds_when_decompressed() -> None:
    assert read(of_streams([b" " * 200_000_000], deflated=True)).problem == "limits"


@pytest.mark.timed
async def test_a_file_that_takes_too_long_is_refused_and_its_process_killed() -> None:
    slow = in_base64(of_streams([b"BT (a) Tj ET " * 5_000_000], deflated=True))
    documents = Documents(workers=1, cpu_seconds=1)
    with pytest.raises(InvalidRequest, match="more time or memory"):
        await documents.read(_request(slow), "a", RequestContext())
    request = await documents.read(_request(in_base64(pdf("ok"))), "a", RequestContext())
    assert request.messages[0]["content"][0]["text"] == ("<document>\n[page 1]\nok\n</document>")


def _request(data: str) -> ChatRequest:
    part = Pdf(data, "messages[0].content[0]", "file.file_data").as_part()
    messages = ({"role": "user", "content": [part]},)
    return ChatRequest(request_id="r", model="tiny", messages=messages, documents=True)

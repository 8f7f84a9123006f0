"""Worker process that reads the text of PDFs with pypdf.

A PDF is a program for a viewer: small ones can take any amount of time and memory. pypdf limits the
size of decompressed streams. The limits of its process limit the rest.
"""

from __future__ import annotations

import base64
from io import BytesIO

from pypdf import PageObject, PdfReader
from pypdf.errors import FileNotDecryptedError, LimitReachedError

from toolgate_core.killable import Work

from .pdf import PdfJob, PdfResult


def run(job: PdfJob) -> PdfResult:
    try:
        content = base64.b64decode(job.data, validate=True)
    except ValueError:
        return PdfResult(problem="base64")
    try:
        return _read(PdfReader(BytesIO(content)), job)
    except MemoryError:
        raise
    except LimitReachedError:
        return PdfResult(problem="limits")
    except FileNotDecryptedError:
        return PdfResult(problem="password")
    except Exception:  # noqa: BLE001  pypdf raises errors of any type for a damaged file
        return PdfResult(problem="invalid")


def _read(reader: PdfReader, job: PdfJob) -> PdfResult:
    # Many files are encrypted with an empty password, which only restricts printing or copying.
    if reader.is_encrypted and not reader.decrypt(""):
        return PdfResult(problem="password")
    pages = len(reader.pages)
    if pages > job.max_pages:
        return PdfResult(pages=pages, problem="pages")
    texts: list[str | None] = []
    left = job.max_characters
    for page in reader.pages:
        texts.append(text := _text_of(page))
        left -= len(text or "")
        if left < 0:
            return PdfResult(pages=pages, problem="characters")
    if not any(texts):
        return PdfResult(pages=pages, problem="invalid" if None in texts else "no_text")
    return PdfResult(text="\n\n".join(map(_shown, range(1, pages + 1), texts)), pages=pages)


def _text_of(page: PageObject) -> str | None:
    """Return None for a page that cannot be read."""
    try:
        text: str = page.extract_text()
    except (MemoryError, LimitReachedError, FileNotDecryptedError):
        raise
    except Exception:  # noqa: BLE001  as above
        return None
    # A result cannot have half a surrogate pair.
    return text.replace("\0", "").encode(errors="replace").decode().strip()


def _shown(number: int, text: str | None) -> str:
    if text:
        return f"[page {number}]\n{text}"
    return f"[page {number}: {'can not be read' if text is None else 'no text'}]"


def work(_: bytes) -> Work:
    return Work(PdfJob, lambda job: [run(job)])

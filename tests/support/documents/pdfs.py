"""PDF files, written by hand, conversations whose last turn calls a tool that reads a file, and a
process in the place of the one that reads PDFs: what follows `%PDF-` says what it does."""

import base64
import zlib
from typing import get_args

from toolgate_core.killable import Work
from toolgate_proxy.features.files.pdf import PdfJob, PdfResult, Problem

CATALOG, TREE, FONT = 1, 2, 3


def pdf(*texts):
    """A page for each text, of ASCII. An empty text is a page without any."""
    return of_streams([_drawn(text) for text in texts])


def of_streams(streams, *, deflated=False):
    """A page for each stream of drawing operators."""
    pages = [FONT + 1 + 2 * at for at in range(len(streams))]
    kids = " ".join(f"{page} 0 R" for page in pages)
    objects = [
        f"<< /Type /Catalog /Pages {TREE} 0 R >>".encode(),
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for page, stream in zip(pages, streams, strict=True):
        content = zlib.compress(stream, 9) if deflated else stream
        more = " /Filter /FlateDecode" if deflated else ""
        objects += [
            f"<< /Type /Page /Parent {TREE} 0 R /MediaBox [0 0 600 800] /Contents {page + 1} 0 R "
            f"/Resources << /Font << /F1 {FONT} 0 R >> >> >>".encode(),
            f"<< /Length {len(content)}{more} >>\nstream\n".encode() + content + b"\nendstream",
        ]
    return _file(objects)


def in_base64(content):
    return base64.b64encode(content).decode()


def _drawn(text):
    return f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET".encode() if text else b""


def _file(objects):
    """Objects 1, 2, … with their table."""
    file, offsets = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        offsets.append(len(file))
        file += f"{number} 0 obj\n".encode() + each + b"\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    return (
        file
        + (
            f"xref\n0 {size}\n0000000000 65535 f \n{table}"
            f"trailer\n<< /Size {size} /Root {CATALOG} 0 R >>\nstartxref\n{len(file)}\n%%EOF\n"
        ).encode()
    )


CALLED = {
    "chat": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "read"}}]},
    ],
    "responses": [
        {"role": "user", "content": "a"},
        {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"},
    ],
    "messages": [
        {"role": "user", "content": "a"},
        {"role": "assistant",
         "content": [{"type": "tool_use", "id": "c", "name": "read", "input": {}}]},
    ],
}  # fmt: skip
"""By API."""
ENDLESS, LARGE = "endless", "large"


def run(job):
    text = base64.b64decode(job.data).decode().removeprefix("%PDF-")
    while text == ENDLESS:
        pass
    if text == LARGE:
        bytearray(2**31)
    if text in get_args(Problem):
        return PdfResult.model_validate({"problem": text})
    return PdfResult(text=text, pages=1)


def work(_):
    return Work(PdfJob, lambda job: [run(job)])

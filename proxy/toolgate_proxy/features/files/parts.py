"""Files as content parts of each API, and their estimated tokens."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from toolgate_core.errors import UnsupportedParameter

from ...api.chat_completions.feature import ChatFeature
from ...api.messages.content import (
    blocks_of,
    check_fields,
    read_part,
    refuse_citations,
    source_of,
    unsupported_block,
)
from ...api.messages.feature import MessagesFeature
from ...api.responses.feature import ResponsesFeature
from ...api.shared.tool_changes import text_part
from ...limits.estimate import SLICE, TOKENS_PER_FILE, sixths
from ...request_fields import Fields
from ..parts import Parts
from .pdf import BEGIN_WITHIN, END, PDF, Pdf, begin, is_pdf, wrapped
from .pdfs import Documents

Part = dict[str, Any]
FILE_ID, FILE_URL = "files are not stored", "files are not fetched"
"""Why a file that is not in the request is refused."""
DOCUMENTS = Documents()
DATA_URL = re.compile(r"data:(?P<type>[^;,]{0,200})(?:;[^,;]{1,200}){0,8};base64,")
PDF_TYPE = "application/pdf"


class FilesInChat(ChatFeature):
    PARTS: ClassVar = {"file": ("type", "file")}

    def part(self, fields: Fields) -> list[Part]:
        inner = fields.inner("file", "an object with file_data")
        refuse_references(inner, {"file_id": FILE_ID}, "file_data")
        return [read_file(inner, "file_data", fields, inner.text("filename"))]


class FilesInResponses(ResponsesFeature):
    PARTS: ClassVar = {"input_file": ("file_data", "filename", "detail", "file_id", "file_url")}

    def part(self, fields: Fields) -> list[Part]:
        refuse_references(fields, {"file_id": FILE_ID, "file_url": FILE_URL}, "file_data")
        return [read_file(fields, "file_data", fields, fields.text("filename"))]


class FilesInMessages(MessagesFeature):
    PARTS: ClassVar = {
        "document": ("type", "source", "title", "context", "citations", "cache_control")
    }

    def part(self, fields: Fields) -> list[Part]:
        check_fields(fields, self.PARTS["document"])
        refuse_citations(fields)
        source, kind = source_of(fields)
        title, context = fields.text("title"), fields.text("context")
        if kind == "text":
            data = source.given_text("data", "the text of the document")
            return [text_part(wrapped(data, title, context))]
        if kind == "content":
            parts = [text_part(begin(title, context))]
            for block, block_kind in blocks_of(source, "content"):
                if block_kind not in ("text", "image"):
                    raise unsupported_block(block, block_kind, "a document", ("text", "image"))
                parts += read_part(block, block_kind) or []
            return [*parts, text_part(END)]
        if kind == "base64":
            kind = source.text("media_type") or ""
            return [read_file(source, "data", fields, title, context, media_type=kind)]
        raise source.refusal(
            "type",
            f"is {kind!r}, but documents are not fetched. Send the document itself (a source of "
            "the type base64 or text).",
        )


def read_file(
    fields: Fields,
    name: str,
    part: Fields,
    title: str | None,
    context: str | None = None,
    *,
    media_type: str = "",
) -> dict[str, Any]:
    """Return the part of a file in base64, or in a data URL. `fields`: the object with the data
    under `name`. `part`: the content part. The text of a PDF is read later (pdfs.py).

    Raise InvalidRequest for a part without data, and UnsupportedParameter for data that cannot be
    read, or is neither a PDF nor text."""
    data, path = fields.required_text(name, "the file in base64"), fields.path(name)
    if data.startswith("data:"):
        head = DATA_URL.match(data)
        if head is None:
            problem = f"must be a data URL with base64, such as data:{PDF_TYPE};base64,…"
            raise fields.refusal(name, problem)
        media_type, data = head["type"], data[head.end() :]
    begin = _decoded(data[: 2 * BEGIN_WITHIN], path)
    if media_type.lower() == PDF_TYPE or is_pdf(begin):
        if not data.isascii():
            raise _not_base64(path)
        field = path.removeprefix(f"{part.place}.")
        return Pdf(data, part.place, field, title, context).as_part()
    return {"type": "text", "text": wrapped(_text(_decoded(data, path), path), title, context)}


def refuse_references(fields: Fields, references: Mapping[str, str], instead: str) -> None:
    """Raise UnsupportedParameter for a file that is not in the request. `references`: the reason by
    the name of the field. `instead`: the field to use."""
    for name, reason in references.items():
        if fields.values.get(name) is not None:
            problem = f"is not supported, because {reason}. Send the file in {instead!r}."
            raise fields.refusal(name, problem)


def _decoded(data: str, path: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError as error:
        raise _not_base64(path) from error


def _not_base64(path: str) -> UnsupportedParameter:
    return UnsupportedParameter(f"{path!r} is not valid base64.", param=path)


def _text(content: bytes, path: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UnsupportedParameter(
            f"{path!r} is neither a PDF nor text in UTF-8. Send its text, or an image as an image.",
            param=path,
        )
    return text


def file_tokens(member: str, file: Any) -> int:
    """Return the tokens of a file: those of its text, without a copy that is as large. `member`: of
    an object, with the base64 or data URL."""
    data = file.get(member) if isinstance(file, dict) else file
    if not isinstance(data, str):
        return TOKENS_PER_FILE
    begin = data.find(",") + 1 if data.startswith("data:") else 0
    tokens = sixths(wrapped("", None).encode())
    for at in range(begin, len(data), SLICE):
        try:
            content = base64.b64decode(data[at : at + SLICE], validate=True)
        except ValueError:
            return TOKENS_PER_FILE
        if b"\0" in content or (at == begin and is_pdf(content)):
            return TOKENS_PER_FILE
        tokens += sixths(content)
    return -(-tokens // 6)


SIZES: Mapping[str, Any] = {
    kind: (field, partial(file_tokens, member))
    for kind, field, member in (
        ("document", "source", "data"),
        ("file", "file", "file_data"),
        ("input_file", "file_data", "file_data"),
    )
}
FEATURE = Parts(
    chat=FilesInChat,
    responses=FilesInResponses,
    messages=FilesInMessages,
    later={PDF: lambda *request: DOCUMENTS.read(*request)},
    sizes=SIZES,
)
